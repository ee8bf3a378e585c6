# Everything a person does with this checkout. Works with GNU make 3.81 (macOS) and newer.
PYTHON ?= python3
ARGS ?=
SEEDS ?= 1-200
EXAMPLES ?= 300
# as many processes as tests/conftest.py thinks best; PARALLEL= runs one after the other
PARALLEL ?= -n auto --dist loadfile --no-loadscope-reorder
VENV := .venv
BIN := $(VENV)/bin
NODE_MODULES := clients/typescript-tools/node_modules
LINTERS := tools/openapi/node_modules
NPM := PYTHONPATH="$(CURDIR)" "$(CURDIR)/$(BIN)/python" -m tools.runtimes npm
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --quiet $(if $(UPGRADE),--upgrade,)

# a stack is a dozen starts of Python, and each would compile every module anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: runtimes help up test simulate crash-matrix chaos races mutation mutation-of-steps fuzz audit deployment cloud-init agents bench lint fmt openapi examples clients docs lock clean

help: ## show this list
	@echo "Usage: make <target> [ARGS=\"...\"] [PYTHON=python3.12]"
	@echo
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -e 's/:.*## /|/' | awk -F'|' '{printf "  %-12s %s\n", $$1, $$2}'

up: $(VENV)/.local ## run everything on this machine until Ctrl-C: make up ARGS="--profile fast"
	@exec $(BIN)/python -m app.local $(ARGS)

test: $(VENV)/.dev $(VENV)/clients/.ready $(NODE_MODULES)/.ready $(LINTERS)/.ready | runtimes ## run all checks and tests: make test ARGS="tests/local -k redis"
	@exec $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

simulate: $(VENV)/.dev ## run the workers on a virtual clock against seeded clouds: make simulate SEEDS=1-1000
	@exec $(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

races: $(VENV)/.dev ## quotas, budgets and repeated creates under 64 clients, API processes killed: make races ARGS="--rounds 5"
	@exec $(BIN)/python -m tests.races $(ARGS)

mutation: $(VENV)/mutation/.ready ## change the rules (app/domain) in a thousand places and count what the tests notice: ten minutes
	@$(VENV)/mutation/bin/mutmut run $(ARGS)
	@$(VENV)/mutation/bin/mutmut export-cicd-stats >/dev/null
	@$(VENV)/mutation/bin/python -m tests.mutation

mutation-of-steps: $(VENV)/mutation/.ready ## the same for a sample of the protocol's steps: make mutation-of-steps ARGS="--sample '*__mutmut_7'"
	@$(VENV)/mutation/bin/python -m tests.mutation_of_steps $(ARGS)

fuzz: $(VENV)/.dev ## ask the API whatever openapi.json allows, and more: make fuzz EXAMPLES=1000 ARGS="--hypothesis-seed=7"
	@FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/security/test_fuzz.py $(ARGS)

audit: $(VENV)/.dev ## ask whether a pinned dependency has a known weakness (needs the internet)
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r requirements.lock
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r requirements-dev.lock

crash-matrix: $(VENV)/.dev ## kill, break, hang and cut off at every failpoint: make crash-matrix ARGS="--clouds aws --every 10"
	@exec $(BIN)/python -m tests.crash_matrix $(ARGS)

chaos: $(VENV)/.dev ## kill everything at random while leases are asked for: make chaos ARGS="--leases 100 --kills 10 --seconds 60"
	@exec $(BIN)/python -m tests.chaos $(ARGS)

deployment: $(VENV)/.dev ## two hosts on Debian's servers, PgBouncer, the image (needs root): make deployment ARGS="--parts pooler,image"
	@exec $(BIN)/python -m tests.deployment $(ARGS)

cloud-init: $(VENV)/.dev ## compare the reader of user data in the tests with cloud-init itself: make cloud-init SOURCE=/path/to/cloud-init
	@$(BIN)/python -m tests.real_cloud_init $(SOURCE)

agents: $(VENV)/.dev ## an agent with a key of 5 USD spends over MCP what it can and is killed: make agents ARGS="--seconds 60"
	@exec $(BIN)/python -m tests.agents $(ARGS)

bench: $(VENV)/.dev ## measure in three minutes: one JSON line per figure (see docs/performance.md for more)
	@$(BIN)/python -m bench.api --requests 2000
	@$(BIN)/python -m bench.burst --profile fast --leases 200 --workers 2
	@$(BIN)/python -m bench.inventory --leases 2000

lint: $(VENV)/.dev ## style, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

fmt: $(VENV)/.dev ## format the code and fix what can be fixed by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

openapi: $(VENV)/.dev ## write openapi.json and the generated pages of docs from the code
	$(BIN)/python -m app.api.openapi

examples: $(VENV)/.dev ## record the responses in the examples of openapi.json anew: read the difference
	@GPULEASE_EXAMPLES=keep $(BIN)/python -m pytest -q tests/api/test_openapi_examples.py -k accepted
	$(BIN)/python -m app.api.openapi

clients: $(VENV)/.dev $(VENV)/clients/.ready $(NODE_MODULES)/.ready ## make the clients from openapi.json, and their packages: a wheel, an sdist, an npm tarball
	@exec $(BIN)/python -m tools.clients

docs: $(VENV)/.dev ## write the documentation site to site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

lock: $(VENV)/.dev | runtimes ## pin all dependencies with hashes (UPGRADE=1: take the newest versions)
	$(COMPILE) pyproject.toml --all-extras -o requirements-dev.lock
	$(COMPILE) pyproject.toml --extra build --extra local -c requirements-dev.lock -o requirements-local.lock
	$(COMPILE) pyproject.toml --extra build --extra otel --extra notify -c requirements-dev.lock -o requirements.lock
	$(COMPILE) tools/clients.in -o tools/clients.lock
	$(COMPILE) tools/node.in -o tools/node.lock
	$(COMPILE) tools/mutation.in -c requirements-dev.lock -o tools/mutation.lock
	cd clients/typescript-tools && $(NPM) $(if $(UPGRADE),update,install) --package-lock-only
	cd tools/openapi && $(NPM) $(if $(UPGRADE),update,install) --package-lock-only
	cd tools/chromium && $(NPM) $(if $(UPGRADE),update,install) --package-lock-only

clean: ## remove the virtual environment and caches (the stack's data in .gpulease stay)
	rm -rf $(VENV) $(NODE_MODULES) $(LINTERS) clients/python clients/typescript site
	rm -rf build dist *.egg-info mutants .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find app workers cloudsim migrations tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made once; each stamp is younger than the lock file it was installed from.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "gpulease needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 || echo missing)." >&2; \
		echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: $(BIN)/python requirements-local.lock pyproject.toml
	@echo "installing what the lock file names (a minute, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-local.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python requirements-dev.lock pyproject.toml
	@echo "installing what the lock file names (two minutes, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.local

# Tools whose own needs would change what the program is tested with have an environment each.
$(VENV)/clients/.ready: $(BIN)/python tools/clients.lock
	@echo "installing what tools/clients.lock names"
	@$(BIN)/python -m venv $(VENV)/clients
	@$(VENV)/clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/clients.lock
	@touch $@

$(VENV)/mutation/.ready: $(BIN)/python tools/mutation.lock requirements-dev.lock
	@echo "installing what requirements-dev.lock and tools/mutation.lock name (two minutes, once)"
	@$(BIN)/python -m venv $(VENV)/mutation
	@$(VENV)/mutation/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock -r tools/mutation.lock
	@touch $@

# Node and Chromium: the system's, else installed below $(VENV) from packages with pinned hashes.
runtimes: $(BIN)/python
	@$(BIN)/python -m tools.runtimes

# What makes and checks the TypeScript client: packages by hash, none of whose scripts is run.
$(NODE_MODULES)/.ready: clients/typescript-tools/package-lock.json | runtimes
	@echo "installing what clients/typescript-tools/package-lock.json names"
	@cd clients/typescript-tools && $(NPM) ci --silent
	@touch $@

# What checks openapi.json.
$(LINTERS)/.ready: tools/openapi/package-lock.json | runtimes
	@echo "installing what tools/openapi/package-lock.json names"
	@cd tools/openapi && $(NPM) ci --silent
	@touch $@
