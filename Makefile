# Every target installs what it needs and can be run first on a fresh Debian 12
# machine that has Rust (cargo) and Python 3.11.

CARGO ?= cargo
BINARY := target/release/timeloom
include packaging/packages.mk
# Third-party clients, which `timeloom bench timeline` measures beside Timeloom's.
PEERS := crates/evidence/bench/peers/Cargo.toml
# Exact runs over MPI, which is not part of the product.
MPI := crates/machinery/emulation/mpi/Cargo.toml

.PHONY: help build demo papers agents-pauses skip-loss skip-cost iperf-pauses ieee13-agents test test-bridges test-variants test-sdn test-report test-serve test-faults fuzz bpf miri sanitize soak scale demand scale-engines search-agreement test-mpi test-aarch64 test-phc test-vm test-vm-memory test-vm-datapath test-agents-vm test-gpio test-foreign proof-timeline robot-cell bench lint docs test-docs deny fmt clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

build: packages-build ## Release binaries in target/release/
	$(CARGO) build --release --locked -p timeloom -p timeloom-capi -p timeloom-bench
	$(CARGO) build --release --locked --manifest-path $(PEERS) --target-dir target
	@$(MAKE) --no-print-directory .venv/ready
	.venv/bin/python python/build_timeline.py target/release --if-needed

# The benchmarks, the laboratory and the peers are not needed for it.
.PHONY: program
program: packages-build
	MAKEFLAGS= $(CARGO) build --profile demo --locked -p timeloom

demo: packages-build ## The voltage case with and without the attack, and the proof; prints where the report lies
	@$(MAKE) --no-print-directory --jobs=3 packages-demo .venv/ready program
	examples/ieee13/demo.sh target/demo/timeloom runs/demo

# In parallel: the installation mostly waits for the network, the build needs no network.
test: packages-build ## Every test that this machine can run; says at the end which it cannot
	@$(MAKE) --no-print-directory --jobs=3 packages-test .venv/ready test-programs
	.venv/bin/python python/build_timeline.py target/debug
	CARGO="$(CARGO)" scripts/run-tests
	@scripts/exclusions

# Cargo distributes its jobs itself, not through make's job server.
.PHONY: test-programs
test-programs: packages-build
	MAKEFLAGS= $(CARGO) build --locked --workspace --all-targets

test-faults: packages-test .venv/ready test-programs ## The table of faults (docs/faults.md): each with the test that shows what holds
	scripts/test-faults

test-report: packages-report build .venv/ready ## Every kind of page in Chromium, at two widths, light and dark: console, contrast, headings, keyboard; leaves pictures; and Chromium itself under the clock, in its sandbox
	scripts/test-sandbox $(BINARY)
	PATH="$$PWD/.venv/bin:$$PATH" scripts/test-report $(BINARY) runs/test-report

test-serve: packages-report build .venv/ready ## The live view of a run that goes on, in Chromium: buttons, keys, a restarted server, six windows; its processor time and frames with 200 programs and 100 signals
	PATH="$$PWD/.venv/bin:$$PATH" scripts/test-serve $(BINARY) runs/test-serve
	scripts/serve-load $(BINARY) runs/test-serve

fuzz: packages-test ## Every reader of bytes from outside under libFuzzer, FUZZ_S seconds each (60); nightly compiler
	scripts/fuzz

bpf: packages-bpf ## The programs of BPF are what their sources give (the objects are committed)
	scripts/bpf --check

miri: packages-build ## Shared memory under Miri, MIRI_SEEDS interleavings of each test (8); nightly compiler
	scripts/miri

sanitize: packages-build ## Unit tests of the crates with unsafe code under AddressSanitizer; nightly compiler
	scripts/sanitize

soak: packages-demo build .venv/ready ## Long runs, paused a million times and over a virtual day: nothing grows; an hour and more
	scripts/soak $(BINARY) runs/soak

search-agreement: ## Model checker of pauses, crashes and changes of the rate, three hosts; some gigabytes
	$(CARGO) test --locked --release -p timeloom-agreement --lib -- --ignored --nocapture --test-threads 1

scale: packages-scale build ## How many hosts this machine carries: start, pause, memory, end; and beside Mininet
	/usr/bin/python3 scripts/scale $(BINARY) runs/scale --simulated 1000 --mininet 16,64,128

demand: packages-scale packages-test build ## What is demanded of a network and what gets across, in Mininet and here; a quarter of an hour
	/usr/bin/python3 scripts/demand $(BINARY) runs/demand --step 4

papers: packages-papers build ## Figures and tables of five papers beside ours, in docs/papers: hours; QUICK=1 a quarter of an hour; ONLY='ptp vm' some commands
	$(CARGO) build --release --locked --manifest-path $(MPI) --target-dir target
	PYTHONPATH=python .venv/bin/python -m papers run $(BINARY) $(ONLY) $(if $(QUICK),--quick)

scale-engines: build .venv/ready ## How large a simulated network this machine carries, in one engine and in two
	.venv/bin/python scripts/scale-engines $(BINARY) runs/scale-engines

test-mpi: packages-mpi ## One network in ranks of MPI is to the bit that of one engine; and its speed
	$(CARGO) build --release --locked --manifest-path $(MPI) --target-dir target
	scripts/test-mpi target/release/timeloom-peering-mpi

agents-pauses: packages-build build ## Agents hold each other in turns: stop and resume by hosts and processes; 10,000 pauses at the same nanosecond on four
	$(BINARY) bench pause --hosts 1,2,4 --processes 1,2,4,8,16 --figures runs/agents-pauses
	$(BINARY) bench pause --hosts 4 --processes 1 --pauses 10000

skip-loss: packages-test build ## TCP over links that lose frames where time skips, beside mode `virtual` in real time; half an hour
	scripts/skip-loss $(BINARY) runs/skip-loss --markdown runs/skip-loss/table.md

skip-cost: packages-test build ## What skipping costs: many hosts that fetch files; SHADOW=PATH compares with Shadow; minutes
	scripts/skip-cost $(BINARY) runs/skip-cost $(if $(SHADOW),--shadow $(SHADOW))

iperf-pauses: packages-test build ## iperf3 over links that stop with the clock: within 2 %, without retransmissions
	scripts/iperf-pauses $(BINARY) runs/iperf-pauses

ieee13-agents: packages-demo build .venv/ready ## The voltage case spread over three agents, beside one machine: both must sag
	examples/ieee13/agents.sh $(BINARY) runs/agents

test-variants: packages-test .venv/ready test-programs ## Variants of the voltage case: three with false measurements, one with a defence
	$(CARGO) test --locked --workspace --test run_e2e -- ieee13_variants:: --include-ignored

test-bridges: packages-build .venv-bridges/ready ## FMUs of FMI 2 and 3 and HELICS federations as plants; HELICS and mosaik as granters of runs: with the real packages
	$(CARGO) build --locked --workspace --bin timeloom
	PYTHONPATH=python .venv-bridges/bin/python -m pytest -q python/bridges

test-sdn: packages-test build .venv-sdn/ready ## Open vSwitch under two controllers: the example's, and one of os-ken (Ryu's successor); a few minutes
	scripts/test-sdn $(BINARY) .venv-sdn/bin/python runs/test-sdn

test-aarch64: packages-aarch64 ## The same crates for 64-bit ARM: compiled, and guests in an emulated machine (QEMU)
	scripts/test-aarch64

test-phc: packages-phc ## Guests that see a hardware clock, and real phc2sys, in an emulated machine that has one (QEMU)
	scripts/test-phc

test-vm: packages-vm build ## Guests in QEMU read timelines; a hostile guest; a machine in a session; a container
	scripts/test-vm $(BINARY)

test-vm-memory: packages-vm packages-test .venv/ready ## The kernel's out-of-memory killer by control groups of version 2, in an emulated machine (QEMU)
	scripts/test-vm-memory

test-vm-datapath: packages-vm packages-test build ## Open vSwitch by the kernel's datapath: the example in an emulated machine (QEMU)
	scripts/test-vm-datapath $(BINARY)

test-agents-vm: packages-vm build ## Agents on three emulated machines (QEMU) whose clocks NTP synchronises
	scripts/test-agents-vm $(BINARY)

test-gpio: packages-gpio build ## Four boards on one wire: agents with real character devices of GPIO, alone and with a network, in an emulated machine (QEMU)
	scripts/test-gpio $(BINARY)

test-foreign: packages-foreign build ## Go's, CPython's and libfaketime's own tests of time: the same verdicts natively, dilated, paused; half an hour
	scripts/test-foreign $(BINARY) --jobs 2

proof-timeline: packages-test build ## Timelines over real ptp4l and chronyd, ten minutes outside and a million readings in sessions; how wide their intervals are in both
	$(CARGO) test --release --locked -p timeloom-timeline --test all -- real_ptp4l:: real_chrony:: --include-ignored --nocapture --test-threads 1
	$(CARGO) test --release --locked -p timeloom --test commands -- timelines:: --include-ignored --nocapture --test-threads 1
	scripts/timeline-widths $(BINARY)

robot-cell: packages-test build .venv/ready ## Two arms carry one part by time-stamped commands, through eight runs with and without faults; one page
	examples/robot-cell/faults.sh $(BINARY) runs/robot-cell

bench: packages-test build .venv/ready ## All benchmarks, as tables; and the proof of the demo at full length
	$(BINARY) bench all
	examples/ieee13/demo.sh $(BINARY) runs/bench "90 s"

lint: packages-lint .venv/ready .venv-lint/ready ## Formatting and static checks of Rust, its documentation, Python and shell scripts
	scripts/lint-shell
	scripts/lint-python
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path $(PEERS) --check
	$(CARGO) fmt --manifest-path $(MPI) --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --manifest-path $(PEERS) --target-dir target -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --locked --workspace --no-deps --document-private-items

test-docs: packages-report docs ## The site of the documents in Chromium, from files: console, width, search
	scripts/test-docs

docs: packages-lint ## The documents as a site with a search that works offline, in target/docs-site/html; checks its links
	scripts/docs-site

deny: packages-build ## Licences, sources, advisories and duplicate versions of what we depend on
	scripts/deny

fmt: ## Format the sources
	$(CARGO) fmt --all

clean: ## Remove what was built (not what was measured)
	$(CARGO) clean
	rm -rf .venv .venv-bridges .venv-sdn .venv-lint

# The Python environment: plants, example programs, tests. The package itself is
# used from this tree through a .pth file, so that there is no second copy.
.venv/ready: python/requirements.lock | packages-build
	python3 -m venv .venv
	.venv/bin/pip install --quiet --require-hashes -r python/requirements.lock
	.venv/bin/python -c "import pathlib, site; pathlib.Path(site.getsitepackages()[0], 'timeloom.pth').write_text(str(pathlib.Path('python').resolve()))"
	touch $@

# Other simulators, needed only by the tests of the bridges to them.
.venv-bridges/ready: python/bridges.lock | packages-build
	python3 -m venv .venv-bridges
	.venv-bridges/bin/pip install --quiet --require-hashes -r python/bridges.lock
	touch $@

# A framework for controllers, needed only by the example's second controller.
.venv-sdn/ready: python/sdn.lock | packages-build
	python3 -m venv .venv-sdn
	.venv-sdn/bin/pip install --quiet --require-hashes -r python/sdn.lock
	touch $@

# Checks of the Python sources, by make lint.
.venv-lint/ready: python/lint.lock | packages-build
	python3 -m venv .venv-lint
	.venv-lint/bin/pip install --quiet --require-hashes -r python/lint.lock
	touch $@

# Debian packages, by the targets that need them.
.PHONY: packages-papers packages-build packages-lint packages-demo packages-test packages-bpf packages-report packages-scale packages-mpi packages-aarch64 packages-phc packages-vm packages-gpio packages-foreign
packages-build:
	@scripts/packages gcc:gcc ld:binutils python3:python3 @ensurepip:python3-venv @python.h:python3-dev
packages-lint: packages-build
	@scripts/packages shellcheck:shellcheck git:git
packages-demo: packages-build
	@scripts/packages arpspoof:dsniff
packages-test: packages-demo
	@scripts/packages c++:g++
	@scripts/packages ovs-vswitchd:openvswitch-switch mbpoll:mbpoll tshark:tshark setpriv:util-linux ip:iproute2 tc:iproute2 ping:iputils-ping ps:procps traceroute:traceroute ptp4l:linuxptp @libfaketime:libfaketime \
		redis-server:redis-server iperf3:iperf3 musl-gcc:musl-tools busybox:busybox-static nginx:nginx-light sqlite3:sqlite3 curl:curl strace:strace file:file bwrap:bubblewrap valgrind:valgrind qemu-x86_64:qemu-user \
		gdb:gdb clang-14:clang-14 @libclang-rt-14-dev:libclang-rt-14-dev
	@scripts/chronyd
packages-bpf:
	@scripts/packages clang-14:clang-14 llvm-strip-14:llvm-14 @files:libbpf-dev
packages-report: packages-build
	@scripts/packages chromium:chromium
packages-scale: packages-build
	@scripts/packages @files:python3 ip:iproute2 ping:iputils-ping mn:mininet brctl:bridge-utils ethtool:ethtool iperf3:iperf3
packages-papers: packages-test packages-scale packages-mpi packages-vm
	-scripts/vm/kernel
packages-mpi: packages-build
	@scripts/packages mpirun:openmpi-bin @libopenmpi-dev:libopenmpi-dev @libclang-dev:libclang-dev
packages-aarch64: packages-build
	@scripts/packages aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu @libc6-dev-arm64-cross:libc6-dev-arm64-cross @libgcc-12-dev-arm64-cross:libgcc-12-dev-arm64-cross \
		qemu-system-aarch64:qemu-system-arm cpio:cpio
packages-phc: packages-build
	@scripts/packages qemu-system-x86_64:qemu-system-x86 busybox:busybox-static phc2sys:linuxptp cpio:cpio
packages-vm: packages-build
	@scripts/packages qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio crun:crun ip:iproute2 ping:iputils-ping \
		ptp4l:linuxptp mkfs.ext4:e2fsprogs grub-mkimage:grub-common @files:grub-pc-bin
# The kernel's makefiles build the kernel modules.
packages-gpio: packages-build
	@scripts/packages qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio gcc-12:gcc-12 make:make xz:xz-utils
packages-foreign: packages-build
	@scripts/packages python3.11:python3.11 make:make dpkg-source:dpkg-dev @files:golang-1.19-go @files:golang-1.19-src @files:libpython3.11-testsuite @files:tzdata
