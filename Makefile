# Everything is set up on the way: a target needs Python 3.11 to 3.13 and nothing else.
# The first run installs into .venv; later runs need no network.
.DEFAULT_GOAL := help
.PHONY: bench tools help demo test check quick lint types tests coverage format reference docs \
	dist wheel-check lock clean serve

# The newest that starts: a name on the PATH may be a shim for a version that is not installed.
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	$$name -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	2>/dev/null && echo $$name && break; done)
VENV := .venv
# What the container holds beside the core: every store, protocol and provider behind HTTP.
IMAGE_EXTRAS := build encrypted mcp otel postgres redis
BIN := $(VENV)/bin
# A lock is complete and is installed without a resolver, so that what pip or an index does years later
# changes nothing; `pip check` proves that no package is missing.
PIP := -m pip --disable-pip-version-check
# The wheel's own metadata must be in step with pyproject.toml, so an edit installs again.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev
# Ragstone and its peers together: large, and never what the tests run in.
BENCH := .venv-bench
# What builds the documentation, and nothing else.
DOCS := .venv-docs
# Many tests wait for a time-out or a second process, so two workers a core. The longest files come
# first (tests/conftest.py orders them), and each file stays on one worker.
WORKERS := $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
PYTEST := -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# TESTS_MUST_RUN=1: a test of a server or a browser that would be skipped fails. Set for a release.
PYTEST += $(if $(TESTS_MUST_RUN),-p tests.must_run)
# Keep what was compiled: the tests start several hundred processes, which would compile it again.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(RUN) ## Ingest the sample documents and ask three questions
	@$(BIN)/ragstone demo --data .demo

serve: $(RUN) ## Serve the HTTP API on the sample documents
	@$(BIN)/ragstone serve --data .demo

check: lint types quick ## Lint, types and the fast tests: run it after every change

test: lint types tests ## Lint, types and all tests

lint: $(DEV) ## Check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEV) ## Check the types, strictly
	$(BIN)/mypy

tools: ## Fetch the servers and the browser that the tests start (they skip without)
	@$(PYTHON) scripts/fetch_qdrant.py
	@$(PYTHON) scripts/install_programs.py

quick: $(DEV) ## Run the tests that need no browser, no server and few seconds
	$(BIN)/python $(PYTEST) -m 'not slow and not browser and not servers'

tests: $(DEV) tools ## Run all tests, and print the ten slowest
	$(BIN)/python $(PYTEST) --durations=10

coverage: $(DEV) tools ## Run all tests and measure what they cover: a quarter slower, so for CI
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST) --durations=10
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

format: $(DEV) ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: $(DEV) ## Regenerate the generated parts of the documentation
	$(BIN)/python scripts/build_reference.py

docs: $(DOCS)/.installed ## Build the documentation as a site
	$(DOCS)/bin/mkdocs build --strict --quiet

dist: $(RUN) ## Build the wheel and the sdist into dist/
	@rm -rf dist
	$(BIN)/python -m hatchling build -d dist -t sdist -t wheel

wheel-check: dist ## Build into dist/, install the wheel into empty environments, run the demo there
	$(BIN)/python scripts/check_wheel.py dist/*

bench: $(BENCH)/.installed ## Run the benchmarks with the peers (20 minutes) and write their page
	$(BENCH)/bin/python bench/all.py

lock: ## Resolve the dependencies again (needs uv); names, versions and hashes only
	uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --custom-compile-command 'make lock' -o requirements.lock
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --custom-compile-command 'make lock' -c requirements.lock \
		-o requirements-dev.lock
	uv pip compile pyproject.toml $(IMAGE_EXTRAS:%=--extra %) --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command 'make lock' \
		-c requirements-dev.lock -o deploy/requirements.lock
	$(PYTHON) -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*project["optional-dependencies"]["docs"], sep="\n")' | \
		uv pip compile - --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --custom-compile-command 'make lock' \
		-o requirements-docs.lock

clean: ## Remove everything that was built
	rm -rf $(VENV) $(BENCH) $(DOCS) dist site .demo .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# After an upgrade of Python the link may lead nowhere, which make takes for a missing file. Nothing of
# the old environment is of use then: its packages are in the folder of another version.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: Ragstone needs Python 3.11 to 3.13 with its venv module."; \
		echo "hint: name one with: make demo PYTHON=/path/to/python3"; exit 1; }
	@rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)

# Make looks for these two files before it makes the environment, and would find the old ones.
ifeq ($(shell test -x $(BIN)/python && echo yes),)
.PHONY: $(RUN) $(DEV)
endif

$(RUN): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing (first run only) ..."
	@$(BIN)/python $(PIP) install --quiet --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python $(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python $(PIP) check
	@touch $@

$(DEV): requirements-dev.lock pyproject.toml | $(BIN)/python
	@echo "Installing the development tools (first run only) ..."
	@$(BIN)/python $(PIP) install --quiet --no-deps --require-hashes -r requirements-dev.lock
	@$(BIN)/python $(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python $(PIP) check
	@touch $@ $(RUN)

$(DOCS)/.installed: requirements-docs.lock
	@echo "Installing mkdocs (first run only) ..."
	$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python $(PIP) install --quiet --no-deps --require-hashes -r $<
	@$(DOCS)/bin/python $(PIP) check
	@touch $@

$(BENCH)/.installed: bench/peers-requirements.txt pyproject.toml
	@echo "Installing the peers (first run only; several gigabytes) ..."
	$(PYTHON) -m venv --clear $(BENCH)
	@$(BENCH)/bin/python $(PIP) install --quiet -e '.[build,eval]' -r bench/peers-requirements.txt
	@touch $@
