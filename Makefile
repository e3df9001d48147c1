# `make demo` and `make test` need nothing but Python 3.11-3.13 with pip, and a package index. Each makes its own virtual
# environment; a set-up that failed half-way is started again from nothing.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1 && { echo $$p; break; }; done)
TORCH := torch==2.13.0
SOURCES := ren_core/src ren_backend_cpu/src ren_backend_cuda/src ren_frontend_torch/src ren_passes/src
MANIFESTS := pyproject.toml constraints.txt
PIP_OPTIONS := --quiet --disable-pip-version-check --no-input
LINT := .venv-test/bin/ruff check --output-format concise .
TYPES := .venv-test/bin/mypy $(SOURCES)
# Two worker processes use two cores; library threads inside each would only wait for one another.
PYTEST := OMP_NUM_THREADS=1 .venv-test/bin/python -m pytest -n 2 --durations=10

# A benchmark that moves between cores measures the move.
PINNED := $(shell command -v taskset >/dev/null 2>&1 && echo taskset -c 0)

.PHONY: help demo demo-torch test test-full lint types bench clean
.DELETE_ON_ERROR:

help:
	@echo "make demo        first encrypted results, in a fresh environment without PyTorch"
	@echo "make demo-torch  trace, inspect and run a PyTorch function"
	@echo "make test        linters, types and tests (at most 12 minutes on two cores)"
	@echo "make test-full   and the long ones"
	@echo "make bench       timings on this machine"

demo: .venv-demo/ready
	.venv-demo/bin/python docs/examples/first_demo.py

demo-torch: .venv-torch/ready
	.venv-torch/bin/python docs/examples/trace_matvec.py

# All three run even if one fails, so that one run tells everything.
test: .venv-test/ready
	@status=0; $(LINT) || status=1; $(TYPES) || status=1; $(PYTEST) -m "not full" || status=1; exit $$status

test-full: .venv-test/ready
	@status=0; $(LINT) || status=1; $(TYPES) || status=1; $(PYTEST) || status=1; exit $$status

lint: .venv-test/ready
	$(LINT)

types: .venv-test/ready
	$(TYPES)

bench: .venv-bench/ready
	$(PINNED) .venv-bench/bin/python tests/bench/import_time.py
	OMP_NUM_THREADS=1 $(PINNED) .venv-bench/bin/python tests/bench/side_by_side.py --set A --out .bench-results
	.venv-bench/bin/python tests/bench/side_by_side.py --set A --memory --out .bench-results
	.venv-bench/bin/python tests/bench/report.py .bench-results

clean:
	rm -rf .venv-demo .venv-torch .venv-test .venv-bench .bench-results

.venv-%/ready: $(MANIFESTS)
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 with pip was found; set PYTHON=/path/to/python"; exit 1; }
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(INSTALL)
	touch $@

.venv-demo/ready: INSTALL = $(@D)/bin/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e .
# PyTorch first and pinned: resolved along with the rest, it could become a GPU build of several gigabytes.
.venv-torch/ready: INSTALL = $(@D)/bin/python -m pip install $(PIP_OPTIONS) $(TORCH) && $(@D)/bin/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e ".[torch]"
.venv-test/ready: INSTALL = $(@D)/bin/python -m pip install $(PIP_OPTIONS) $(TORCH) && $(@D)/bin/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e ".[torch,test]"
.venv-bench/ready: INSTALL = $(@D)/bin/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e ".[bench]"
