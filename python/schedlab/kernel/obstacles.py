"""What works on this machine, and what to install for the rest."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, programs
from schedlab.errors import SchedlabError
from schedlab.kernel import bpf, images
from schedlab.kernel.sched_ext import sched_ext

PROGRAM_TIMEOUT_S = 10
LIBRARY_ROOTS = tuple(Path(path) for path in ("/usr/lib", "/usr/lib64", "/usr/local/lib"))

SIMULATOR = "simulator"
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
    if clang := bpf.find_clang():
        yield _finding(KERNEL, "clang for BPF", clang.version)
    else:
        found = f"no clang of version {bpf.CLANG_OLDEST} or later"
        to_do = f"apt-get install clang-{bpf.CLANG_OLDEST}"
        yield _finding(KERNEL, "clang for BPF", found, to_do)
    # The program that loads policies, here and in VMs.
    try:
        guest = _finding(KERNEL, "schedlab-guest", str(programs.GUEST.find()))
    except SchedlabError as error:
        guest = Finding(KERNEL, "schedlab-guest", "missing", str(error), error.hint or "")
    yield guest
    yield libelf(is_needed=guest.state != "ok")
    qemu, kernels = _qemu(), _kernels()
    yield from (qemu, kernels)
    if qemu.state == "ok":
        yield _kvm(kernels.state == "ok")
    if os.geteuid() == 0:
        yield _finding(HOST, "root", "yes")
    else:
        yield _finding(HOST, "root", "no", "run `schedlab load` as root")
    yield from running_kernel()


def _finding(needed_for: str, what: str, found: str, to_do: str = "") -> Finding:
    """What is there, or is missing, as there is something to do."""
    return Finding(needed_for, what, "missing" if to_do else "ok", found, to_do)


def _compiler() -> Finding:
    command = os.environ.get("CC", "cc")
    path = shutil.which(command.split()[0]) if command.split() else None
    if path is None:
        to_do = "apt-get install gcc libc6-dev"
        return _finding(SIMULATOR, "C compiler", f"no {command} on PATH", to_do)
    try:
        answer = programs.output([path, "--version"], PROGRAM_TIMEOUT_S).stdout
    except SchedlabError as error:
        return _finding(SIMULATOR, "C compiler", str(error))
    lines = answer.decode(errors="replace").splitlines()
    return _finding(SIMULATOR, "C compiler", next(iter(lines), path))


def libelf(is_needed: bool, roots: Sequence[Path] = LIBRARY_ROOTS) -> Finding:
    """The static library that schedlab-guest is built with; a built one does without."""
    paths = (
        path for root in roots for depth in ("", "*/") for path in root.glob(f"{depth}libelf.a")
    )
    if found := next(paths, None):
        return _finding(KERNEL, "libelf-dev", str(found))
    if is_needed:
        return _finding(KERNEL, "libelf-dev", "no libelf.a", "apt-get install libelf-dev")
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
        present, damaged = images.present(), images.damaged()
    except catalogue.native().KernelError as error:
        return Finding(VM, "kernels", "missing", error.message, error.hint or "")
    usable = [kernel["name"] for kernel in present if kernel["sched_ext"] == "sound"]
    others = [kernel["name"] for kernel in present if kernel["sched_ext"] != "sound"]
    found = f"with sched_ext: {', '.join(usable) or 'none'}"
    if others:
        found += f"; without: {', '.join(others)}"
    if damaged:
        found += f"; damaged, see `schedlab kernels list`: {', '.join(damaged)}"
    return _finding(VM, "kernels", found, "" if usable else "schedlab kernels fetch")


def _kvm(has_kernel: bool) -> Finding:
    native = catalogue.native()
    slower = "QEMU translates instead (TCG): slower, results are the same"
    obstacle = native.kvm_obstacle()
    if obstacle:
        return Finding(VM, "KVM", "note", f"{obstacle}; {slower}")
    if not has_kernel:
        return Finding(VM, "KVM", "note", "not tried: there is no kernel to boot")
    if native.fastest_accelerator(str(catalogue.kernels_directory())) == "kvm":
        return Finding(VM, "KVM", "ok", "boots a kernel")
    return Finding(VM, "KVM", "note", f"is there and boots no kernel; {slower}")


def running_kernel(sys: Path = Path("/sys")) -> Iterator[Finding]:
    """What the kernel that runs here can do, as told under `sys`."""
    release = platform.release()
    btf = sys / "kernel/btf/vmlinux"
    if btf.exists():
        yield _finding(HOST, "BTF", str(btf))
    else:
        to_do = "a kernel built with CONFIG_DEBUG_INFO_BTF=y"
        yield _finding(HOST, "BTF", f"{release} has none", to_do)
    now = sched_ext(sys)
    if now is None:
        to_do = "Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y, or a VM"
        yield _finding(HOST, "sched_ext", f"{release} is without", to_do)
    elif now.state == "disabled":
        yield _finding(HOST, "sched_ext", f"{release}, no scheduler attached")
    else:
        attached = now.ops or "a scheduler"
        found = f"{release}, {attached} is attached ({now.state})"
        yield _finding(HOST, "sched_ext", found, f"stop {attached} first")
