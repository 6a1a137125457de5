#!/usr/bin/env bash
# Makes sure that what the build needs is there, and says what to do where it cannot be had.
set -euo pipefail

need() {
    local program=$1 package=$2
    if command -v "$program" >/dev/null 2>&1; then return; fi
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        echo "installing $package" >&2
        { apt-get install -y -qq "$package" || { apt-get update -qq && apt-get install -y -qq "$package"; }; } >/dev/null
    else
        echo "$program is missing: install the package $package" >&2
        exit 1
    fi
}

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install a Rust toolchain (1.90 or later, 1.92 for the tests), see https://rustup.rs" >&2
    exit 1
fi
need cc gcc
need python3 python3
# The brokers that tests publish to and read from. They are not started by their packages.
if [ "${1:-}" = test ]; then
    export RUNLEVEL=1
    need curl curl
    need nats-server nats-server
    need rabbitmq-server rabbitmq-server
    # Networks, and clocks that are wrong, for clusters under test. Without root there are none, and
    # that test says so.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        need ip iproute2
        need nft nftables
        need faketime faketime
    fi
fi
