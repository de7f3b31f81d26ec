"""The race of April 2007 beside the one of today: two machines, three structures, and what is not
known of them.

The figures are those of `published/seed001_smart_queue.csv`. Each is the median of what its author
printed: one run on the Opteron, two on the Duron.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue
from schedlab.errors import SchedlabError
from schedlab.race.answers import GAVL, GAVL_PUBLISHED, RED_BLACK, TIME_RING, Row, Standing
from schedlab.statistics.estimates import median_estimate

TABLE = "seed001_smart_queue"
CFS_2007, GAVL_2007, RING_2007 = "CFS", "gavl_cfs", "TR"
NAMES_2007 = {CFS_2007: "red-black tree", GAVL_2007: "GAVL tree", RING_2007: "time ring"}
# Of two GAVL trees of today, the one with the published library's sign error is that of 2007.
TODAY = {CFS_2007: (RED_BLACK,), GAVL_2007: (GAVL_PUBLISHED, GAVL), RING_2007: (TIME_RING,)}
FLAT_FROM, FLAT_TO = 100, 100_000
SIZE_OF_WORSE = 10


@dataclass(frozen=True, slots=True)
class Published:
    """What was printed in 2007: machine -> structure -> number of tasks -> cycles a loop."""

    cycles: Mapping[str, Mapping[str, Mapping[int, float]]]


@dataclass(frozen=True, slots=True)
class Beside:
    """One size of one machine of 2007 and the same size today.

    `then` are cycles a loop by the names of 2007, `now` ticks a loop, minima, by the same names;
    who did not take part is missing.
    """

    machine: str
    n: int
    then: Mapping[str, float]
    now: Mapping[str, float]

    def ratios(self, over: str, under: str) -> tuple[float | None, float | None]:
        """One structure's time over another's, then and now; None where one is missing."""
        return _ratio(self.then, over, under), _ratio(self.now, over, under)


def _ratio(times: Mapping[str, float], over: str, under: str) -> float | None:
    return times[over] / times[under] if over in times and times.get(under) else None


def read_published() -> Published:
    """The figures of 2007.

    Raises
    ------
    SchedlabError
        If the table is not there or is not what it was.
    """
    path = catalogue.find(catalogue.PUBLISHED, TABLE)
    return parse_published(path)


def parse_published(path: Path) -> Published:
    """As `read_published`, from a file."""
    printed: dict[tuple[str, str, int], list[float]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                place = (row["machine"], row["structure"], int(row["n_tasks"]))
                printed.setdefault(place, []).append(float(row["cycles_per_loop"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise SchedlabError(
            f"{path} is not the table of 2007 any more: {error}", "install schedlab again"
        ) from error
    cycles: dict[str, dict[str, dict[int, float]]] = {}
    for (machine, structure, n), found in printed.items():
        cycles.setdefault(machine, {}).setdefault(structure, {})[n] = statistics.median(found)
    return Published(cycles)


def beside(published: Published, standings: Sequence[Standing]) -> list[Beside]:
    """A row for each machine and size of 2007 that a heat of today has too.

    Only heats of the workload `hold` on uniform keys, which come nearest to the loop of 2007.
    """
    today = _holds(standings)
    rows = []
    for machine, structures in published.cycles.items():
        sizes = sorted({n for found in structures.values() for n in found} & set(today))
        for n in sizes:
            then = {name: found[n] for name, found in structures.items() if n in found}
            now = {name: row.fewest for name in then if (row := _today(today[n], name))}
            if now:
                rows.append(Beside(machine, n, then, now))
    return rows


def _holds(standings: Sequence[Standing]) -> dict[int, Standing]:
    return {
        one.heat.asked.n: one
        for one in standings
        if (one.heat.asked.workload, one.heat.asked.keys) == ("hold", "uniform")
    }


def _today(standing: Standing, name: str) -> Row | None:
    """What takes the place of a structure of 2007."""
    rows = (standing.rows.get(known) for known in TODAY[name])
    return next((row for row in rows if row is not None and row.ticks is not None), None)


# ---- what is to be said of it -------------------------------------------------------------------


def remarks(published: Published, standings: Sequence[Standing]) -> list[str]:
    """What a reader of the two races must know, in sentences; empty without a common size."""
    if not beside(published, standings):
        return []
    today = _holds(standings)
    said = [
        "The program of 2007 could not be found. Its posts do not say by how much a key grew, how"
        " the random numbers came about, how many slots the ring had and how wide they were, or"
        " whether filling the queue was timed. Here keys grow by 1 to 2^22, all alike, and filling"
        " is not timed. So compare ratios; cycles of 2007 and ticks of today have only the loop in"
        " common.",
        _flat_remark(published, today),
    ]
    said += filter(None, [_sign_remark(published, today)])
    return said


def _flat_remark(published: Published, today: Mapping[int, Standing]) -> str:
    machine, of = next((machine, of) for machine, of in published.cycles.items() if GAVL_2007 in of)
    gavl, ring = of[GAVL_2007], of[RING_2007]
    text = (
        f"On the {machine} the GAVL tree took {gavl[FLAT_FROM]:.0f} cycles with {FLAT_FROM} tasks"
        f" and {gavl[FLAT_TO]:.0f} with {FLAT_TO:,}, while the ring beside it, which looks at no"
        f" other task, went from {ring[FLAT_FROM]:.0f} to {ring[FLAT_TO]:.0f}. A tree of 17 levels"
        " that misses caches cannot cost what one of 7 does: nobody has explained it, and most"
        " likely it is a fault of the test."
    )
    ends = [today[n] for n in (FLAT_FROM, FLAT_TO) if n in today]
    rows = [row for one in ends if (row := _today(one, GAVL_2007))]
    if len(rows) == 2:
        few, many = (row.fewest for row in rows)
        text += f" Here it goes from {few:.0f} to {many:,.0f} ticks."
    return text


def _sign_remark(published: Published, today: Mapping[int, Standing]) -> str | None:
    """What correcting the sign in cut-first does where its author marked his tree as worse."""
    standing = today.get(SIZE_OF_WORSE)
    if standing is None:
        return None
    wrong, right, tree = (standing.rows.get(n) for n in (GAVL_PUBLISHED, GAVL, RED_BLACK))
    if not (wrong and right and wrong.ticks and right.ticks and wrong.fewest and right.fewest):
        return None
    found = median_estimate([a / b for a, b in zip(right.rounds, wrong.rounds, strict=False)])
    bounds = "" if found.low is None else f" [{found.low:.2f}, {found.high:.2f}]"
    text = (
        "The GAVL library as published adds 1 to a height difference where cutting off the first"
        f" item must subtract 1. Corrected, {SIZE_OF_WORSE} items take {right.fewest:.1f} ticks at"
        f" best instead of {wrong.fewest:.1f}; round by round, {found.median:.2f} times as"
        f" many{bounds}."
    )
    if not (tree and tree.ticks):
        return text
    then = next(
        _ratio({name: sizes[SIZE_OF_WORSE] for name, sizes in of.items()}, CFS_2007, GAVL_2007)
        for of in published.cycles.values()
        if SIZE_OF_WORSE in of.get(GAVL_2007, ())
    )
    before, after = (tree.fewest / row.fewest for row in (wrong, right))
    return (
        f"{text} The red-black tree's time over GAVL's was {then:.2f} in 2007, when its author"
        f" wrote WORSE beside it; here it is {before:.2f} with the error and {after:.2f} without."
    )
