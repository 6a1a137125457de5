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

cargo test --workspace --locked
scripts/check-openapi.sh
scripts/schemathesis.sh
scripts/sdk-python.sh
