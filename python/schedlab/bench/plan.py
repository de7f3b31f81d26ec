"""What the options of `schedlab bench` ask for, without a word on what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.bench import policies as bench_policies
from schedlab.bench import suite
from schedlab.bench.suite import Case, Suite
from schedlab.bench.work import Plan
from schedlab.errors import BadValue, SchedlabError
from schedlab.kernel import loading, platform
from schedlab.values import refuse_duplicates

REPETITIONS_UNTIL = 100
# In a virtual machine it is the boots that count: more repetitions of one make no second of it.
REPETITIONS_A_BOOT = 5
BOOTS = 3
# With --until-ci the most; each takes as long as a machine takes to start.
BOOTS_UNTIL = 30
CPUS = "2"
PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
PERCENT_LEAST, PERCENT_MOST = 0.01, 50.0


@dataclass(frozen=True)
class Machines:
    """The virtual machines of `--on vm`: kernels of the cache, and how often each is booted.

    Without a kernel it is the newest that takes policies. `cpus` is `N[,SOCKETS,CORES,THREADS]`.
    """

    kernels: tuple[str, ...]
    boots: int
    cpus: str
    memory_mib: int

    @classmethod
    def of(
        cls,
        on: str,
        kernels: Sequence[str],
        boots: int | None,
        cpus: str | None,
        memory_mib: int | None,
        boots_unsaid: int = BOOTS,
    ) -> Machines | None:
        """From the options; None is this machine itself. Without `boots` there are `boots_unsaid`.

        Raises
        ------
        SchedlabError
            If they contradict each other, or one cannot be used.
        """
        if on != platform.VM:
            given = {"--kernel": kernels, "--boots": boots, "--cpus": cpus, "--memory": memory_mib}
            for option, value in given.items():
                if value:
                    raise SchedlabError(f"{option} is for virtual machines", "add --on vm")
            return None
        refuse_duplicates("--kernel", list(kernels))
        platform.refuse_bad_cpus(cpus or CPUS)
        memory_mib = memory_mib or platform.MEMORY_MIB
        return cls(tuple(kernels), boots or boots_unsaid, cpus or CPUS, memory_mib)


@dataclass(frozen=True)
class Asked:
    """What is to be measured, how often, and in what order; `machines` is None for this one."""

    suite: Suite
    cases: list[Case]
    size: str
    repeat: int | None
    until: float | None
    policies: list[str]
    label: str
    seed: int
    again: bool
    machines: Machines | None = None

    @classmethod
    def of(cls, read: Suite, *, size, only, repeat, until, policies, label, seed, again, **more):
        """From the options.

        Raises
        ------
        SchedlabError
            If one cannot be used.
        """
        keys = ("on", "kernels", "boots", "cpus", "memory_mib")
        boots_unsaid = BOOTS if until is None else BOOTS_UNTIL
        machines = Machines.of(*(more[key] for key in keys), boots_unsaid)
        if machines and until is not None and again:
            raise SchedlabError(
                "--again makes no other boots with --until-ci: all boots of a kernel are looked at"
                " together",
                "leave it out to go on; a smaller --until-ci or another --label begins anew",
            )
        names = bench_policies.parse(policies)
        if policies is not None and machines is None:
            loading.require_kernel()
        return cls(
            suite=read,
            cases=suite.only(suite.cases(read, size), only),
            size=size,
            repeat=repeat,
            until=None if until is None else _fraction(until),
            policies=names,
            label=label,
            seed=seed,
            again=again,
            machines=machines,
        )

    def repetitions(self, case: Case) -> int:
        """How many of a case are made, at most; in virtual machines, in each boot."""
        if self.repeat is not None:
            return self.repeat
        if self.machines:
            return min(case.benchmark.repetitions, REPETITIONS_A_BOOT)
        return case.benchmark.repetitions if self.until is None else REPETITIONS_UNTIL

    def plan(self, inputs: Mapping[str, Any], policies: Sequence[str]) -> Plan:
        """What a campaign measures, with the digests of the inputs that there are."""
        return Plan(
            cases=self.cases,
            digests={case.name: case.digest(inputs) for case in self.cases},
            policies=policies,
            seed=self.seed,
            repetitions={case.name: self.repetitions(case) for case in self.cases},
            warm_up={case.name: case.benchmark.warm_up for case in self.cases},
            until=self.until,
        )


def _fraction(text: str) -> float:
    found = PERCENT.fullmatch(text.strip())
    percent = float(found[1]) if found else 0.0
    if not PERCENT_LEAST <= percent <= PERCENT_MOST:
        hint = f"give one from {PERCENT_LEAST}% to {PERCENT_MOST:g}%, as in 1%"
        raise BadValue("--until-ci", text, "is not a percentage that can be reached", hint)
    return percent / 100
