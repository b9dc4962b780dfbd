# Everything that is done with this tree. `make` alone lists the targets. Nothing here needs root or a running service.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

# For everybody as root, else for this user.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
DESTDIR ?=
VENV ?= .venv
PLAN ?= quickstart
# Tests start the lab some hundred times from the sources; without kept bytecode each start compiles them.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; looked for only when a recipe needs it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

BIN := $(VENV)/bin
DONE := $(VENV)/.done
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES = $(shell find crates python/src -type f -not -name '*.pyc' \
	  -not -path '*.egg-info/*' -not -path '*/fuzz/*' | LC_ALL=C sort) \
	Cargo.toml Cargo.lock pyproject.toml tools/build tools/wheel.py tools/schemas README.md
BENCH_SCRIPTS := $(shell grep -ls '^\#!.*python' bench/*/run bench/*/real bench/*/sensitivity) \
  bench/avb/dataset bench/avb/example
BENCH_MODULES := $(wildcard bench/*.py bench/*/*.py)
BENCH_PACKAGES := $(patsubst %/__init__.py,%,$(wildcard bench/*/*/__init__.py))
SCRIPTS := $(BENCH_SCRIPTS) bench/table tools/again tools/attacks tools/audit tools/dist tools/levels \
	tools/pictures tools/reference.py tools/runs tools/schemas tools/site_hook.py
PYTHON_CODE := python/src python/tests tests crates/vtare/counters tools/wheel.py \
  $(SCRIPTS) $(BENCH_MODULES) $(BENCH_PACKAGES)

# Each step with the time of day: where the time of a long run went can be read from its log.
say = @printf '\033[1m%(%T)T %s\033[0m\n' -1 '$(1)'
# The packages of one file of python/requirements/, each in the pinned version and with a known hash (tools/lock).
pinned = $(PIP) install --require-hashes --no-build-isolation --requirement python/requirements/$(1).txt

# Tests that only read the sources: part of `make lint`, so that they fail within a minute.
TREE_TESTS = tests/test_tree.py tests/test_rooms.py tests/test_docs.py
# Tests run beside each other, those of one file mostly in turn; tests/conftest.py holds apart what must be `alone`.
PYTEST_WORKERS = --numprocesses auto --maxprocesses 4 --dist worksteal
# Now and then other work disturbs a test that measures real time: it is repeated, and listed (RERUN).
PYTEST_AGAIN = --reruns 2 -rR
# All tests of the installed programs are here: the others need not be imported.
INSTALLED = --override-ini testpaths=tests
PROGRAMS = build/programs
# Settings of the one who runs the tests are none of theirs (tests/hermetic.py does the same for those in Python).
SEALED = env $(addprefix -u ,VTARE_KEY VTARE_EXEC VTARE_PRELOAD VTARE_BINARY VTARE_CLOCK_START) -u NO_COLOR \
  -u CLICOLOR_FORCE LC_ALL=C.UTF-8 TZ=UTC
BUILT = $(abspath $(or $(CARGO_TARGET_DIR),target))/debug

# `make test` has a thread from every room; what takes long and repeats a kind is in `make test-rest`. Both together are
# `make test-all`. docs/internals/testing.md lists what is where. The tests in Python take what those in Rust and those
# of commands leave of the CPUs, once the parts before them have installed what they need.
TEST_PARTS = lint-python docs +test-python test-rust test-commands
# The tests of commands, containers and guests mostly wait: the others run beside them, with the CPU time that they
# leave; BESIDE names more such targets.
REST_PARTS = audit rest-ready $(addprefix +,$(BESIDE)) +test-python-rest +lint-rust +oldest-rust \
  test-rust-rest test-e2e test-platforms

.PHONY: help run build platforms s3-server kubernetes test test-rest test-all $(TEST_PARTS:+%=%) $(REST_PARTS:+%=%) \
  programs test-hypervisors fuzz-ready test-fuzz test-miri test-sanitizers test-faults test-attacks \
  test-release lint measured lock fmt bench install uninstall dist from-nothing clean need FORCE

help:
	@printf '%s\n' \
	  'make run                  build vtare, measure this machine, leave an HTML report' \
	  'make run PLAN=NAME|FILE   the same with another plan; WHEEL=FILE: vtare from a release, no compiler' \
	  'make install              vtare, its libraries and the lab into PREFIX (~/.local; as root /usr/local)' \
	  'make uninstall            removes them' \
	  'make build                the wheel (build/wheels) and an installation of it in $(VENV)' \
	  'make platforms            the Python libraries of platforms: docker, ssh, cloud, esxi, qemu' \
	  'make test                 the tests of every part, within 15 minutes; $(TEST_PARTS:+%=%)' \
	  'make test-all             those and all others; $(REST_PARTS:+%=%)' \
	  'make test-platforms       real containers, guests and machines; what is not there is skipped with the reason' \
	  'make test-hypervisors     guests under real KVM and Xen inside an emulated machine; test-hypervisors-kvm, -xen: one' \
	  'make test-fuzz            every decoder with hostile bytes, FUZZ_SECONDS (240) for all of them together' \
	  'make test-miri            the crates with unsafe code under Miri; test-sanitizers: of addresses and threads' \
	  'make test-faults          kills, full disks, limits and damage around stores; FAULTS=N: N drawn by FAULT_SEED' \
	  'make test-release         a release: built, from a bare Debian to a report, on aarch64: 10 minutes' \
	  'make test-attacks         every attack on the responder, stores, guests and remote hosts, as one table: 5 minutes' \
	  'make lint, make fmt       the checks without the tests; lay out all code' \
	  'make docs                 the documentation as a site (build/site), every link checked' \
	  'make lock [UPGRADE=1]     pin the Python packages, with hashes, after a change of pyproject.toml' \
	  'make bench [BENCH=NAME]   side-by-side measurements with peers, as ratios; WRITE=1 keeps them in RESULTS.md' \
	  'make measured [PLANS=...] the reduced campaigns of the papers and their pages: 90 minutes' \
	  'make dist [SIGN_KEY=FILE]  a release in dist/: wheel, static binaries, Debian package, checksums; TWICE=1' \
	  'make clean                remove all that the other targets made'

need:
	@tools/need '$(PYTHON)'

# --- build: environment, dependencies, wheel, installation; each step leaves a mark and is not repeated ---

$(DONE)/venv:
	@tools/need '$(PYTHON)' $(if $(WHEEL),wheel)
	$(call say,creating $(VENV))
	@$(PYTHON) -m venv --clear $(VENV)
	@# Python 3.11 puts it there; nothing of the lab imports it.
	@$(PIP) uninstall --yes setuptools 2>/dev/null
	@mkdir -p $(DONE) && touch $@

$(DONE)/dependencies: python/requirements/run.txt $(DONE)/venv
	$(call say,installing the Python packages that vtare needs)
	@$(call pinned,run)
	@touch $@

# In an environment of its own: what draws charts weighs 84 MB, and the lab needs none of it once it is built.
$(DONE)/building: python/requirements/build.txt $(DONE)/venv
	@$(PYTHON) -m venv --clear $(VENV)/build
	@$(VENV)/build/bin/pip install --quiet --disable-pip-version-check --require-hashes \
	  --requirement python/requirements/build.txt
	@touch $@

# The libraries of docker, qemu, ssh, cloud and esxi are no part of the lab itself, and are here too.
$(DONE)/dev: python/requirements/dev.txt python/requirements/platforms.txt $(DONE)/dependencies
	$(call say,installing the tools for tests and the libraries that platforms need)
	@$(call pinned,dev)
	@# The script of the charts takes longer to make than a small report: once for all tests.
	@$(BIN)/python -c 'import runpy; made = runpy.run_path("python/src/vtare/report/bundle.py"); \
	  made["BUILT"].write_text(made["make_bundle"](), encoding="utf-8")'
	@touch $@

# The list is a prerequisite of its own, so that a deleted file also makes a new wheel.
build/sources: FORCE
	@mkdir -p build
	@printf '%s\n' $(SOURCES) >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Cargo before pip, which would hide its progress.
build/wheel: build/sources $(SOURCES) $(DONE)/building
	@tools/need '$(PYTHON)'
	$(call say,building the binary and the libraries: a few minutes the first time)
	@tools/build >/dev/null
	$(call say,building and installing the wheel)
	@rm -rf build/wheels
	@$(VENV)/build/bin/pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-cache-dir \
	  --wheel-dir build/wheels .
	@touch $@

# From a release (WHEEL=FILE) nothing is compiled.
$(DONE)/installed: $(DONE)/dependencies $(or $(WHEEL),build/wheel)
	@$(PIP) install --force-reinstall --no-deps $(or $(WHEEL),build/wheels/vtare-*.whl)
	@du -sm --exclude=__pycache__ --exclude=pip $(VENV)/lib | { read -r size _; echo "the environment holds $$size MB"; }
	@touch $@

build: $(DONE)/installed

run: $(DONE)/installed
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/vtare run $(PLAN)
	@echo 'to use vtare from here: export PATH="$(abspath $(BIN)):$$PATH", or make install'

# --- checks ---

test:
	@tools/parts $(TEST_PARTS)

test-rest:
	@tools/parts $(REST_PARTS)

test-all:
	@tools/parts $(TEST_PARTS) $(REST_PARTS)

lint:
	@tools/parts lint-python lint-rust oldest-rust audit

lint-python: $(DONE)/dev
	@mkdir -p build
	$(call say,format and ruff)
	@cargo fmt --all --check
	@cargo fmt --all --check --manifest-path bench/Cargo.toml
	@$(BIN)/ruff format --check $(PYTHON_CODE)
	@$(BIN)/ruff check $(PYTHON_CODE)
	$(call say,mypy --strict)
	@$(BIN)/mypy
	@rm -rf build/scripts && mkdir -p build/scripts
	@for script in $(SCRIPTS); do name="$${script//\//_}"; ln -s "../../$$script" "build/scripts/$${name%.py}.py"; done
	@MYPYPATH="$$(printf '%s:' bench bench/*/)tests" $(BIN)/mypy --no-error-summary build/scripts/*.py $(BENCH_MODULES) \
	  $(BENCH_PACKAGES)
	$(call say,spelling and words)
	@git ls-files -- '*.md' '*.py' '*.rs' '*.toml' '*.c' '*.h' '*.java' '*.j2' | \
	  xargs $(BIN)/codespell -D - -D tools/words.txt
	@git ls-files -- 'docs/*.md' README.md CHANGELOG.md bench/README.md | \
	  xargs $(BIN)/proselint check --config tools/proselint.json
	$(call say,the tree: widths and rooms and words and pages)
	@$(BIN)/python -m pytest -q -m 'not e2e and not platform' $(TREE_TESTS)
	$(call say,directions of imports)
	@PYTHONPATH=python/src $(BIN)/lint-imports >build/imports.log 2>&1 || { cat build/imports.log; exit 1; }

audit: $(DONE)/dev
	$(call say,licences and sources and advisories of what is depended on)
	@$(BIN)/python tools/audit

# The benchmarks share what is compiled of the crates of others.
lint-rust:
	$(call say,clippy)
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	$(call say,clippy: the benchmarks)
	@cargo clippy --locked --manifest-path bench/Cargo.toml --target-dir "$${CARGO_TARGET_DIR:-target}" \
	  --workspace --all-targets -- -D warnings -A clippy::disallowed-methods
	$(call say,the fuzz targets)
	@cargo check --locked --manifest-path crates/vtare/fuzz/Cargo.toml --target-dir "$${CARGO_TARGET_DIR:-target}" --quiet
	$(call say,rustdoc: every public item is documented)
	@RUSTDOCFLAGS='-D warnings -D missing_docs' cargo doc --locked --workspace --no-deps --quiet

oldest-rust:
	$(call say,the oldest Rust that Cargo.toml states)
	@tools/oldest-rust

# Newer versions: make lock UPGRADE=1.
lock: $(DONE)/venv
	@$(PIP) install uv
	@PATH="$(abspath $(BIN)):$$PATH" tools/lock $(if $(UPGRADE),--upgrade)

fmt: $(DONE)/dev
	@cargo fmt --all
	@cargo fmt --all --manifest-path bench/Cargo.toml
	@$(BIN)/ruff format $(PYTHON_CODE)

# The programs and libraries as the tests compile them, laid out as `make install` does.
programs: $(DONE)/dev
	$(call say,compiling the programs and their tests)
	@cargo test --locked --workspace --no-run --quiet
	@cargo build --locked --quiet --lib --package vtare-capi --package vtare-preload --package vtare
	@tools/install-libraries $(BUILT) '' $(abspath $(PROGRAMS))
	@mkdir -p $(PROGRAMS)/bin && ln -sf $(BUILT)/vtare $(BUILT)/vtare-rpm $(PROGRAMS)/bin
	@printf '%s\n' '#!$(abspath $(BIN))/python' 'import os, sys' 'sys.path.insert(0, "$(abspath python/src)")' \
	  'os.environ["PYTHONPATH"] = sys.path[0]' 'os.environ.setdefault("VTARE_BINARY", "$(BUILT)/vtare")' \
	  'from vtare.start import main' 'if __name__ == "__main__": sys.exit(main())' >$(PROGRAMS)/bin/vtare-lab
	@chmod +x $(PROGRAMS)/bin/vtare-lab

# Properties are tried with the same cases on every machine; PROPTEST_RNG_SEED=N tries others, `make test-fuzz` new ones
# each time.
test-rust test-rust-rest: export PROPTEST_RNG_SEED := $(or $(PROPTEST_RNG_SEED),20261121)
test-rust: programs
	$(call say,cargo test)
	@$(SEALED) tools/again cargo test --locked --workspace --no-fail-fast --lib --bins --tests

test-rust-rest: programs
	$(call say,cargo test: what takes long and the examples of the documentation)
	@$(SEALED) tools/again cargo test --locked --workspace --no-fail-fast --lib --bins --tests \
	  -- --ignored --skip benchmark_
	@VTARE_FUZZ_CASES=3000 $(SEALED) cargo test --locked --workspace --quiet --test it fuzz::
	@$(SEALED) cargo test --locked --workspace --quiet --doc

test-python: $(DONE)/dev
	$(call say,pytest: no program but the tests runs)
	@$(BIN)/python -m pytest -q $(PYTEST_AGAIN) $(PYTEST_WORKERS) -m 'not e2e and not platform and not thorough' \
	  $(addprefix --ignore ,$(TREE_TESTS))

test-python-rest: $(DONE)/dev
	$(call say,pytest: what takes long and the properties with many new cases)
	@$(BIN)/python -m pytest -q $(PYTEST_AGAIN) $(PYTEST_WORKERS) --hypothesis-profile=thorough \
	  -m '(thorough or hypothesis) and not e2e and not platform'

test-commands: programs
	$(call say,pytest: each command as a process)
	@PATH="$(abspath $(PROGRAMS))/bin:$$PATH" VTARE_TEST_PREFIX=$(abspath $(PROGRAMS)) \
	  $(BIN)/python -m pytest -q $(PYTEST_AGAIN) $(INSTALLED) $(PYTEST_WORKERS) -m 'e2e and not platform and not thorough'

# What no part that runs beside another may install.
rest-ready: $(DONE)/dev $(DONE)/s3-server $(DONE)/kubernetes $(DONE)/libvirt $(DONE)/installed

test-e2e: $(DONE)/dev $(DONE)/s3-server $(DONE)/kubernetes $(DONE)/installed
	$(call say,pytest: what test-commands leaves out; the installed programs)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q $(PYTEST_AGAIN) $(INSTALLED) $(PYTEST_WORKERS) \
	  -m 'e2e and not platform and thorough'

$(DONE)/platforms: python/requirements/platforms.txt $(DONE)/dependencies
	$(call say,installing the libraries that platforms need)
	@$(call pinned,platforms)
	@touch $@

platforms: $(DONE)/platforms

# For tests/test_s3.py and tests/test_kubernetes.py, which are skipped without them.
s3-server: $(DONE)/s3-server
kubernetes: $(DONE)/kubernetes

$(DONE)/s3-server $(DONE)/kubernetes: $(DONE)/%: python/requirements/%.txt $(DONE)/venv
	$(call say,installing $* for tests into an environment of its own)
	@$(PYTHON) -m venv --clear $(VENV)/$*
	@$(VENV)/$*/bin/pip install --quiet --require-hashes --requirement python/requirements/$*.txt
	@touch $@

# Compiled against this machine's libvirt. Looked for each time until it is there; without it the tests under libvirt
# skip with the reason.
$(DONE)/libvirt: python/requirements/libvirt.txt python/requirements/libvirt-build.txt $(DONE)/dependencies
	@if pkg-config --exists libvirt 2>/dev/null; then \
	  if $(call pinned,libvirt-build) && $(call pinned,libvirt); then touch $@; \
	  else echo 'skipped: the tests of guests under libvirt: its library for Python could not be installed'; fi; fi

# PYTEST_ARGS chooses: make test-platforms PYTEST_ARGS=tests/platforms/test_libvirt.py
test-platforms: $(DONE)/dev $(DONE)/libvirt $(DONE)/installed
	$(call say,pytest: real containers and guests and machines)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q $(PYTEST_AGAIN) $(INSTALLED) \
	  -m 'platform and not hypervisors' $(PYTEST_ARGS)

test-hypervisors: $(DONE)/dev $(DONE)/installed
	$(call say,pytest: guests under real hypervisors inside an emulated machine: 2 to 10 minutes)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q $(PYTEST_AGAIN) $(INSTALLED) -m hypervisors

# One of them alone: test-hypervisors-kvm, test-hypervisors-xen, test-hypervisors-virtualbox (docs/internals/guests.md).
test-hypervisors-%: $(DONE)/dev $(DONE)/installed
	$(call say,pytest: guests under real $* inside an emulated machine)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q $(INSTALLED) -m hypervisors -k 'real_$*'

fuzz-ready:
	@tools/fuzz install >/dev/null 2>&1 || echo 'skipped: cargo-fuzz: it or its nightly toolchain could not be installed'

test-fuzz:
	$(call say,fuzzing)
	@tools/fuzz $(or $(FUZZ_SECONDS),240)

test-miri:
	$(call say,Miri)
	@tools/sanitizers miri

test-sanitizers:
	$(call say,AddressSanitizer and ThreadSanitizer)
	@tools/sanitizers address
	@tools/sanitizers thread

# Each is part of `make test-all`, too. A fault that loses a finished run, leaves a half-written file or hangs is a
# failure.
test-faults: $(DONE)/dev $(DONE)/installed
	$(call say,faults around stores)
	@PATH="$(abspath $(BIN)):$$PATH" VTARE_FAULTS=$(or $(FAULTS),19) VTARE_FAULT_SEED=$(or $(FAULT_SEED),20261126) \
	  $(BIN)/python -m pytest -q $(PYTEST_WORKERS) -m fault --hypothesis-profile=thorough \
	  --hypothesis-seed=$(or $(FAULT_SEED),20261126) python/tests tests/test_fleet_faults.py tests/platforms/test_guests.py

test-attacks: $(DONE)/dev $(DONE)/installed
	$(call say,attacks)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/attacks

bench: $(DONE)/installed
	@for run in bench/$(or $(BENCH),*)/run; do \
	  printf '\033[1m%s\033[0m\n' "$$run"; \
	  PATH="$(abspath $(BIN)):$$PATH" "$$run" $(if $(WRITE),--write); \
	done

# Runs each paper's plan with short runs (an hour and a half) and writes its page in bench/plans. PLANS names some.
PLANS ?= kirova-timers lampe-counter oliveira-rtt kirova-avb kachan-avb batalla
measured: $(DONE)/installed
	@set -e; for plan in $(PLANS); do \
	  store=build/measured/$$plan; rm -rf "$$store"; \
	  PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/levels "$$plan" --store "$$store"; \
	  $(BIN)/python tools/levels "$$plan" --store "$$store" --page "bench/plans/RESULTS-$$plan.md"; \
	done

# --- documentation ---

$(DONE)/docs: python/requirements/docs.txt $(DONE)/dependencies
	$(call say,installing what builds the documentation)
	@$(call pinned,docs)
	@touch $@

# Everything that the pages need is in build/site: they fetch nothing from elsewhere.
docs: $(DONE)/docs
	$(call say,documentation)
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --config-file tools/mkdocs.yml --strict --quiet
	@echo 'open build/site/index.html'

# --- installation of the binary, its libraries, and the lab (LAB=no: without it; so with DESTDIR) ---

install: $(if $(DESTDIR)$(filter no,$(LAB)),,build/wheel)
	@command -v cargo >/dev/null || tools/need '$(PYTHON)'
	@umask 022; mkdir -p '$(DESTDIR)$(PREFIX)/bin' 2>/dev/null && [ -w '$(DESTDIR)$(PREFIX)/bin' ] || { \
	  echo 'cannot write to $(DESTDIR)$(PREFIX). Choose a directory of yours:' \
	    'make install PREFIX=$$HOME/.local,' \
	    'or as root with your cargo: sudo env PATH="$$PATH" make install' >&2; exit 2; }
	@BUILT=$$(tools/build); \
	  for program in vtare vtare-rpm; do \
	    install -D -m 755 "$$BUILT/$$program" "$(DESTDIR)$(PREFIX)/bin/$$program"; done; \
	  tools/install-libraries "$$BUILT" '$(DESTDIR)' '$(PREFIX)'
	@$(if $(DESTDIR)$(filter no,$(LAB)),,tools/install-lab '$(PYTHON)' build/wheels/vtare-*.whl '$(PREFIX)')
	@umask 022; tools/install-pages '$(DESTDIR)$(PREFIX)/bin/vtare' '$(DESTDIR)$(PREFIX)/share'
	@echo 'installed vtare in $(DESTDIR)$(PREFIX); to remove it: make uninstall PREFIX=$(PREFIX)'
	@case ":$$PATH:" in *:'$(PREFIX)/bin':*) ;; *) echo 'put it on PATH: export PATH="$(PREFIX)/bin:$$PATH"' ;; esac

uninstall:
	@tools/uninstall '$(DESTDIR)' '$(PREFIX)'

# --- a release ---

dist: $(DONE)/dependencies
	@$(BIN)/python tools/dist $(if $(TWICE),--twice) $(if $(SIGN_KEY),--sign-key '$(SIGN_KEY)')

# From a bare Debian with Python alone to a report in Chromium, with times; root and debootstrap.
from-nothing:
	@tools/from-nothing $(WHEEL) || [ $$? -eq 3 ]

# What this machine cannot do (exit code 3) is reported with the reason.
test-release: dist $(DONE)/dev from-nothing
	$(call say,pytest: the program for aarch64 and the packages)
	@$(BIN)/python -m pytest -q tests/test_aarch64.py tests/platforms/test_image.py

clean:
	rm -rf build dist target bench/target $(VENV) python/src/*.egg-info python/src/vtare/report/templates/charts.js \
	  .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find bench python tests -name __pycache__ -type d -prune -exec rm -rf {} +
