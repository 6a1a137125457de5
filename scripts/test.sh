#!/usr/bin/env bash
# Every test: the workspace's own, then schemathesis and the SDKs against a real server.
# In the end it lists the tests that could not run here, and why: they append that to a file.
set -euo pipefail
cd "$(dirname "$0")/.."

SKIPPED_TESTS=$(mktemp)
export SKIPPED_TESTS
show_skipped() {
    if [ -s "$SKIPPED_TESTS" ]; then
        echo "These tests were skipped, and have shown nothing:" >&2
        sort -u "$SKIPPED_TESTS" >&2
    fi
    rm -f "$SKIPPED_TESTS"
}
trap show_skipped EXIT

# Most of the time tests wait: for ticks, for leases to end, for nodes to be missed.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"
cargo test --workspace --locked
# With it the program was built, for tests that start it. Built by itself it would be built anew, with most of what it
# depends on: alone it wants fewer features of that.
BELLWETHER_BIN=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/bellwether
export BELLWETHER_BIN
scripts/check-openapi.sh
scripts/schemathesis.sh
scripts/sdk-python.sh
