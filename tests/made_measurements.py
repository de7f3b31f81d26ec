"""Measurements that nobody made, with effects that are known, in a real store.

For tests of what is said of measurements: a factor between two kernels is put in, and must come
out; where none is put in, none may.
"""

import itertools

import numpy as np
from schedlab.store.measurements import FAILED, OK, Campaign, Measurements, Repetition
from schedlab.store.runs import Store

SEED = 20260331
FACTS = {
    "machine": {
        "id": "m1", "cpu_model": "Made CPU 3000", "nr_cpus": 4, "nr_cpus_usable": 4,
        "memory_kib": 8 << 20, "smt": "on", "virtual": "",
    },
    "kernel": {
        "release": "6.1.0", "version": "#1 made", "architecture": "x86_64",
        "command_line": "quiet", "config_sha256": "c0ffee", "preemption": "voluntary", "hz": 250,
        "hz_source": "configuration", "mitigations": {"meltdown": "Mitigation: PTI"},
    },
    "scheduler": "kernel", "governor": "performance", "frequency_driver": "made_pstate",
    "turbo": False, "boot_id": "boot-1", "load": [0.1, 0.1, 0.1], "pressure": {"cpu": 0.0},
    "temperature_celsius": 41.0, "throttled": 0, "tools": {"python": "3.11.2", "gcc": "12.2.0"},
    "inputs": {"sources": {"Makefile": "ab" * 32}},
}  # fmt: skip


def around(nr_counted, centre, factor, noise, generator):
    """Values with a geometric mean of exactly centre * factor, so that effects are exact."""
    logs = generator.normal(0, noise, nr_counted)
    return centre * factor * np.exp(logs - np.mean(logs))


class MadeStore:
    """A store to which campaigns are added, each with the values that it is to have."""

    def __init__(self, path):
        self.path = path
        self._numbers = itertools.count(1)

    def add(self, release, cases, **more):
        """A campaign on a kernel: `cases` maps (benchmark, parameters as pairs) to values.

        `more` are: under (by policy, cases that took turns with these), machine, label, suite,
        boots (a boot for each value), rates (names of cases), warnings, facts (in place of some),
        noisy and failed (how many of each case), day, form (a word for command and inputs), values
        (parameters that are not in names).
        """
        machine, suite = more.get("machine", "m1"), more.get("suite", "made")
        number = next(self._numbers)
        facts = {**FACTS, **more.get("facts", {})}
        facts["machine"] = {**facts["machine"], "id": machine}
        facts["kernel"] = {**facts["kernel"], "release": release}
        names = {case: " ".join([case[0], *(f"{k}={v}" for k, v in case[1])]) for case in cases}
        campaign = Campaign(
            id=f"campaign-{number}",
            suite=suite,
            definition={
                "cases": [[name, digest_of(name, more), 10, 1, 60.0] for name in names.values()],
                "higher_is_better": list(more.get("rates", ())),
                "policies": ["kernel", *more.get("under", {})],
                "seed": 1,
                "until": None,
            },
            label=more.get("label", ""),
            series=1,
            condition={
                "machine": machine, "kernel": release, "version": facts["kernel"]["version"],
                "scheduler": facts["scheduler"],
            },
            command=f"schedlab bench {suite}",
            version="0.1.0",
            asked_at=f"2026-03-{number:02}T10:00:00.000+00:00",
        )  # fmt: skip
        with Store(self.path) as store:
            kept = Measurements(store)
            kept.begin(campaign)
            place = kept.surround(campaign.id, campaign.asked_at, facts, more.get("warnings", []))
            for policy, of in {"kernel": cases, **more.get("under", {})}.items():
                for case, values in of.items():
                    for repetition in repetitions(names[case], case, values, policy, more):
                        kept.add(campaign.id, place, repetition)


def digest_of(name, more):
    """What tells commands, inputs and values apart."""
    values = more.get("values", {})
    return f"digest of {name} {more.get('form', '')} {values}"


def repetitions(name, case, values, policy, more):
    """The repetitions of a case: a warm-up that must never count, the values, the failures."""
    boots = more.get("boots", ["boot-1"] * len(values))
    nr_noisy, nr_failed = more.get("noisy", 0), more.get("failed", 0)
    made = [("warm-up 1", 1000.0 * values[0], True)]
    made += [(str(n), float(value), False) for n, value in enumerate(values, 1)]
    made += [(str(len(values) + n), None, False) for n in range(1, nr_failed + 1)]
    for n, (slot, value, warm_up) in enumerate(made):
        yield Repetition(
            case_digest=digest_of(name, more),
            case_name=name,
            policy=policy,
            slot=slot,
            warm_up=warm_up,
            status=FAILED if value is None else OK,
            value=value,
            unit=more.get("unit", "s"),
            noisy=1 <= n <= nr_noisy,
            started_at=f"2026-03-{more.get('day', 1):02}T10:00:{n % 60:02}.000+00:00",
            manifest={
                "command": ["true"], "values": {**dict(case[1]), **more.get("values", {})},
                "boot_id": boots[max(0, min(n - 1, len(boots) - 1))], "wall_ns": 1_000_000,
                "foreign_ns": 5, "steal_ns": 0, "noisy": [], "failure": None,
            },
        )  # fmt: skip
