"""What a guest of ours is to do once it has booted: plays of workloads, programs, files to read."""

from collections.abc import Mapping
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


@dataclass
class Job:
    """The work of one boot, which is done in order, and the files that it needs.

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
        inside: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds a play of a workload's file, with `parameters` in place of its defaults. Where a job
        plays several files, `folder` is a directory of the guest for this one. `inside` is what to
        look at of the policy meanwhile."""
        path = f"{folder}/{workload.name}"
        self.files[path] = workload.read_bytes()
        given = {} if parameters is None else {"set": dict(parameters)}
        given |= {"inside": dict(inside)} if inside else {}
        given["record_kib_per_cpu"] = self.record_kib_per_cpu
        self.add("play", workload=path, seed=seed, counts_instructions=self.deterministic, **given)

    def add(self, kind: str, **work: Any) -> None:
        """Adds a piece of work, as crates/kernel/src/job.rs has it."""
        self.spec["work"].append({"kind": kind, **work})

    def load(self, policy: bytes, tunables: Mapping[str, int]) -> None:
        """All work is done under the policy of this BPF object."""
        self.files[vm.POLICY_OBJECT] = policy
        self.spec["policy"] = vm.policy_spec(tunables)


def start(platform: Platform, job: Job, policy: vm.Policy | None = None, **options: Any) -> vm.Boot:
    """Boots a machine of this platform that does a job; `policy` and `options` as in `vm.start`."""
    for name in ("cpus", "memory_mib", "accelerator", "deterministic"):
        options[name] = getattr(platform, name)
    return vm.start(platform.kernel.name, job.spec, job.files, policy, **options)
