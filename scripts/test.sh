#!/usr/bin/env bash
# Every test: the workspace's own, then schemathesis and the SDKs against a real server.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --workspace --locked
scripts/check-openapi.sh
scripts/schemathesis.sh
scripts/sdk-python.sh
