# make demo   set up and render an example with the demo checkpoint into out/
# make test   set up and run all tests
# make check  set up and run linter, formatter and type checker
# make docs   write the generated pages again

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check docs clean

demo: $(VENV)/.installed
	$(BIN)/music3 render examples/morning-light.txt --checkpoint demo --on-exists overwrite -o out/

# One thread a worker: the demo's products are tiny, and threads that wait for each other cost more than they give.
test: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-test
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate_lint.py
	$(BIN)/python docs/generate_manifest.py
	$(BIN)/python -m tests.support.corruptions

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed; name it with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) out
