"""What is to be measured, in the words of the options of `schedlab bench`."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import catalogue
from schedlab.bench import suite as suites
from schedlab.bench.environment import KERNEL_OWN
from schedlab.bench.plan import Plan
from schedlab.digests import digest_of, timestamp
from schedlab.errors import BadValue, SchedlabError, refuse_unknown
from schedlab.kernel import platform
from schedlab.store.measurements import Campaign, Measurements
from schedlab.values import parse_percent, refuse_duplicates

HERE = "here"
# The most repetitions with --until-ci.
REPETITIONS_UNTIL = 100
# In a virtual machine it is the boots that count: more repetitions of one make no second of it.
REPETITIONS_A_BOOT = 5
BOOTS = 3
# With --until-ci the most; each takes as long as a machine takes to start.
BOOTS_UNTIL = 30
CPUS = "2"
# Whole numbers: option, smallest, largest. QEMU takes more memory; a machine has less.
BOUNDS = {
    "repeat": ("--repeat", 1, suites.REPETITIONS_MAX),
    "seed": ("--seed", 0, 2**62),
    "boots": ("--boots", 1, 1000),
    "memory_mib": ("--memory", 128, 1 << 20),
}


@dataclass(frozen=True)
class Request:
    """What is to be measured, how often and where; what is None has the default of the options.
    Raises SchedlabError if one of these cannot be used, or two contradict each other."""

    suite: suites.Suite
    size: str = suites.SIZES[0]
    only: Sequence[str] = ()
    """Names of benchmarks; all of the suite's if there is none."""
    repeat: int | None = None
    until: str | None = None
    """Half the width of an interval, as in "1%"."""
    policies: str | None = None
    """Names with commas between; None for whatever schedules this machine."""
    on: str = HERE
    # The next four are for "vm" alone.
    kernels: Sequence[str] = ()
    boots: int | None = None
    cpus: str | None = None
    """N or N,SOCKETS,CORES,THREADS."""
    memory_mib: int | None = None
    label: str = ""
    seed: int = 1
    again: bool = False
    work_dir: Path | None = None
    """Where programs work; None for the user's cache."""

    def __post_init__(self) -> None:
        refuse_unknown("size", [self.size], suites.SIZES)
        refuse_unknown("place", [self.on], (HERE, platform.VM))
        for name, (option, least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or not least <= value <= most):
                raise BadValue(option, value, f"is not a whole number from {least} to {most}")
        if self.is_vm:
            refuse_duplicates("--kernel", list(self.kernels))
            platform.refuse_bad_cpus(self.cpus or CPUS)
            if self.until is not None and self.again:
                raise SchedlabError(
                    "--again makes no other boots with --until-ci: all boots of a kernel are looked"
                    " at together",
                    "leave it out to go on; a smaller --until-ci or another --label begins anew",
                )
        else:
            of_machines = {"kernel": self.kernels, "boots": self.boots, "cpus": self.cpus}
            for option, value in (of_machines | {"memory": self.memory_mib}).items():
                if value:
                    raise SchedlabError(f"--{option} is for virtual machines", "add --on vm")
        # Wrong texts are errors before anything is looked up.
        _ = self.cases, self.policy_names, self.width

    @property
    def is_vm(self) -> bool:
        """Whether it is measured in virtual machines."""
        return self.on == platform.VM

    @property
    def cases(self) -> list[suites.Case]:
        """What is repeated."""
        return suites.only(suites.cases(self.suite, self.size), self.only)

    @property
    def policy_names(self) -> list[str]:
        """The policies that take turns; without them, whatever schedules this machine."""
        if self.policies is None:
            return [KERNEL_OWN]
        names = [name.strip() for name in self.policies.split(",")]
        if not all(names) or len(set(names)) < len(names):
            why = "names no policy" if not all(names) else "names a policy twice"
            hint = f"write bfs,cfs; {KERNEL_OWN} is the kernel's own scheduler"
            raise BadValue("--policies", self.policies, why, hint)
        return names

    @property
    def width(self) -> float | None:
        """Half the relative width at which a case is done; None for a number of repetitions."""
        return None if self.until is None else parse_percent("--until-ci", self.until)

    def plan(self, inputs: Mapping[str, Any]) -> Plan:
        """What a campaign measures, or in virtual machines a boot, with these digests of inputs."""
        cases = self.cases
        return Plan(
            cases=cases,
            digests={case.name: case.digest(inputs) for case in cases},
            policies=self.policy_names,
            seed=self.seed,
            repetitions={case.name: self._repetitions(case) for case in cases},
            warm_up={case.name: case.benchmark.warm_up for case in cases},
            until=self.width,
            # No guest is told to go on, and another boot would be another run.
            makes_up=not self.is_vm,
        )

    def campaign(
        self, plan: Plan, series: int, condition: Mapping[str, str], command: str
    ) -> Campaign:
        """The campaign with this number, whether the store has it or not; its id is equal for equal
        questions asked under equal conditions."""
        question = [self.suite.name, plan.definition, self.label, series, dict(condition)]
        return Campaign(
            id=digest_of(question)[:16],
            suite=self.suite.name,
            definition=plan.definition,
            label=self.label,
            series=series,
            condition=condition,
            command=command,
            version=catalogue.core_version(),
            asked_at=timestamp(),
        )

    def _repetitions(self, case: suites.Case) -> int:
        """How many of a case are made, at most; in virtual machines, in each boot."""
        if self.repeat is not None:
            return self.repeat
        if self.is_vm:
            return min(case.benchmark.repetitions, REPETITIONS_A_BOOT)
        return case.benchmark.repetitions if self.until is None else REPETITIONS_UNTIL


def last_series(kept: Measurements, campaign: Callable[[int], Campaign]) -> int:
    """The number of the last campaign of a series that the store has; 0 if it has none."""
    known = {one.id for one in kept.campaigns()}
    return next(number for number in itertools.count() if campaign(number + 1).id not in known)
