"""The Rust core: compiles policies, reads machines and workloads, simulates.

Objects are cheap to make again and cannot be pickled: a worker process makes its own from paths.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, final

class NativeError(Exception):
    """Base of the core's errors; its text is a complete message for a user."""

    @property
    def message(self) -> str:
        """The text without the way out."""
    @property
    def hint(self) -> str | None:
        """The way out at the end of the text, if it names one."""

class PolicyError(NativeError):
    """A policy does not compile, does not load, or refuses a tunable; with the compiler's words."""

class ScenarioError(NativeError):
    """A file of a machine or workload, or a parameter, cannot be used; with place and way out."""

class KernelError(NativeError):
    """A kernel cannot be had, kept or used; the text names the value and a way out."""

class VmError(NativeError):
    """A virtual machine cannot be started; the text names the value and a way out."""

class RaceError(NativeError):
    """A heat of run queues cannot be run, or a plug-in is not what it says; with a way out."""

class Tunable(TypedDict):
    """A `const volatile` variable of a policy; `doc` is the comment above it."""

    name: str
    type: str
    default: int
    doc: str

class TunableSet(TypedDict):
    """Values of a policy's tunables that go by a name, as in `cfs@2.6.31`.

    `is_plain` where the policy's name alone means it.
    """

    name: str
    description: str
    source: str
    tunables: dict[str, int]
    is_plain: bool

class Parameter(TypedDict):
    """A parameter of a workload; `default` is the text a user would write."""

    name: str
    default: str
    doc: str

@final
class Policy:
    """A policy: the object that a kernel loads."""

    @property
    def name(self) -> str:
        """Name of its file, without its ending."""
    @property
    def source(self) -> str:
        """Path of its C file, or of the object or loader's file that was given."""
    @property
    def digest(self) -> str:
        """SHA-256 of its object, with its loader's file, in hex: equal ones behave equally."""
    @property
    def warnings(self) -> str:
        """What the compiler complained about, if this call had it built; else empty."""
    @property
    def object_path(self) -> str:
        """Path of its object, which has its loader's file behind it if there is one."""
    @property
    def description(self) -> str:
        """What its header comment says of it in one line."""
    @property
    def tunables(self) -> list[Tunable]:
        """What can be set without touching its C, in the order of the C."""
    @property
    def sets(self) -> list[TunableSet]:
        """Its named tunable sets, in the order of the file NAME.sets.toml beside its C."""
    def refuse_unknown(self, numbers: list[str], nr_cpus: int) -> None:
        """Raises PolicyError if a number cannot be followed on a machine of so many CPUs."""

@final
class Machine:
    """A machine: its CPUs and what each kernel operation costs on it."""

    @property
    def name(self) -> str:
        """Name of its file, without `.toml`."""
    @property
    def description(self) -> str:
        """What its file says of it."""
    @property
    def nr_cpus(self) -> int:
        """How many logical CPUs it has."""
    @property
    def hz(self) -> int:
        """Scheduler ticks a second, for policies its file does not single out."""
    @property
    def policies(self) -> list[str]:
        """The policies that its file does single out, in the order of their names."""
    @property
    def digest(self) -> str:
        """Digest of all it says: equal ones simulate equally."""

@final
class Workload:
    """A workload with its parameters filled in."""

    @property
    def name(self) -> str:
        """Name of its file, without `.toml`."""
    @property
    def description(self) -> str:
        """What its file says of it."""
    @property
    def digest(self) -> str:
        """Digest of its tasks, programs and parameters: equal ones simulate equally."""
    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value, defaults included, in the order of the file."""
    def check_cpus(self, machine: str, nr_cpus: int) -> None:
        """Raises ScenarioError if it names a CPU beyond the `nr_cpus` of a machine of that name."""
    def check_playable(self) -> None:
        """Raises ScenarioError if real tasks cannot do what it says, on whatever machine."""

class Problem(TypedDict):
    """What went wrong in a scenario, and when, in ns of simulated time."""

    kind: str
    message: str
    at_ns: int

class CheckRow(TypedDict):
    """What a scenario that asks a question found; `measured` and `limit` are in `detail`'s unit."""

    check: str
    property: str
    measured: float | None
    limit: float | None
    verdict: str
    detail: str
    problem: Problem | None

class FailedOrder(TypedDict):
    """An order of simultaneous events, as the choices made, in which a policy failed."""

    choices: list[int]
    problem: Problem

class Exploration(TypedDict):
    """What came of a small scenario in the orders that its events can have."""

    tried: int
    distinct: int
    is_exhaustive: bool
    idle_ms_max: float
    failed: FailedOrder | None

class FailedSeed(TypedDict):
    """A random scenario, by its number, in which a policy failed."""

    seed: int
    problem: Problem

class Swarm(TypedDict):
    """What came of random scenarios."""

    tried: int
    idle_ms_max: float
    wait_ms_max: float
    failed: list[FailedSeed]

class ScenarioFiles(TypedDict):
    """A scenario as the texts of two TOML files, and their names."""

    machine_name: str
    machine: str
    workload_name: str
    workload: str

class Smallest(TypedDict):
    """The smallest scenario found in which a policy still fails in the same way."""

    files: ScenarioFiles
    problem: Problem
    nr_tasks: int
    nr_cpus: int
    tried: int
    is_cut_short: bool

def check_names() -> tuple[list[str], list[str]]:
    """Names of the scenarios of `check` that ask a question each, and of the small ones."""

def check_files(scenario: str) -> ScenarioFiles | None:
    """The files of a scenario, by its name or as the number of a random one; None if unknown."""

def check_made(
    policy: Policy, tunables: dict[str, int], name: str, seed: int, promises: str | None = None
) -> list[CheckRow]:
    """Tries a policy in a scenario that asks a question; `promises` is not the file beside it.

    Raises PolicyError if the file of promises is wrong. So do the others.
    """

def check_random(
    policy: Policy, tunables: dict[str, int], first: int, count: int, promises: str | None = None
) -> Swarm:
    """Tries a policy in `count` random scenarios from number `first` on."""

def check_small(
    policy: Policy,
    tunables: dict[str, int],
    name: str,
    orders_max: int,
    promises: str | None = None,
) -> Exploration:
    """Tries a policy in a small scenario, in `orders_max` orders of events at most."""

def shrink_random(
    policy: Policy, tunables: dict[str, int], seed: int, tries_max: int, promises: str | None = None
) -> Smallest | None:
    """Makes a failing random scenario as small as it can be; None if nothing goes wrong in it."""

def version() -> str:
    """Version of schedlab this module was built from."""

def read_policy(path: str) -> Policy:
    """Reads the policy in the BPF object at `path`, whose name ends in .bpf.o.

    Raises PolicyError if it is no such object or holds no policy.
    """

def compile_policy(
    source: str,
    include_dirs: list[str],
    cache: str,
    shipped: str | None = None,
    zig: str | None = None,
    linker: str | None = None,
) -> Policy:
    """Compiles the C file `source` into the folder `cache`, or takes its object from there, or from
    the folder `shipped`, which needs no compiler.

    The compiler is that of $CLANG, else the oldest clang on PATH that is new enough, else the
    program `zig`. `linker` joins objects where a loader's file names several sources. Raises
    PolicyError if there is none, the source is no policy, or its file of tunable sets is wrong.
    """

def policy_compiler(zig: str | None = None) -> tuple[str, str]:
    """The command of the compiler that `compile_policy` takes, and the version that it tells.

    Raises PolicyError if there is none.
    """

RELEASES: list[str]  # of Linux, whose sched_ext a simulated kernel can have

def load_machine(path: str, cpus: int | None = None, kernel: str | None = None) -> Machine:
    """Reads a machine's TOML file; with `cpus` the same with so many CPUs, 1 to 4096: its first
    ones, or more sockets like its own; with `kernel`, one of `RELEASES`, with its sched_ext.
    Raises ScenarioError if the file cannot be read or says something that cannot be.
    """

def load_workload(path: str, parameters: dict[str, str]) -> Workload:
    """Reads a workload's TOML file, with `parameters` in place of its defaults.
    Raises ScenarioError if the file cannot be read, or a parameter is unknown or out of range.
    """

def workload_parameters(path: str) -> list[Parameter]:
    """The parameters a workload takes, without building it; ScenarioError if the file cannot be
    read."""

def end_with_parent(parent: int) -> None:
    """Has this process, which leads a group, end with its group when its parent does, even by
    SIGKILL, and even while this process is stopped; ProcessLookupError if it has already."""

class RunFailure(TypedDict):
    """Why a run failed, in the words of a kernel; None where nobody is to blame."""

    kind: str
    message: str
    pid: int | None
    task: str | None
    cpu: int | None
    at_ns: int

class QueueTrace(TypedDict):
    """What was done to a dispatch queue; `text` is a trace that `schedlab race --trace` replays.

    `is_policys` where the policy created the queue; `operations` is their number.
    """

    queue: str
    is_policys: bool
    operations: int
    text: str

class Profile(TypedDict):
    """A policy's own instructions, those that take most first: docs/reference/result.md."""

    operations: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    kernel_calls: list[dict[str, Any]]
    function_calls: int
    divisions: int
    branches: int

class RunResult(TypedDict):
    """The result of a run; docs/reference/result.md has the unit and meaning of each key."""

    status: Literal["completed", "stopped", "failed"]
    error: RunFailure | None
    digest: str
    makespan_ns: int
    tare_ns: NotRequired[int]
    elapsed_ns: int
    messages: int
    nr_tasks: int
    nr_cpus: int
    events: int
    switches: int
    voluntary_switches: int
    involuntary_switches: int
    migrations: int
    wakeups: int
    ticks: int
    interrupts: int
    cpu_time_ns: dict[str, int]
    overhead_ns: dict[str, int]
    policy_executed: NotRequired[dict[str, int]]
    restarts: NotRequired[int]
    run_ns: dict[str, float]
    wait_ns: dict[str, float]
    wakeup_latency_ns: dict[str, Any]
    response_ns: dict[str, float]
    deadlines: int
    deadline_misses: int
    requests: list[dict[str, Any]]
    jain_fairness: float
    task_groups: list[dict[str, Any]]
    timeline: list[list[int]] | None
    timeline_names: dict[str, str] | None
    timeline_wakeups: NotRequired[list[list[Any]]]
    queue_traces: NotRequired[list[QueueTrace]]
    profile: NotRequired[Profile]
    watched: NotRequired[list[dict[str, Any]]]
    dumps: NotRequired[list[dict[str, Any]]]

def simulate(
    policy: Policy,
    machine: Machine,
    workload: Workload,
    seed: int,
    tunables: dict[str, int],
    until_ns: int | None = None,
    prints: Callable[[str], object] | None = None,
    *,
    timeline: bool = False,
    queues: bool = False,
    profile: bool = False,
    strict: bool = False,
    watch: list[str] = ...,
    dump_at_ns: list[int] = ...,
    dump_at_end: bool = False,
    dump_on_failure: bool = False,
) -> RunResult:
    """Simulates `workload` on `machine` under `policy`: a pure function of its arguments.

    `seed`, in [0, 2**64), is where the workload's random numbers begin. `tunables` are those that
    shall not have their default. The run stops at `until_ns` of simulated time, else at its end.
    `prints` is called with each line that the policy prints (`bpf_printk`), 1,000 at most. With
    `timeline` the result has every stay on a CPU, with `queues` what was done to each dispatch
    queue; memory then grows with the run. With `profile` it has the policy's instructions, which
    are interpreted. `strict` ends it where a kernel could have refused the policy. `watch` names
    numbers to follow, `dump_at_ns` and the like when the result has the state of the run.

    A policy that breaks the rules gives a result whose status is "failed", not an exception.

    Raises PolicyError if the policy cannot be loaded: it has no such tunable, or a map that the
    simulator lacks; ScenarioError if the machine has more CPUs than can be simulated.
    """

class KernelRecord(TypedDict):
    """What the cache has of a kernel; `image` is its path, `hz` its ticks a second; `sched_ext` is
    "absent", "sound", or says under "broken" why no policy can be loaded."""

    name: str
    release: str
    scheduler: str
    sched_ext: str | dict[str, str]
    virtio_console: bool
    pvh: bool
    hz: int | None
    source: str
    sha256: str
    image: str

def kernels_list(cache_dir: str) -> list[KernelRecord]:
    """The record of every usable kernel in the cache, oldest release first.

    Raises KernelError if the cache cannot be read.
    """

def kernels_damaged(cache_dir: str) -> list[tuple[str, str]]:
    """Each kernel of the cache that cannot be used: its name; what is wrong and what to do.

    Raises KernelError if the cache cannot be read.
    """

def kernels_find(cache_dir: str, name: str | None = None) -> KernelRecord:
    """One kernel's record: by name, else the newest of a series, as in "6.18".

    Without a name, the newest that policies can be loaded into.

    Raises KernelError if the cache has none; the text says how to get it.
    """

def kernels_add(
    cache_dir: str, path: str, name: str | None = None, replace: bool = False
) -> KernelRecord:
    """Examines the vmlinuz or vmlinux at `path`, keeps a copy, and gives its record.

    Raises KernelError if it is no kernel for x86-64, or the name cannot be used, or is that of
    another kernel which it is not to `replace`.
    """

def kernels_fetch(
    cache_dir: str, series: list[str], note: Callable[[str], object]
) -> list[tuple[KernelRecord, None] | tuple[None, str]]:
    """Gets kernels from Debian's packages: for each series its record, or an error's text.

    A series is as in "6.12", or "newest". `note` is told, in words, what is being done; what it
    raises ends the fetch, as Ctrl-C does. Raises KernelError if this system cannot get Debian's
    packages at all.
    """

def kernels_on_this_machine() -> list[str]:
    """Paths of the kernel images that this machine has of its own."""

def kernels_default_series() -> list[str]:
    """The series that one gets who names none."""

class QemuFound(TypedDict):
    """A QEMU; `sound_threads` says whether guests survive a thread for each CPU without KVM."""

    program: str
    version: str
    sound_threads: bool

def way_out(words: str) -> str | None:
    """What to do about what a message says of a policy's mistake, if that is known."""

def find_qemu() -> QemuFound:
    """The QEMU that virtual machines would be run with.

    Raises VmError if there is none, or it is too old.
    """

def kvm_obstacle() -> str | None:
    """Why KVM's device cannot be opened; None if it can."""

def fastest_accelerator(cache_dir: str, kernel: str | None = None) -> Literal["kvm", "tcg"]:
    """KVM where it boots this kernel; the first call may try for some seconds.

    Raises KernelError or VmError if there is no such kernel, or no QEMU.
    """

@final
class Initramfs:
    """A guest's first file system: equal files give equal bytes, in whatever order they come."""

    def __init__(self) -> None: ...
    def file(self, to: str, content: bytes, executable: bool = False) -> None:
        """Puts `content` at the absolute path `to`, with directories above it."""
    def copy(self, source: str, to: str) -> None:
        """Puts a copy of this machine's file at `to`; it stays executable if it is."""
    def archive(self) -> bytes:
        """The archive that a kernel unpacks."""

@final
class Vm:
    """A running virtual machine; it ends with this object."""

    @property
    def booted_after_ns(self) -> int | None:
        """Nanoseconds on this machine's clock from power on to the first line."""
    @property
    def pid(self) -> int:
        """The process of QEMU."""
    @property
    def boot(self) -> str:
        """Which boot of which machine it goes on from; empty if it has none to go on from."""
    @property
    def stage(self) -> Literal["booting", "saving", "restoring", "working"]:
        """How far it is; one that is given no job is always booting."""
    def next(self, wait_s: float) -> tuple[str, str]:
        """What happens within `wait_s` seconds: ("line", text), ("quiet", ""), or its end.

        An end is "powered_off", "panicked", "boot_timed_out", "not_restored", "timed_out",
        "flooded" or "qemu_failed", and the same in words. From then on it is said again.
        """
    def console_tail(self) -> str:
        """The last 64 KiB of what the kernel wrote to its console."""
    def keep_policy(self) -> None:
        """Keeps this machine with its policy, if it was saved so."""
    def forget_policy(self) -> None:
        """Keeps no machine with this one's policy."""
    def close(self) -> None:
        """Ends the machine now."""

def boot(
    cache_dir: str,
    kernel: str,
    initramfs: Initramfs,
    job: Initramfs | None = None,
    policy: Initramfs | None = None,
    *,
    cpus: str = "1",
    memory_mib: int = 1024,
    accelerator: Literal["kvm", "tcg"] = "tcg",
    deterministic: bool = False,
    seed: int = 1,
    settle_s: float = 0.0,
    align_clocks: bool = False,
    record_kib_per_cpu: int = 0,
    keep_in: str | None = None,
    keep_with_policy: bool = False,
    boot_effort_s: float,
    boot_limit_s: float = 600.0,
    wall_limit_s: float = 600.0,
    kernel_arguments: list[str] = ...,
) -> Vm:
    """Starts a kernel of the cache. The machine is killed when the calling thread ends.

    `job` has files that the guest, which must be `schedlab-guest`, gets once it has booted;
    `policy` those of the policy that it loads before. Before it takes its job it waits `settle_s`
    of its own clock, brings the kernel's two clocks onto one grid (`align_clocks`), and prepares
    `record_kib_per_cpu` KiB of buffers for recordings. `cpus` is `N`, or `N,SOCKETS,CORES,THREADS`.
    `deterministic` has the guest's clock count its instructions, and needs "tcg".

    Machines that have booted are kept in the folder `keep_in`, once more when they have loaded
    their policy if `keep_with_policy`; without a folder, or without a job, none is kept.

    `boot_effort_s` limits QEMU's CPU time until the first line; `boot_limit_s` and `wall_limit_s`
    the time from power on to the first line, and to the end.

    Raises KernelError or VmError if there is no such kernel, no QEMU, or a value cannot be used.
    """

class Entrant(TypedDict):
    """A run queue that can take part; `source` is "schedlab", "rust_std" or "plugin:FILE".

    `left_out` says why it cannot run on this machine, or is "".
    """

    structure: str
    exact: bool
    can_remove: bool
    source: str
    left_out: str

class HeatRow(TypedDict):
    """What an entrant did in a heat: docs/reference/cli.md has each key."""

    structure: str
    exact: bool
    source: str
    ticks_per_loop: list[float]
    disturbed: int
    paces: list[float]
    instructions_per_loop: float | None
    cache_misses_per_loop: float | None
    bytes_per_item: float
    single: dict[str, Any] | None
    order_hash: str | None
    left_out: str

class Heat(TypedDict):
    """A heat that was run: `spec` with what was chosen, and a row for each entrant.

    `per` is what ticks are counted per; `counters` says whether the processor's were to be had.
    """

    spec: dict[str, Any]
    per: str
    ticks_per_s: float
    clock: str
    cpu: int
    counters: dict[str, Any]
    large_page_bytes: int | None
    rows: list[HeatRow]

class KernelQueue(TypedDict):
    """What a kernel did to a run queue; `text` is a trace that a heat plays.

    `queue` is `cpu0`, …, or `all`: the one that all CPUs would have shared. `unseen` counts
    switches to tasks that nobody saw come.
    """

    queue: str
    operations: int
    unseen: int
    text: str

class KernelQueues(TypedDict):
    """The run queues in a kernel's trace; `lost` events did not fit into its buffers."""

    lost: int
    queues: list[KernelQueue]

def race_entrants(plugins: list[str] = ...) -> list[Entrant]:
    """Who can take part in the run-queue race.

    Raises RaceError if one of `plugins`, which are paths of shared objects, is none.
    """

def race_heat(spec_json: str, step: Callable[[], object] | None = None) -> Heat:
    """Runs one heat of the run-queue race, which is given as a JSON object.

    Of it only `workload` must be given: hold, hold_remove, cold, single,
    single_remove, markov, up_down, storm, mass_exit, drain, fork_burst or trace. The rest: `keys`,
    `n`, `queues`, `loops`, `rounds`, `order` ("rotating" or "abcba"), `structures`, `cpu`, `seed`,
    `plugins`, `trace`, `pace` (the least that heats before have found). A signal is answered, and
    `step` called, between rounds and while the heat waits for a core of its own.

    Raises RaceError if the heat asks for what is not there, or an entrant is not as exact as it
    says.
    """

def race_kernel_trace(path: str) -> KernelQueues:
    """What a kernel did to its run queues, read from the text of `perf script` or ftrace.

    Raises RaceError if it cannot be read, with its line, or has no switches or no wake-ups.
    """

def race_compile(source: str, include_dir: str, cache_dir: str) -> Path:
    """Builds a plug-in in C or C++ as a shared object, unless `cache_dir` has it: its path.

    Raises RaceError if it does not compile; the compiler's own words are part of the text.
    """
