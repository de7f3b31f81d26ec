"""What `--on vm` means: a kernel of the user's cache, and the virtual machine it is booted in.

A platform is all that a measurement depends on beside policy, workload and seed. It is looked up
before anything is booted. The core (crates/kernel/src/kernels.rs) keeps kernels and their records.
"""

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab import catalogue, programs
from schedlab.digests import digest_of
from schedlab.errors import BadValue, SchedlabError

SIMULATOR = "sim"
VM = "vm"
# The clock counts instructions: equal runs are equal to the nanosecond, as simulations are.
VM_DETERMINISTIC = "vm-deterministic"

MEMORY_MIB = 1024
CPUS = re.compile(r"[0-9]{1,4}(,[0-9]{1,4}){3}|[0-9]{1,4}")
# Most that QEMU's `pc` machine takes.
CPUS_MAX = 255
SERIES_OF = {"cfs": "6.1", "eevdf": "6.12"}
NEWEST = "newest"


@dataclass(frozen=True)
class Kernel:
    """A kernel of the cache, with its own scheduler; sched_ext is "absent", "sound" or "broken"."""

    name: str
    release: str
    scheduler: str
    sched_ext: str
    sha256: str


@dataclass(frozen=True)
class Platform:
    """A virtual machine; `cpus` is N[,SOCKETS,CORES,THREADS], `qemu` its version in words, `guest`
    the digest of the program that plays workloads in it."""

    kernel: Kernel
    cpus: str
    accelerator: str
    deterministic: bool
    memory_mib: int
    qemu: str
    guest: str

    @property
    def digest(self) -> str:
        """64 hex digits over all of it: equal platforms measure alike."""
        return digest_of(self.facts)

    @property
    def facts(self) -> dict:
        """All of it as plain JSON values, for manifests."""
        return dataclasses.asdict(self)

    @property
    def nr_cpus(self) -> int:
        """How many CPUs it has."""
        return int(self.cpus.split(",")[0])

    @property
    def backend(self) -> str:
        """The word for it in a store."""
        return VM_DETERMINISTIC if self.deterministic else VM

    @property
    def machine(self) -> str:
        """Its name in tables, which says nothing of the kernel: policies may bring their own."""
        exactly = ", deterministic" if self.deterministic else ""
        return f"vm, {self.cpus} CPU{'s' * (self.cpus != '1')}{exactly}"


def platform_of(record: Mapping, cpus: str, deterministic: bool) -> Platform:
    """The platform of this machine's QEMU and a kernel, by its record in the cache. Raises
    SchedlabError or NativeError if there is no QEMU or no guest program."""
    native, kernel = catalogue.native(), kernel_of(record)
    try:
        qemu = native.find_qemu()["version"]
    except native.VmError as error:
        hint = "; ".join(filter(None, (error.hint, "`schedlab doctor` tells what else is missing")))
        raise SchedlabError(error.message, hint) from error
    guest = hashlib.sha256(programs.GUEST.find().read_bytes()).hexdigest()
    accelerator = "tcg"
    if not deterministic:
        accelerator = native.fastest_accelerator(str(catalogue.kernels_directory()), kernel.name)
    return Platform(kernel, cpus, accelerator, deterministic, MEMORY_MIB, qemu, guest)


def find_kernel(name: str | None) -> Kernel:
    """The kernel that `find_record` finds."""
    return kernel_of(find_record(name))


def find_record(name: str | None) -> Mapping:
    """All that the cache knows of a kernel, by its name, or of the newest that takes policies.
    Raises SchedlabError if the cache has none."""
    native = catalogue.native()
    try:
        return native.kernels_find(str(catalogue.kernels_directory()), name)
    except native.KernelError as error:
        hint = error.hint or "`schedlab kernels fetch` gets some"
        raise SchedlabError(error.message, hint) from error


def kernel_of(record: Mapping) -> Kernel:
    """A kernel from its record in the cache."""
    facts = {name: record[name] for name in ("name", "release", "scheduler", "sha256")}
    return Kernel(**facts, sched_ext="broken" if why_broken(record) else record["sched_ext"])


def why_broken(record: Mapping) -> str | None:
    """Why policies cannot be loaded into a kernel that has sched_ext; None if they can."""
    state = record["sched_ext"]
    return state["broken"] if isinstance(state, Mapping) else None


def present() -> list[dict]:
    """The record of every kernel in the cache that can be used, oldest release first."""
    return catalogue.native().kernels_list(str(catalogue.kernels_directory()))


def damaged() -> dict[str, str]:
    """What is wrong with each damaged kernel of the cache, and a way out, by its name."""
    return dict(catalogue.native().kernels_damaged(str(catalogue.kernels_directory())))


def missing(wanted: Sequence[str], kernels: Sequence[Mapping]) -> list[str]:
    """Of series such as "6.12" or "newest", those that no kernel of the cache answers. "newest" is
    answered by a kernel that takes policies and is newer than the series named."""
    named = [series for series in wanted if series[:1].isdigit()]
    sound = [_series_key(kernel["release"]) for kernel in kernels if kernel["sched_ext"] == "sound"]
    if max(sound, default=(0, 0)) > max(map(_series_key, named), default=(0, 0)):
        wanted = named
    names = {kernel["name"] for kernel in kernels}
    return [series for series in wanted if series not in names]


def _series_key(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", release).groups()))


def refuse_bad_cpus(text: str) -> None:
    """Raises BadValue if `text` is not `N`, or `N,SOCKETS,CORES,THREADS` whose product is N."""
    hint = "write N, or N,SOCKETS,CORES,THREADS as in 4,1,2,2"
    if not CPUS.fullmatch(text):
        raise BadValue("--cpus", text, "is not a number of CPUs", hint)
    total, *parts = map(int, text.split(","))
    if not 1 <= total <= CPUS_MAX:
        raise BadValue("--cpus", text, f"is not between 1 and {CPUS_MAX} CPUs", hint)
    if parts and math.prod(parts) != total:
        product = " x ".join(map(str, parts))
        raise BadValue("--cpus", text, f"says {total} CPUs, but {product} is {math.prod(parts)}")


def refuse_other_scheduler(text: str, scheduler: str, kernel: Kernel) -> None:
    """Raises BadValue if the scheduler that `text` names is not the kernel's own."""
    if scheduler == kernel.scheduler:
        return
    its_own = kernel.scheduler
    hint = f"write {its_own}@kernel:{kernel.name} for this kernel's"
    if scheduler in SERIES_OF:
        hint += (
            f", or {scheduler}@kernel:K with another kernel K, as {SERIES_OF[scheduler]}:"
            " `schedlab kernels list` has those that are there"
        )
    has = f"is not what kernel {kernel.name} ({kernel.release}) has"
    raise BadValue("policy", text, f"{has}: its own scheduler is {its_own.upper()}", hint)


def refuse_kernel_without_sched_ext(label: str, kernel: Kernel) -> None:
    """Raises SchedlabError if no policy can be loaded into the kernel."""
    if kernel.sched_ext == "sound":
        return
    what = "has a broken sched_ext" if kernel.sched_ext == "broken" else "has no sched_ext"
    raise SchedlabError(
        f"policy {label} cannot be loaded into kernel {kernel.name} ({kernel.release}), which"
        f" {what}",
        "leave out --kernel to take the newest that can, see `schedlab kernels list`; its own"
        f" scheduler is {kernel.scheduler}@kernel:{kernel.name}",
    )
