# Everything that one does with the Plant Store. Bare `make` lists it.

PYTHON ?= python3
CHROMIUM ?= chromium
BUILDER ?= $(firstword $(foreach each,buildah podman docker,$(if $(shell command -v $(each)),$(each))))
IMAGE ?= plantstore:$(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' src/plantstore/__init__.py)
ROUNDS ?=
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

LOCK := pyproject.toml --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup run postgres image test browser check format docs soak cluster cluster-programs \
	bench bench-peers lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## install everything that development needs into .venv

run: $(VENV)/.run ## serve on http://127.0.0.1:8000, storing into plants.db
	$(BIN)/plantstore serve

postgres: $(VENV)/.postgres ## install what --database postgresql://... needs

# BASE names another base image than the Containerfile does, and BUILD_OPTIONS has whatever else the
# builder is to be told. Of the formats of images, Docker's is the one that has health checks.
image: ## build the container image (BASE=... names another base image)
	@test -n "$(BUILDER)" || { echo "Install buildah, podman or docker, one of which builds the image" >&2; exit 1; }
	BUILDAH_FORMAT=docker $(BUILDER) build --file Containerfile --tag $(IMAGE) \
		$(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD_OPTIONS) .

test: $(VENV)/.dev browser ## run every test
	CHROMIUM=$(CHROMIUM) $(BIN)/pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal

check: $(VENV)/.dev ## lint, types, import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

soak: $(VENV)/.soak ## inject faults and attack for some twenty minutes, into benchmarks/results/
	$(BIN)/pytest -q tests/long

cluster: $(VENV)/.cluster cluster-programs ## play faults on PostgreSQL with Patroni, for an hour (ROUNDS=1: four of them, in minutes)
	PYTHONPATH=tests:benchmarks $(BIN)/python -m cluster.play $(if $(ROUNDS),--rounds $(ROUNDS))

bench: $(VENV)/.dev ## measure into benchmarks/results/ (needs wrk and sqlite3; CSV=plants.csv imports it too)
	$(BIN)/python benchmarks/creates.py
	$(BIN)/python benchmarks/capacity.py
	$(BIN)/python benchmarks/random_ids.py
	$(BIN)/python benchmarks/reads.py
	$(BIN)/python benchmarks/transfer.py $(CSV)
	PYTHONPATH=tests $(BIN)/python benchmarks/on_postgres.py
	$(BIN)/python benchmarks/observation.py
	$(BIN)/python benchmarks/overload.py
	$(BIN)/python benchmarks/slow_connections.py

bench-peers: $(VENV)/.dev $(PEERS)/.pip $(PEERS)/.npm ## measure beside others, into benchmarks/results/peers.md
	$(BIN)/python benchmarks/peers.py

docs: $(VENV)/.dev browser ## make docs/api.md, docs/cli.md and the pictures of the page anew
	$(BIN)/python tools/documents.py
	PYTHONPATH=tests CHROMIUM=$(CHROMIUM) $(BIN)/python tools/screenshots.py

lock: $(VENV)/.dev ## resolve the locked requirements anew
	$(BIN)/uv pip compile $(LOCK) --group build --output-file requirements/run.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group build --output-file requirements/postgres.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group dev --output-file requirements/dev.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group dev --group soak --output-file requirements/soak.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group dev --group cluster --output-file requirements/cluster.txt
	$(BIN)/uv pip compile $(LOCK) --group peers --output-file requirements/peers.txt

# The tests of the page drive Debian's Chromium, or another one that CHROMIUM names.
browser:
	@command -v $(CHROMIUM) > /dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get > /dev/null || { \
			echo "The tests need a browser: apt-get install chromium, or make test CHROMIUM=..." >&2; \
			exit 1; \
		}; \
		echo "Installing Chromium, which the tests drive"; \
		apt-get update -qq && apt-get install -qq --no-install-recommends chromium > /dev/null; \
	}

# What stands around PostgreSQL in make cluster; PostgreSQL and Patroni come from PyPI.
cluster-programs:
	@missing=""; PATH="$$PATH:/usr/sbin"; for program in etcd haproxy pgbouncer; do \
		command -v $$program > /dev/null || missing="$$missing $$program"; \
	done; \
	test -z "$$missing" || { \
		packages=$$(echo "$$missing" | sed 's/etcd/etcd-server/'); \
		test "$$(id -u)" = 0 && command -v apt-get > /dev/null || { \
			echo "The cluster needs$$missing: apt-get install$$packages" >&2; \
			exit 1; \
		}; \
		echo "Installing$$packages, for the cluster"; \
		apt-get update -qq && apt-get install -qq --no-install-recommends $$packages > /dev/null; \
	}

clean: ## remove what make made; databases stay
	rm -rf $(VENV) $(PEERS) benchmarks/peers/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

# The package itself is installed editable, with the build backend that the
# lock file pins rather than one that pip would fetch unpinned.
$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --require-hashes --requirement requirements/run.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.postgres: requirements/postgres.txt $(VENV)/.run
	$(INSTALL) --require-hashes --requirement requirements/postgres.txt
	touch $@

$(VENV)/.soak: requirements/soak.txt $(VENV)/.dev
	$(INSTALL) --require-hashes --requirement requirements/soak.txt
	touch $@

$(VENV)/.cluster: requirements/cluster.txt $(VENV)/.dev
	$(INSTALL) --require-hashes --requirement requirements/cluster.txt
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(INSTALL) --require-hashes --requirement requirements/dev.txt
	touch $@

$(PEERS)/.pip: requirements/peers.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	touch $@

# What JavaScript needs may be missing: then its servers are left out, and the
# table says so. No stamp is left, so that it is tried again.
$(PEERS)/.npm: benchmarks/peers/package-lock.json | $(PEERS)/.pip
	if command -v npm > /dev/null; then \
		npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix benchmarks/peers && \
		touch $@; \
	fi
