# The targets that people and CI use. `make` alone lists them.

SHELL := /bin/bash
CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# For a named target build scripts and macros are built as always.
BY_PROFILE = --target $(HOST) --config 'target.$(HOST).rustflags=["-Cprofile-use=$(abspath $(PROFILE))"]'

.DEFAULT_GOAL := help
.PHONY: help run quick build dist profile package tar image sbom docs check test test-packaging test-console test-consistency test-shards test-mysql test-slt test-tpcc test-sim test-hostile test-xa test-changes test-kv test-failover bench-failover test-routers bench-routers bench-door bench-kv bench-shard bench-tpch bench-ssb bench-plan bench-load bench-xa bench-consistency bench-connect bench-pipeline bench-idle bench-instructions bench-digests bench-scale bench-fabric bench-changes compat compat-kv fuzz soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: quick ## a farm of three MariaDB servers behind one address (UP="--replicas 1": flags of `heddle up`)
	@scripts/install.sh run
	exec bin/heddle up $(UP)

quick: ## bin/heddle, hardly optimised, in a shorter time
	@scripts/install.sh build
	$(CARGO) build --profile quick --locked --package heddle
	@mkdir -p bin && install -m 755 $(TARGET_DIR)/quick/heddle bin/heddle

build: ## bin/heddle, optimised except across crates
	@scripts/install.sh build
	$(CARGO) build --release --locked --package heddle
	@mkdir -p bin && install -m 755 $(TARGET_DIR)/release/heddle bin/heddle

dist: ## bin/heddle as packages have it and benchmarks measure it, with link-time optimisation (PROFILE=FILE: by what `make profile` has learned)
	@scripts/install.sh build
	$(CARGO) build --profile dist --locked --package heddle $(if $(PROFILE),$(BY_PROFILE))
	@mkdir -p bin && install -m 755 $(TARGET_DIR)/$(if $(PROFILE),$(HOST)/)dist/heddle bin/heddle

profile: ## target/heddle.profdata, from what a build with counters counts under load: half an hour on two cores
	@scripts/install.sh build
	@scripts/install.sh bench
	@scripts/profile.sh $(TARGET_DIR)/heddle.profdata

package: dist ## a Debian package of it in dist/
	@scripts/package.sh bin/heddle dist

tar: dist ## the program in a tar, in dist/
	@scripts/tar.sh bin/heddle dist

image: dist ## an OCI image of it in dist/, for docker load (SOURCE=URL of the sources, for its labels)
	@packaging/image.py bin/heddle dist $(if $(SOURCE),--source "$(SOURCE)")

sbom: ## what the program is made of in dist/, as CycloneDX JSON
	@scripts/install.sh build
	@scripts/sbom.py dist/heddle_$(VERSION)_$(shell uname -m).cdx.json

docs: ## the pages as a book in target/book, its links checked (mdbook makes it: cargo install mdbook)
	$(CARGO) test --quiet --workspace --test house_rules links
	@scripts/book.py $(TARGET_DIR)/book

check: ## formatting, lints, house rules, unit tests: under two minutes when warm
	@scripts/install.sh build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --quiet --package testkit --test house_rules
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --log-level error check; \
	 else echo "make check: cargo-deny is not installed: licences, sources and advisories were not looked at"; fi
	$(CARGO) test --quiet --workspace --lib --bins

test: ## what CI runs: the checks, then every test, on real servers
	@scripts/install.sh test
	@scripts/test.sh

test-packaging: build ## the image, compose.yaml, the manifests for Kubernetes, the workflows, the list of crates
	@scripts/install.sh packaging
	@python3 -m unittest discover -s packaging/tests

test-console: build ## the web console in headless Chromium on a farm of real servers, judged by axe-core (PICTURES=docs/console takes those of docs/CONSOLE.md)
	@scripts/install.sh console
	@$(if $(PICTURES),PICTURES=$(abspath $(PICTURES))) test/console/run.sh $(CURDIR)/bin/heddle

bench-door: dist ## CPU, throughput, p99, memory: direct, HAProxy, Heddle in turns (ROUNDS=1 SECONDS=3 for a quick look)
	@scripts/install.sh bench
	@python3 bench/door.py

bench-kv: dist ## keys by SQL, through the KV door, memcached and Redis (ROUNDS=1 SMALL_ROWS=10000 for a quick look)
	@scripts/install.sh bench
	$(CARGO) build --release --locked --package testkit --example kvload
	@KVLOAD=$(TARGET_DIR)/release/examples/kvload python3 bench/kv.py

bench-shard: dist ## what sharded tables cost: point statements, scatter, gather (ROUNDS=1 ROWS=20000 for a quick look)
	@scripts/install.sh bench
	@python3 bench/shard.py

bench-tpch: dist ## TPC-H's 22 queries on three groups and on one server in turns: ratios, rows moved (ROUNDS=1 SCALE=0.01 QUERIES=3,5 for a quick look)
	@scripts/install.sh bench
	@python3 bench/tpch.py

bench-ssb: dist ## the star schema benchmark's 13 queries in the same way (ROUNDS=1 SCALE=0.01 for a quick look)
	@scripts/install.sh bench
	@python3 bench/ssb.py

bench-plan: ## how long TPC-H's 22 queries take to plan: anew, with tables that are sent, and by what is kept of them
	$(CARGO) build --release --locked --package testkit --example planning
	@$(TARGET_DIR)/release/examples/planning

bench-load: dist ## LOAD DATA LOCAL through the door, into one group and into shards, against straight (ROUNDS=2 ROWS=50000 for a quick look)
	@scripts/install.sh bench
	@python3 bench/load.py

bench-xa: dist ## transactions over two groups against two transactions, 1 to 64 clients, with counts of flushes (ROUNDS=1 SECONDS=2 for a quick look)
	@scripts/install.sh bench
	@python3 bench/xa.py

bench-digests: dist ## a million new texts, and point SELECTs while digests are read and reset (TEXTS=20000 ROUNDS=1 SECONDS=2 for a quick look)
	@scripts/install.sh bench
	@python3 bench/digests.py

bench-instructions: dist ## instructions of the router per query, by callgrind, which no load moves (EVENTS=300 CONNECTIONS=1 for a quick look)
	@scripts/install.sh bench
	@python3 bench/instructions.py

bench-idle: dist ## memory and server connections of 10,000 idle clients (CLIENTS=1000 for a quick look)
	@scripts/install.sh bench
	@python3 bench/idle.py

bench-scale: dist ## a farm of 10,000 servers as a value, threads that read it, many clients (CLIENTS=1000 SECONDS=1 for a quick look)
	@scripts/install.sh bench
	$(CARGO) build --release --locked --package testkit --example scale
	@SCALE=$(TARGET_DIR)/release/examples/scale python3 bench/scale.py

bench-changes: dist ## row events per second and CPU per row event of change streams, 1 and 100 consumers, beside mariadb-binlog (ROWS=20000 CONSUMERS=1,10 for a quick look; SLOW=2000 TRANSACTION_MB=1024 for what slow consumers and a long transaction take)
	@scripts/install.sh bench
	@python3 bench/changes.py

bench-fabric: dist ## look-ups of 1,000 clients of the Fabric door at once (CLIENTS=50 for a quick look)
	@scripts/install.sh bench
	@python3 bench/fabric.py

compat: build ## real drivers and their own test suites, straight and through Heddle (ONLY=name,… picks; FLAGS="--tls --engine mysql --mysqld PATH")
	@scripts/install.sh compat
	@python3 test/compat/run.py $(if $(ONLY),--only $(ONLY),--suites) $(FLAGS)
	@$(if $(ONLY),,python3 test/compat/applications.py)

compat-kv: build ## memcached's clients in six languages against memcached and against the key-value door (ONLY=name,…; MEMCACHED_SOURCE=DIR: memcached's own tests, too)
	@scripts/install.sh compat
	@python3 test/compat/kv.py --heddle bin/heddle $(if $(ONLY),--only $(ONLY)) $(FLAGS)

test-consistency: build ## CHECKS (1000000) of reads' promises while replicas are late on purpose; then the checker's own check
	@scripts/install.sh bench
	@python3 test/e2e/consistency.py
	@python3 test/e2e/consistency.py --checks 4000 --weaken

test-failover: build ## ROUNDS (3) per fault on real servers under load: nothing lost or doubled, nothing seen by clients (FAULTS="kill stop")
	@scripts/install.sh test
	@FAILOVER_ROUNDS=$(or $(ROUNDS),3) FAILOVER_FAULTS="$(FAULTS)" HEDDLE_BIN=$(CURDIR)/bin/heddle \
	  $(CARGO) test --release --locked --package testkit --test failover -- --include-ignored --test-threads 1

bench-failover: dist ## pauses that clients see, over ROUNDS (30) per fault; the table at the end of each farm (FULL_LOAD_MINUTES=60)
	@scripts/install.sh test
	@FAILOVER_ROUNDS=$(or $(ROUNDS),30) FAILOVER_FAULTS="$(FAULTS)" HEDDLE_BIN=$(CURDIR)/bin/heddle \
	  $(CARGO) test --release --locked --package testkit --test failover -- --include-ignored --test-threads 1 --skip planted

test-routers: build ## ROUNDS (1) per fault with three routers on an etcd of three members, partitions included (FAULTS="leader-death")
	@scripts/install.sh test
	@FAILOVER_ROUNDS=$(or $(ROUNDS),1) FAILOVER_FAULTS="$(FAULTS)" HEDDLE_BIN=$(CURDIR)/bin/heddle \
	  $(CARGO) test --release --locked --package testkit --test routers -- --include-ignored --test-threads 1 --skip cost

bench-routers: dist ## pauses with three routers when the primary dies, alone and with the leading router, over ROUNDS (30); their cost
	@scripts/install.sh test
	@FAILOVER_ROUNDS=$(or $(ROUNDS),30) FAILOVER_FAULTS="$(or $(FAULTS),kill leader-and-primary)" HEDDLE_BIN=$(CURDIR)/bin/heddle \
	  $(CARGO) test --release --locked --package testkit --test routers -- --include-ignored --test-threads 1 --skip mysql --skip partitions

test-shards: ## statements on one server and on one, two and four shards: equal answers; SEEDS (3) of made up ones (FLAGS="two_shards")
	@scripts/install.sh test
	@HEDDLE_SHARDS_SEEDS=$(or $(SEEDS),3) $(CARGO) test --release --locked --package testkit --test shards -- \
	  --include-ignored --test-threads 1 $(FLAGS)

test-mysql: ## the MySQL half of `make test` on a newer MySQL than 8.0.12 (MYSQLD=PATH; else ../shared/mysql/mysql-*.tar.xz)
	@scripts/install.sh test
	@$(if $(MYSQLD),HEDDLE_MYSQLD=$(MYSQLD)) HEDDLE_NEWER_MYSQL=1 scripts/run_tests.py mysql

test-slt: ## sqllogictest files on one server and on three shards: equal answers (SLT=DIR EXPECT=1 SHOWN=20 MYSQLD=PATH FLAGS="all_on_mariadb")
	@scripts/install.sh test
	@$(if $(SLT),SLT=$(abspath $(SLT))) $(if $(EXPECT),SLT_EXPECT=1) $(if $(SHOWN),SLT_SHOWN=$(SHOWN)) \
	  $(if $(MYSQLD),HEDDLE_MYSQLD=$(MYSQLD)) $(CARGO) test --release --locked --package testkit --test slt -- \
	  --ignored --test-threads 1 $(FLAGS)

test-tpcc: build ## go-tpc's TPC-C on four groups, prepared and as texts, with its own check (SECONDS=60 WAREHOUSES=4; ENGINE=mysql MYSQLD=PATH)
	@scripts/install.sh tpcc
	@python3 test/e2e/tpcc.py

test-xa: ## ROUNDS (20) of transfers over groups while routers and servers die between their steps (FAULTS="router recovery server blind", SEED=1)
	@scripts/install.sh test
	@BANK_ROUNDS=$(or $(ROUNDS),20) BANK_FAULTS="$(FAULTS)" $(if $(SEED),BANK_SEED=$(SEED)) \
	  $(CARGO) test --locked --package testkit --test bank -- --include-ignored --test-threads 1 --nocapture

test-changes: ## KILLS (500) of routers, primaries, appliers, targets on each engine while rows move: every consumer of changes has the farm (CHANGES_SEED=1 CHANGES_FAULTS="primary move" MYSQLD=PATH)
	@scripts/install.sh test
	@KILLS=$(or $(KILLS),500) $(if $(MYSQLD),HEDDLE_MYSQLD=$(MYSQLD)) \
	  $(CARGO) test --locked --package testkit --test consumers -- --include-ignored --test-threads 1 --nocapture

test-kv: ## what row caches remember is never older than promised: READS (2500000) each at one and at two routers, on MariaDB and MySQL, with failovers; and planted mistakes
	@scripts/install.sh test
	@KV_READS=$(or $(READS),2500000) $(CARGO) test --locked --package testkit --test kv cache:: -- \
	  --include-ignored --test-threads 1 --nocapture

test-hostile: build ## an attacker's script against whole farms, and ten thousand clients with half a packet each (needs ulimit -n 20000; MYSQLD=PATH)
	@scripts/install.sh test
	@$(if $(MYSQLD),HEDDLE_MYSQLD=$(MYSQLD)) HEDDLE_BIN=$(CURDIR)/bin/heddle $(CARGO) test --locked \
	  --package testkit --test sql_memory --test hostile -- --ignored --test-threads 1
	@HEDDLE_BIN=$(CURDIR)/bin/heddle $(CARGO) test --locked --package testkit --test accounts --test connections \
	  --test kv --test up --test program -- entrance:: bad_input:: tls_servers:: limits:: depth:: http:: at_rest::
	@$(CARGO) test --locked --package engine --test live -- servers:: dist_txn:: term::

test-sim: ## a million histories of a simulated farm and 70000 of one with several routers (HEDDLE_SEEDS, HEDDLE_SEED_FROM), played to the machine of failover; four millions of transactions over groups
	$(CARGO) test --release --quiet --locked --package machines --test simulate -- --ignored
	HEDDLE_SEEDS=$(or $(HEDDLE_SEEDS),4000000) $(CARGO) test --release --quiet --locked --package machines --test xa --test xa_held

bench-connect: dist ## connections per second and CPU per connection, straight and through Heddle (ROUNDS=2 for a quick look)
	@scripts/install.sh bench
	@python3 bench/connect.py

bench-pipeline: dist ## INSERTs one by one and without waiting, straight and through Heddle (ROUNDS=1 for a quick look)
	@scripts/install.sh bench
	@python3 bench/pipeline.py

bench-consistency: dist ## CPU per read at the level session against eventual (ROUNDS=1 SECONDS=3 for a quick look)
	@scripts/install.sh bench
	@python3 bench/consistency.py

fuzz: ## every fuzz target for FUZZ_SECONDS (600) each; FUZZ_TARGETS="a b" picks
	@scripts/install.sh fuzz
	@scripts/fuzz.sh

soak: dist ## sysbench beside clients that come and vanish, SOAK_SECONDS (300) per protocol; rows, memory, descriptors
	@scripts/install.sh bench
	@python3 bench/soak.py

clean: ## remove what was built (not heddle-data)
	rm -rf bin dist
	$(CARGO) clean --quiet
