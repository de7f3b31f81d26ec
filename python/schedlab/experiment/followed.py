"""What numbers inside policies were over time: of runs that are made again to look at them.

A store keeps no samples. One run of each policy is looked at, all in one scenario and of one seed;
policies that lack a number have no curve of it. A simulation is a pure function and repeats; on a
real kernel it is another run, which whoever looks disturbs.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlab import catalogue
from schedlab.errors import NoTimeline
from schedlab.experiment import vm
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
from schedlab.report.progress import Progress
from schedlab.shown import print_note

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
    """Numbers in one scenario, with the end of each policy's run; `commands` print each change.
    `is_measured` says that they are of runs on a real kernel, which are not those compared."""

    scenario: str
    is_measured: bool
    ends_ns: Mapping[str, int]
    numbers: Sequence[Number]
    commands: Sequence[str]

    @property
    def until_ns(self) -> int:
        """The last of the ends."""
        return max(self.ends_ns.values())


def refuse_unknown(cells: Sequence[Cell], expressions: Sequence[str]) -> None:
    """Raises SchedlabError or PolicyError for a number that none of the policies has."""
    of_policies = {cell.policy.path: cell for cell in cells}.values()
    found = {name for cell in of_policies for name in numbers_of(cell, expressions)}
    for expression in (name for name in expressions if name not in found):
        if path := next((path for path in (cell.policy.path for cell in cells) if path), None):
            catalogue.load_policy(path).refuse_unknown([expression], ANY_CPUS)
        vm.refuse_unknown_numbers(cells[0], [expression])


def of_study(
    study: "Study",
    cells: Callable[[], Sequence[Cell]],
    wish: Wish,
    quiet: bool = False,
) -> Followed | None:
    """What the numbers that are wished were in the scenario that is, else a small one; None if none
    are.

    `cells` gives the cells of the experiment; `quiet` leaves out progress. Raises NoTimeline where
    there is no run to look at, which is only told where the experiment's file has the numbers, and
    as `refuse_unknown`.
    """
    if not wish.numbers:
        return None
    try:
        return _looked_at(study, cells(), wish, quiet)
    except NoTimeline as error:
        if wish.watch:
            raise
        print_note(f"note: {error}")
        return None


def _looked_at(study: "Study", asked: Sequence[Cell], wish: Wish, quiet: bool) -> Followed:
    expressions = wish.numbers
    refuse_unknown(asked, expressions)
    runs = chosen_cell(study, Wish(scenario=wish.scenario)).runs
    seed = min(record.seed for record in next(iter(runs.values())))
    records = [next((r for r in of if r.seed == seed), None) for of in runs.values()]
    if None in records:
        missing = ", ".join(p for p, r in zip(runs, records, strict=True) if r is None)
        raise NoTimeline(f"no numbers to look at: seed {seed} did not complete under {missing}")
    looked = [(cell, numbers_of(cell, expressions)) for cell in cells_of(records, asked)]
    looked = [(cell, own) for cell, own in looked if own]
    results = _made_again(looked, quiet)
    watched = {policy: result["watched"] for policy, result in results.items()}
    commands = [
        " ".join([cell.replay(), "--timeline", *(f"--watch '{one}'" for one in own)])
        for cell, own in looked
    ]
    ends_ns = {record.policy: record.result["elapsed_ns"] for record in records}
    ends_ns |= {policy: result["elapsed_ns"] for policy, result in results.items()}
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
    is_measured = asked[0].platform is not None
    return Followed(place_text(records[0]), is_measured, ends_ns, numbers, commands)


def _made_again(
    looked: Sequence[tuple[Cell, Sequence[str]]], quiet: bool
) -> dict[str, Mapping[str, Any]]:
    """By its policy, what came of each cell's run, of which these numbers were followed."""
    results = {}
    with Progress(len(looked), "runs looked into", quiet) as progress:
        for cell, own in looked:
            progress.update(progress.nr_done, cell.policy.label)
            if cell.platform:
                kernel = f"Linux {cell.platform.kernel.release}"
                tell = functools.partial(vm.tell_stage, progress, kernel)
                outcome = vm.measure_cell(cell, inside={"watch": own}, tell_stage=tell)
            else:
                outcome = simulate_cell(cell, watch=own)
            for note in outcome.notes:
                progress.tell(note)
            result = refuse_fault(outcome).result
            if result["status"] == "failed":
                why = f"made once more, {cell.say()} fails: {result['error']['message']}"
                raise NoTimeline(f"no numbers to look at: {why}")
            results[cell.policy.label] = result
            progress.done()
    return results


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
