#!/usr/bin/env bash
# Lints, type-checks and tests the Python SDK, the latter against a real server.
# BELLWETHER_BIN names a server to use instead of the one that is built here.
set -euo pipefail
cd "$(dirname "$0")/.."

sdk=sdks/python
venv=target/sdk-python
wanted=$(cat "$sdk/pyproject.toml" "$sdk/constraints.txt" | sha256sum)
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
    if ! python3 -m venv --clear "$venv" 2>/dev/null; then
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv --clear "$venv"
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
        --constraint "$sdk/constraints.txt" --editable "$sdk[dev]"
    echo "$wanted" >"$venv/installed"
fi

if [ -z "${BELLWETHER_BIN:-}" ]; then
    cargo build --quiet --locked --package bellwether
    BELLWETHER_BIN=$PWD/target/debug/bellwether
fi
export BELLWETHER_BIN
# Variables of whoever runs this must not lead tests to another server.
unset BELLWETHER_SERVER BELLWETHER_TOKEN BELLWETHER_NAMESPACE BELLWETHER_CA_FILE

bin=$PWD/$venv/bin
cd "$sdk"
"$bin/ruff" check
"$bin/ruff" format --check
"$bin/mypy"
"$bin/pytest" "$@"
