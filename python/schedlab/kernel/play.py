"""What a guest of ours is to do once it has booted: plays of workloads, programs, files to read.

Each part of the job is added by a method; `start` boots a machine that does it all in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.kernel import vm
from schedlab.kernel.platform import Platform

# What a play may take by the guest's clock, and a boot by ours, where nothing else is said.
PLAY_LIMIT_NS = 300_000_000_000
LIMITS = vm.Limits(wall_s=900.0)
# Memory for what the scheduler does, of all CPUs together: about a million events.
RECORD_KIB = 64 * 1024
# Where a job finds the policy that it loads itself.
POLICY_OBJECT = "/policy.o"


@dataclass
class Job:
    """The work of one boot, and the files that it needs; see crates/kernel/src/job.rs.

    With `deterministic`, the guest's clock counts instructions. `spec` is what the guest reads: the
    work, its limits, and when it begins. `files` has contents by their absolute paths in the guest.
    """

    deterministic: bool = False
    record_kib_per_cpu: int = RECORD_KIB
    spec: dict[str, Any] = field(default_factory=lambda: {"work": []})
    files: dict[str, bytes] = field(default_factory=dict)

    def play(
        self,
        workload: Path,
        seed: int,
        parameters: Mapping[str, str] | None = None,
        folder: str = "",
    ) -> None:
        """Adds a play of a workload's file, with `parameters` in place of its defaults. Where a job
        plays several files, `folder` is a directory of the guest for this one."""
        path = f"{folder}/{workload.name}"
        self.files[path] = workload.read_bytes()
        self._add(
            "play",
            workload=path,
            seed=seed,
            counts_instructions=self.deterministic,
            record_kib_per_cpu=self.record_kib_per_cpu,
            **({} if parameters is None else {"set": dict(parameters)}),
        )

    def command(self, argv: Sequence[str], limit_ns: int) -> None:
        """Adds a program of the guest, which may take `limit_ns`."""
        self._add("command", argv=list(argv), time_limit_ns=limit_ns)

    def read(self, paths: Sequence[str]) -> None:
        """Adds files by which the kernel tells of itself."""
        self._add("read", paths=list(paths))

    def wait(self, wall_ns: int) -> None:
        """Adds time in which nothing is done."""
        self._add("wait", wall_ns=wall_ns)

    def load(self, policy: bytes, tunables: Mapping[str, int]) -> None:
        """All work is done under the policy of this BPF object."""
        self.files[POLICY_OBJECT] = policy
        self.spec["policy"] = {"object": POLICY_OBJECT, "set": vm.texts(tunables)}

    def _add(self, kind: str, **work: Any) -> None:
        self.spec["work"].append({"kind": kind, **work})


def start(platform: Platform, job: Job, policy: vm.Policy | None = None, **options: Any) -> vm.Boot:
    """Boots a machine of this platform that does a job; `policy` and `options` as in `vm.start`."""
    return vm.start(
        platform.kernel.name,
        job.spec,
        job.files,
        policy,
        cpus=platform.cpus,
        memory_mib=platform.memory_mib,
        accelerator=platform.accelerator,
        deterministic=platform.deterministic,
        **options,
    )
