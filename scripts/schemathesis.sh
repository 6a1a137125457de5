#!/usr/bin/env bash
# Throws generated requests, valid and not, at a real server and checks every answer against the
# OpenAPI document. BELLWETHER_BIN names a server to use instead of the one that is built here.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/schemathesis
version=4.32.5
if ! "$venv/bin/schemathesis" --version 2>/dev/null | grep -q "$version"; then
    if ! python3 -m venv "$venv" 2>/dev/null; then
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv "$venv"
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi

if [ -z "${BELLWETHER_BIN:-}" ]; then
    cargo build --quiet --locked --package bellwether
    BELLWETHER_BIN=$PWD/target/debug/bellwether
fi
work=$(mktemp -d)
server=
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
bellwether=$BELLWETHER_BIN
export BELLWETHER_SERVER="http://127.0.0.1:$port"

start() {
    "$bellwether" server --listen "127.0.0.1:$port" --data-dir "$work/data" "$@" 2>>"$work/log" &
    server=$!
    for _ in $(seq 200); do
        if curl -sf "$BELLWETHER_SERVER/readyz" >/dev/null; then return; fi
        kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
        read -rt 0.1 <> <(:) || true
    done
}

# Something to find: jobs of both forms with runs that succeeded, failed and are open.
start
for n in $(seq 30); do
    echo '{"key": "seed-'"$n"'", "schedule": "@yearly", "command": "echo out; exit '$((n % 2))'", "group": "seeds"}'
    echo '{"key": "once-'"$n"'", "schedule": {"at": "2096-01-01T00:00:00Z"}, "command": "true", "owner": "ana"}'
done >"$work/jobs.ndjson"
curl -sf -H 'content-type: application/x-ndjson' --data-binary "@$work/jobs.ndjson" \
    "$BELLWETHER_SERVER/v1/jobs:batch" >/dev/null
for n in $(seq 30); do "$bellwether" job trigger "seed-$n" --wait >/dev/null 2>&1 || true; done
"$bellwether" token create seed --role viewer >/dev/null
kill "$server" && wait "$server" || true
# From here on there is no worker: generated jobs must not run generated commands.
start --no-worker
for n in $(seq 10); do "$bellwether" job trigger "seed-$n" >/dev/null; done
{
    cat schemathesis.toml
    echo '[dictionaries]'
    echo "jobs.values = [$(for n in $(seq 30); do printf '"seed-%s", "once-%s", ' "$n" "$n"; done)]"
    echo "runs.values = [$("$bellwether" run list --json --limit 100 |
        python3 -c 'import json, sys; print(", ".join(json.dumps(json.loads(line)["id"]) for line in sys.stdin))')]"
    echo 'groups.values = ["seeds"]'
    echo 'tokens.values = ["seed"]'
    echo '[parameters]'
    echo '"path.job" = { dictionary = "jobs", probability = 0.7 }'
    echo '"path.run" = { dictionary = "runs", probability = 0.7 }'
    echo '"path.group" = { dictionary = "groups", probability = 0.7 }'
    echo '"path.name" = { dictionary = "tokens", probability = 0.3 }'
} >"$work/schemathesis.toml"

"$venv/bin/schemathesis" --config-file "$work/schemathesis.toml" run "$BELLWETHER_SERVER/openapi.json" \
    --exclude-path /v1/events \
    --exclude-path '/v1/queues/{queue}/lease' \
    --max-examples "${SCHEMATHESIS_EXAMPLES:-40}" \
    --seed "${SCHEMATHESIS_SEED:-2355}" \
    --request-timeout 10
