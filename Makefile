# Every target sets itself up: Python 3.11, pip and a network or a pip cache are enough.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCK := requirements-dev.lock
LOCK_VENV := build/lock

TARGETS ?= diff2_gd dp_gd diff2_gd_tight dp_gd_tight diff2_gd_network diff2_bvr_local_sgd accelerated_dp_srgd kl_spider
OUT ?= reports
WORKERS ?= 2
ARGS ?=

CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
# Tests that start a browser, the proof kernel, or an environment of their own.
ENGINES := packaging or coq$(if $(CHROMIUM), or browser)

# Workers are processes; more threads inside each only get in one another's way.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: certify certify-all docs proofs experiments experiments-time test test-engines test-research quality quality-forged quality-trees bench bench-account bench-audit bench-bugs bench-membership evidence membership-reports mutants changelog corpus lint lock clean help

$(READY): pyproject.toml $(LOCK)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Seeded and dated, so that the committed reports come out again byte for byte; a release has no seed.
certify: export SOURCE_DATE_EPOCH ?= 1795219200
certify: $(READY)  ## certify TARGETS into OUT (reports)
	$(BIN)/dpaudit certify $(TARGETS) --seed 1 --uncovered --jobs $(WORKERS) --out $(OUT) $(ARGS)

certify-all: export SOURCE_DATE_EPOCH ?= 1795219200
certify-all: OUT := reports/catalogue
certify-all: $(READY)  ## certify every mechanism of the catalogue into OUT (reports/catalogue); resumes
	$(BIN)/dpaudit certify --all --seed 1 --uncovered --jobs $(WORKERS) --out $(OUT) $(ARGS)

experiments: $(READY)  ## the utility experiments, tables, plots and papers' pages into experiments/results (an hour of two cores; resumes)
	$(BIN)/python -m experiments run --all --jobs $(WORKERS) --out experiments/results $(ARGS)

experiments-time: $(READY)  ## what the experiments take, and what is left of them; runs nothing
	$(BIN)/python -m experiments time --out experiments/results $(ARGS)

# Commands in processes of their own would compile every module anew; a file is one worker's, so that
# what its tests share is made once; in this order those that fork come before those that start threads.
test test-engines test-research quality: export PYTHONDONTWRITEBYTECODE :=

# Files of the folders "quality" are not even imported.
PARTS := tests/catalogue tests/library --ignore-glob="tests/*/quality/*"

test: $(READY)  ## the tests of library and catalogue, one case of each kind (ARGS goes to pytest)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not quality and not packaging and not coq and not browser" $(or $(ARGS),$(PARTS))

test-engines: $(READY)  ## pages in Chromium, certificates in Coq, the wheel in environments of its own; imports the quality tests
	@echo "$(if $(CHROMIUM),browser tests use $(CHROMIUM),no Chromium found: browser tests are left out)"
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not quality and ($(ENGINES))" $(or $(ARGS),tests/library/browser tests/library/packaging tests/library/unit/test_proofs.py tests/library/quality tests/catalogue/quality)

test-research: $(READY)  ## the tests of the experiments (ARGS goes to pytest)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not quality" $(or $(ARGS),tests/research)

# Single tests take minutes: an idle worker takes over what another has not begun.
quality: $(READY)  ## power and coverage of the audits, the long tests, 10^5 forged declarations (two hours)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m quality $(ARGS)
	$(if $(ARGS),,DPAUDIT_WHOLE_WORK=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal)
	$(MAKE) quality-forged

quality-forged: $(READY)  ## 10^5 forged declarations, accountant and checker against an oracle (an hour; resumable)
	$(BIN)/python -m tests.support.tree_blocks --kind forged --jobs $(WORKERS)

quality-trees: export DPAUDIT_TREES ?= 100000
quality-trees: $(READY)  ## 10^5 random declarations, upper bounds against lower ones (an hour; resumable)
	$(BIN)/python -m tests.support.tree_blocks --jobs $(WORKERS) $(ARGS)

bench: $(READY)  ## time the audits, clipped gradients, the adaptive filter, a million users and rows
	$(BIN)/python -m benchmarks.audit $(ARGS)
	$(BIN)/python -m benchmarks.diff2
	$(BIN)/python -m benchmarks.kl
	$(BIN)/python -m benchmarks.user_level
	$(BIN)/python -m benchmarks.million

PROOFS := Laws Composition Normal Nodes Theorems Tactics Balls Stable Losses Sampled Finite

# Coq 8.16 with its Interval library: apt-get install coq libcoq-interval.
proofs: $(READY)  ## let Coq read the library of proofs, and what an exported certificate adds to it
	mkdir -p build/proofs && cp dpaudit/proofs/*.v build/proofs
	cd build/proofs && for f in $(PROOFS); do coqc -w -ambiguous-paths -Q . DPAudit $$f.v || exit 1; done
	$(BIN)/python -m pytest -n 0 $(or $(ARGS),tests/library/unit/test_proofs.py)

docs: $(READY)  ## the site into build/site: pages, tutorials, every public name; strict
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(READY)  ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench-bugs: $(READY)  ## docs/bugs.md: which tools find which bugs, under one protocol (ten minutes; resumes)
	$(BIN)/python -m benchmarks.bugs $(ARGS)

PRV := build/prv
PEERS := build/peers
bench-account: $(READY)  ## the accountant beside dp-accounting, prv_accountant, jax-privacy, autodp and PLD_accounting
	test -x $(PRV)/bin/python || { $(PYTHON) -m venv $(PRV) && $(PRV)/bin/python -m pip install --quiet prv_accountant==0.2.0; }
	test -x $(PEERS)/bin/python || { $(PYTHON) -m venv $(PEERS) && $(PEERS)/bin/python -m pip install --quiet jax-privacy==2.0.0 autodp==0.2.3.1 PLD_accounting==2.0 numba; }
	$(BIN)/python -m benchmarks.account --prv $(PRV)/bin/python --peers $(PEERS)/bin/python $(ARGS)

bench-audit: $(READY)  ## bounds and detection beside jax-privacy and privacy-estimates
	$(BIN)/python -m benchmarks.bounds $(ARGS)
	$(BIN)/python -m benchmarks.arithmetic

bench-membership: $(READY)  ## membership audits beside Privacy Meter: time and TPR at equal models
	$(BIN)/python -m benchmarks.membership $(ARGS)

evidence: $(READY)  ## docs/evidence.md: what it does not hold yet is measured (hours for all; resumes; ARGS="SECTION --again")
	$(BIN)/python -m benchmarks.evidence $(ARGS)

membership-reports: $(READY)  ## membership audits of real training into reports/membership; resumes
	$(BIN)/python -m benchmarks.membership_runs $(ARGS)

COSMIC_RAY := build/cosmic-ray
mutants: $(READY)  ## what the tests notice: 500 mutants of this repository (resumes)
	test -d $(COSMIC_RAY) || $(BIN)/python -m pip install --quiet --target $(COSMIC_RAY) cosmic-ray==8.7.0
	$(BIN)/python -m tests.support.mutants run $(ARGS)
	$(BIN)/python -m tests.support.mutants survivors $(ARGS)

corpus: $(READY)  ## the corpus of certified intervals, and the page of rules, anew
	$(BIN)/python -m tools corpus --out tools/corpus/corpus.jsonl
	$(BIN)/python -m tools rules --markdown > docs/rules.md

changelog: $(READY)  ## sentences of changelog.d into CHANGELOG.md, for VERSION
	test -n "$(VERSION)" || { echo "which version? make changelog VERSION=0.2.0" >&2; exit 2; }
	$(BIN)/python -m towncrier build --yes --version $(VERSION)

lock:  ## resolve pyproject.toml anew into requirements-dev.lock, with the digests of all files
	rm -rf $(LOCK_VENV)
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip install --quiet uv==0.13.9
	{ sed -n '/^#/p' $(LOCK); $(LOCK_VENV)/bin/uv pip compile --quiet --generate-hashes --no-annotate --no-header --no-strip-extras --python $(LOCK_VENV)/bin/python --extra dev pyproject.toml; } > $(LOCK).new
	mv $(LOCK).new $(LOCK)
	rm -rf $(LOCK_VENV)

clean:  ## remove the environment, caches and builds (reports stay)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
