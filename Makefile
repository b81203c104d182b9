# Commands for the development of the Plant Store. `make` without a target lists them.

PYTHON ?= python3
CHROMIUM ?= chromium-headless-shell
BUILDER ?= $(firstword $(foreach each,buildah podman docker,$(if $(shell command -v $(each)),$(each))))
IMAGE ?= plantstore:$(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' src/plantstore/__init__.py)
ROUNDS ?=
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
MINIMUM := .venv-minimum
JAVASCRIPT := tools/javascript
WEB := src/plantstore/web
SCRIPTS := $(WEB) tests/page
# The copies in $(WEB), each with the file of an npm package that it equals.
SWAGGER_UI := LICENSE NOTICE swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css
VENDORED := $(foreach file,$(SWAGGER_UI),swagger-ui/$(file)=swagger-ui-dist/$(file)) \
	preact/LICENSE=preact/LICENSE preact/preact.mjs=preact/dist/preact.mjs \
	htm/LICENSE=htm/LICENSE htm/htm.mjs=htm/dist/htm.mjs \
	uqr/LICENSE=uqr/LICENSE uqr/uqr.mjs=uqr/dist/index.mjs \
	papaparse/LICENSE=papaparse/LICENSE papaparse/papaparse.min.js=papaparse/papaparse.min.js \
	xlsx/LICENSE=@e965/xlsx/LICENSE xlsx/xlsx.core.min.js=@e965/xlsx/dist/xlsx.core.min.js
# Python 3.14 and the system's own Python are tested where they are installed, the latter with its
# module venv. It may be an early release, with errors that were fixed later.
PYTHONS ?= 3.11 3.12 3.13 $(if $(shell command -v python3.14),3.14) $(SYSTEM_PYTHON)
SYSTEM_PYTHON = $(shell /usr/bin/python3 -c \
	'import ensurepip, sys; v = sys.version_info[:3]; v < (3, 11) or print(*v, sep=".")' 2> /dev/null)
# Set this to test only the Pythons that are installed.
INSTALLED_ONLY ?=

# pip installs uv, and uv everything else, from the package indexes that pip uses. If $(PYTHON) has
# no pip, as on Debian, .venv gets one from the module ensurepip.
PIP_PYTHON = $(shell $(PYTHON) -c 'import pip' 2> /dev/null && echo $(PYTHON) || echo $(BIN)/python)
# These are for recipes whose target is a file in the environment.
INSTALL = $(PIP_PYTHON) tools/uv.py $(BIN)/uv pip install --quiet --python $(@D)/bin/python \
	--require-hashes --requirement
INSTALL_PROJECT = $(BIN)/uv pip install --quiet --python $(@D)/bin/python --offline --no-deps \
	--no-build-isolation --editable .

UPGRADE ?= --upgrade
COMPILE := --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links
LOCK := $(COMPILE) $(UPGRADE) --generate-hashes --custom-compile-command "make lock" pyproject.toml

# The tests that also run on other versions than the locked ones. They need no browser.
PORTABLE := tests/unit tests/api tests/contract tests/e2e/test_serve.py tests/e2e/test_transfer.py \
	tests/e2e/test_tokens.py tests/e2e/test_http.py
# A test waits for a part of its time, so one more process than cores is busy.
PROCESSES := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := pytest -q --numprocesses $(PROCESSES) --maxprocesses 4 --dist worksteal

# The tests start thousands of processes. Without the files of compiled modules, which this variable
# forbids, each process would compile every module.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run postgres image dist test test-project test-portable test-minimum test-pythons \
	programs project-programs check javascript npm vendor format docs simulate soak cluster cluster-programs \
	bench bench-peers lock clean

# Installs the Debian packages of missing programs, or says what to install. Each word of the argument
# is program:package. /usr/sbin may not be in the PATH of a user who is not root.
define install
	@missing=""; PATH="$$PATH:/usr/sbin"; for each in $(1); do \
		command -v $${each%:*} > /dev/null || missing="$$missing $${each#*:}"; \
	done; \
	test -z "$$missing" || { \
		test "$$(id -u)" = 0 && command -v apt-get > /dev/null || { \
			echo "Programs are missing. To install them: apt-get install$$missing" >&2; \
			exit 1; \
		}; \
		echo "Installing$$missing"; \
		apt-get update -qq && apt-get install -qq --no-install-recommends $$missing > /dev/null; \
	}
endef

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## install everything that development needs into .venv

run: $(VENV)/.run ## serve on http://127.0.0.1:8000, storing into plants.db
	$(BIN)/plantstore serve

postgres: $(VENV)/.postgres ## install the packages for --database postgresql://...

# BASE replaces the base image of the Containerfile, and BUILD_OPTIONS has further options for the
# builder. Only Docker's image format supports health checks.
image: ## build the container image (BASE=... for another base)
	@test -n "$(BUILDER)" || { echo "Install buildah, podman or docker, one of which builds the image" >&2; exit 1; }
	BUILDAH_FORMAT=docker $(BUILDER) build --file Containerfile --tag $(IMAGE) \
		$(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD_OPTIONS) .

dist: $(VENV)/.run ## build the source distribution and the wheel into dist/
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

test: $(VENV)/.dev programs ## test the service and its documents
	CHROMIUM=$(CHROMIUM) $(BIN)/$(PYTEST)

test-project: $(VENV)/.dev project-programs ## test packages, deployment files, shown commands
	$(BIN)/$(PYTEST) tests/project

test-portable: $(VENV)/.dev programs
	$(BIN)/$(PYTEST) $(PORTABLE)

test-minimum: $(MINIMUM)/.dev programs ## test with the oldest dependencies that pyproject.toml allows
	$(MINIMUM)/bin/$(PYTEST) $(PORTABLE)

# pyenv's commands need PYENV_VERSION to find their Python; other commands ignore it.
test-pythons: $(VENV)/.dev ## test on other Pythons (PYTHONS="3.12 3.13": on these)
	@missing=""; tested="$$($(BIN)/python --version)"; for version in $(PYTHONS); do \
		python=$$(PYENV_VERSION=$$version python$$version -c 'import sys; print(sys.executable)' 2> /dev/null || \
			$(BIN)/uv python find --no-python-downloads $$version 2> /dev/null) || \
			{ missing="$$missing $$version"; continue; }; \
		case "$$tested;" in *"$$($$python --version);"*) continue ;; esac; \
		tested="$$tested;$$($$python --version)"; \
		echo "Python $$version: $$python"; \
		$(MAKE) --no-print-directory test-portable VENV=.venv-$$version PYTHON=$$python || exit 1; \
	done; \
	test -z "$$missing" || { \
		echo "Not installed, so not tested: Python$$missing. Install it, or name the others: PYTHONS=..." >&2; \
		test -n "$(INSTALLED_ONLY)"; \
	}

check: $(VENV)/.dev javascript ## lint, types, import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(JAVASCRIPT)/node_modules/.bin/biome check --error-on-warnings --config-path=$(JAVASCRIPT) $(SCRIPTS)
	$(JAVASCRIPT)/node_modules/.bin/tsc --project $(JAVASCRIPT)
	for file in $(VENDORED); do cmp $(WEB)/$${file%=*} $(JAVASCRIPT)/node_modules/$${file#*=} || exit 1; done

format: $(VENV)/.dev javascript ## format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	$(JAVASCRIPT)/node_modules/.bin/biome check --write --config-path=$(JAVASCRIPT) $(SCRIPTS)

vendor: javascript ## copy the locked JavaScript libraries into src/plantstore/web
	for file in $(VENDORED); do cp $(JAVASCRIPT)/node_modules/$${file#*=} $(WEB)/$${file%=*} || exit 1; done

# SECONDS=600 runs for longer; SEED=17 runs one seed, and prints its last steps.
simulate: $(VENV)/.dev ## simulate the whole service for a minute (SECONDS=, SEED=)
	PYTHONPATH=tests $(BIN)/python -m simulation.run --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

soak: $(VENV)/.soak programs ## inject faults and attack, and simulate for an hour
	$(BIN)/pytest -q -o faulthandler_timeout=4000 tests/long
	$(MAKE) simulate SECONDS=3600

cluster: $(VENV)/.cluster cluster-programs ## test failover with Patroni for an hour (ROUNDS=1: minutes)
	PYTHONPATH=tests:benchmarks $(BIN)/python -m cluster.play $(if $(ROUNDS),--rounds $(ROUNDS))

# CSV=plants.csv also imports that file.
bench: $(VENV)/.dev programs ## measure into benchmarks/results/ (needs wrk and sqlite3)
	$(BIN)/python benchmarks/creates.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/random_ids.py
	$(BIN)/python benchmarks/reads.py
	$(BIN)/python benchmarks/transfer.py $(CSV)
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/searches.py
	PYTHONPATH=tests CHROMIUM=$(CHROMIUM) $(BIN)/python benchmarks/page.py
	PYTHONPATH=tests $(BIN)/python benchmarks/on_postgres.py
	$(BIN)/python benchmarks/overload.py
	$(BIN)/python benchmarks/slow_connections.py

bench-peers: $(VENV)/.dev $(PEERS)/.pip $(PEERS)/.npm $(PEERS)/go_sqlite ## compare with other servers, into the same folder
	$(BIN)/python benchmarks/peers.py

docs: $(VENV)/.dev programs ## write web/openapi.json, parts of documents, screenshots
	$(BIN)/python tools/documents.py
	PYTHONPATH=tests CHROMIUM=$(CHROMIUM) $(BIN)/python tools/screenshots.py

# UPGRADE= keeps the locked versions, and only adds new packages.
lock: $(VENV)/.dev ## resolve the locked requirements anew
	$(BIN)/uv pip compile $(filter-out pyproject.toml,$(LOCK)) --group uv --output-file requirements/uv.txt
	$(BIN)/uv pip compile $(LOCK) --group build --output-file requirements/run.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group build --output-file requirements/postgres.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group dev --output-file requirements/dev.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group dev --group soak --output-file requirements/soak.txt
	$(BIN)/uv pip compile $(LOCK) --extra postgres --group dev --group cluster --output-file requirements/cluster.txt
	$(BIN)/uv pip compile $(LOCK) --group peers --output-file requirements/peers.txt
	$(BIN)/uv pip compile $(COMPILE) --upgrade --resolution lowest-direct pyproject.toml --extra postgres \
		--output-file $(VENV)/minimum.txt
	$(BIN)/uv pip compile $(LOCK) --constraint $(VENV)/minimum.txt --extra postgres --group dev \
		--output-file requirements/minimum.txt

# The programs of the tests. PostgreSQL and Caddy come from PyPI. CHROMIUM names another browser.
programs:
	$(call install,$(CHROMIUM):chromium-headless-shell curl:curl haproxy:haproxy nginx:nginx-light pgbouncer:pgbouncer)

# The programs of `make test-project`.
project-programs:
	$(call install,curl:curl git:git prometheus:prometheus systemd-analyze:systemd)

# The tools of `make check` for the JavaScript of the page.
javascript: npm $(JAVASCRIPT)/node_modules/.installed

npm:
	$(call install,npm:npm)

# The programs of `make cluster`. PostgreSQL and Patroni come from PyPI.
cluster-programs:
	$(call install,etcd:etcd-server haproxy:haproxy)

clean: ## remove everything that make created, except databases
	rm -rf .venv .venv-* dist benchmarks/peers/node_modules $(JAVASCRIPT)/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# The last step writes .made, so an environment without it is incomplete. It is created again, and so
# is everything that depends on .made. The same happens if its Python is missing, as after an upgrade.
ifneq ($(shell test -x $(BIN)/python || echo gone),)
.PHONY: $(VENV)/.made
endif
$(VENV)/.made: requirements/uv.txt
	@command -v $(PYTHON) > /dev/null || { \
		echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(PIP_PYTHON) -c 'import pip' 2> /dev/null || $(BIN)/python -m ensurepip > /dev/null 2>&1 || { \
		rm -rf $(VENV); \
		echo "Python has neither pip nor ensurepip: apt-get install python3-venv" >&2; \
		exit 1; \
	}
	$(PIP_PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check \
		--require-hashes --requirement requirements/uv.txt
	touch $@

# The package itself is installed editable, with the build backend of the lock file. Otherwise uv
# would download an unpinned one.
$(VENV)/.run: requirements/run.txt pyproject.toml $(VENV)/.made
	$(INSTALL) requirements/run.txt
	$(INSTALL_PROJECT)
	touch $@

$(VENV)/.postgres: requirements/postgres.txt $(VENV)/.run
	$(INSTALL) requirements/postgres.txt
	touch $@

$(VENV)/.soak: requirements/soak.txt $(VENV)/.dev
	$(INSTALL) requirements/soak.txt
	touch $@

$(VENV)/.cluster: requirements/cluster.txt $(VENV)/.dev
	$(INSTALL) requirements/cluster.txt
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(INSTALL) requirements/dev.txt
	touch $@

$(MINIMUM)/.dev: requirements/minimum.txt pyproject.toml $(VENV)/.made
	$(BIN)/python -m venv --clear --without-pip $(MINIMUM)
	$(INSTALL) $<
	$(INSTALL_PROJECT)
	touch $@

$(PEERS)/.pip: requirements/peers.txt $(VENV)/.made
	$(BIN)/python -m venv --clear --without-pip $(PEERS)
	$(INSTALL) $<
	touch $@

# If npm is missing, the servers in JavaScript are left out, and the table says so. Then no stamp file
# is written, so the next run tries again.
$(PEERS)/.npm: benchmarks/peers/package-lock.json | $(PEERS)/.pip
	if command -v npm > /dev/null; then \
		npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix benchmarks/peers && \
		touch $@; \
	fi

# The same for Go (Debian's golang-go and golang-github-mattn-go-sqlite3-dev).
$(PEERS)/go_sqlite: benchmarks/peers/go_sqlite.go | $(PEERS)/.pip
	if command -v go > /dev/null; then \
		GO111MODULE=off GOPATH=/usr/share/gocode go build -o $@ $<; \
	fi

$(JAVASCRIPT)/node_modules/.installed: $(JAVASCRIPT)/package.json $(JAVASCRIPT)/package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix $(JAVASCRIPT)
	touch $@
