# `make run` and `make test` need nothing but Python 3.11 or newer. Everything goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
GROUPS := .venv/groups
PYTEST := -n auto --dist loadfile --durations=25

.PHONY: run test test-more test-slow lint types docs bench clean

run: .venv/installed
	$(BIN)/simkit run examples/gbm.yaml --overwrite

test: $(GROUPS)-tests
	$(BIN)/python -m pytest $(PYTEST) -m "not slow and not more"

test-more: $(GROUPS)-tests
	$(BIN)/python -m pytest $(PYTEST) -m "more and not slow"

test-slow: $(GROUPS)-tests
	$(BIN)/python -m pytest $(PYTEST) -m slow

lint: $(GROUPS)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(GROUPS)-dev
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(GROUPS)-docs
	$(BIN)/python -m sphinx -W $(SPHINX) -b html docs docs/_build/html

bench: $(GROUPS)-benchmarks
	$(BIN)/python benchmarks

clean:
	rm -rf .venv dist build docs/_build

# pip older than 25.1 does not know dependency groups.
.venv/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "simkit needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is `$(PYTHON) --version 2>&1`." \
		"Name another one: make PYTHON=python3.12 run" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "$(PYTHON) lacks the modules venv and ensurepip: install them (Debian and Ubuntu: apt install" \
		"python3-venv) or name another Python: make PYTHON=python3.12 run" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

.venv/installed: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(GROUPS)-%: .venv/installed
	$(BIN)/python -m pip install --quiet --group $*
	@touch $@
