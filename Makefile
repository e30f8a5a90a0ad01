# The few commands of this repository. They mean the same for people and for the build server.
#
#   PYTHON=python3.12   which Python makes the virtual environment (default: the first suitable one)
#   DIR=path            for demo: the directory to walk
#   SEED=7 JOBS=2000 ONLY=S01,S06   for faults: what is drawn, jobs of each scenario [default: few], which of them
#   ONLY=leasehold,rq   for bench: some of the queues or sections, printed and not kept
#   ARGS="-k lease"     for test: more arguments for pytest; for crash, bench: see python -m bench.performance --help

.DEFAULT_GOAL := help
.PHONY: help demo test check faults format docs compat crash bench ci clean run-env dev-env
SHELL := /bin/sh
# The tests and the benchmarks start hundreds of processes: each would compile all modules anew.
export PYTHONDONTWRITEBYTECODE :=

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

faults: dev-env ## Kills, stops, cuts, restarts, full memory, wrong clocks, and a checker (SEED=n JOBS=n ONLY=S01,S06)
	@$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

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

crash: dev-env ## Kill each peer's worker in mid-job and time the second run; writes a page (ARGS=--only=rq)
	@$(BIN)/python -m bench.crash $(ARGS)

bench: dev-env ## Measure speed and cost beside other queues; writes a page (ONLY=leasehold,rq ARGS=--quick)
	@$(BIN)/python -m bench.performance $(if $(ONLY),--only $(ONLY)) $(ARGS)

clean: ## Remove the virtual environment and what the tools left
	rm -rf $(VENV) .compat .bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Both are done again only when pyproject.toml or constraints.txt have changed.
run-env:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) run

dev-env:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) dev
