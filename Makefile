# Everything runs from a virtual environment that `make setup` makes from hashed lock files.
# Needed beforehand: Python 3.11 or newer, and make.

PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
UV      := $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
LOCKS   := requirements-uv.lock requirements.lock requirements-dev.lock

# The interpreter's version is part of the stamp's name, so that another PYTHON makes the
# environment anew.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
STAMP   := $(VENV)/.installed-$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format docs bench lock clean
.DELETE_ON_ERROR:

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "make %-8s %s\n", $$1, $$2}'

setup: $(STAMP) ## make the virtual environment, from the lock files

$(STAMP): $(LOCKS) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "make: PYTHON = $(PYTHON) is $(or $(VERSION),not there): Python 3.11 or newer is needed, e.g. make setup PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) has no venv module: install it (on Debian and Ubuntu: python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(INSTALL) --compile-bytecode --require-hashes -r requirements.lock -r requirements-dev.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## run the default suite and write its report
	@$(BIN)/recoverybench run

# In two processes: while real workers train, wait and die in one, the other has tests without them.
test: lint ## lint, then every test
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: $(STAMP) ## format check, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(STAMP) ## format the code and mend what the linter can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(STAMP) ## write docs/cli.md and docs/schema.md anew from the code
	$(BIN)/python -m recoverybench.cli.reference docs/cli.md
	$(BIN)/python -m recoverybench.results.schema docs/schema.md

bench: $(STAMP) ## measure the numbers of the README
	$(BIN)/python benchmarks/bench.py

# The lock files name no registry: whoever installs uses their own configuration.
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock: $(STAMP) ## resolve the lock files anew
	echo uv | $(UV) $(COMPILE) --upgrade - --output-file requirements-uv.lock
	$(UV) $(COMPILE) --upgrade pyproject.toml --output-file requirements.lock
	$(UV) $(COMPILE) --upgrade --group dev --constraint requirements.lock --output-file requirements-dev.lock

clean: ## remove the virtual environment and caches; results/ and reports/ stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
