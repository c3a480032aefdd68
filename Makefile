# Everything a newcomer needs: `make demo` and `make test` install what they need by themselves.
# The environment is made once, and again only when requirements.lock changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(shell cksum < requirements.lock | cut -d' ' -f1)

# One thread a process: for models this small, two threads in one process are slower than one.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.PHONY: help install demo test check bench lock clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(READY)  ## make .venv

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or newer, got $$($(PYTHON) --version); try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Making $(VENV) (about a minute, once)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "expected Python with venv; on Debian or Ubuntu: apt-get install python3-venv"; exit 2; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,tensorboard,clusterings]'
	@touch $@

demo: $(READY)  ## the main job: train about three minutes, print a table, write a page
	@$(BIN)/mocaps demo

test: $(READY)  ## all tests
	@$(BIN)/pytest -q -n 2 --dist worksteal

check: $(READY)  ## format, lint, types, import contract, doctests, README's code, tests with warnings as errors
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell src tests docs experiments benchmarks README.md CONTRIBUTING.md CHANGELOG.md
	$(BIN)/pytest -q --doctest-modules src -W error
	$(BIN)/pytest -q -n 2 --dist worksteal -W error

bench: $(READY)  ## speed and memory, as ratios to a matrix product of the same run
	@$(BIN)/python -m benchmarks

lock: $(READY)  ## write the versions in .venv to requirements.lock
	@{ sed -n '/^#/p' requirements.lock; \
	   $(BIN)/pip freeze --exclude-editable --disable-pip-version-check | sed 's/+cpu$$//'; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock

clean:  ## forget the environment
	rm -rf $(VENV)
