# Everything that is done to this repository. `make help` lists it.
#
# `make demo` and `make test` each work as the first command in a fresh clone on Debian 12 or alike:
# both begin with `setup`, which needs python3 >= 3.11, cargo and a C compiler, and is quick when
# nothing changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
UV_VERSION := 0.13.8

VENV := .venv
UV := $(VENV)/bin/uv
# uv must use the interpreter it was given and this environment, whatever the caller's shell says.
export UV_PYTHON_DOWNLOADS := never
# Certificates that the system trusts, for networks that have their own.
export UV_SYSTEM_CERTS := 1
export UV_PROJECT_ENVIRONMENT := $(abspath $(VENV))
export VIRTUAL_ENV := $(abspath $(VENV))
export PATH := $(abspath $(VENV))/bin:$(PATH)

CORE_SOURCES := Cargo.toml Cargo.lock rust-toolchain.toml pyproject.toml \
	$(shell find crates \( -name '*.rs' -o -name Cargo.toml \) -not -path '*/tests/*' \
		-not -path '*/examples/*' -not -path '*/benches/*')
C_SOURCES = $(shell find policies tests crates -name '*.[ch]' -o -name '*.cpp')

# libbpf is built by a makefile, and in a makefile a path ends at a space: where this folder's path
# has one, cargo reaches `target` by a link whose path has none. Links of folders that are gone go.
ifneq ($(words $(CURDIR)),1)
export CARGO_TARGET_DIR := $(shell link=~/.cache/schedlab/target-$$(cksum <<<"$(CURDIR)" | cut -d ' ' -f 1); \
	mkdir -p ~/.cache/schedlab "$(CURDIR)/target"; ln -sfn "$(CURDIR)/target" "$$link"; \
	find ~/.cache/schedlab -maxdepth 1 -name 'target-*' -xtype l -delete || true; echo "$$link")
endif

# The guest's program is linked statically: there is no library in a virtual machine. Cargo takes
# such flags only where the target is named.
GUEST_TARGET := x86_64-unknown-linux-gnu
GUEST := target/$(GUEST_TARGET)/release/schedlab-guest
LIBRARIES := /usr/lib/x86_64-linux-gnu
LIBELF := $(LIBRARIES)/libelf.a

# The run queues of the race that C++ has, and the compiler that builds them.
PEER_PROGRAMS := c++ /usr/include/boost/intrusive/set.hpp
PEER_PACKAGES := g++ libboost-dev

# What only the tests need: clang, of a version that is known, chromium opens the report, QEMU boots
# kernels, cpio reads the initramfs that we write, libelf and zlib are linked into the guest.
TEST_PROGRAMS := clang-19 clang-format-19 chromium qemu-system-x86_64 cpio $(LIBELF) \
	$(PEER_PROGRAMS)
TEST_PACKAGES := clang-19 clang-format-19 chromium fonts-dejavu-core qemu-system-x86 cpio \
	libelf-dev $(PEER_PACKAGES)

# The programs that our native benchmarks are compared with.
AGREE_PROGRAMS := hackbench perf
AGREE_PACKAGES := rt-tests linux-perf

# What builds the run queues for another architecture, and runs them there.
ARM_TARGET := aarch64-unknown-linux-gnu
ARM_PROGRAMS := aarch64-linux-gnu-gcc qemu-aarch64 /usr/aarch64-linux-gnu/lib/libc.so.6
ARM_PACKAGES := gcc-aarch64-linux-gnu qemu-user libc6-dev-arm64-cross

# What looks at every read and write of the run queues' tests.
MEMORY_PROGRAMS := valgrind
MEMORY_PACKAGES := valgrind libc6-dbg

# What the engine executes and how often, recorded by `make profile`: the compiler lays its code out
# by that. Cargo looks at the flag and not into the file, so the file's name goes with its content.
# Flags of the caller's in RUSTFLAGS do not count beside it.
ENGINE_PROFILE := $(wildcard crates/simulator/profile/*.profdata)
PROFILED := $(if $(ENGINE_PROFILE),CARGO_ENCODED_RUSTFLAGS="-Cprofile-use=$(CURDIR)/$(ENGINE_PROFILE)")
RECORDED := target/profile
# Functions have the same names in both only if cargo chooses the same features for both, as it
# does if it is asked for both.
SWITCHES_PER_SECOND := --locked --release -p simulator -p python --example switches_per_second

# A comma that divides no arguments.
COMMA := ,

.PHONY: help
help: ## Lists the targets
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# ---- setting up ---------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.core ## Makes .venv with locked dependencies and builds the Rust core into it

.PHONY: prerequisites
prerequisites:
	@fail() { echo "error: $$1" >&2; echo "hint: $$2" >&2; exit 1; }; \
	command -v cargo >/dev/null || fail "cargo is not on PATH" \
		"the core is written in Rust: install rustup, it then follows rust-toolchain.toml"; \
	command -v cc >/dev/null || fail "cc is not on PATH" \
		"cargo links with it: apt-get install gcc libc6-dev"; \
	"$(PYTHON)" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| fail "$(PYTHON) is not Python 3.11 or later with venv" \
		"apt-get install python3 python3-venv, or: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"

$(VENV)/.uv-$(UV_VERSION): | prerequisites
	"$(PYTHON)" -m venv $(VENV)
	$(VENV)/bin/pip install --quiet uv==$(UV_VERSION)
	touch $@

$(VENV)/.dependencies: pyproject.toml uv.lock $(VENV)/.uv-$(UV_VERSION)
	$(UV) sync --frozen --inexact --no-install-project
	touch $@

$(VENV)/.core: $(CORE_SOURCES) $(ENGINE_PROFILE) $(VENV)/.dependencies
	+$(PROFILED) maturin develop --release --locked --uv
	# In a checkout the shipped files are those at its root, never a copy of them.
	rm -rf python/schedlab/data
	touch $@

# $(call install,programs or files,their packages,what they are for): installs what is missing,
# where that is allowed; else says what to do.
define install
@missing=(); for program in $(1); do \
	command -v $$program >/dev/null || [[ -e $$program ]] || missing+=($$program); done; \
(( $${#missing[@]} )) || exit 0; \
echo "$${missing[*]}: needed for $(3)"; \
if [[ $$(id -u) == 0 ]]; then as_root=; \
elif sudo -n true 2>/dev/null; then as_root="sudo -n"; \
else as_root=no; fi; \
if [[ $$as_root == no ]] || ! command -v apt-get >/dev/null; then \
	echo "error: cannot install packages: this needs root and apt-get" >&2; \
	echo "hint: sudo apt-get install $(2)" >&2; exit 1; \
fi; \
$$as_root apt-get update -qq; \
DEBIAN_FRONTEND=noninteractive $$as_root apt-get install -y -qq --no-install-recommends $(2)
endef

.PHONY: test-programs
test-programs: # Installs what only the tests need, where that is allowed; else says what to do
	$(call install,$(TEST_PROGRAMS),$(TEST_PACKAGES),the tests: policies are built$(COMMA) \
		the report is opened in a browser$(COMMA) kernels are booted$(COMMA) peers of the race built)

# What builds policies. Where no clang can be installed, a wheel brings one.
.PHONY: policy-compiler
policy-compiler: setup
	@python -c 'from schedlab import catalogue; catalogue.policy_compiler()' 2>/dev/null && exit 0; \
	echo "no clang of version 19 or later, which builds policies"; \
	$(MAKE) --no-print-directory clang 2>/dev/null && exit 0; \
	echo "it cannot be installed here: fetching one as the wheel ziglang, 100 MB"; \
	$(UV) sync --frozen --inexact --no-install-project --extra clang

.PHONY: clang
clang:
	$(call install,clang-19,clang-19,policies)

.PHONY: peer-programs
peer-programs: # Installs the C++ compiler and Boost's headers in the same way
	$(call install,$(PEER_PROGRAMS),$(PEER_PACKAGES),the peers of the race)

.PHONY: arm-programs
arm-programs: # Installs what builds and runs programs for aarch64 in the same way
	$(call install,$(ARM_PROGRAMS),$(ARM_PACKAGES),the tests on aarch64)
	rustup target add $(ARM_TARGET)

.PHONY: memory-programs
memory-programs: # Installs what looks for reads of memory that was never written in the same way
	$(call install,$(MEMORY_PROGRAMS),$(MEMORY_PACKAGES),the tests under memcheck)

.PHONY: guest
guest: ## Builds schedlab-guest, which loads policies into kernels and plays workloads in them
	@command -v cargo >/dev/null || { echo "error: cargo is not on PATH" >&2; exit 1; }; \
	[[ -e $(LIBELF) ]] || { echo "error: there is no $(LIBELF)" >&2; \
		echo "hint: apt-get install libelf-dev" >&2; exit 1; }
	+LIBBPF_SYS_LIBRARY_PATH=$(LIBRARIES) RUSTFLAGS="-C target-feature=+crt-static" \
		cargo build --release --locked --target $(GUEST_TARGET) -p kernel --features bpf \
		--bin schedlab-guest
	@echo "built $(GUEST)"

.PHONY: runqueue-c
runqueue-c: ## Builds the run queues for C: target/release/libschedlab_runqueue.a
	+cargo build --release --locked -p runqueue_c
	@echo "its header: crates/runqueue_c/include/schedlab_runqueue.h"

.PHONY: schedlab-bench
schedlab-bench: ## Builds the benchmarks as one static program for any Linux of this processor
	@command -v cargo >/dev/null || { echo "error: cargo is not on PATH" >&2; exit 1; }
	+RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked \
		--target $(GUEST_TARGET) -p benchmarks --bin schedlab-bench
	@echo "built target/$(GUEST_TARGET)/release/schedlab-bench"

.PHONY: instructions
instructions: setup guest ## What policies' own instructions are in a kernel, beside the simulator's, six minutes
	python tests/instructions_in_kernels.py

.PHONY: agree-native
agree-native: setup schedlab-bench ## Native benchmarks against rt-tests and perf, in turns, fifteen minutes
	$(call install,$(AGREE_PROGRAMS),$(AGREE_PACKAGES),the programs to compare with)
	python tests/native_agreement.py

.PHONY: wheel
wheel: setup ## Builds dist/*.whl, with the objects of all policies: whoever installs it needs no compiler
	rm -rf target/objects
	cargo run --release --locked -q -p policy --example shipped -- policies target/objects
	+$(PROFILED) SCHEDLAB_OBJECTS="$(CURDIR)/target/objects" maturin build --release --locked --out dist

.PHONY: kernels
kernels: setup ## Gets kernels for virtual machines from Debian's packages, some 130 MB once
	schedlab kernels fetch

# ---- using --------------------------------------------------------------------------------------

.PHONY: demo
demo: policy-compiler ## Compares four policies on hackbench, 1 to 8 CPUs, and writes a report
	schedlab compare --experiment demo --report schedlab-report.html

# ---- checking -----------------------------------------------------------------------------------

.PHONY: test
test: ## Everything that must hold, of Rust, C, Python and documents; says what took how long
	@rm -f target/took; status=0; \
	tests/took "make test" $(MAKE) --no-print-directory test-groups || status=$$?; \
	tests/took; exit $$status

# Two at a time, as each cargo compiles one program for minutes on one CPU: the tests in one lane, all
# else in the other, where optimized programs would wait for each other.
.PHONY: test-groups
test-groups: test-programs $(VENV)/.dependencies
	$(MAKE) --no-print-directory -j2 --output-sync=line $(addprefix timed-,test-rust setup \
		guest schedlab-bench runqueue-c check-rust check-text)
	@# Without a mirror of Debian the tests that boot kernels are skipped, and say so.
	$(MAKE) --no-print-directory timed-kernels || echo "note: no kernels could be fetched" >&2
	$(MAKE) --no-print-directory timed-test-python

timed-check-text timed-guest: timed-setup
timed-schedlab-bench: timed-guest
timed-runqueue-c: timed-schedlab-bench
timed-check-rust: timed-runqueue-c

timed-%:
	+@tests/took "make $*" $(MAKE) --no-print-directory $*

.PHONY: test-rust
test-rust: ## The tests of all crates
	@# What needs libelf is a feature of `kernel`. No crate has tests in its documentation.
	+LIBBPF_SYS_LIBRARY_PATH=$(LIBRARIES) \
		cargo test --workspace --locked --tests --no-fail-fast --features kernel/bpf

# One more than there are CPUs: tests often wait for a kernel to boot, or for a limit to end a run.
.PHONY: test-python
test-python: ## The tests in Python, of what was built
	env -u MAKEFLAGS -u MFLAGS pytest -n $$(($$(nproc) + 1)) --dist loadgroup

.PHONY: test-race
test-race: ## The run queues' long tests: large sizes, ten million random operations each
	cargo test --release --locked -p runqueue -- --ignored

ARM_CARGO = CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" cargo
DIGEST_OF_SWARM = run --quiet --locked --release -p simulator --example swarm

.PHONY: test-aarch64
test-aarch64: arm-programs ## Run queues, translated policies and what they come to, on an emulated aarch64, five minutes
	$(ARM_CARGO) test --locked --target $(ARM_TARGET) -p runqueue
	$(ARM_CARGO) test --locked --release --target $(ARM_TARGET) -p bytecode
	$(ARM_CARGO) test --locked --release --target $(ARM_TARGET) -p simulator --test all -- golden
	digest() { sed -n 's/^digest of all: //p'; }; \
	here=$$(cargo $(DIGEST_OF_SWARM) -- 100 | digest); \
	there=$$($(ARM_CARGO) $(DIGEST_OF_SWARM) --target $(ARM_TARGET) -- 100 | digest); \
	echo "digest of 100 scenarios under every policy: $$here here, $$there on aarch64"; \
	[[ -n $$here && $$here == "$$there" ]]

# Valgrind has no AVX-512, and says so to who asks the processor, so there the scalar and the AVX2
# form are tested. The sanitizer is no stable flag; the compiler is. One test is left out there,
# which alone takes longer than all others together.
SANITIZED = --locked --target $(FUZZ_HOST) -p runqueue --lib --tests
MEMCHECK := valgrind --quiet --error-exitcode=99 --leak-check=no --fair-sched=yes

.PHONY: test-sanitized
test-sanitized: memory-programs ## The run queues' tests under the address sanitizer and memcheck
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Zub-checks=yes" \
		cargo test --target-dir target/address $(SANITIZED)
	cargo test --target-dir target/memcheck $(SANITIZED) \
		--config "target.'cfg(all())'.runner = '$(MEMCHECK)'" -- exact_time_ring \
		--skip a_slot_that_was_divided_too_often

# What was found once is in fuzz/found and runs first; what is found is written to target/fuzz.
# libFuzzer's counters, and the address sanitizer, which is no stable flag; the compiler is.
FUZZ_SECONDS ?= 600
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_TARGETS = target/fuzz/$(FUZZ_HOST)/release
FUZZ_FLAGS := -Zsanitizer=address -Cpasses=sancov-module --cfg fuzzing \
	-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-trace-compares

.PHONY: fuzz
fuzz: fuzz-targets ## Programs of queue operations that reach new code, against a sorted list, for FUZZ_SECONDS
	mkdir -p target/fuzz/corpus
	nice -n 15 $(FUZZ_TARGETS)/exact_order -max_total_time=$(FUZZ_SECONDS) -max_len=1000 -len_control=1 \
		-print_final_stats=1 -artifact_prefix=target/fuzz/ target/fuzz/corpus fuzz/found

.PHONY: fuzz-bytecode
fuzz-bytecode: test-programs fuzz-targets ## Objects and programs of BPF that reach new code, interpreted and translated, FUZZ_SECONDS each
	mkdir -p target/fuzz/bpf_object target/fuzz/bpf_program
	clang-19 -O2 -g -target bpf -mcpu=v3 -c crates/bytecode/tests/programs/fuzz_seed.c \
		-o target/fuzz/bpf_object/seed.o
	for target in bpf_object bpf_program; do nice -n 15 $(FUZZ_TARGETS)/$$target \
		-max_total_time=$(FUZZ_SECONDS) -max_len=20000 -len_control=0 -timeout=30 \
		-print_final_stats=1 -artifact_prefix=target/fuzz/ target/fuzz/$$target; done

.PHONY: fuzz-targets
fuzz-targets:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --locked \
		--manifest-path fuzz/Cargo.toml --target-dir target/fuzz --target $(FUZZ_HOST)

.PHONY: check
check: test-programs setup ## Formats, lints and the layout rules; changes nothing
	$(MAKE) --no-print-directory -j2 --output-sync=line check-rust check-text

.PHONY: check-rust
check-rust:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	+cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
	@# Checked, not linked: libFuzzer itself is built by `make fuzz` only.
	+CUSTOM_LIBFUZZER_PATH=/libfuzzer.a cargo clippy --manifest-path fuzz/Cargo.toml \
		--target-dir target/fuzz --locked --quiet -- --deny warnings

.PHONY: check-text
check-text:
	ruff format --check
	ruff check
	clang-format-19 --dry-run --Werror $(C_SOURCES)
	pytest --quiet tests/repository/test_layout.py

.PHONY: format
format: test-programs setup ## Formats all sources in place
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	ruff format
	ruff check --fix
	clang-format-19 -i $(C_SOURCES)

.PHONY: bench-program
bench-program:
	+$(PROFILED) cargo build $(SWITCHES_PER_SECOND)

.PHONY: bench
bench: bench-program ## Prints context switches simulated per second on one core, beside the build before, five minutes
	target/release/examples/switches_per_second

.PHONY: bench-record
bench-record: bench-program ## Measures as `make bench`; later builds are compared with this one
	target/release/examples/switches_per_second --record

.PHONY: bench-against
bench-against: bench-program ## Compares the simulator's speed with another build's, in turns: OTHER=its switches_per_second
	target/release/examples/switches_per_second --against "$(OTHER)"

.PHONY: bench-bytecode
bench-bytecode: test-programs ## Translated BPF programs against the same C by cc -O2, in turns
	cargo run --release --locked -q -p bytecode --example translation_speed

.PHONY: bench-race
bench-race: peer-programs setup ## Races all run queues and peers in all workloads: two to three hours on an idle machine
	@echo "The race may be stopped: the same command goes on from there. All of it will be in" \
		"schedlab-race.html"
	schedlab race --full --peers --report schedlab-race.html
	schedlab race --full --peers --quiet --json | python tests/race_aims.py

.PHONY: bench-store
bench-store: setup ## A store of 1,000 to 1,000,000 runs: what it takes to keep, find, compare, report: 20 minutes, 2 GB
	python tests/many_runs.py

.PHONY: bench-kills
bench-kills: setup ## A sweep of 20,000 runs whose processes are killed at 30 random moments, against one process: half an hour
	python tests/kill_sweep.py

.PHONY: bench-dask
bench-dask: setup ## What Dask costs a sweep of 20,000 runs, against two processes that only simulate, in turns: ten minutes
	python tests/dask_cost.py

.PHONY: swarm
swarm: ## 1,000 random scenarios under every policy, invariants on
	cargo run --release --locked -p simulator --example swarm -- 1000

.PHONY: conformance
conformance: setup ## Checks every policy, each in 10,000 random scenarios
	for policy in $(patsubst policies/%.bpf.c,%,$(sort $(wildcard policies/*.bpf.c))); do \
		schedlab check $$policy --seeds 10000 --quiet | tail -1; done

# ---- what is generated and kept -----------------------------------------------------------------

.PHONY: profile
profile: ## Records what the engine executes, by which the compiler lays it out; five minutes, needs rustup
	rustup component add llvm-tools
	rm -rf $(RECORDED)/counts
	+CARGO_ENCODED_RUSTFLAGS="-Cprofile-generate=$(CURDIR)/$(RECORDED)/counts" \
		cargo build --target-dir $(RECORDED)/build $(SWITCHES_PER_SECOND)
	rm -rf $(RECORDED)/counts # Of programs that cargo ran.
	for policy in $(patsubst policies/%.bpf.c,%,$(sort $(wildcard policies/*.bpf.c))); do \
		$(RECORDED)/build/release/examples/switches_per_second --cells $$policy; done
	"$$(rustc --print sysroot)"/lib/rustlib/*/bin/llvm-profdata merge --sparse \
		-o $(RECORDED)/engine.profdata $(RECORDED)/counts
	rm -f crates/simulator/profile/*.profdata
	mkdir -p crates/simulator/profile
	mv $(RECORDED)/engine.profdata crates/simulator/profile/engine-$$(sha256sum \
		$(RECORDED)/engine.profdata | cut -c 1-12).profdata

.PHONY: golden
golden: ## Rewrites the golden timelines; read their diff before you commit it
	GOLDEN=write cargo test --locked -p simulator --test all golden::

.PHONY: docs
docs: setup ## Runs the documents' commands and writes what they print into them
	DOCS=write pytest tests/repository/test_docs.py

.PHONY: kernel-table
kernel-table: test-programs setup kernels guest ## Plays policies, all or POLICY, on two kernels, for docs/kernels.md
	KERNELS=write POLICY="$(POLICY)" pytest -k is_written -s tests/policies/test_in_kernels.py

.PHONY: figures
figures: demo test-programs ## Draws the README's figure again, from the demo's report
	python docs/figures/draw.py schedlab-report.html docs/figures/hackbench.png

.PHONY: scale
scale: test-programs setup ## Simulates 1 to 4,096 CPUs and 10 to 1,000,000 tasks for docs/scale.md, an hour, and draws it
	for study in cpus tasks; do \
	    schedlab compare --experiment scale_$$study --store scale.db --report scale_$$study.html && \
	    python docs/figures/draw.py scale_$$study.html docs/figures/scale_$$study.png switch-cost || exit; \
	done

.PHONY: clean
clean: ## Removes everything that was built
	rm -rf $(VENV) target dist schedlab-report.html schedlab-race.html
