# The interpreter to build an environment from; each Python version gets an environment of its own.
PYTHON ?= python3.11
# A package index with the torch build to use, searched beside the default one.
TORCH_INDEX ?=

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv$(if $(filter 3.11,$(VERSION)),,-$(VERSION))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONSTRAINTS := $(if $(filter 3.10,$(VERSION)),constraints-py310.txt,constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help venv demo test bench lint format clean

help:
	@echo "make demo    train and translate a small German-English corpus"
	@echo "make test    run the tests"
	@echo "make bench   measure the table of README.md again (a quarter of an hour on two cores that do nothing else)"
	@echo "make lint    check the code with ruff; 'make format' formats it"
	@echo "make venv    build $(VENV), which the targets above do when it is missing"
	@echo "make clean   remove the environments, caches and what the demo made"
	@echo "PYTHON=python3.10 picks an interpreter, TORCH_INDEX=URL an index for torch (docs/install.md)"

venv: $(STAMP)

# The constraints go through the environment because pip applies the option -c to what it
# installs, but not to the build environments of source distributions.
$(STAMP): export PIP_CONSTRAINT := $(CONSTRAINTS)
$(STAMP): export PIP_BUILD_CONSTRAINT := $(CONSTRAINTS)
$(STAMP): setup.py pyproject.toml $(CONSTRAINTS)
	@test -n "$(VERSION)" || { echo "make: '$(PYTHON)' does not run here; install Python 3.11 or name an interpreter with PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet pip
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX) )torch==2.13.0 -e '.[fairseq,demo,dev]'
	$(BIN)/python -m pip install --quiet -e '.[lexicon]' || echo "make: eflomal could not be built, which 'convs2s lexicon' needs to align words (docs/install.md)" >&2
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo/run.py

# Two single-threaded workers keep two cores busy; --dist loadfile because a file's tests share
# fixtures that train a model.
test: export OMP_NUM_THREADS := 1
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 10 tests

bench: $(STAMP)
	$(BIN)/python -m benchmarks table

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* demo_out multi30k_out multi30k_compare_out build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
