"""`schedlab agree --original`: does a policy do what the scheduler does whose name it has?

The original is a kernel's own scheduler, played without any policy; beside it stand the policy in a
kernel and in the simulator. Each scenario is played in a machine of its own, which goes on from one
boot and whose clock counts instructions, so that what comes of it does not hang on which others
were asked for. Unlike in `referee`, a policy is loaded before its tasks are made, as the original
is there before them, and schedules kernel threads too.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.digests import attributes
from schedlab.errors import BadValue, SchedlabError, refuse_unknown
from schedlab.kernel import agreement, platform, play, referee, vm
from schedlab.kernel import result as kernel_result
from schedlab.kernel.conduct import Conduct, Likeness, compare_conduct, conduct_of

RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
HACKBENCH = "hackbench"
# A sender of 10 loops has all its messages sent in 1.3 ms: whether that is before or after it is
# preempted for the first time makes ten times as many switches. One of 100 loops goes on.
HACKBENCH_SIZE = {"groups": "1", "loops": "100"}
# What a user types for the plain set of each scheduler that a kernel may have.
SCHEDULERS = tuple(platform.SERIES_OF)


@dataclass(frozen=True)
class Scenario:
    """A workload, and how often it is played, each time with the next seed."""

    name: str
    path: Path
    parameters: Mapping[str, str] = field(default_factory=dict)
    nr_plays: int = 1
    record_kib: int = referee.RECORD_KIB

    @property
    def is_stopped(self) -> bool:
        """Whether it ends at a time, and not when its tasks have ended."""
        return "stop" in user_file.toml(f"workload file {self.path}", self.path)


@dataclass(frozen=True)
class Named:
    """A policy of a C file with one of its tunable sets, as its user calls it."""

    label: str
    policy: object
    tunables: Mapping[str, int]

    def loaded(self) -> vm.Policy:
        """What a machine loads of it."""
        return vm.Policy(Path(self.policy.object_path).read_bytes(), self.tunables)


@dataclass(frozen=True)
class Beside:
    """A policy beside its original, in one scenario and place: the `kernel` that it was loaded
    into, None for the simulator. `first` is the first play of both, decision by decision."""

    kernel: str | None
    conduct: Conduct
    likeness: Likeness
    first: agreement.Agreement

    def as_json(self) -> dict:
        """Its figures; of its decisions, only where they differ first."""
        figures = ("switches_percent", "delay_percent", "share_points", "verdict")
        return {
            "kernel": self.kernel,
            **_figures_json(self.conduct),
            **attributes(self.likeness, *figures),
            "differing": list(self.likeness.differing),
            "differs_at": self.first.differs_at,
        }


@dataclass(frozen=True)
class Comparison:
    """What an original and a policy did with one scenario. `names` are those of its tasks."""

    policy: str
    kernel: platform.Kernel
    scenario: str
    original: Conduct
    beside: Sequence[Beside]
    names: Mapping[int, str]

    def as_json(self) -> dict:
        """All of it but the decisions."""
        original = {"kernel": self.kernel.name, "release": self.kernel.release}
        return {
            **attributes(self, "policy", "scenario"),
            "original": original | _figures_json(self.original),
            "beside": [one.as_json() for one in self.beside],
        }


def _figures_json(conduct: Conduct) -> dict:
    """Medians, and what they are of."""
    medians = attributes(conduct, "switches_median", "delay_ns_median", "share_percent_medians")
    return {**medians, "switches": list(conduct.switches), "delays_ns": list(conduct.delays_ns)}


# ---- what is compared ---------------------------------------------------------------------------


def scenarios(wanted: Sequence[str] = ()) -> list[Scenario]:
    """Those of the agreement and hackbench, or the wanted ones of them, or a file's path. Raises
    SchedlabError for what is neither."""
    shelf = catalogue.names(referee.SCENARIOS)
    known = {name: Scenario(name, path) for name, path in shelf.items()}
    path = catalogue.find(catalogue.WORKLOADS, HACKBENCH)
    known[HACKBENCH] = Scenario(HACKBENCH, path, HACKBENCH_SIZE, 3, play.RECORD_KIB)
    files = {name for name in wanted if catalogue.is_path(referee.SCENARIOS, name)}
    refuse_unknown("scenario", [name for name in wanted if name not in files], known)
    for name in files:
        found = catalogue.find(referee.SCENARIOS, name)
        known[name] = Scenario(found.stem, found)
    return [known[name] for name in wanted or known]


def kernels(text: str, policy: object, set_name: str | None) -> list[platform.Kernel]:
    """The kernels of the cache that a policy's set is to be like: those with the scheduler of its
    name, from the set's release up to the next set's. Raises BadValue if it is none of those."""
    if policy.name not in SCHEDULERS:
        hint = " or ".join(f"{name}@{series}" for name, series in platform.SERIES_OF.items())
        raise BadValue("policy", text, "has the name of no kernel's own scheduler", f"ask {hint}")
    release = RELEASE.fullmatch(set_name or "")
    if release is None:
        hint = f"name one, as in {policy.name}@{platform.SERIES_OF[policy.name]}"
        raise BadValue("policy", text, "names no release of Linux whose scheduler it is", hint)
    first = _key(set_name)
    later = [_key(one["name"]) for one in policy.sets if RELEASE.fullmatch(one["name"])]
    until = min((key for key in later if key > first), default=None)
    found = [
        platform.kernel_of(record)
        for record in platform.present()
        if record["scheduler"] == policy.name
        and first <= _key(record["release"])
        and (until is None or _key(record["release"]) < until)
    ]
    if not found:
        names = "no kernel of the cache has that release's scheduler"
        hint = (
            "`schedlab kernels list` has those that are there, `schedlab kernels fetch` gets some"
        )
        raise BadValue("policy", text, f"has no original here: {names}", hint)
    return found


def _key(release: str) -> tuple[int, ...]:
    return tuple(int(number or 0) for number in RELEASE.match(release).groups())


def named_kernel(text: str, policy: object, name: str) -> platform.Kernel:
    """The kernel of that name as an original. Raises SchedlabError if it is not there, or if its
    own scheduler is another."""
    kernel = platform.find_kernel(name)
    if kernel.scheduler != policy.name:
        why = f"has no original in kernel {name}, whose own scheduler is {kernel.scheduler}"
        raise BadValue("policy", text, why, "leave out --kernel to take those that its name means")
    return kernel


def judge(
    text: str, wanted: Sequence[Scenario], kernel: str | None, tell: Callable[[str], None]
) -> Iterator[Comparison]:
    """Plays scenarios under the originals of a policy and under it, and simulates them. Raises
    SchedlabError if it has no original, or one could not be played; `tell` hears how far it is."""
    source, set_name = catalogue.find_policy(text)
    policy = catalogue.load_policy(source)
    values = catalogue.values_of_set(policy, set_name)
    label = policy.name if set_name is None else f"{policy.name}@{set_name}"
    of_set = [] if kernel else kernels(text, policy, set_name)
    originals = [named_kernel(text, policy, kernel)] if kernel else of_set
    # Found before anything is booted.
    homes = {one.name: _home_of(label, one) for one in originals}
    named = Named(label, policy, values)
    simulations = {one.name: _simulated(named, one) for one in wanted}
    played: dict[tuple[str, str], list[agreement.Arm]] = {}
    for original in originals:
        for scenario in wanted:
            names, simulated = simulations[scenario.name]
            home = homes[original.name]
            tell(f"{scenario.name}: {original.name} and {label} in {home}")
            theirs = _played(original.name, scenario, None)
            key = (home, scenario.name)
            ours = played.get(key) or played.setdefault(key, _played(home, scenario, named))
            conduct = conduct_of(theirs, names, is_stopped=scenario.is_stopped)
            beside = [
                _beside(home, (conduct, theirs), ours, scenario, names),
                _beside(None, (conduct, theirs), simulated, scenario, names),
            ]
            yield Comparison(label, original, scenario.name, conduct, beside, names)


def _home_of(label: str, original: platform.Kernel) -> str:
    """The kernel that the policy is loaded into: the original's own if that takes policies."""
    if original.sched_ext == "sound":
        return original.name
    platform.refuse_kernel_without_sched_ext(label, platform.find_kernel(referee.KERNEL))
    return referee.KERNEL


def _beside(
    kernel: str | None,
    original: tuple[Conduct, Sequence[agreement.Arm]],
    arms: Sequence[agreement.Arm],
    scenario: Scenario,
    names: Mapping[int, str],
) -> Beside:
    conduct, theirs = original
    ours = conduct_of(arms, names, is_stopped=scenario.is_stopped)
    first = agreement.compare(arms[0], theirs[0], is_stopped=scenario.is_stopped)
    return Beside(kernel, ours, compare_conduct(conduct, ours), first)


# ---- the arms -----------------------------------------------------------------------------------


def _seeds(scenario: Scenario) -> range:
    return range(referee.SEED, referee.SEED + scenario.nr_plays)


def _simulated(named: Named, scenario: Scenario) -> tuple[dict[int, str], list[agreement.Arm]]:
    """The names of a scenario's tasks by pid, and what the policy did in the simulator."""
    names: dict[int, str] = {}
    arms = []
    for seed in _seeds(scenario):
        result = referee.simulated(
            named.policy, scenario.path, named.tunables, scenario.parameters, seed
        )
        names |= {int(pid): name for pid, name in result["timeline_names"].items()}
        arms.append(agreement.Arm(result["timeline"], result["timeline_wakeups"]))
    return names, arms


def _played(kernel: str, scenario: Scenario, named: Named | None) -> list[agreement.Arm]:
    """What a kernel did, under the policy or by its own scheduler, with all plays in one machine:
    of some scenarios the first play of a boot is unlike those that follow."""
    job = play.Job(deterministic=True, record_kib_per_cpu=scenario.record_kib)
    job.spec["time_limit_ns"] = referee.PLAY_LIMIT_NS
    for seed in _seeds(scenario):
        job.play(scenario.path, seed, scenario.parameters, folder=f"/scenarios/{seed}")
    options = referee.machine_options() | {"record_kib_per_cpu": scenario.record_kib}
    with vm.start(kernel, job.spec, job.files, named and named.loaded(), **options) as booted:
        records = kernel_result.parse(list(booted))
        booted.judge_policy(did_well=referee.broken_off(records) is None)
    who = named.label if named else "its own scheduler"
    referee.refuse_broken_off(records, who, kernel)
    plays = [record for record in records if record["record"] == "played"]
    if len(plays) != scenario.nr_plays:
        raise SchedlabError(
            f"{len(plays)} of {scenario.nr_plays} plays of {scenario.name} were made by {who} on"
            f" kernel {kernel}: {booted.message}\n{booted.console[-2000:]}"
        )
    return [referee.arm_of(record) for record in plays]
