"""Boots a kernel in a virtual machine and gives what its guest says, line by line.

A guest may do anything; a boot always ends, and says how. Interrupting is possible at any time.
A machine whose guest is ours is kept once it has booted: the next one goes on from there.
"""

import contextlib
import functools
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlab import catalogue, programs

# How long the core may wait before Python looks whether it was interrupted.
WAIT_S = 0.2

POWERED_OFF = "powered_off"
# Where a guest finds the object of the policy that it loads.
POLICY_OBJECT = "/policy.o"
# Ends after which a machine that said nothing is started once more. QEMU's emulation fails about
# one boot in some hundreds, before the guest's first program (seen: a double fault of Linux 6.12
# under QEMU 7.2, and silence). Nothing was measured by then.
TRIED_AGAIN = ("panicked", "boot_timed_out", "not_restored")
# What a boot may compute: the slowest of those measured took 11 s of CPU time, with four CPUs and
# the clock that counts instructions. Where that is not enough, the second trial has more.
BOOT_EFFORT_S = 45.0
BOOT_EFFORT_AGAIN_S = 300.0
# Kernels go on initialising for some 1.5 s after their first process began. So long after that a
# guest stops for us; a clock that counts instructions jumps over the time in which all sleep.
SETTLE_S = 2.0
SETTLE_DETERMINISTIC_S = 6.0
# Of a console, to tell how a machine ended.
LAST_LINES = 5
# Where a kernel begins to tell why it dies; registers and the way back follow, which nobody reads.
# Source: Linux, Documentation/admin-guide/bug-hunting.rst, and panic() in kernel/panic.c.
DEATH = re.compile(r"BUG: |Oops: |PANIC: |general protection fault|Kernel panic - not syncing")


@dataclass(frozen=True)
class Limits:
    """How long a boot may take, in seconds of this machine's clock: from power on to the guest's
    first line, from power on to the end, and from one line to the next."""

    boot_s: float = 600.0
    wall_s: float = 600.0
    quiet_s: float = math.inf


@dataclass(frozen=True)
class Policy:
    """What a guest loads before it gets its job: a BPF object, and what to set in it. `is_kept`
    says whether the machine that has loaded it is saved; it is kept once `judge_policy` says so."""

    content: bytes
    tunables: Mapping[str, int] = field(default_factory=dict)
    is_kept: bool = True

    def files(self) -> dict[str, bytes]:
        """The guest's files, as crates/kernel/src/job.rs has them."""
        text = json.dumps(policy_spec(self.tunables), sort_keys=True)
        return {POLICY_OBJECT: self.content, "/policy.json": text.encode()}


def policy_spec(tunables: Mapping[str, int]) -> dict[str, Any]:
    """What a guest reads of the policy that it is to load."""
    return {"object": POLICY_OBJECT, "set": {name: str(tunables[name]) for name in tunables}}


@dataclass
class Boot(contextlib.AbstractContextManager):
    """One boot: iterate over it for the guest's lines, then see how it ended.

    `start_again` starts such a machine once more; None where that would end the same way.
    `tell_stage` is told now and then how far it is: "booting", "saving", "restoring" or "working".

    Once it has ended, `end` is a word of `_native.Vm.next`, `message` the same in words, `console`
    the last of what the kernel wrote there, and `booted_after_ns` the time from power on to the
    first line. `failed_start` is how a first machine ended that said nothing, with the last of its
    console. `boot` is which boot it went on from, equal for all that do; empty for a guest that is
    not ours.
    """

    machine: object
    start_again: Callable[[], object] | None = None
    end: str = ""
    message: str = ""
    console: str = ""
    booted_after_ns: int | None = None
    lines: list[str] = field(default_factory=list)
    failed_start: str = ""
    boot: str = ""
    tell_stage: Callable[[str], None] | None = None
    quiet_s: float = math.inf

    def __iter__(self) -> Iterator[str]:
        """Every line, as it comes."""
        heard_s = time.monotonic()
        while not self.end:
            if self.tell_stage:
                self.tell_stage(self.machine.stage)
            kind, text = self.machine.next(WAIT_S)
            if kind == "line":
                self.lines.append(text)
                yield text
                heard_s = time.monotonic()
            elif kind != "quiet":
                if not self._starts_again(kind, text):
                    self.end, self.message = kind, text
            elif self.lines and time.monotonic() - heard_s > self.quiet_s:
                self.end = "timed_out"
                self.message = f"the guest said nothing more for {self.quiet_s:g} s"
        self.console = self.machine.console_tail()
        self.booted_after_ns = self.machine.booted_after_ns
        self.boot = self.machine.boot

    @property
    def pid(self) -> int:
        """The process of QEMU, whose CPU time is what the guest takes of this machine."""
        return self.machine.pid

    def _starts_again(self, end: str, message: str) -> bool:
        """Whether another machine replaces one that ended without a word, which is tried once."""
        # Whatever cannot be restored is gone, so this comes to an end.
        is_second = bool(self.failed_start) and end != "not_restored"
        if end not in TRIED_AGAIN or self.lines or self.start_again is None or is_second:
            return False
        told = [self.failed_start, message, *evidence(self.machine.console_tail())]
        self.failed_start = "\n  ".join(filter(None, told))
        self.machine.close()
        self.machine = self.start_again()
        return True

    def judge_policy(self, did_well: bool) -> None:
        """Keeps the machine that has loaded the policy, or none with it if it did not do well."""
        if did_well:
            self.machine.keep_policy()
        else:
            self.machine.forget_policy()

    def __exit__(self, *_exception: object) -> None:
        self.machine.close()

    def run(self) -> "Boot":
        """Waits for the end; lines are then in `lines`."""
        with self:
            list(self)
        return self


def initramfs(files: Mapping[str, bytes], executables: Mapping[str, bytes] | None = None) -> object:
    """A guest's first file system of these contents, by their absolute paths in the guest."""
    made = catalogue.native().Initramfs()
    for path, content in files.items():
        made.file(path, content)
    for path, content in (executables or {}).items():
        made.file(path, content, True)
    return made


def evidence(console: str) -> list[str]:
    """The lines of a console in which a kernel tells why it dies, or the last that there are."""
    lines = [line for line in console.splitlines() if line.strip()]
    dies = next((at for at, line in enumerate(lines) if DEATH.search(line)), -LAST_LINES)
    return lines[dies:][:LAST_LINES]


def start(
    kernel: str,
    job: Mapping,
    files: Mapping[str, bytes],
    policy: Policy | None = None,
    *,
    executables: Mapping[str, bytes] | None = None,
    keep: bool = True,
    **options,
) -> Boot:
    """Starts a guest of ours, which gets `files` once it has booted and then does its job.

    The machine goes on from a boot of the same kernel, guest, `executables` and options where one
    is kept; unless `keep`, it does not, nor is it kept. Machines of different seeds are different
    boots; with a deterministic clock each boot is equal, and there is one. `job` is what the guest
    does, see crates/kernel/src/job.rs, and `policy` what it loads before it gets `files`. `files`
    and `executables` are contents by their absolute paths in the guest: those of this job, and
    those that the machine has from the beginning. `options` and errors are those of `boot`;
    SchedlabError too if the guest's program is missing.
    """
    options["settle_s"] = SETTLE_S
    if options.get("deterministic"):
        options |= {"settle_s": SETTLE_DETERMINISTIC_S, "seed": 1}
    text = json.dumps(job, sort_keys=True).encode()
    return boot(
        kernel,
        initramfs({}, {"/init": programs.GUEST.find().read_bytes(), **(executables or {})}),
        initramfs({**files, "/job.json": text}),
        policy and initramfs(policy.files()),
        keep_in=str(catalogue.machines_directory()) if keep else None,
        keep_with_policy=policy is not None and policy.is_kept,
        **options,
    )


def boot(
    kernel: str,
    files: object,
    job: object = None,
    policy: object = None,
    *,
    limits: Limits | None = None,
    tell_stage: Callable[[str], None] | None = None,
    **machine,
) -> Boot:
    """Starts a kernel of the cache with an initramfs; `machine` is what else `_native.boot` takes,
    which also raises the errors. `job` and `policy` are initramfs that a guest of ours gets once it
    has booted, see `start`; `tell_stage` is as in `Boot`."""
    limits = limits or Limits()
    machine |= {"boot_limit_s": limits.boot_s, "wall_limit_s": limits.wall_s}
    given = (str(catalogue.kernels_directory()), kernel, files, job, policy)
    start = functools.partial(catalogue.native().boot, *given, **machine)
    again = functools.partial(start, boot_effort_s=BOOT_EFFORT_AGAIN_S)
    booting = start(boot_effort_s=BOOT_EFFORT_S)
    return Boot(booting, again, tell_stage=tell_stage, quiet_s=limits.quiet_s)
