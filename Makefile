# Everything that is done with this tree. `make` alone lists the targets. Nothing here needs root or a running service.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PREFIX ?= /usr/local
DESTDIR ?=
VENV ?= .venv
PLAN ?= quickstart

# The first interpreter that is new enough; looked for only when a recipe needs it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

BIN := $(VENV)/bin
DONE := $(VENV)/.done
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES = $(shell find crates counters python/src plans contract -type f -not -name '*.pyc' -not -path '*.egg-info/*' | LC_ALL=C sort) \
	Cargo.toml Cargo.lock pyproject.toml setup.py tools/build README.md
BENCH_SCRIPTS := $(shell grep -ls '^\#!.*python' bench/*/run bench/*/real bench/*/sensitivity)
BENCH_MODULES := $(wildcard bench/*/*.py)
BENCH_PACKAGES := $(patsubst %/__init__.py,%,$(wildcard bench/*/*/__init__.py))
PYTHON_CODE := python/src python/tests tests counters setup.py bench/table tools/again tools/attacks tools/audit tools/lock \
	tools/pictures \
	tools/site_hook.py tools/words \
	$(BENCH_SCRIPTS) $(BENCH_MODULES) $(BENCH_PACKAGES)

say = @printf '\033[1m%s\033[0m\n' '$(1)'
# The packages of one file of requirements/, each in the pinned version and with a known hash (tools/lock).
pinned = $(PIP) install --require-hashes --no-build-isolation --requirement requirements/$(1).txt

# Tests that only read the sources: part of `make lint`, so that they fail within a minute.
TREE_TESTS = tests/test_tree.py tests/test_rooms.py tests/test_words.py tests/test_docs.py
# Tests that mostly wait run beside each other, those of one file in turn.
PYTEST_WORKERS = --numprocesses auto --maxprocesses 4 --dist loadfile

.PHONY: help run build platforms test test-fast test-e2e test-platforms test-hypervisors test-fuzz test-faults test-attacks lint lock \
  fmt docs bench install clean need FORCE

help:
	@printf '%s\n' \
	  'make run                  build vtare, measure this machine, leave an HTML report' \
	  'make run PLAN=NAME|FILE   the same with another plan' \
	  'make install PREFIX=DIR   the static binary and the libraries with their headers into DIR (default /usr/local)' \
	  'make build                the wheel (build/wheels) and an installation of it in $(VENV)' \
	  'make platforms            the Python libraries of platforms: docker, ssh, cloud, esxi, qemu' \
	  'make test                 all checks and tests; test-fast, docs, test-e2e, test-platforms: its parts' \
	  'make test-platforms       real containers, guests and machines; what is not there is skipped with the reason' \
	  'make test-hypervisors     guests under real KVM and Xen inside an emulated machine; test-hypervisors-kvm, -xen: one' \
	  'make test-fuzz            every decoder with hostile bytes, FUZZ_SECONDS (240) for all of them together' \
	  'make test-faults         kills, full disks, limits and damage around stores; FAULT_SEED=N: other cases' \
	  'make test-attacks         every attack on the responder, stores, guests and remote hosts, as one table: 5 minutes' \
	  'make lint, make fmt       the checks without the tests; lay out all code' \
	  'make docs                 the documentation as a site (build/site), every link checked' \
	  'make lock [UPGRADE=1]     pin the Python packages, with hashes, after a change of pyproject.toml' \
	  'make bench [BENCH=NAME]   side-by-side measurements with peers, as ratios' \
	  'make clean                remove all that the other targets made'

need:
	@tools/need '$(PYTHON)'

# --- build: environment, dependencies, wheel, installation; each step leaves a mark and is not repeated ---

$(DONE)/venv:
	@tools/need '$(PYTHON)'
	$(call say,creating $(VENV))
	@$(PYTHON) -m venv --clear $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/dependencies: requirements/run.txt $(DONE)/venv
	$(call say,installing the Python packages that vtare needs)
	@$(call pinned,run)
	@touch $@

# The libraries of docker, qemu, ssh, cloud and esxi are no part of the lab itself, and are here too.
$(DONE)/dev: requirements/dev.txt $(DONE)/dependencies
	$(call say,installing the tools for tests and the libraries that platforms need)
	@$(call pinned,dev)
	@touch $@

# The list is a prerequisite of its own, so that a deleted file also makes a new wheel.
build/sources: FORCE
	@mkdir -p build
	@printf '%s\n' $(SOURCES) >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Cargo before pip, which would hide its progress.
build/wheel: build/sources $(SOURCES) $(DONE)/dependencies
	@tools/need '$(PYTHON)'
	$(call say,building the binary and the libraries: a few minutes the first time)
	@tools/build >/dev/null
	$(call say,building and installing the wheel)
	@rm -rf build/wheels
	@$(PIP) wheel --no-build-isolation --no-deps --no-cache-dir --wheel-dir build/wheels .
	@touch $@

$(DONE)/installed: build/wheel
	@$(PIP) install --force-reinstall --no-deps build/wheels/vtare-*.whl
	@touch $@

build: $(DONE)/installed

run: $(DONE)/installed
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/vtare run $(PLAN)

# --- checks ---

lint: $(DONE)/dev
	@mkdir -p build
	$(call say,format: Rust and Python)
	@cargo fmt --all --check
	@cargo fmt --all --check --manifest-path bench/Cargo.toml
	@$(BIN)/ruff format --check $(PYTHON_CODE)
	$(call say,ruff)
	@$(BIN)/ruff check $(PYTHON_CODE)
	$(call say,mypy --strict)
	@$(BIN)/mypy
	@for script in $(BENCH_SCRIPTS); do here="$${script%/*}"; \
	  MYPYPATH="$$here" $(BIN)/mypy --no-error-summary "$$script" $$(find "$$here" -mindepth 2 -name '*.py'); done
	@$(BIN)/mypy --no-error-summary $(BENCH_MODULES)
	@for script in bench/table tools/attacks tools/audit tools/lock tools/pictures tools/site_hook.py tools/words; do MYPYPATH=tests \
	  $(BIN)/mypy --no-error-summary "$$script"; done
	$(call say,spelling and words)
	@git ls-files -- '*.md' '*.py' '*.rs' '*.toml' '*.c' '*.h' '*.java' '*.j2' | xargs $(BIN)/codespell
	@$(BIN)/python tools/words
	$(call say,the tree: widths and rooms and words and pages)
	@$(BIN)/python -m pytest -q -m 'not e2e and not platform' $(TREE_TESTS)
	$(call say,directions of imports)
	@PYTHONPATH=python/src $(BIN)/lint-imports >build/imports.log 2>&1 || { cat build/imports.log; exit 1; }
	$(call say,clippy)
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	$(call say,clippy: the benchmarks)
	@cargo clippy --locked --manifest-path bench/Cargo.toml --workspace --all-targets -- -D warnings -A clippy::disallowed-methods
	$(call say,rustdoc: every public item is documented)
	@RUSTDOCFLAGS='-D warnings -D missing_docs' cargo doc --locked --workspace --no-deps --quiet
	$(call say,licences and sources and advisories of what is depended on)
	@$(BIN)/python tools/audit

# Newer versions: make lock UPGRADE=1.
lock: $(DONE)/venv
	@$(PIP) install uv
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/lock $(if $(UPGRADE),--upgrade)

fmt: $(DONE)/dev
	@cargo fmt --all
	@cargo fmt --all --manifest-path bench/Cargo.toml
	@$(BIN)/ruff format $(PYTHON_CODE)

# Properties are tried with the same cases on every machine; PROPTEST_RNG_SEED=N tries others, `make test-fuzz` new ones each time.
test-fast: lint
	$(call say,the oldest Rust that Cargo.toml states)
	@tools/oldest-rust
	$(call say,cargo test)
	@PROPTEST_RNG_SEED=$(or $(PROPTEST_RNG_SEED),20261121) tools/again cargo cargo test --locked --workspace --no-fail-fast
	$(call say,pytest: fast part)
	@tools/again pytest $(BIN)/python -m pytest -q $(PYTEST_WORKERS) -m 'not e2e and not platform' \
	  $(addprefix --ignore ,$(TREE_TESTS))

test-e2e: $(DONE)/dev $(DONE)/installed
	$(call say,pytest: end to end; the installed programs)
	@PATH="$(abspath $(BIN)):$$PATH" tools/again pytest $(BIN)/python -m pytest -q -m 'e2e and not platform'

$(DONE)/platforms: requirements/platforms.txt $(DONE)/dependencies
	$(call say,installing the libraries that platforms need)
	@$(call pinned,platforms)
	@touch $@

platforms: $(DONE)/platforms

# Compiled against this machine's libvirt. Looked for each time until it is there; without it the tests under libvirt
# skip with the reason.
$(DONE)/libvirt: requirements/libvirt.txt $(DONE)/dependencies
	@if pkg-config --exists libvirt 2>/dev/null; then \
	  if $(call pinned,libvirt); then touch $@; \
	  else echo 'skipped: the tests of guests under libvirt: its library for Python could not be installed'; fi; fi

# PYTEST_ARGS chooses: make test-platforms PYTEST_ARGS=tests/platforms/test_libvirt.py
test-platforms: $(DONE)/dev $(DONE)/libvirt $(DONE)/installed
	$(call say,pytest: real containers and guests and machines)
	@PATH="$(abspath $(BIN)):$$PATH" tools/again pytest $(BIN)/python -m pytest -q -m 'platform and not hypervisors' $(PYTEST_ARGS)

test: test-fast docs test-e2e test-platforms

test-hypervisors: $(DONE)/dev $(DONE)/installed
	$(call say,pytest: guests under real hypervisors inside an emulated machine: 2 to 10 minutes)
	@PATH="$(abspath $(BIN)):$$PATH" tools/again pytest $(BIN)/python -m pytest -q -m hypervisors

# One of them alone: test-hypervisors-kvm, test-hypervisors-xen.
test-hypervisors-%: $(DONE)/dev $(DONE)/installed
	$(call say,pytest: guests under real $* inside an emulated machine)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q -m hypervisors -k 'real_$*'

test-fuzz:
	$(call say,fuzzing)
	@tools/fuzz $(or $(FUZZ_SECONDS),240)

# Each is part of `make test`, too. A fault that loses a finished run, leaves a half-written file or hangs is a failure.
test-faults: $(DONE)/dev $(DONE)/installed
	$(call say,faults around stores)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q $(PYTEST_WORKERS) -m fault \
	  --hypothesis-seed=$(or $(FAULT_SEED),20261126) python/tests

test-attacks: $(DONE)/dev $(DONE)/installed
	$(call say,attacks)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/attacks

bench: $(DONE)/installed
	@for run in bench/$(or $(BENCH),*)/run; do \
	  printf '\033[1m%s\033[0m\n' "$$run"; \
	  PATH="$(abspath $(BIN)):$$PATH" "$$run"; \
	done

# --- documentation ---

$(DONE)/docs: requirements/docs.txt $(DONE)/dependencies
	$(call say,installing what builds the documentation)
	@$(call pinned,docs)
	@touch $@

# Everything that the pages need is in build/site: they fetch nothing from elsewhere.
docs: $(DONE)/docs
	$(call say,documentation)
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet
	@echo 'open build/site/index.html; for its search: $(BIN)/mkdocs serve'

# --- installation without Python ---

install:
	@command -v cargo >/dev/null || tools/need '$(PYTHON)'
	@mkdir -p '$(DESTDIR)$(PREFIX)/bin' 2>/dev/null && [ -w '$(DESTDIR)$(PREFIX)/bin' ] || { \
	  echo 'found that $(DESTDIR)$(PREFIX) cannot be written; expected a directory of yours:' \
	    'make install PREFIX=$$HOME/.local,' \
	    'or as root with your cargo: sudo env PATH="$$PATH" make install' >&2; exit 2; }
	@BUILT=$$(tools/build); \
	  install -D -m 755 "$$BUILT/vtare" '$(DESTDIR)$(PREFIX)/bin/vtare'; \
	  tools/install-libraries "$$BUILT" '$(DESTDIR)' '$(PREFIX)'; \
	  tools/install-pages "$$BUILT/vtare" '$(DESTDIR)$(PREFIX)/share'
	@echo 'installed vtare, its libraries and its man pages in $(DESTDIR)$(PREFIX)'

clean:
	rm -rf build dist target bench/target $(VENV) python/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find bench python tests -name __pycache__ -type d -prune -exec rm -rf {} +
