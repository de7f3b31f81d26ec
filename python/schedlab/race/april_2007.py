"""The race of April 2007 beside the one of today: two machines, three structures, and what is not
known of them. Figures are those of `published/seed001_smart_queue.csv`, each the median of what its
author printed: one run on the Opteron, two on the Duron."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlab import published
from schedlab.errors import SchedlabError
from schedlab.race.answers import GAVL, GAVL_PUBLISHED, RED_BLACK, TIME_RING, Standing
from schedlab.statistics.samples import by_key

TABLE = "seed001_smart_queue"
CFS_2007, GAVL_2007, RING_2007 = "CFS", "gavl_cfs", "TR"
NAMES_2007 = {CFS_2007: "red-black tree", GAVL_2007: "GAVL tree", RING_2007: "time ring"}
# Of two GAVL trees of today, the one with the published library's sign error is that of 2007.
TODAY = {CFS_2007: (RED_BLACK,), GAVL_2007: (GAVL_PUBLISHED, GAVL), RING_2007: (TIME_RING,)}
# What a reader of the two races must know.
REMARKS = (
    "The program of 2007 could not be found. Its posts do not say by how much a key grew, how the"
    " random numbers came about, how many slots the ring had and how wide they were, or whether"
    " filling the queue was timed. Here keys grow by 1 to 2^22, all alike, and filling is not."
    " So compare ratios; cycles of 2007 and ticks of today have only the loop in common.",
    "On the Duron the GAVL tree took 259 cycles with 100 tasks and 259 with 100,000. A tree"
    " of 17 levels that misses caches cannot cost what one of 7 does: nobody has explained it, and"
    " most likely it is a fault of the test.",
    "The GAVL library as published adds 1 to a height difference where cutting off the first item"
    f" must subtract 1. {GAVL_PUBLISHED}, which stands for it, does so too; {GAVL} is without that"
    " error.",
)

# What was printed in 2007: machine -> structure -> number of tasks -> cycles a loop.
Race2007 = Mapping[str, Mapping[str, Mapping[int, float]]]


@dataclass(frozen=True, slots=True)
class Beside:
    """One size of one machine of 2007 and the same size today: `then` are cycles a loop by the
    names of 2007, `now` ticks a loop, minima; who did not take part is missing."""

    machine: str
    n: int
    then: Mapping[str, float]
    now: Mapping[str, float]

    def ratios(self, over: str, under: str) -> tuple[float | None, float | None]:
        """One structure's time over another's, then and now; None where one is missing."""
        return tuple(
            times[over] / times[under] if over in times and times.get(under) else None
            for times in (self.then, self.now)
        )


def read() -> Race2007:
    """The figures of 2007. Raises SchedlabError if the table is not there or not what it was."""
    try:
        printed = by_key(
            ((row["machine"], row["structure"], int(row["n_tasks"])), float(row["cycles_per_loop"]))
            for row in published.rows(TABLE)
        )
    except (KeyError, ValueError) as error:
        why = f"{TABLE} is not the table of 2007 any more: {error}"
        raise SchedlabError(why, "install schedlab again") from error
    cycles: dict[str, dict[str, dict[int, float]]] = {}
    for (machine, structure, n), times in printed.items():
        cycles.setdefault(machine, {}).setdefault(structure, {})[n] = statistics.median(times)
    return cycles


def beside(race: Race2007, standings: Sequence[Standing]) -> list[Beside]:
    """A row for each machine and size of 2007 that a heat of today has too: of those of the
    workload `hold` on uniform keys, which come nearest to the loop of 2007."""
    today = {one.heat.spec.n: one.rows for one in standings if one.heat.spec.is_loop_of_2007}
    besides = []
    for machine, structures in race.items():
        for n in sorted({n for times in structures.values() for n in times} & set(today)):
            then = {name: times[n] for name, times in structures.items() if n in times}
            now = {}
            for name in then:
                rows = (today[n].get(structure) for structure in TODAY[name])
                if timed := [row for row in rows if row is not None and row.ticks is not None]:
                    now[name] = timed[0].fewest
            if now:
                besides.append(Beside(machine, n, then, now))
    return besides
