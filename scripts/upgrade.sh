#!/usr/bin/env bash
# Builds the program of another revision in a worktree of its own, and upgrades a cluster of it to this one under load:
# scripts/upgrade.sh REVISION. It needs root, as the other tests of real clusters do.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${1:-}" ]; then
    echo "From which revision? Say make upgrade FROM=REVISION, such as a tag or HEAD~10." >&2
    exit 2
fi
revision=$(git rev-parse --verify --quiet "$1^{commit}") || {
    echo "There is no revision $1." >&2
    exit 2
}
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
tree=$target/upgrade/tree
program=$target/upgrade/bellwether-$revision

if [ ! -x "$program" ]; then
    if [ -e "$tree/.git" ]; then
        git -C "$tree" checkout --quiet --force --detach "$revision"
    else
        git worktree prune
        git worktree add --quiet --force --detach "$tree" "$revision"
    fi
    # In a directory of its own: Cargo takes the crates of two checkouts for the same ones, and would mix them up. The
    # first time takes long, the next revision is quicker.
    (cd "$tree" && CARGO_TARGET_DIR=$target/upgrade/built "${CARGO:-cargo}" build --locked --package bellwether)
    cp "$target/upgrade/built/debug/bellwether" "$program.new"
    mv "$program.new" "$program"
fi

echo "From $(git log -1 --format='%h, %s' "$revision")"
UPGRADE_FROM=$program NEMESIS_REQUIRED=1 NEMESIS_SHOW=1 "${CARGO:-cargo}" test --locked --package bellwether \
    --test nemesis r117_all_nodes_are_restarted_one_after_the_other_and_no_tick_is_missed -- --nocapture
