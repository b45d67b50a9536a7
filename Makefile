# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# Of the files in pyproject.toml's tool.mutmut; of the builder only its key.
MUTANTS ?= autotuner.measure.* autotuner.system.cache.* autotuner.build.builder.*key* autotuner.build.builder.*object_hashes* \
           autotuner.system.digests.* autotuner.jobs.ab.* autotuner.carriers.* autotuner.system.workspace.* autotuner.problems.* \
           autotuner.specfiles.*
# For each parser, in `make fuzz`.
CASES ?= 10000
# More words for pip-audit, in `make audit`: `-s osv`, say.
AUDIT ?=
BIN := $(VENV)/bin

.PHONY: help docs site demo test test-long fuzz bounds audit sbom otherarch test-otherarch lint format mutants clean

help:
	@echo "make demo    install into $(VENV), tune one small GEMM on this machine's processor (two minutes)"
	@echo "make test    install into $(VENV) with the tools of development, run the tests"
	@echo "make test-long    run what it leaves out: whole runs of 5 to 30 seconds each, whose parts other tests hold"
	@echo "make fuzz    give every parser of others' files $(CASES) mangled ones (CASES=…; half an hour)"
	@echo "make bounds  install the oldest and the newest dependencies that pyproject.toml allows, and tune a GEMM with each"
	@echo "make audit   look up the dependencies of $(VENV) in the databases of known weaknesses"
	@echo "make sbom    write what a release consists of to sbom.json (CycloneDX)"
	@echo "make test-otherarch  run what is compiled for the other architecture (aarch64 or x86_64) under QEMU; needs Debian's"
	@echo "             $$($(PYTHON) -m tests.otherarch.machine apt)"
	@echo "make docs    write docs/api.md from the docstrings"
	@echo "make site    build the pages of docs/ into site/ with mkdocs; a dead link is an error"
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

fuzz: $(VENV)/.dev
	AUTOTUNE_FUZZ=$(CASES) $(BIN)/python -m pytest -n 2 tests/fuzz

bounds: $(BIN)/python
	$(BIN)/python -m pip install --quiet uv
	rm -rf .bounds
	set -e; for how in lowest-direct highest; do \
	  $(BIN)/uv venv --quiet --python $(BIN)/python .bounds/$$how; \
	  $(BIN)/uv pip install --quiet --python .bounds/$$how/bin/python --resolution $$how .; \
	  (cd .bounds/$$how; for words in doctor "gemm --shape 64x64x64 --dtype f32 --budget 20s" "export --csv" report; do \
	    bin/autotune $$words >/dev/null; done); \
	  echo "$$how: it works"; done

# pip-audit takes autotune itself, which is on no index, for what cannot be audited: it is given the dependencies alone.
audit: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet pip-audit
	@$(BIN)/python -m pip list --format=freeze --exclude-editable | \
	  $(BIN)/pip-audit --strict --disable-pip --no-deps --requirement /dev/stdin $(AUDIT) 2>.audit && tail -n 1 .audit || { \
	  grep -q "could not be audited\|ConnectionError\|ServiceError" .audit || { cat .audit; exit 1; }; \
	  echo "make audit: nothing is known: a database of weaknesses does not answer (.audit). Run it where the index of Python packages does."; exit 1; }

sbom: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet uv cyclonedx-bom
	rm -rf .bounds/sbom
	$(BIN)/uv venv --quiet --python $(BIN)/python .bounds/sbom
	$(BIN)/uv pip install --quiet --python .bounds/sbom/bin/python .
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-file sbom.json .bounds/sbom/bin/python

otherarch: $(VENV)/.dev
	$(BIN)/python -m tests.otherarch.machine

test-otherarch: otherarch
	AUTOTUNE_TEST_OTHERARCH=1 $(BIN)/python -m pytest tests/otherarch

docs: $(VENV)/.dev
	$(BIN)/python -m tests.docs.api

$(VENV)/.docs: pyproject.toml $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[docs]'
	@touch $@

site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

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
	rm -rf mutants site sbom.json .bounds .audit .import_linter_cache $(VENV) .otherarch .mypy_cache .ruff_cache .pytest_cache .hypothesis
