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
.PHONY: help venv constraints demo test test-fast coverage properties faults random-bytes endurance fuzz bench models lint style format docs docs-tables wheel clean

help:
	@echo "make demo       train and translate a small German-English corpus"
	@echo "make test       run the tests, except those that need a GPU (tests/gpu)"
	@echo "make test-fast  run the unit tests only, without the slow ones (about two minutes)"
	@echo "make coverage   say how much of the code the unit tests run"
	@echo "make properties    check 1,000 random models (CASES=N: N), all ensembles, and more systems of papers"
	@echo "make faults        kill training runs, experiments and other commands, 50 times each; KILLS=N: N times"
	@echo "make random-bytes  translate 100,000 lines of random bytes; LINES=N translates N"
	@echo "make endurance     train, then translate, then serve, for an hour each; memory and files stay flat; MINUTES=N for N minutes"
	@echo "make fuzz TARGET=adl  fuzz what reads files with atheris for SECONDS=60 (tests/fuzz/targets.py)"
	@echo "make lint       check the code, the imports, the words, and the layout of the pages; 'make format' formats the code"
	@echo "make docs       build the site of docs/ into site/; 'make docs-tables' writes its tables and figures"
	@echo "make bench      measure the tables of the documentation again, on an otherwise idle machine"
	@echo "make models SIGMORPHON=FOLDER  train the released models and pack them into models_out/release (models/README.md)"
	@echo "make wheel      build the source archive, and the wheel from it, into dist/"
	@echo "make venv       build $(VENV), which the targets above do when it is missing"
	@echo "make constraints   pin the packages that are new in pyproject.toml, with uv (CONTRIBUTING.md)"
	@echo "make clean      remove the environments, caches, and everything that was built or trained"
	@echo "PYTHON=python3.10 picks an interpreter (3.13 has no fairseq: tests that need it are skipped),"
	@echo "TORCH_INDEX=URL an index for torch (docs/install.md)"

venv: $(STAMP)

# The constraints go through the environment because pip applies the option -c to what it
# installs, but not to the build environments of source distributions.
$(STAMP): export PIP_CONSTRAINT := $(CONSTRAINTS)
$(STAMP): export PIP_BUILD_CONSTRAINT := $(CONSTRAINTS)
$(STAMP): setup.py pyproject.toml $(CONSTRAINTS)
	@test -n "$(VERSION)" || { echo "make: '$(PYTHON)' does not run here; install Python 3.11 or name an interpreter with PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet pip wheel
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX) )torch==2.13.0 -e '.[fairseq,evaluate,optuna,text,export,hf,serve,slurm,demo,docs,dev]'
	$(BIN)/python -m pip install --quiet eflomal || echo "make: eflomal could not be built, which 'convs2s lexicon' needs to align words (docs/install.md)" >&2
	touch $@

# Pins that are there stay. wheel builds the packages that have no wheels; pip 24.1 and later reject the metadata
# of omegaconf 2.0, which fairseq 0.12.2 needs. Packages of CUDA depend on the build of torch.
constraints:
	printf '%s\n' wheel 'pip<24.1; python_version < "3.11"' | uv pip compile --quiet --no-annotate --all-extras \
		--custom-compile-command "make constraints" --python-version $(VERSION) \
		--output-file $(CONSTRAINTS) pyproject.toml -
	sed -i -E '/^(cuda-|nvidia-|triton=)/d' $(CONSTRAINTS)

demo: $(STAMP)
	$(BIN)/python examples/demo/run.py

# Two single-threaded workers keep two cores busy; --dist loadfile because a file's tests share
# fixtures that train a model. In the order of their folders, the slow files come first.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
	--durations 10

test: $(STAMP)
	$(PYTEST) --ignore tests/gpu tests

test-fast: $(STAMP)
	$(PYTEST) -m "not slow" tests/unit

coverage: $(STAMP)
	$(PYTEST) --cov convs2s --cov convs2s_plugin --cov-report term-missing:skip-covered tests/unit

CASES ?= 1000
properties: $(STAMP)
	CONVS2S_CASES=$(CASES) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/properties \
		tests/unit/models/adl/test_model.py tests/unit/plugin/search/test_ensembles.py \
		tests/integration/examples/test_papers.py --timeout 0

KILLS ?= 50
faults: $(STAMP)
	CONVS2S_KILLS=$(KILLS) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/integration/test_kills.py \
		tests/integration/test_killed_experiments.py tests/integration/test_repeated_commands.py \
		--timeout 0

LINES ?= 100000
random-bytes: $(STAMP)
	CONVS2S_LINES=$(LINES) OMP_NUM_THREADS=1 $(BIN)/python -m pytest --timeout 0 \
		tests/integration/test_random_bytes.py

MINUTES ?= 60
endurance: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.support.endurance --minutes $(MINUTES)
	CONVS2S_SERVE_SECONDS=$$((60 * $(MINUTES))) OMP_NUM_THREADS=1 $(BIN)/python -m pytest \
		tests/integration/test_serve.py -k fifty_clients --timeout 0

TARGET ?= adl
SECONDS ?= 60
# atheris has wheels for few systems, so make venv does not install it.
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet atheris
	$(BIN)/python -m tests.fuzz $(TARGET) -max_total_time=$(SECONDS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks table

# Options of models/build.py.
MULTI30K ?=
SIGMORPHON ?=
MODELS ?=
models: $(STAMP)
	$(BIN)/python models/build.py $(if $(MULTI30K),--multi30k '$(MULTI30K)' )$(if $(SIGMORPHON),--sigmorphon '$(SIGMORPHON)' )$(MODELS)

lint: $(STAMP) style
	$(BIN)/mypy

# What needs no torch.
style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell *.md benchmarks convs2s convs2s_plugin docs examples models
	$(BIN)/pymarkdown --strict-config scan --recurse --exclude docs/design.md *.md docs examples models results tests
	$(BIN)/python docs/check_pages.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python -m mkdocs build --strict

docs-tables: $(STAMP)
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/figures.py

# setuptools would put what an earlier build left in build/ into the wheel, removed files included.
wheel: $(STAMP)
	rm -rf build dist
	$(BIN)/python setup.py --quiet sdist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz

# Output of the examples; that of experiments of a user's own stays.
OUTPUT := $(foreach kind,out smoke,$(patsubst %.yaml,%_$(kind),$(notdir $(wildcard examples/*/*.yaml examples/*/*/*.yaml)))) \
	$(addsuffix _out,demo number_to_words error_correction iwslt14 pronunciation convs2s pervasive distillation \
	models fuzz back_translation) iwslt14_text examples/notebook/first_hour_out
clean:
	rm -rf .venv .venv-* build dist site *.egg-info $(OUTPUT)
	rm -rf .coverage .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
