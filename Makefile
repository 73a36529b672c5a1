# Every target works on a bare machine with python3: it makes .venv and installs what it needs.
# The environment is redone only when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt
JOBS ?= 2

.PHONY: demo test lint clean

demo: $(VENV)/.core
	$(BIN)/dpgist demo --out demo-output --force

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not data and not gpu"

lint: $(VENV)/.lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) demo-output

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test,evaluate]'
	touch $@

# mypy reads the types of what the tests use too, so lint installs both.
$(VENV)/.lint: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test,evaluate,lint]'
	touch $@
