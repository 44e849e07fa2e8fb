# `make run` and `make test` set up all they need in .venv, from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNEL := gemm_sm90_bf16_bf16_f32_bf16_tn_64x32x128_lean_coop_swap
# Tests run in a process for each core, at most eight, with one thread each; those that need a GPU run in one.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 8 ? cores : 8)))
# The build backend comes from an isolated environment, which has constraints of its own.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet
GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi --list-gpus 2>/dev/null | grep -c GPU)

.PHONY: help run test docs lint format lines clean

help:
	@echo "make run     generate, check, build one kernel, and run it where there is a GPU"
	@echo "make test    lint, types and all tests (GPU tests skip without a GPU)"
	@echo "make docs    the site, into build/site; fails on a link that leads nowhere"
	@echo "make lint    ruff, mypy, clang-format"
	@echo "make format  ruff and clang-format, in place"
	@echo "make lines   lines of host code by package, family and importer, beside an earlier revision"

# The real specs, end to end. torch is installed only where there is a GPU to run on.
run: $(VENV)/.run
	$(BIN)/tilewright generate
	$(BIN)/tilewright check
	$(BIN)/tilewright build sm90_gemm_lean --filter $(KERNEL)
	@if [ -n "$(GPU)" ] && [ "$(GPU)" != 0 ]; then $(PIP) --editable '.[torch]' && \
	  $(BIN)/tilewright run gemm -m 32 -n 5120 -k 4096 --dtype bf16 --kernel $(KERNEL); \
	else echo "no NVIDIA GPU here: built, not run"; fi

test: $(VENV)/.test lint
	$(BIN)/tilewright check
	$(BIN)/python -m pytest tests/gpu
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --ignore tests/gpu

# Not --quiet, which hides warnings from --strict. 2.0 of mkdocs, of which it warns, pyproject.toml excludes.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files '*.hpp' '*.h' '*.cu' ':!generated' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.hpp' '*.h' '*.cu' ':!generated' | xargs $(BIN)/clang-format -i

lines: $(VENV)/.run
	$(BIN)/python -m benchmarks.host.host_lines

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("$(PYTHON) is Python %d.%d; Tilewright needs Python 3.10 or later (make PYTHON=...)" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[toolchain]'
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) --editable '.[toolchain,torch,report,ray,cutedsl,dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@
