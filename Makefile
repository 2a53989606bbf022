# Needs only make and Python 3.11 or newer. Every target makes its own environment in .venv from nothing.
# Another Python: make test PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
HISTORIES ?= 100000
SEED ?= 0
SECONDS ?= 1800
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test check bench simulate fuzz soak seeded-bugs mutants docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-11s %s\n", $$1, $$2 }'

demo: .venv/demo.stamp ## show the jobs at work on a real PostgreSQL that comes with it; nothing else needed
	@$(BIN)/messenger-jobs demo

test: .venv/dev.stamp ## run all tests
	@$(BIN)/pytest --numprocesses=3 --dist=loadfile

check: .venv/dev.stamp ## run the linters, the type checkers and the check of the architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --project . # not one that lies in a folder above
	$(BIN)/lint-imports

bench: .venv/dev.stamp ## measure jobs and relay against their limits on this machine, which should be quiet
	@verdict=0; for each in chat_provision recording_finalize outbox_relay; do \
	  $(BIN)/python -m benchmarks.$$each || verdict=1; done; exit $$verdict

simulate: .venv/dev.stamp ## play HISTORIES of the whole system with faults, and hold each against what must never happen
	@$(BIN)/python -m tests.simulation --histories $(HISTORIES) --seed $(SEED)

fuzz: .venv/dev.stamp ## run the property tests and the simulation for long, with new random histories
	@$(BIN)/pytest --hypothesis-profile=fuzz --timeout=0 tests/property tests/simulation/test_histories.py
	@$(BIN)/python -m tests.simulation --small-worlds
	@$(BIN)/python -m tests.simulation --on-postgres --histories 20000 --seed $$(date +%s)
	@$(BIN)/python -m tests.simulation --histories 1000000 --seed $$(date +%s)

soak: .venv/dev.stamp ## kill, pause and cut real workers and servers for SECONDS, and see that nothing is lost
	@$(BIN)/python -m tests.soak --seconds $(SECONDS)

seeded-bugs: .venv/dev.stamp ## put deliberate defects into a copy of the code; the simulation or a test must notice each
	@$(BIN)/python -m tools.seeded_bugs

mutants: .venv/dev.stamp ## break domain and application in small ways; tests must notice 95 % and 90 % of the breaks
	@$(BIN)/python tools/mutants.py

docs: .venv/dev.stamp ## build the documentation into build/docs, its reference pages from the code
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo "build/docs/index.html"

clean: ## remove the environment and everything made by the tools
	rm -rf .venv .mutants .hypothesis .coverage* htmlcov build dist \
	  .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The demo installs what it needs and no more; the developer's environment is everything.
.venv/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing messenger-jobs into .venv ..."
	@$(PIP) install --constraint constraints.txt --editable '.[embedded,fast]'
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing messenger-jobs and the developer's tools into .venv ..."
	@$(PIP) install --constraint constraints.txt --editable '.[dev,bench]'
	@touch .venv/demo.stamp $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "$(PYTHON) is not there: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed, name one: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make environments, its ensurepip is missing: on Debian and Ubuntu run: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
