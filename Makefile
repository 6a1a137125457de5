# One command each. `make run` and `make test` work on a machine with Rust, Node, Python and
# Debian's packages: what else they need, they install.

CARGO ?= cargo
DATA_DIR ?= data
LISTEN ?= 127.0.0.1:2355

.PHONY: help run cluster test soak upgrade check lint fix bench sim sims openapi clean

help:
	@echo "make run     build and start a complete system on this machine"
	@echo "make cluster the same as three nodes and a worker, to kill some of them"
	@echo "make test    run every test"
	@echo "make soak    real clusters under faults for long: DURATION=… seconds, SEED=…"
	@echo "make upgrade a real cluster from another revision to this one under load: FROM=REVISION"
	@echo "make check   formatting, lints, docs and the OpenAPI document, without changing anything"
	@echo "make lint    the same without the document, which make test checks"
	@echo "make fix     rewrite what can be rewritten"
	@echo "make bench   measure (takes about 15 minutes)"
	@echo "make sim     simulate a cluster: SEED=…, one seed and its story"
	@echo "make sims    simulate many: RUNS=… seeds from SEED=… on, on JOBS=… cores"
	@echo "make openapi write docs/openapi.json from the code"

run: tools
	$(CARGO) build --release --locked --package bellwether
	./target/release/bellwether server --listen $(LISTEN) --data-dir $(DATA_DIR)

cluster: tools
	scripts/cluster.sh

test:
	@scripts/tools.sh test
	scripts/test.sh

check: lint
	scripts/check-openapi.sh

# What `make test` does not check anyway.
lint: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --locked --document-private-items

fix: tools
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged

bench: tools
	$(CARGO) build --release --locked --package bellwether
	./target/release/bellwether bench

SEED ?= 0
RUNS ?= 100
JOBS ?= 0
DURATION ?= 600

# A seed of its own unless one is given.
soak:
	@scripts/tools.sh test
	NEMESIS_SECONDS=$(DURATION) NEMESIS_SHOW=1 $(if $(filter-out 0,$(SEED)),NEMESIS_SEED=$(SEED)) \
		$(CARGO) test --locked --package bellwether --test nemesis -- --nocapture --test-threads 1

upgrade:
	@scripts/tools.sh test
	scripts/upgrade.sh "$(FROM)"

sim:
	$(CARGO) run --quiet --locked --package bellwether-sim -- --seed $(SEED) --trace

sims:
	$(CARGO) run --quiet --locked --package bellwether-sim -- --seed $(SEED) --runs $(RUNS) --jobs $(JOBS) --coverage

openapi: tools
	$(CARGO) run --quiet --locked --package bellwether -- openapi > docs/openapi.json

.PHONY: tools
tools:
	@scripts/tools.sh

clean:
	$(CARGO) clean
