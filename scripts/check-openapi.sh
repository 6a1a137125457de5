#!/usr/bin/env bash
# The committed OpenAPI document must be the one the code makes.
# BELLWETHER_BIN names a program to ask instead of the one that is built here.
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
if [ -n "${BELLWETHER_BIN:-}" ]; then
    "$BELLWETHER_BIN" openapi >"$fresh"
else
    cargo run --quiet --locked --package bellwether -- openapi >"$fresh"
fi
if ! diff -u docs/openapi.json "$fresh"; then
    echo "docs/openapi.json is out of date: run 'make openapi' and commit it" >&2
    exit 1
fi
