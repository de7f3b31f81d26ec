"""What a switch costs, part by part: from where on it costs more, and which part makes it so.

Only simulations tell where the kernel's time went. The cost of a switch is all of it that has to do
with scheduling, over the run's switches: the switch itself, filling caches, waking tasks, the
policy's operations, dispatch queues, and locks. System calls, ticks and copies are left out, and so
is waiting for a bus, on which messages come, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedlab.experiment.metrics import OfPolicy
from schedlab.experiment.study import Panel, Study, bounded
from schedlab.report.forms import number_text, ratio_text
from schedlab.statistics import estimates
from schedlab.statistics.estimates import Estimate, Ratio, estimate
from schedlab.store.runs import RunRecord

# Each part with what a policy does to have much of it.
MEANINGS = {
    "switch": "changing tasks",
    "refill": "filling caches",
    "wakeup": "waking tasks",
    "operation": "calling the policy",
    "instructions": "executing the policy's own instructions",
    "queue": "putting tasks into queues and taking them out",
    "scan": "looking through queues task by task",
    "lock": "fetching locks from other CPUs",
    "lock_wait": "waiting for locks",
    "interrupt": "interrupting other CPUs",
}
PARTS = tuple(MEANINGS)
# Told only of machines that say what an instruction costs.
INSTRUCTIONS = "instructions"
# A switch costs so many times what it costs at the first value, at a knee and behind it.
KNEE = 2.0

# Of one run: the ns a switch by part.
Parts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SwitchCost(OfPolicy):
    """What a switch costs in one cell in ns, all of it and by part, and what percentage of the CPU
    time is left for the tasks' own work; means over runs. `executed` is how many instructions the
    policy executed a switch, None where they take no time."""

    total: Estimate
    parts: Mapping[str, Estimate]
    work: Estimate
    executed: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """What a switch costs at `x` over what it costs at the first value: `part` is the one that
    grew most, `share` its percentage of what was added: the mean of each run's percentage."""

    x: float
    ratio: Ratio
    part: str
    share: Estimate

    @property
    def told(self) -> str:
        """The ratio and the part, in words."""
        times, share = bounded(self.ratio, form=ratio_text), bounded(self.share, form=number_text)
        return f"{times} times, {share} % of what was added is {MEANINGS[self.part]}"


@dataclass(frozen=True, slots=True)
class Knee:
    """From `knee` on a switch costs at least `KNEE` times what it costs at `first_x`, the first
    value of what was varied, by the means; `last` is at the last one."""

    panel: Panel
    policy: str
    first_x: float
    knee: Added
    last: Added

    def told(self, axis: str) -> str:
        """In a sentence, but for the policy's name."""
        low = self.knee.ratio.low
        later = ", or later," * (low is not None and low < KNEE)
        text = (
            f"from {axis} = {self.knee.x:,} on{later} a switch costs twice as much as at"
            f" {self.first_x:,}, or more: there {self.knee.told}"
        )
        return text + f"; at {self.last.x:,} {self.last.told}" * (self.last.x != self.knee.x)


def switch_costs(study: Study) -> list[SwitchCost]:
    """A row a cell and policy; none for real kernels, and for runs of older stores."""
    rows = []
    for panel, cell, policy in study.places:
        if of_runs := _parts_of_runs(cell.runs[policy]):
            totals = [sum(parts.values()) for parts in of_runs]
            parts = {name: estimate([of_run[name] for of_run in of_runs]) for name in PARTS}
            work = estimate([_work_percent(record) for record in cell.runs[policy]])
            executed = _executed(cell.runs[policy])
            if executed is None:
                del parts[INSTRUCTIONS]
            rows.append(SwitchCost(panel, cell, policy, estimate(totals), parts, work, executed))
    return rows


def knees(study: Study) -> list[Knee]:
    """Those of each panel and policy that has one, along a varied number."""
    found = []
    for panel in study.panels:
        xs = [cell.x for cell in panel.cells]
        if not any(isinstance(x, str) or x is None for x in xs):
            found += filter(None, (_knee(panel, policy) for policy in study.policies))
    return found


def knee_texts(study: Study, found: Sequence[Knee]) -> Iterator[str]:
    """A sentence for each of a study's knees."""
    for knee in found:
        where = f"{knee.panel.name}: " * (len(study.panels) > 1)
        yield f"{where}{knee.policy}: {knee.told(study.axis)}"


def _knee(panel: Panel, policy: str) -> Knee | None:
    of_cells = [
        (cell.x, parts)
        for cell in panel.cells
        if (parts := _parts_of_runs(cell.runs.get(policy, ())))
    ]
    means = [sum(sum(run.values()) for run in runs) / len(runs) for _, runs in of_cells]
    for at in range(1, len(means)):
        if min(means[at:]) >= KNEE * means[0] > 0:
            first_x, first = of_cells[0]
            knee, last = (_added(*of_cells[place], first) for place in (at, -1))
            return Knee(panel, policy, first_x, knee, last)
    return None


def _added(x: float, runs: Sequence[Parts], first: Sequence[Parts]) -> Added:
    base = {name: sum(run[name] for run in first) / len(first) for name in PARTS}
    shares = []
    for run in runs:
        added = {name: run[name] - base[name] for name in PARTS}
        shares.append({name: 100 * added[name] / sum(added.values()) for name in PARTS})
    part = max(PARTS, key=lambda name: sum(run[name] for run in shares))
    totals = ([sum(run.values()) for run in some] for some in (runs, first))
    return Added(x, estimates.ratio(*totals), part, estimate([run[part] for run in shares]))


def _parts_of_runs(records: Sequence[RunRecord]) -> list[Parts]:
    """Of each run the ns a switch by part; empty where one of them does not tell."""
    of_runs = []
    for record in records:
        overhead, switches = record.result.get("overhead_ns"), record.result["switches"]
        if not overhead or not switches:
            return []
        whole = overhead | {"lock_wait": record.result["cpu_time_ns"]["lock_wait"]}
        # Only where a policy's instructions take time, they have a part.
        of_runs.append({name: whole.get(name, 0) / switches for name in PARTS})
    return of_runs


def _executed(records: Sequence[RunRecord]) -> Estimate | None:
    """Instructions of the policy's own a switch; None where one of the runs does not tell."""
    if not all(record.result.get("policy_executed") for record in records):
        return None
    results = [record.result for record in records]
    return estimate([one["policy_executed"]["instructions"] / one["switches"] for one in results])


def _work_percent(record: RunRecord) -> float:
    split = record.result["cpu_time_ns"]
    return 100 * split["work"] / max(sum(split.values()), 1)
