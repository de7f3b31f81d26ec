"""`schedlab agree`: does the simulator decide as a real kernel does? The referee is one on a single
virtual CPU whose clock counts instructions: every boot gives the same schedule to the nanosecond.
It plays what the simulator runs on the machine `referee`; `agreement` compares the decisions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import catalogue, user_file
from schedlab.digests import attributes
from schedlab.errors import SchedlabError
from schedlab.kernel import agreement, platform, play, vm
from schedlab.kernel import result as kernel_result

SCENARIOS = catalogue.Shelf("scenario", "workloads/agreement", ".toml")
MACHINE = "referee"
# The kernel that the machine's costs were measured with.
KERNEL = "6.18"
# Plays draw from the same streams as simulations; nothing in the scenarios is drawn so far.
SEED = 1
# Its scenarios last seconds, and their few thousand events are recorded on one CPU.
PLAY_LIMIT_NS = 60_000_000_000
RECORD_KIB = 8192
# Debian's kernels watch accesses to memory all the time: that thread took the CPU for 0.28 ms in
# every other scenario, which no simulation has. Kernels without it ignore the parameter.
KERNEL_ARGUMENTS = ["damon_stat.enabled=N"]


@dataclass(frozen=True)
class ScenarioAgreement:
    """What came of one scenario under one policy."""

    policy: str
    scenario: str
    comparison: agreement.Agreement
    names: Mapping[int, str]

    def as_json(self) -> dict:
        """All of it but the decisions that agree."""
        compared = self.comparison
        shares = compared.shares_percent.items()
        return {
            **attributes(self, "policy", "scenario"),
            "agrees": compared.agrees,
            "decisions_simulated": len(compared.simulated),
            "decisions_played": len(compared.played),
            **attributes(compared, "differs_at", "share_difference_percent"),
            "shares_percent": {self.names[pid]: both for pid, both in shares},
            "story": agreement.story(compared, self.names),
        }


def judge(
    source: Path, paths: Sequence[Path], kernel: str | None = None, set_name: str | None = None
) -> Iterator[ScenarioAgreement]:
    """Plays, in one boot, and simulates scenarios under the policy of a C file, with one of its
    tunable sets. Raises SchedlabError if one could not be played, or the policy did not survive."""
    policy = catalogue.load_policy(source)
    values = catalogue.values_of_set(policy, set_name)
    label = policy.name if set_name is None else f"{policy.name}@{set_name}"
    kernel = kernel or KERNEL
    platform.refuse_kernel_without_sched_ext(label, platform.find_kernel(kernel))
    # Simulations first: what is wrong with a file is found before anything is booted.
    simulations = [simulated(policy, path, values) for path in paths]
    plays = played(source, paths, kernel, values)
    for path, result, record in zip(paths, simulations, plays, strict=True):
        names = {int(pid): name for pid, name in result["timeline_names"].items()}
        ours = agreement.Arm(result["timeline"], result["timeline_wakeups"])
        is_stopped = "stop" in user_file.toml(f"workload file {path}", path)
        comparison = agreement.compare(ours, arm_of(record), is_stopped=is_stopped)
        yield ScenarioAgreement(label, path.stem, comparison, names)


def simulated(
    policy: object,
    path: Path,
    tunables: Mapping[str, int],
    parameters: Mapping[str, str] | None = None,
    seed: int = SEED,
) -> dict:
    """The result of simulating a scenario, with its timeline; tunables and parameters of the
    workload that are left out have defaults."""
    machine = catalogue.load_machine(catalogue.find(catalogue.MACHINES, MACHINE))
    workload = catalogue.load_workload(path, dict(parameters or {}))
    result = catalogue.native().simulate(
        policy, machine, workload, seed, dict(tunables), timeline=True
    )
    if result["status"] == "failed":
        raise SchedlabError(f"{path.stem} fails in the simulator: {result['error']['message']}")
    return result


def arm_of(play: Mapping) -> agreement.Arm:
    """What a guest's record of a play says was decided."""
    schedule = play["schedule"]
    if schedule["lost"]:
        raise SchedlabError(f"{schedule['lost']} events of a play were lost")
    exits_ns = {task["number"] + 1: task["exited_at_ns"] for task in schedule["tasks"]}
    exited = {pid: at_ns for pid, at_ns in exits_ns.items() if at_ns is not None}
    return agreement.Arm(schedule["timeline"], schedule["wakeups"], exited)


def machine_options() -> dict[str, Any]:
    """What the referee's machine has, as `vm.start` takes it."""
    return {
        "deterministic": True,
        "align_clocks": True,
        "record_kib_per_cpu": RECORD_KIB,
        "limits": play.LIMITS,
        "kernel_arguments": KERNEL_ARGUMENTS,
    }


# ---- the kernel's arm ---------------------------------------------------------------------------


def broken_off(records: Sequence[Mapping]) -> Mapping | None:
    """The first of a guest's records that says why it went no further; None if none does."""
    kinds = ("refused", "ejected", "error")
    return next((record for record in records if record["record"] in kinds), None)


def refuse_broken_off(records: Sequence[Mapping], who: str, kernel: str) -> None:
    """Raises SchedlabError if a guest that played `who` went no further than to an error."""
    if failed := broken_off(records):
        why = failed.get("reason") or failed.get("message")
        raise SchedlabError(f"{who} on kernel {kernel}: {failed['record']}: {why}")


def played(
    source: Path, paths: Sequence[Path], kernel: str, tunables: Mapping[str, int]
) -> list[dict]:
    """A guest's records of plays of these scenarios, in their order."""
    job = play.Job(deterministic=True, record_kib_per_cpu=RECORD_KIB)
    job.load(Path(catalogue.load_policy(source).object_path).read_bytes(), tunables)
    job.spec |= {"isolated_plays": True, "time_limit_ns": PLAY_LIMIT_NS}
    for index, path in enumerate(paths):
        job.play(path, SEED, folder=f"/scenarios/{index}")
    ran = vm.start(kernel, job.spec, job.files, **machine_options()).run()
    records = kernel_result.parse(ran.lines)
    refuse_broken_off(records, source.name, kernel)
    plays = [record for record in records if record["record"] == "played"]
    if len(plays) != len(paths):
        raise SchedlabError(
            f"{len(plays)} of {len(paths)} scenarios were played on kernel {kernel}:"
            f" {ran.message}\n{ran.console[-2000:]}"
        )
    return plays
