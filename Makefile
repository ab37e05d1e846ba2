# SPDX-License-Identifier: Apache-2.0
# The front door. Needs a C compiler, make and Python 3.10 or newer; all else goes into .venv and build/.
PYTHON ?= python3
ARGS ?=

VENV := .venv
RESULTS := build/results
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

SOURCES := $(wildcard include/ogp/*.h src/*.[ch] src/kernels/*.[ch] meson.build meson.options)
PACKAGE := $(SOURCES) pyproject.toml python/meson.build $(wildcard python/*/*.[chp]* python/*/*/*.py)
CROSS_TOOLS := qemu-x86_64 qemu-aarch64 aarch64-linux-gnu-gcc
# Those that run on several threads, without the large volumes.
THREAD_TESTS := test_api test_threads fuzz 'check smoke' 'check regress'
# Without those that fork from several threads, which qemu cannot, or that take it minutes and know no instruction sets.
CROSS_TESTS := test_text test_env test_api test_accuracy test_nonfinite test_memory 'check a part'

.PHONY: help demo test test-c test-python test-long test-cross test-old-x86 test-aarch64 cross-tools sanitize \
    sanitize-memory sanitize-threads bench sweep wheel clean

help:
	@echo 'make demo         train a fault segmentation network on synthetic volumes (ARGS=... for the script)'
	@echo 'make test         all everyday tests: test-c and test-python'
	@echo 'make test-c       the C library: oracle, budgets, threads, fuzz, exported symbols, installation'
	@echo 'make test-python  the Python package (ARGS=... for pytest)'
	@echo 'make test-long    full-size volumes and the long fuzz'
	@echo 'make test-cross   the library on an old x86 CPU and on 64-bit Arm, under qemu'
	@echo 'make sanitize     the C tests under the address, undefined behaviour and thread sanitizers'
	@echo 'make bench        measure against native PyTorch (ARGS=... for the script)'
	@echo 'make sweep        layers of many networks against native and other libraries (ARGS=... for the script)'
	@echo 'make wheel        dist/*.whl, for Python 3.10 and newer'
	@echo 'make clean        remove build/, dist/ and .venv/'

# ---- set-up ----

$(VENV)/.requirements: requirements-dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -r requirements-dev.txt
	@touch $@

# One build for the package and the C tests: kernels take most of the compiler's time.
$(VENV)/.package: build/c/build.ninja $(PACKAGE)
	$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation --force-reinstall --config-settings=build-dir=build/c .
	@touch $@

# build/NAME/build.ninja: a build of the C tests. The options of each are here.
OPTIONS_c := -Dwerror=true
OPTIONS_aarch64 := -Dwerror=true --cross-file tools/cross/aarch64-linux-gnu.ini
OPTIONS_asan := -Db_sanitize=address,undefined -Db_lundef=false
OPTIONS_tsan := -Db_sanitize=thread -Db_lundef=false
build/%/build.ninja: $(VENV)/.requirements
	meson setup build/$* -Dtests=true $(OPTIONS_$*)
	@touch $@
.PRECIOUS: build/%/build.ninja

# $(call c-tests,BUILD,NAME,OPTIONS): runs C tests of a build and keeps what they reported.
define c-tests
	@mkdir -p $(RESULTS)
	@rm -f build/$(1)/meson-logs/$(2)*.junit.xml
	meson test -C build/$(1) --logbase $(2) --print-errorlogs $(3); status=$$?; \
	cp build/$(1)/meson-logs/$(2)*.junit.xml $(RESULTS)/$(2).xml; exit $$status
endef

# ---- tests ----

test: test-c test-python

test-c: $(VENV)/.package
	$(call c-tests,c,c,--no-suite long --no-suite cross)

# Two processes with two threads each share the cores: threads that spin while they wait take a third process's worth.
test-python: $(VENV)/.package
	@mkdir -p $(RESULTS)
	OMP_WAIT_POLICY=passive pytest -q -n 2 --dist loadfile --no-loadscope-reorder --junitxml=$(RESULTS)/python.xml $(ARGS)

test-long: $(VENV)/.package
	$(call c-tests,c,long,--suite long --num-processes 1)
	pytest -q -m long $(ARGS)

test-cross: test-old-x86 test-aarch64

test-old-x86: cross-tools $(VENV)/.package
	$(call c-tests,c,nehalem,$(CROSS_TESTS) -t 20 --wrapper 'qemu-x86_64 -cpu Nehalem')

test-aarch64: cross-tools build/aarch64/build.ninja
	$(call c-tests,aarch64,aarch64,$(CROSS_TESTS) -t 20)

cross-tools:
	@for tool in $(CROSS_TOOLS); do command -v $$tool > /dev/null || missing="$$missing $$tool"; done; \
	test -z "$$missing" || { echo "test-cross needs$$missing. On Debian and Ubuntu:"; \
	echo "  apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"; exit 1; }

sanitize: sanitize-memory sanitize-threads

sanitize-memory: build/asan/build.ninja
	$(call c-tests,asan,asan,--suite fast -t 10)

sanitize-threads: build/tsan/build.ninja
	$(call c-tests,tsan,tsan,$(THREAD_TESTS) -t 10)

# ---- the rest ----

demo: $(VENV)/.package
	python examples/fault_segmentation/train.py $(ARGS)

bench: $(VENV)/.package
	python tests/composite/conv3d_custom/bench_conv3d_custom_perf.py $(ARGS)

sweep: $(VENV)/.package
	python bench/sweep.py $(ARGS)

# The builder's Python names the wheel; the limited API that it was compiled for is that of 3.10.
wheel: $(VENV)/.requirements
	rm -rf dist
	pip wheel --quiet --no-deps --no-build-isolation --config-settings=build-dir=build/python -w dist .
	wheel tags --python-tag cp310 --remove dist/*.whl

clean:
	rm -rf build dist .venv
