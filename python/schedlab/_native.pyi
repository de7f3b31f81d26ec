"""The Rust core: compiles policies, reads machines and workloads, simulates.

Objects are cheap to make again and cannot be pickled: a worker process makes its own from paths.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict, final

class NativeError(Exception):
    """Base of the core's errors; its text is a complete message for a user."""

    @property
    def message(self) -> str:
        """The text without the way out."""
    @property
    def hint(self) -> str | None:
        """The way out at the end of the text, if it names one."""

class PolicyError(NativeError):
    """A policy does not compile, does not load, or refuses a tunable.

    The compiler's own words are part of the text.
    """

class ScenarioError(NativeError):
    """A machine or workload file, or one of its parameters, cannot be used.

    The text names the value, its place, and a way out.
    """

class KernelError(NativeError):
    """A kernel cannot be had, kept or used.

    The text names the value and a way out.
    """

class VmError(NativeError):
    """A virtual machine cannot be started.

    The text names the value and a way out. What happens to it later is its end, not an error.
    """

class RaceError(NativeError):
    """A heat of run queues cannot be run, or a plug-in is none, or not what it says.

    The text names the value and a way out.
    """

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
    """A compiled policy."""

    @property
    def name(self) -> str:
        """Name of its file, without `.bpf.c`."""
    @property
    def source(self) -> str:
        """Path of its C file."""
    @property
    def source_digest(self) -> str:
        """Digest, in hex, of the preprocessed C, headers included: equal ones behave equally."""
    @property
    def warnings(self) -> str:
        """What the compiler complained about, if this call had it built; else empty."""
    @property
    def object_path(self) -> str:
        """Path of the shared object the C became."""
    @property
    def description(self) -> str:
        """What its header comment says of it in one line."""
    @property
    def tunables(self) -> list[Tunable]:
        """What can be set without touching its C, in the order of the C."""
    @property
    def sets(self) -> list[TunableSet]:
        """Its named tunable sets, in the order of the file NAME.sets.toml beside its C."""

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

def check_names() -> tuple[list[str], list[str]]:
    """Names of the scenarios of `check` that ask a question each, and of the small ones."""

def check_files(scenario: str) -> str | None:
    """Machine and workload file of a scenario, by its name or as the number of a random one.

    JSON text with machine_name, machine, workload_name and workload; None for an unknown name.
    """

def check_made(policy: Policy, tunables: dict[str, int], name: str, seed: int) -> str:
    """Tries a policy in a scenario that asks a question: JSON text, a list of rows.

    Raises
    ------
    PolicyError
        If the policy's file of promises is wrong. So do the others.
    """

def check_random(policy: Policy, tunables: dict[str, int], first: int, count: int) -> str:
    """Tries a policy in `count` random scenarios from number `first` on: JSON text."""

def check_small(policy: Policy, tunables: dict[str, int], name: str, orders_max: int) -> str:
    """Tries a policy in a small scenario, in `orders_max` orders of events at most: JSON text."""

def check_crashed(scenario: str, message: str, at_ns: int) -> str:
    """What the call that tried this scenario would have answered, had its process not ended so.

    The scenario goes by its name, or by the number of a random one.
    """

def shrink_random(policy: Policy, tunables: dict[str, int], seed: int, tries_max: int) -> str:
    """Makes a random scenario as small as it can be while the policy fails in it: JSON text.

    `null` if nothing goes wrong in it.
    """

def version() -> str:
    """Version of schedlab this module was built from."""

def compile_policy(source: str, include_dirs: list[str], cache_dir: str) -> Policy:
    """Compiles the C file `source` into `cache_dir`, or takes it from there.

    Raises
    ------
    PolicyError
        If it does not compile, is not a policy, or its file of tunable sets is wrong.
    """

def load_machine(path: str) -> Machine:
    """Reads a machine's TOML file.

    Raises
    ------
    ScenarioError
        If the file cannot be read or says something that cannot be.
    """

def load_workload(path: str, parameters: dict[str, str]) -> Workload:
    """Reads a workload's TOML file, with `parameters` in place of its defaults.

    Raises
    ------
    ScenarioError
        If the file cannot be read, or a parameter is unknown or out of range.
    """

def workload_parameters(path: str) -> list[Parameter]:
    """The parameters a workload takes, without building it.

    Raises
    ------
    ScenarioError
        If the file cannot be read.
    """

Where = tuple[int, int, int, int, str, tuple[int, str] | None]

def position() -> Where | None:
    """Where the simulation is that this process began last; None while there is none.

    Returns
    -------
    tuple
        Which of several runs it is: the number of a random scenario, else 0. Events and operations
        of the policy that were begun so far; and of the last of them the simulated time in ns, the
        CPU, the operation's name in C, empty for an event, and number and name of the task that
        the operation was called for, None if for none. Of a policy that never returns all of it
        does not change.
    """

def show_position_on(memory: memoryview) -> None:
    """Has this process write where its simulations are into `memory` from now on, for whoever
    shares it. Once, before any simulation.

    Raises
    ------
    ValueError
        If the memory cannot be written or is too short, or if it is too late.
    """

def end_with_parent(parent: int) -> None:
    """Has this process, which leads a group, end with its group when its parent does, even by
    SIGKILL, and even while this process is stopped.

    Raises
    ------
    ProcessLookupError
        If that has happened already.
    """

def position_on(words: bytes) -> Where | None:
    """What `position` gives in the process that wrote `words` into its memory."""

def simulate(
    policy: Policy,
    machine: Machine,
    workload: Workload,
    seed: int,
    tunables: dict[str, int],
    until_ns: int | None = None,
    timeline: bool = False,
    prints: Callable[[str], object] | None = None,
    queues: bool = False,
) -> str:
    """Simulates `workload` on `machine` under `policy`: a pure function of its arguments.

    Parameters
    ----------
    seed : int
        Where the workload's random numbers begin, in [0, 2**64).
    tunables : dict
        Tunables of the policy that shall not have their default.
    until_ns : int, optional
        Stop at this simulated time instead of at the workload's end.
    timeline : bool
        Also give every interval in which a task ran on a CPU; memory then grows with the run.
    prints : callable, optional
        Called with each line that the policy prints (`bpf_printk`), 1,000 at most.
    queues : bool
        Also give what was done to each dispatch queue that was used, as `queue_traces`: a list of
        objects with the queue's name, whether the policy created it (`is_policys`), the number of
        operations, and the text of a trace that `schedlab race --trace` replays. Memory then grows
        with the run.

    Returns
    -------
    str
        JSON object, described in docs/reference/result.md. A policy that breaks the rules gives
        a result whose status is "failed", not an exception.

    Raises
    ------
    PolicyError
        If the policy cannot be loaded: it has no such tunable, or a map the simulator lacks.
    ScenarioError
        If the machine has more CPUs than can be simulated.
    """

def kernels_list(cache_dir: str) -> str:
    """The record of every usable kernel in the cache, as a JSON array, oldest release first.

    Raises
    ------
    KernelError
        If the cache cannot be read.
    """

def kernels_damaged(cache_dir: str) -> list[tuple[str, str]]:
    """Each kernel of the cache that cannot be used: its name; what is wrong and what to do.

    Raises
    ------
    KernelError
        If the cache cannot be read.
    """

def kernels_find(cache_dir: str, name: str | None = None) -> str:
    """One kernel's record as JSON: by name, else the newest of a series, as in "6.18".

    Without a name, the newest that policies can be loaded into.

    Raises
    ------
    KernelError
        If the cache has none; the text says how to get it.
    """

def kernels_add(cache_dir: str, path: str, name: str | None = None, replace: bool = False) -> str:
    """Examines the vmlinuz or vmlinux at `path`, keeps a copy, and gives its record as JSON.

    Raises
    ------
    KernelError
        If it is no kernel for x86-64, or the name cannot be used, or is that of another kernel
        which it is not to `replace`.
    """

def kernels_fetch(
    cache_dir: str, series: list[str], note: Callable[[str], object]
) -> list[tuple[str, None] | tuple[None, str]]:
    """Gets kernels from Debian's packages: for each series its record as JSON, or an error's text.

    Parameters
    ----------
    series : list of str
        As in "6.12", or "newest".
    note : callable
        Is told, in words, what is being done. What it raises ends the fetch, as Ctrl-C does.

    Raises
    ------
    KernelError
        If this system cannot get Debian's packages at all.
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

def find_qemu() -> QemuFound:
    """The QEMU that virtual machines would be run with.

    Raises
    ------
    VmError
        If there is none, or it is too old.
    """

def kvm_obstacle() -> str | None:
    """Why KVM's device cannot be opened; None if it can."""

def fastest_accelerator(cache_dir: str, kernel: str | None = None) -> Literal["kvm", "tcg"]:
    """KVM where it boots this kernel; the first call may try for some seconds.

    Raises
    ------
    KernelError, VmError
        If there is no such kernel, or no QEMU.
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

    Parameters
    ----------
    job : Initramfs, optional
        Files that the guest gets once it has booted; the guest must be `schedlab-guest`.
    policy : Initramfs, optional
        Files of the policy that it loads before it gets its job.
    settle_s : float
        Seconds of the guest's clock that it waits before it takes its job.
    align_clocks : bool
        Whether it then brings the kernel's two clocks onto one grid.
    record_kib_per_cpu : int
        Buffers that it prepares for recordings.
    keep_in : str, optional
        A folder of machines that have booted; without one, or without a job, none is kept.
    keep_with_policy : bool
        Whether a machine is kept once more when it has loaded its policy.
    cpus : str
        `N`, or `N,SOCKETS,CORES,THREADS`.
    deterministic : bool
        Whether the guest's clock counts its instructions; needs "tcg".
    boot_effort_s : float
        Seconds of QEMU's CPU time until the first line.
    boot_limit_s, wall_limit_s : float
        Seconds from power on to the first line, and to the end.

    Raises
    ------
    KernelError, VmError
        If there is no such kernel, no QEMU, or a value cannot be used.
    """

def race_entrants(plugins: list[str] = ...) -> str:
    """Who can take part in the run-queue race, as JSON: a list with one object for each.

    `structure`, `exact`, `can_remove`, `source` ("schedlab", "rust_std" or "plugin:FILE"), and
    `left_out`: why it cannot run on this machine, or "".

    Raises
    ------
    RaceError
        If one of `plugins`, which are paths of shared objects, is none.
    """

def race_heat(spec_json: str) -> str:
    """Runs one heat of the run-queue race; both texts are JSON objects.

    Of the heat only `workload` must be given: hold, hold_remove, cold, single,
    single_remove, markov, up_down, storm, mass_exit, drain, fork_burst or trace. The rest: `keys`,
    `n`, `queues`, `loops`, `rounds`, `order` ("rotating" or "abcba"), `structures`, `cpu`, `seed`,
    `plugins`, `trace`, `pace` (the least that heats before have found). The result has the heat as
    `spec` with what was chosen, what its ticks are counted `per`, `ticks_per_s`, `clock`, `cpu`,
    `counters`, `large_page_bytes`, and `rows`, one for each entrant. A signal is answered between
    rounds and while the heat waits for a core of its own.

    Raises
    ------
    RaceError
        If the heat asks for what is not there, or an entrant is not as exact as it says.
    """

def race_kernel_trace(path: str) -> str:
    """What a kernel did to its run queues, read from the text of `perf script` or ftrace, as JSON.

    `lost`: events that did not fit into the recording's buffers; `queues`, each with its name in
    `queue` (`cpu0`, …, and `all`: the one that all CPUs would have shared), how many `operations`,
    how many switches to tasks that nobody saw come (`unseen`), and the operations as the `text` of
    a trace that a heat plays.

    Raises
    ------
    RaceError
        If it cannot be read, with its line, or has no switches or no wake-ups.
    """

def race_compile(source: str, include_dir: str, cache_dir: str) -> Path:
    """Builds a plug-in in C or C++ as a shared object, unless `cache_dir` has it: its path.

    Raises
    ------
    RaceError
        If it does not compile; the compiler's own words are part of the text.
    """
