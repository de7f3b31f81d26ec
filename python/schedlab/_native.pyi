"""The Rust core: compiles policies, reads machines and workloads, simulates.

Objects are cheap to make again and cannot be pickled: a worker process makes its own from paths.
"""

from typing import TypedDict, final

class NativeError(Exception):
    """Base of the core's errors; its text is a complete message for a user."""

class PolicyError(NativeError):
    """A policy does not compile, does not load, or refuses a tunable.

    The compiler's own words are part of the text.
    """

class ScenarioError(NativeError):
    """A machine or workload file, or one of its parameters, cannot be used.

    The text names the value, its place, and a way out.
    """

class Tunable(TypedDict):
    """A `const volatile` variable of a policy; `doc` is the comment above it."""

    name: str
    type: str
    default: int
    doc: str

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
    def object_path(self) -> str:
        """Path of the shared object the C became."""
    @property
    def description(self) -> str:
        """What its header comment says of it in one line."""
    @property
    def tunables(self) -> list[Tunable]:
        """What can be set without touching its C, in the order of the C."""

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

def version() -> str:
    """Version of schedlab this module was built from."""

def compile_policy(source: str, include_dirs: list[str], cache_dir: str) -> Policy:
    """Compiles the C file `source` into `cache_dir`, or takes it from there.

    Raises
    ------
    PolicyError
        If it does not compile, or is not a policy.
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

def position() -> tuple[int, int, int] | None:
    """Where the simulation is that this process began last; None while there is none.

    Returns
    -------
    tuple
        Events and operations of the policy that were begun so far, and of the last of them the
        simulated time in ns and the CPU. Of a policy that never returns it does not change.
    """

def simulate(
    policy: Policy,
    machine: Machine,
    workload: Workload,
    seed: int,
    tunables: dict[str, int],
    until_ns: int | None = None,
    timeline: bool = False,
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
