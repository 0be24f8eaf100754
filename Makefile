# The two commands of the README are `make demo` and `make test`; each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SCALE ?= small

.PHONY: chromium servers check measure demo test lint docs bench experiment fuzz soak clean

demo: $(VENV)/.installed
	$(BIN)/onlinegcp demo

test: $(VENV)/.installed-test chromium servers
	$(BIN)/onlinegcp warmup  # once, before two workers compile everything twice
	$(BIN)/python -m pytest -n auto --dist worksteal

# The loop a contributor lives in: lint and quick tests in under two minutes, once compiled.
check: lint
	$(BIN)/onlinegcp warmup
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" --quick

# Which tests are quick, measured anew: a quarter of an hour.
measure: $(VENV)/.installed-test
	$(BIN)/onlinegcp warmup
	$(BIN)/python -m pytest -p no:xdist -m "not slow" --measure

lint: $(VENV)/.installed-test $(VENV)/.installed-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@command -v npm >/dev/null || \
	  { echo "make lint needs Node 18 or newer with npm for the scripts of the page; install nodejs and npm."; exit 1; }
	@$(MAKE) --no-print-directory node_modules/.installed
	node_modules/.bin/biome check --error-on-warnings

node_modules/.installed: package.json
	npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks.run

# Random damage for five minutes, or as long as you like: make fuzz SECONDS=3600
SECONDS ?= 300
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m reliability.fuzz --seconds $(SECONDS)

# A million slices, a hundred kills, two full disks: two hours, and not in CI. SLICES=100000 KILLS=20 takes a quarter of one.
SLICES ?= 1000000
KILLS ?= 100
soak: $(VENV)/.installed-test
	$(BIN)/python -m reliability.soak --slices $(SLICES) --kills $(KILLS)

# The report and the live page are tested in a real browser; without one those tests are skipped.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }; } || \
	  echo "No Chromium and no way to install it here: browser tests will be skipped."

# Databases and logs are tested with real servers, which the tests start; without one, skipped.
servers:
	@{ command -v redis-server && ls /usr/lib/postgresql/*/bin/postgres; } >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	      --no-install-recommends postgresql redis-server >/dev/null; }; } || \
	  echo "No PostgreSQL or Redis and no way to install them here: their tests will be skipped."

experiment: $(VENV)/.installed-test
	$(BIN)/python -m experiments.$(NAME) --scale $(SCALE)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "onlinegcp needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

# Each set of extras has its own stamp, so `make demo` never waits for the test tools.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[$*]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) node_modules build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
