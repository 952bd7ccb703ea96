# The two commands: `make demo` and `make test`. Each makes its own virtual environment and installs what it needs.

PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
export PATH := $(BIN):$(PATH)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INPUTS := pyproject.toml setup.py constraints.txt $(wildcard cython_ext/*.pyx lapsvm/_ext/*.pxd)

.PHONY: demo test lint debug-test wheel-test clean

demo: $(VENV)/installed  ## the main job end to end on embedded data, into demo-run/
	$(BIN)/lapsvm demo --out demo-run

test: $(VENV)/installed-dev  ## every test
	$(BIN)/pytest

lint: $(VENV)/installed-dev  ## style, types, import laws
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports --no-logo
	$(BIN)/cython-lint cython_ext

debug-test: $(VENV)/installed-dev  ## the kernels' tests against a build with bounds checks
	rm -rf build/debug-site
	LAPSVM_DEBUG=1 $(PIP) install --no-build-isolation --no-deps --target build/debug-site .
	PYTHONPATH=build/debug-site LAPSVM_EXPECT_DEBUG=1 $(BIN)/pytest -m "not slow" \
	  tests/test_boxes.py tests/test_build.py tests/ranking tests/optim tests/windows tests/features tests/bags tests/detection tests/evaluation

wheel-test: $(VENV)/installed-dev  ## the tests against the built wheel in a fresh environment
	rm -rf build/wheel build/wheel-venv
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel .
	$(BIN)/check-wheel-contents build/wheel/*.whl
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip --quiet install -c constraints.txt build/wheel/*.whl pytest pytest-timeout hypothesis
	build/wheel-venv/bin/pytest -m "not slow" tests

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(INPUTS) | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e ".[photos]"
	touch $@

$(VENV)/installed-dev: $(INPUTS) | $(VENV)/bin/python
	$(PIP) install -c constraints.txt "setuptools>=77" Cython numpy
	$(PIP) install -c constraints.txt --no-build-isolation -e ".[all,torch,dev]"
	touch $@ $(VENV)/installed

clean:  ## what the build and the demo left
	rm -rf build demo-run $(VENV) lapsvm/_ext/*.so *.egg-info
