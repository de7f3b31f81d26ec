"""What numbers inside policies were over time: of runs that are simulated again to look at them.

A store keeps no samples, and a run is a pure function. One run of each policy is looked at, all in
one scenario and of one seed; policies that lack a number have no curve of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab import catalogue
from schedlab.errors import NoTimeline, SchedlabError
from schedlab.experiment.cells import Cell
from schedlab.experiment.sweep import refuse_fault, simulate_cell
from schedlab.experiment.timelines import (
    ANY_CPUS,
    Wish,
    cells_of,
    chosen_cell,
    numbers_of,
    place_text,
)

if TYPE_CHECKING:
    from schedlab.experiment.study import Study

# Pieces of time of which a figure has the first, the least, the most and the last sample.
PIECES = 600

Samples = Sequence[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class Number:
    """A number, its type in C, and what it was under each policy that has it."""

    expression: str
    type: str
    samples: Mapping[str, Samples]


@dataclass(frozen=True, slots=True)
class Followed:
    """Numbers in one scenario, with the end of each policy's run; `commands` print each change."""

    scenario: str
    ends_ns: Mapping[str, int]
    numbers: Sequence[Number]
    commands: Sequence[str]

    @property
    def until_ns(self) -> int:
        """The last of the ends."""
        return max(self.ends_ns.values())


def refuse_unknown(cells: Sequence[Cell], expressions: Sequence[str]) -> None:
    """Raises SchedlabError or PolicyError for a number that none of the policies has."""
    if expressions and any(cell.platform for cell in cells):
        why = "--watch of a comparison is for simulations: runs on a real kernel are not repeated"
        raise SchedlabError(why, "schedlab run POLICY --on vm --watch EXPR")
    of_policies = {cell.policy.path: cell for cell in cells}.values()
    found = {name for cell in of_policies for name in numbers_of(cell, expressions)}
    for expression in (name for name in expressions if name not in found):
        catalogue.load_policy(cells[0].policy.path).refuse_unknown([expression], ANY_CPUS)


def of_study(
    study: "Study",
    cells: Callable[[], Sequence[Cell]],
    wish: Wish,
) -> Followed | None:
    """What the numbers that are wished were in the scenario that is, else a small one; None if none
    are.

    `cells` gives the cells of the experiment. Raises NoTimeline where there is no run to look at,
    and as `refuse_unknown`.
    """
    if not (expressions := wish.watch):
        return None
    asked = cells()
    refuse_unknown(asked, expressions)
    runs = chosen_cell(study, Wish(scenario=wish.scenario)).runs
    seed = min(record.seed for record in next(iter(runs.values())))
    records = [next((r for r in of if r.seed == seed), None) for of in runs.values()]
    if None in records:
        missing = ", ".join(p for p, r in zip(runs, records, strict=True) if r is None)
        raise NoTimeline(f"no numbers to look at: seed {seed} did not complete under {missing}")
    watched: dict[str, list[Mapping]] = {}
    commands = []
    for record, cell in zip(records, cells_of(records, asked), strict=True):
        if own := numbers_of(cell, expressions):
            outcome = refuse_fault(simulate_cell(cell, watch=own))
            watched[record.policy] = outcome.result["watched"]
            options = " ".join(f"--watch '{one}'" for one in own)
            commands.append(f"{cell.replay()} --timeline {options}")
    ends_ns = {record.policy: record.result["elapsed_ns"] for record in records}
    numbers = []
    for expression in expressions:
        of_policies = {
            policy: one
            for policy, numbers in watched.items()
            for one in numbers
            if one["expression"] == expression
        }
        samples = {policy: thinned(one["samples"]) for policy, one in of_policies.items()}
        numbers.append(Number(expression, next(iter(of_policies.values()))["type"], samples))
    return Followed(place_text(records[0]), ends_ns, numbers, commands)


def thinned(samples: Samples) -> Samples:
    """As many samples as a figure can show: of each piece of time the first, the least, the most
    and the last, in their order."""
    if len(samples) <= 4 * PIECES:
        return samples
    begin_ns, end_ns = samples[0][0], samples[-1][0] + 1
    pieces: dict[int, list[int]] = {}
    for place, (at_ns, _) in enumerate(samples):
        pieces.setdefault((at_ns - begin_ns) * PIECES // (end_ns - begin_ns), []).append(place)
    kept: set[int] = set()
    for places in pieces.values():
        known = [place for place in places if samples[place][1] is not None] or places
        order = sorted(known, key=lambda place: (samples[place][1] or 0, place))
        kept |= {places[0], order[0], order[-1], places[-1]}
    return [samples[place] for place in sorted(kept)]
