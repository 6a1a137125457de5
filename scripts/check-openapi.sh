#!/usr/bin/env bash
# The committed OpenAPI document must be the one the code makes.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
cargo run --quiet --locked --package bellwether -- openapi >"$fresh"
if ! diff -u docs/openapi.json "$fresh"; then
    echo "docs/openapi.json is out of date: run 'make openapi' and commit it" >&2
    exit 1
fi
