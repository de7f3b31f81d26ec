"""What works on this machine, and what to install for the rest."""

import itertools
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, programs
from schedlab.errors import SchedlabError
from schedlab.kernel.platform import damaged, present
from schedlab.kernel.sched_ext import sched_ext

LIBRARY_ROOTS = tuple(Path(path) for path in ("/usr/lib", "/usr/lib64", "/usr/local/lib"))

POLICIES = "policies in C"
KERNEL = "policies in a kernel"
VM = "policies in a VM"
HOST = "policies on this kernel"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `state` is "ok", "missing", or "note" where none is needed."""

    needed_for: str
    what: str
    state: str
    found: str
    to_do: str = ""


def examine() -> Iterator[Finding]:
    """Looks at everything that any part of schedlab needs."""
    yield _compiler()
    # The program that loads policies, here and in VMs.
    try:
        guest = Finding(KERNEL, "schedlab-guest", "ok", str(programs.GUEST.find()))
    except SchedlabError as error:
        guest = Finding(KERNEL, "schedlab-guest", "missing", str(error), error.hint or "")
    yield guest
    yield libelf(is_needed=guest.state != "ok")
    qemu, kernels = _qemu(), _kernels()
    yield from (qemu, kernels)
    if qemu.state == "ok":
        yield _kvm(kernels.state == "ok")
    root = "yes" if os.geteuid() == 0 else None
    yield _found_or(HOST, "root", root, "no", "run `schedlab load` as root")
    yield from running_kernel()


def _found_or(needed_for: str, what: str, found: str | None, missing: str, to_do: str) -> Finding:
    if found is None:
        return Finding(needed_for, what, "missing", missing, to_do)
    return Finding(needed_for, what, "ok", found)


def _compiler() -> Finding:
    native = catalogue.native()
    try:
        command, version = catalogue.policy_compiler()
    except native.PolicyError as error:
        if catalogue.SHIPPED_OBJECTS.exists():
            found = f"{error.message}; those that were installed are built"
            return Finding(POLICIES, "clang", "note", found)
        return Finding(POLICIES, "clang", "missing", error.message, error.hint or "")
    return Finding(POLICIES, "clang", "ok", f"{version} ({command})")


def libelf(is_needed: bool, roots: Sequence[Path] = LIBRARY_ROOTS) -> Finding:
    """The static library that schedlab-guest is built with; a built one does without."""
    patterns = itertools.product(roots, ("libelf.a", "*/libelf.a"))
    paths = (path for root, pattern in patterns for path in root.glob(pattern))
    found = next(map(str, paths), None)
    if found or is_needed:
        return _found_or(KERNEL, "libelf-dev", found, "no libelf.a", "apt-get install libelf-dev")
    return Finding(KERNEL, "libelf-dev", "note", "no libelf.a; only building the guest needs it")


def _qemu() -> Finding:
    native = catalogue.native()
    try:
        qemu = native.find_qemu()
    except native.VmError as error:
        reason = str(error).splitlines()[0]
        return Finding(VM, "QEMU", "missing", reason, "apt-get install qemu-system-x86")
    threads = "" if qemu["sound_threads"] else "; one thread for all CPUs"
    return Finding(VM, "QEMU", "ok", qemu["version"] + threads)


def _kernels() -> Finding:
    try:
        kernels, unusable = present(), damaged()
    except catalogue.native().KernelError as error:
        return Finding(VM, "kernels", "missing", error.message, error.hint or "")
    usable = [kernel["name"] for kernel in kernels if kernel["sched_ext"] == "sound"]
    others = [kernel["name"] for kernel in kernels if kernel["sched_ext"] != "sound"]
    found = f"with sched_ext: {', '.join(usable) or 'none'}"
    if others:
        found += f"; without: {', '.join(others)}"
    if unusable:
        found += f"; damaged, see `schedlab kernels list`: {', '.join(unusable)}"
    return _found_or(VM, "kernels", found if usable else None, found, "schedlab kernels fetch")


def _kvm(has_kernel: bool) -> Finding:
    native = catalogue.native()
    slower = "QEMU translates instead (TCG): slower, results are the same"
    if obstacle := native.kvm_obstacle():
        return Finding(VM, "KVM", "note", f"{obstacle}; {slower}")
    if not has_kernel:
        return Finding(VM, "KVM", "note", "not tried: there is no kernel to boot")
    if native.fastest_accelerator(str(catalogue.kernels_directory())) == "kvm":
        return Finding(VM, "KVM", "ok", "boots a kernel")
    return Finding(VM, "KVM", "note", f"is there and boots no kernel; {slower}")


def running_kernel(sys: Path = Path("/sys")) -> Iterator[Finding]:
    """What the kernel that runs here can do, as told under `sys`."""
    release, btf = platform.release(), sys / "kernel/btf/vmlinux"
    with_btf = "a kernel built with CONFIG_DEBUG_INFO_BTF=y"
    found = str(btf) if btf.exists() else None
    yield _found_or(HOST, "BTF", found, f"{release} has none", with_btf)
    now = sched_ext(sys)
    found, missing = None, f"{release} is without"
    to_do = "Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y, or a VM"
    if now and now.state == "disabled":
        found = f"{release}, no scheduler attached"
    elif now:
        attached = now.ops or "a scheduler"
        missing = f"{release}, {attached} is attached ({now.state})"
        to_do = f"stop {attached} first"
    yield _found_or(HOST, "sched_ext", found, missing, to_do)
