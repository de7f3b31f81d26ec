"""Boots a kernel in a virtual machine and gives what its guest says, line by line.

A guest may do anything; a boot always ends, and says how. Interrupting is possible at any time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schedlab import catalogue, kernels

# How long the core may wait before Python looks whether it was interrupted.
WAIT_S = 0.2

POWERED_OFF = "powered_off"


@dataclass(frozen=True)
class Limits:
    """How long a boot may take, in seconds of this machine's clock."""

    boot_s: float = 60.0
    """From power on to the guest's first line."""
    wall_s: float = 600.0
    """From power on to the end."""
    quiet_s: float | None = None
    """From one line to the next, once there was one; None is as long as there is time."""


@dataclass
class Boot:
    """One boot: iterate over it for the guest's lines, then see how it ended."""

    machine: object
    start_again: Callable[[], object] | None = None
    """Starts such a machine once more; None where that would end the same way."""
    end: str = ""
    """"powered_off", "panicked", "boot_timed_out", "timed_out", "flooded" or "qemu_failed"."""
    message: str = ""
    """The end in words."""
    console: str = ""
    """The last of what the kernel wrote to its console: the evidence."""
    booted_after_ns: int | None = None
    """Time on this machine's clock from power on to the first line."""
    lines: list[str] = field(default_factory=list)
    failed_start: str = ""
    """How a first machine ended whose kernel died before it ran any program; else empty."""
    quiet_s: float | None = None
    """The limit of this name."""

    def __iter__(self) -> Iterator[str]:
        """Every line, as it comes."""
        heard_s = time.monotonic()
        while not self.end:
            kind, text = self.machine.next(WAIT_S)
            if kind == "line":
                self.lines.append(text)
                yield text
                heard_s = time.monotonic()
            elif kind == "quiet" and self._is_too_quiet(heard_s):
                self.end = "timed_out"
                self.message = f"the guest said nothing more for {self.quiet_s:g} s"
            elif kind != "quiet" and not self._starts_again(kind, text):
                self.end, self.message = kind, text
        self.console = self.machine.console_tail()
        self.booted_after_ns = self.machine.booted_after_ns

    def _is_too_quiet(self, heard_s: float) -> bool:
        is_limited = self.quiet_s is not None and bool(self.lines)
        return is_limited and time.monotonic() - heard_s > self.quiet_s

    @property
    def pid(self) -> int:
        """The process of QEMU, whose CPU time is what the guest takes of this machine."""
        return self.machine.pid

    def _starts_again(self, end: str, message: str) -> bool:
        """Whether another machine replaces one whose kernel died in silence, which is tried once.

        QEMU's emulation fails about one boot in some hundreds, before the guest's first program
        (seen: a double fault of Linux 6.12 under QEMU 7.2). Nothing was measured by then.
        """
        if end != "panicked" or self.lines or self.failed_start or self.start_again is None:
            return False
        self.machine.close()
        self.machine, self.failed_start = self.start_again(), message
        return True

    def __enter__(self) -> Boot:
        return self

    def __exit__(self, *_exception: object) -> None:
        """The machine does not outlive its use."""
        self.machine.close()

    def run(self) -> Boot:
        """Waits for the end; lines are then in `lines`."""
        with self:
            for _ in self:
                pass
        return self


def initramfs(files: Mapping[str, bytes], executables: Mapping[str, bytes]) -> object:
    """A guest's first file system of these contents, by their absolute paths in the guest."""
    made = catalogue.native().Initramfs()
    for path, content in files.items():
        made.file(path, content)
    for path, content in executables.items():
        made.file(path, content, True)
    return made


def boot(
    kernel: str,
    files: object,
    *,
    cpus: str = "1",
    memory_mib: int = 1024,
    accelerator: str | None = None,
    deterministic: bool = False,
    seed: int = 1,
    limits: Limits | None = None,
    kernel_arguments: Sequence[str] = (),
) -> Boot:
    """Starts a kernel of the cache with an initramfs.

    Parameters
    ----------
    cpus : str
        `N`, or `N,SOCKETS,CORES,THREADS`.
    accelerator : {"kvm", "tcg"}, optional
        KVM where it works, if not given.
    deterministic : bool
        The guest's clock counts its instructions: equal boots give equal lines, to the nanosecond.

    Raises
    ------
    NativeError
        If there is no such kernel, no QEMU, or a value cannot be used.
    """
    native = catalogue.native()
    limits = limits or Limits()
    directory = str(kernels.directory())
    if accelerator is None:
        accelerator = "tcg" if deterministic else native.fastest_accelerator(directory, kernel)
    start = functools.partial(
        native.boot,
        directory,
        kernel,
        files,
        cpus=cpus,
        memory_mib=memory_mib,
        accelerator=accelerator,
        deterministic=deterministic,
        seed=seed,
        boot_limit_s=limits.boot_s,
        wall_limit_s=limits.wall_s,
        kernel_arguments=list(kernel_arguments),
    )
    return Boot(start(), None if deterministic else start, quiet_s=limits.quiet_s)
