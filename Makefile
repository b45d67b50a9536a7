# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# Of the files in pyproject.toml's tool.mutmut; of the builder only its key.
MUTANTS ?= autotuner.measure.* autotuner.system.cache.* autotuner.build.builder.*key* autotuner.build.builder.*object_hashes* \
           autotuner.system.digests.* autotuner.jobs.ab.* autotuner.carriers.* autotuner.system.names.* autotuner.problems.* \
           autotuner.specfiles.*
BIN := $(VENV)/bin
OLDEST := .venv-oldest
IREE_OLDEST := 3.12.0
TRITON_OLDEST := 3.6.0

.PHONY: help docs demo test test-long otherarch test-otherarch oldest test-oldest lint format mutants clean

help:
	@echo "make demo    install into $(VENV), tune one small GEMM on this machine's processor (two minutes)"
	@echo "make test    install into $(VENV) with the tools of development, run the tests"
	@echo "make test-long    run what it leaves out: whole runs of 5 to 30 seconds each, whose parts other tests hold"
	@echo "make test-otherarch  run what is compiled for the other architecture (aarch64 or x86_64) under QEMU; needs Debian's"
	@echo "             $$($(PYTHON) -m tests.otherarch.machine apt)"
	@echo "make test-oldest  install IREE $(IREE_OLDEST) and Triton $(TRITON_OLDEST) into $(OLDEST), run the tests that their versions may break"
	@echo "make docs    write docs/api.md from the docstrings"
	@echo "make lint    ruff, mypy --strict and the order of the rooms"
	@echo "make format  ruff format"
	@echo "make mutants change the code that decides what is right, bit by bit, and list the changes that no test sees (minutes)"
	@echo "make clean   remove $(VENV) and caches"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "autotune needs Python 3.11 or newer; set PYTHON=python3.12, say")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable .
	@touch $@

# All that .installed has, and more: once is enough. Python itself compiles what is imported: far less than pip would.
$(VENV)/.dev: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	@touch $(VENV)/.installed $@

demo: $(VENV)/.installed
	$(BIN)/autotune gemm --shape 256x256x512 --dtype f32 --budget 80s

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not long" --durations=15

# Whole runs whose parts the others hold.
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m long

otherarch: $(VENV)/.dev
	$(BIN)/python -m tests.otherarch.machine

test-otherarch: otherarch
	AUTOTUNE_TEST_OTHERARCH=1 $(BIN)/python -m pytest tests/otherarch

# All but these it takes from $(VENV): what comes first on Python's path counts.
$(OLDEST)/.installed: pyproject.toml Makefile $(VENV)/.dev
	$(PYTHON) -m venv --clear --without-pip $(OLDEST)
	$(BIN)/python -m pip --python $(OLDEST)/bin/python install --quiet --disable-pip-version-check --no-compile --no-deps \
	  iree-base-compiler==$(IREE_OLDEST) iree-base-runtime==$(IREE_OLDEST) triton==$(TRITON_OLDEST)
	packages='import sysconfig; print(sysconfig.get_path("purelib"))' && \
	  echo "import site; site.addsitedir('$$($(BIN)/python -c "$$packages")')" >"$$($(OLDEST)/bin/python -c "$$packages")/newest.pth"
	@touch $@

oldest: $(OLDEST)/.installed

# Also its programs under the bindings of the newest: a compiler of one's own is often of another version. A machine that stands
# still may use up a short budget: one try of three must do.
test-oldest: oldest
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m versions --durations=15
	scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && export AUTOTUNE_CACHE_DIR="$$scratch/cache" && \
	  gemm() { $(BIN)/autotune gemm --shape 64x64x64 --dtype f32 --trials 1 --effort quick --budget 15s \
	    --flag=--iree-opt-data-tiling=false --flag=--iree-llvmcpu-enable-ukernels=none --iree-tools $(OLDEST) --workspace "$$scratch"; } && \
	  { gemm || gemm || gemm; } && \
	  $(BIN)/autotune attention --shape 1x2x128x128x64 --target gfx942 --device none --trials 1 --iree-tools $(OLDEST) --workspace "$$scratch" && \
	  $(BIN)/autotune retune results/reference/h200 --target sm_80 --device none --iree-tools $(OLDEST) --workspace "$$scratch"

docs: $(VENV)/.dev
	$(BIN)/python -m tests.docs.api

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutants: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/mutmut run --max-children 2 $(foreach name,$(MUTANTS),'$(name)')
	$(BIN)/mutmut results

clean:
	rm -rf mutants $(VENV) $(OLDEST) .otherarch .mypy_cache .ruff_cache .pytest_cache .hypothesis
