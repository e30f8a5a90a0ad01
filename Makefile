# The few commands of this repository. They mean the same for people and for the build server.
#
#   PYTHON=python3.12   which Python makes the virtual environment (default: the first suitable one)
#   DIR=path            for demo: the directory to walk
#   ARGS="-k lease"     for test: more arguments for pytest

.DEFAULT_GOAL := help
.PHONY: help demo test check format docs compat ci clean run-env dev-env
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
DIR ?=
ARGS ?=

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: run-env ## Run jobs over real files, kill a worker on purpose, and report (DIR=path)
	@$(BIN)/leasehold demo $(if $(DIR),"$(DIR)")

test: dev-env ## Run all tests against redis-servers that they start themselves (ARGS="-k name")
	@sh scripts/test.sh $(BIN) $(ARGS)

check: dev-env ## Check style, types, import contracts and what must not be in the repository
	@sh scripts/check.sh $(BIN)

format: dev-env ## Put the code into the house style
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

docs: dev-env ## Write the reference pages anew from the code
	@$(BIN)/python scripts/reference.py

ci: ## check + test
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test

compat: ## Run the tests on other Pythons and older Redis clients, as far as they are here (takes long)
	@sh scripts/compat.sh $(ARGS)

clean: ## Remove the virtual environment and what the tools left
	rm -rf $(VENV) .compat build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Both are done again only when pyproject.toml or constraints.txt have changed.
run-env:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) run

dev-env:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) dev
