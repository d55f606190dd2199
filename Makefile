# make install   create the environment: afterwards . .venv/bin/activate puts `uproar` on the path
# make demo   create the environment, compare methods on clothes, retrain on digits, say where the pages are
# make test-fast   a part of the tests
# make test   create the environment, check style, types and layers, run all tests
# make board   test all metrics on networks whose use of the input is known (about an hour on one core)
# make docs   build the documentation site into build/docs, offline once its tools are installed
# make wheel-test   build wheel and source distribution, install each in a fresh environment, run the smoke tests
# make notebooks   run the notebooks and store their outputs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# one OpenMP thread per process: several processes share the cores
export OMP_NUM_THREADS ?= 1

.PHONY: install demo test test-fast check bench board docs notebooks wheel-test clean

install: $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/uproar run --task fashion-small --metrics evaluator,evaluator:model,sanity,stability --out runs/demo-clothes
	$(BIN)/uproar run --out runs/demo

# the parts that need no study: removal, metrics, training, networks, data, the store
FAST := tests/removal tests/metrics tests/training tests/models tests/data tests/results \
  tests/statistics tests/test_cards.py tests/test_expression.py tests/test_registry.py tests/test_seeds.py \
  tests/test_store.py tests/test_tensors.py tests/test_words.py

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" $(FAST)

# what works on arrays: shapes and types are checked in every call, which makes these tests slower
ARRAYS := tests/removal tests/metrics tests/training

# types are checked beside the tests: mypy alone would leave a core idle for a minute
test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/mypy & types=$$!; \
	  $(BIN)/python -m pytest -q -n 2 --dist worksteal $(ARRAYS:%=--ignore=%); tests=$$?; \
	  $(BIN)/python -m pytest -q -n 2 --dist worksteal --jaxtyping-packages=uproar,typecheck.checked $(ARRAYS); \
	  shapes=$$?; wait $$types && exit $$((tests + shapes))

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/gradient_family.py
	$(BIN)/python benchmarks/roar_vs_plain.py
	$(BIN)/python benchmarks/start_up.py

board: $(VENV)/.dev
	$(BIN)/python tools/metric_board.py

docs: $(VENV)/.docs
	$(BIN)/codespell
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "The site: build/docs/index.html"

notebooks: $(VENV)/.docs
	$(BIN)/python tools/notebook_pages.py --execute examples/notebooks

wheel-test:
	PYTHON=$(PYTHON) tools/wheel_test.sh

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV) (torch is large: a few minutes the first time) ..."
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.demo requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock -r requirements-dev.lock
	@touch $@

$(VENV)/.docs: $(VENV)/.demo requirements-docs.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock -r requirements-docs.lock
	@touch $@

clean:
	rm -rf $(VENV) runs build dist docs/reference docs/notebooks docs/project
