#!/usr/bin/env bash
# Three nodes and a worker on this machine, to try things with. Ctrl-C stops all of them.
#
# A node that is killed is left as it is: killing them is what this is for. The line to start it
# again is in the data directory, as NAME.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

DATA_DIR=${DATA_DIR:-bellwether-cluster}
# Each node takes this port for its API and the next one for other nodes.
PORTS=${PORTS:-"2355 2365 2375"}
ADDRESS=${ADDRESS:-127.0.0.1}
PROGRAM=${PROGRAM:-}
READY_WITHIN=${READY_WITHIN:-60}

if [ -z "$PROGRAM" ]; then
    cargo build --release --locked --package bellwether
    PROGRAM=${CARGO_TARGET_DIR:-target}/release/bellwether
fi
PROGRAM=$(realpath "$PROGRAM")
mkdir -p "$DATA_DIR"
DATA_DIR=$(realpath "$DATA_DIR")
read -r first second third <<<"$PORTS"

# The ids of all that was started here, in files, since nodes can be started again by hand.
stop() {
    trap - INT TERM EXIT
    echo
    echo "stopping"
    local pids=()
    for file in "$DATA_DIR"/*.pid; do
        [ -e "$file" ] || continue
        # A node that was killed may have left its number to another process.
        if [ "$(readlink "/proc/$(cat "$file")/exe" 2>/dev/null)" = "$PROGRAM" ]; then
            pids+=("$(cat "$file")")
        fi
        rm -f "$file"
    done
    [ ${#pids[@]} = 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
    for pid in "${pids[@]}"; do
        while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    done
    echo "stopped; everything is kept in $DATA_DIR, and make cluster goes on with it"
    exit 0
}

# Writes down how a process is started, and starts it. Not in this terminal's group: Ctrl-C is for
# this script, which then stops them in order.
launch() {
    local name=$1
    shift
    {
        echo '#!/bin/sh'
        echo "# Starts '$name' again in the background, as make cluster did."
        printf 'setsid'
        printf " '%s'" "$@"
        printf " >>'%s' 2>&1 </dev/null &\n" "$DATA_DIR/$name.log"
        printf "echo \$! >'%s'\n" "$DATA_DIR/$name.pid"
    } >"$DATA_DIR/$name.sh"
    chmod +x "$DATA_DIR/$name.sh"
    "$DATA_DIR/$name.sh"
}

node() {
    local name=$1 port=$2
    shift 2
    launch "$name" "$PROGRAM" server --name "$name" --zone "zone-$name" \
        --listen "$ADDRESS:$port" --peer-listen "$ADDRESS:$((port + 1))" \
        --data-dir "$DATA_DIR/$name" "$@"
}

ready() {
    local name=$1 port=$2 waited=0
    until "$PROGRAM" health --server "$ADDRESS:$port" >/dev/null 2>&1; do
        if ! kill -0 "$(cat "$DATA_DIR/$name.pid")" 2>/dev/null; then
            echo "$name has ended:" >&2
            tail -n 5 "$DATA_DIR/$name.log" >&2
            exit 1
        fi
        waited=$((waited + 1))
        if [ "$waited" -gt $((READY_WITHIN * 10)) ]; then
            echo "$name is not ready; see $DATA_DIR/$name.log" >&2
            exit 1
        fi
        sleep 0.1
    done
}

for name in a b c worker; do
    pid=$(cat "$DATA_DIR/$name.pid" 2>/dev/null || true)
    if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$PROGRAM" ]; then
        echo "'$name' runs already (process $pid), from $DATA_DIR; stop it first" >&2
        exit 1
    fi
    rm -f "$DATA_DIR/$name.log"
done
trap stop INT TERM EXIT

join=$ADDRESS:$((first + 1))
if [ -e "$DATA_DIR/b/NODE" ]; then
    # They know one another, and none is ready without another.
    node a "$first"
    node b "$second" --join "$join"
    node c "$third" --join "$join"
    ready a "$first"
else
    node a "$first"
    ready a "$first"
    node b "$second" --join "$join"
    node c "$third" --join "$join"
fi
ready b "$second"
ready c "$third"
launch worker "$PROGRAM" worker --name worker --state-dir "$DATA_DIR/worker" \
    --server "$ADDRESS:$first,$ADDRESS:$second,$ADDRESS:$third"

# Before that, the loss of one node would be the loss of what only it has.
echo "waiting until every shard has three replicas"
spread() {
    "$PROGRAM" cluster status --json --server "$ADDRESS:$first" 2>/dev/null | python3 -c '
import json, sys
shards = json.load(sys.stdin)["cluster"]["shards"]
sys.exit(any(len(shard["voters"]) < 3 or "leader" not in shard for shard in shards))
' 2>/dev/null
}
waited=0
until spread; do
    waited=$((waited + 1))
    if [ "$waited" -gt $((READY_WITHIN * 2)) ]; then
        echo "that takes long; see \`$PROGRAM cluster status\`" >&2
        break
    fi
    sleep 0.5
done

short=$PROGRAM
case "$short" in "$PWD"/*) short=.${short#"$PWD"} ;; esac
cat <<EOF

three nodes are up:
  a  http://$ADDRESS:$first   process $(cat "$DATA_DIR/a.pid")
  b  http://$ADDRESS:$second   process $(cat "$DATA_DIR/b.pid")
  c  http://$ADDRESS:$third   process $(cat "$DATA_DIR/c.pid")
and a worker, process $(cat "$DATA_DIR/worker.pid"); logs and data are in $DATA_DIR

try, in another terminal:
  $short cluster status --server $ADDRESS:$first
  $short job add --server $ADDRESS:$second --key tick --every 1s -- 'echo it is \$(date)'
  $short events --server $ADDRESS:$third
kill the node that leads the job's shard (or any other), and see that it goes on:
  kill -9 \$(cat $DATA_DIR/a.pid)
  $short job ticks tick --server $ADDRESS:$second
start it again:
  $DATA_DIR/a.sh

Ctrl-C stops all of them
EOF
while :; do sleep 1; done
