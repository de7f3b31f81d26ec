"""Texts of a race that the terminal and the page share."""

import math
from collections.abc import Iterator, Sequence

from schedlab.race import plan
from schedlab.race.answers import Compared, HeatRow, Standing
from schedlab.race.april_2007 import CFS_2007, GAVL_2007, RING_2007, Beside
from schedlab.report.forms import DASH, mean_text, number_text, ratio_text
from schedlab.statistics.estimates import Estimate
from schedlab.statistics.samples import by_key

PERCENTILES = {"p50": "50 %", "p99": "99 %", "p999": "99.9 %", "max": "max"}
TAIL = "p999"
# The race itself is one task that runs.
BUSY_LOAD = 2.0
# Of the figures of a heat, those that may be disturbed before it is told.
DISTURBED_SHARE = 0.1


def by_title(standings: Sequence[Standing]) -> dict[str, list[Standing]]:
    """The heats that differ only in size, under what they have in common."""
    return by_key((standing.heat.spec.title, standing) for standing in standings)


def unit_of(heat: plan.Heat) -> str:
    """What the numbers of a heat are."""
    what = "an operation" if heat.result["per"] == "operation" else "a loop"
    is_counter = heat.result["clock"] == "tsc"
    return f"{'ticks of the time stamp counter' if is_counter else 'nanoseconds'} {what}"


def ticks_text(estimate: Estimate | None) -> str:
    """Minimum, median, and half of the interval of the median; a dash where there is no time."""
    if estimate is None:
        return DASH
    median = mean_text(estimate.median, estimate.low, estimate.high)
    return f"{number_text(estimate.quantiles[0])} {median}"


def fewest_text(row: HeatRow | None) -> str:
    """The minimum of a structure, and its name."""
    return f"{number_text(row.fewest)} {row.structure}" if row else DASH


def compared_text(compared: Compared | None) -> str:
    """How many times as long, with its interval."""
    return ratio_text(compared.ratio, compared.low, compared.high) if compared else DASH


def times_text(row: HeatRow) -> str:
    """A structure's `ticks_text`; percentiles of what is added where operations are timed alone."""
    if not row.single:
        return ticks_text(row.ticks)
    return " ".join(number_text(row.single[name]) for name in PERCENTILES)


def apart_text(row: HeatRow, operations: Sequence[str]) -> str:
    """The tail of each operation of a heat that times each alone."""
    tails = [number_text(row.single[name][TAIL]) for name in operations] if row.single else [DASH]
    return " ".join(tails)


def bytes_text(row: HeatRow) -> str:
    """Memory an item."""
    return DASH if row.left_out else f"{row.bytes_per_item:,.0f}"


def by_speed(standings: Sequence[Standing]) -> list[str]:
    """Structures, the fastest at the largest n first; who has no time there comes last."""

    def slowness(name: str) -> tuple[int, float]:
        for missing, standing in enumerate(reversed(standings)):
            row = standing.rows.get(name)
            if row is not None and (row.single or row.ticks):
                return missing, row.single["p50"] if row.single else row.fewest
        return len(standings), 0.0

    return sorted(dict.fromkeys(name for one in standings for name in one.rows), key=slowness)


def marked(name: str, standings: Sequence[Standing]) -> str:
    """A structure's name, and a sign if its order is not exact."""
    row = next(one.rows[name] for one in standings if name in one.rows)
    return name if row.exact else f"{name} ~"


def together_text(heat: plan.Heat) -> str:
    """Which two operations the percentiles of a heat are of that times each alone."""
    removes = "remove" in plan.TIMED_ALONE[heat.spec.workload]
    return f"a {'removal' if removes else 'pop'} and the push after it, added"


def left_out(standings: Sequence[Standing]) -> Iterator[str]:
    """Who does not take part and why, the sizes with one reason together; and what ~ means."""
    rows = [(one.heat.spec.size, row) for one in standings for row in one.rows.values()]
    reasons = by_key(((row.structure, row.left_out), size) for size, row in rows if row.left_out)
    if not all(row.exact for _, row in rows):
        yield "~: not in exact order, so never the fastest"
    for (name, why), sizes in reasons.items():
        where = "" if len(sizes) == len(standings) else f" at n = {', '.join(sizes)}"
        yield f"{name} is left out{where}: {why}"


def notes(standings: Sequence[Standing]) -> Iterator[str]:
    """What must be known to read the numbers: what is not counted, and who else was on the
    machine, as far as it is known."""
    heats = [one.heat for one in standings]
    if why_not := {heat.result["counters"].get("why_not") for heat in heats} - {None, ""}:
        yield f"Instructions and cache misses are not counted: {'; '.join(sorted(why_not))}."
    if too_short := [
        one.heat.spec
        for one in standings
        if any(row.ticks and row.fewest <= 0 for row in one.rows.values())
    ]:
        yield (
            f"The clock is too coarse for {plan.places(too_short)}: a round took no time, so there"
            " are no ratios to it. Race more loops, with -l."
        )
    # What the clock of single operations goes forward by divides all their percentiles: 1 where
    # steps are no whole ticks, 0 if it timed none.
    singles = [row.single for one in standings for row in one.rows.values() if row.single]
    singles += [value for one in singles for value in one.values() if isinstance(value, dict)]
    step = math.gcd(*(int(single[name]) for single in singles for name in PERCENTILES))
    if step > 1:
        yield (
            f"The clock goes forward {step} ticks at a time, so single operations that differ by"
            " one such step, or a pop and a push by two, may have taken as long."
        )
    pace = plan.own_pace(heats)
    shares = {heat.spec: heat.disturbed_share(pace) for heat in heats}
    if disturbed := [spec for spec, share in shares.items() if share > DISTURBED_SHARE]:
        disturbed.sort(key=shares.__getitem__, reverse=True)
        yield (
            "Another thread had the CPU, or the other half of its core, in"
            f" {100 * shares[disturbed[0]]:.0f} % of the figures of {plan.places(disturbed)}. Who"
            " keeps many units of the core busy suffers most from that, so ratios there are not"
            " those of an idle machine. --again races anew."
        )
    load = max((heat.load or 0.0 for heat in heats), default=0.0)
    if load >= BUSY_LOAD:
        yield (
            f"The machine was busy: up to {load:.1f} tasks at a time ran or waited. Minima"
            " suffer least; for times to quote, race on an idle machine."
        )


def published_texts(row: Beside) -> list[str]:
    """The cells of a row: three times then, three now, and two ratios as `then, now`."""
    names = (CFS_2007, GAVL_2007, RING_2007)
    times = [number_text(side.get(name)) for side in (row.then, row.now) for name in names]
    pairs = [row.ratios(CFS_2007, GAVL_2007), row.ratios(RING_2007, CFS_2007)]
    return times + [", ".join(map(ratio_text, pair)) for pair in pairs]
