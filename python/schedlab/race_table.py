"""What a race prints: who wins at each size, every structure's times, and 2007 beside it.

The first table answers the question, the second holds all rows, lost ones included. Every table
fits 80 columns or is cut into several.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

import click
from rich.markup import escape
from rich.table import Table

from schedlab import race
from schedlab.race import TIMED_ALONE, Heat, Machine
from schedlab.race_answers import (
    GAVL,
    OURS,
    RED_BLACK,
    Aim,
    Compared,
    Row,
    Standing,
    Verdict,
    worst,
)
from schedlab.race_published import CFS_2007, GAVL_2007, RING_2007, TODAY, Beside
from schedlab.statistics import Estimate
from schedlab.tables import print_columns, print_table

MARKS = {Verdict.MET: "✓", Verdict.LOST: "✗", Verdict.OPEN: "?", None: " "}
PERCENTILES = {"p50": "50 %", "p99": "99 %", "p999": "99.9 %", "max": "max"}
TAIL = "p999"
BYTES, INSTRUCTIONS, MISSES = "bytes", "instructions", "cache misses"
DASH = "–"
# Text is no wider than this, whatever stdout is.
TEXT_COLUMNS = 80
# The race itself is one task that runs.
BUSY_LOAD = 2.0
# Of the figures of a heat, those that may be disturbed before it is told.
DISTURBED_SHARE = 0.1


def by_title(standings: Sequence[Standing]) -> dict[str, list[Standing]]:
    """The heats that differ only in size, under what they have in common."""
    found: dict[str, list[Standing]] = {}
    for standing in standings:
        found.setdefault(standing.heat.asked.title, []).append(standing)
    return found


def print_race(standings: Sequence[Standing], machine: Machine) -> None:
    """Both tables of every workload and distribution of keys, and what is true of all."""
    click.echo(f"{machine.cpu_model}\n{_method(standings[0].heat)}\n")
    for title, found in by_title(standings).items():
        click.echo(f"{title}: {unit_of(found[0].heat)}")
        if found[0].heat.asked.is_timed_alone:
            _print_columns(found, _together_text)
            _print_apart(found)
        else:
            _print_answer(found)
            _print_columns(found, lambda standing, row: time_text(row.ticks))
            print_counters(found)
    print_aims(standings)
    for text in notes(standings):
        _print_paragraph(text)


def unit_of(heat: Heat) -> str:
    """What the numbers of a heat are."""
    what = "an operation" if heat.result["per"] == "operation" else "a loop"
    if heat.result["clock"] == "tsc":
        return f"ticks of the time stamp counter {what}"
    return f"nanoseconds {what}"


def _method(heat: Heat) -> str:
    result, asked = heat.result, heat.asked
    rate = f", {result['ticks_per_s'] / 1e9:.2f} ticks a nanosecond" * (result["clock"] == "tsc")
    plural = "s" * (asked.rounds != 1)
    twice = ";\nfigures are means of two runs, but for the last structure's" * (
        asked.order == "abcba"
    )
    return f"CPU {result['cpu']}{rate}; {asked.rounds} round{plural} in {asked.order} order{twice}"


def _print_broken(line: str, indent: int = 2) -> None:
    """A line, broken between words; what follows the first break is indented."""
    further = " " * indent
    # Paths and names stay whole, so that they can be copied.
    whole = {"break_on_hyphens": False, "break_long_words": False, "replace_whitespace": False}
    click.echo(textwrap.fill(line, TEXT_COLUMNS, subsequent_indent=further, **whole))


def _print_paragraph(text: str) -> None:
    _print_broken(text.strip(), indent=0)
    click.echo()


def _table() -> Table:
    """Narrow, so that 80 columns hold much, and with a blank line above."""
    return Table(title=" ", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


# ---- the answer ---------------------------------------------------------------------------------


def _print_answer(found: Sequence[Standing]) -> None:
    """A row a size: the exact time ring, the best of the others, and the ratios that are aims."""
    if not any(standing.rows.get(OURS) for standing in found):
        return
    table = _table()
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("ring", justify="right", no_wrap=True)
    table.add_column("best exact peer", no_wrap=True)
    for column in ("× peer", "× tree", "× gavl"):
        table.add_column(column, justify="right", no_wrap=True)
    for standing in found:
        ours, peer = standing.rows.get(OURS), standing.best_peer
        table.add_row(
            standing.heat.asked.size,
            _fewest_text(ours),
            escape(f"{_fewest_text(peer)} {peer.structure}") if peer else DASH,
            _compared_text(standing.to_peer, standing.aims, with_interval=True),
            _compared_text(standing.to_red_black, standing.aims),
            _compared_text(standing.to_gavl, standing.aims),
        )
    print_table(table)
    click.echo(
        f"ring: {OURS}, minimum as of the peer; ×: how many times as long it\n"
        f"takes, round by round, as the best exact peer, {RED_BLACK} and {GAVL};\n"
        "±: half of the 95 % interval"
    )
    if any(standing.aims for standing in found):
        click.echo("aims: ✓ met, ✗ lost, ? the interval contains the aim, or there is none")


def _fewest_text(row: Row | None) -> str:
    return DASH if row is None or row.ticks is None else ticks_text(row.fewest)


def _compared_text(found: Compared | None, aims: Iterable[Aim], with_interval: bool = False) -> str:
    """A ratio, and the mark of the aim that it is about, or a blank in its place."""
    if found is None:
        return f"{DASH}  "
    text = ratio_text(found.ratio)
    if with_interval and found.low is not None:
        text += f" ± {(found.high - found.low) / 2:.2f}"
    verdict = worst(aim.verdict for aim in aims if aim.found is found)
    return f"{text} {MARKS[verdict]}"


def ratio_text(ratio: float) -> str:
    """A ratio with as many digits as mean something; three decimals where it is very small."""
    if ratio < 0.1:
        return f"{ratio:.3f}"
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


def ticks_text(ticks: float) -> str:
    """A time in ticks with three significant digits, and all of those before the point."""
    decimals = 2 if ticks < 10 else 1 if ticks < 100 else 0
    return f"{ticks:,.{decimals}f}"


def time_text(found: Estimate | None) -> str:
    """Minimum, median, and half of the interval of the median; a dash where there is no time."""
    if found is None:
        return DASH
    text = f"{ticks_text(found.quantiles[0])} {ticks_text(found.median)}"
    if found.low is None or found.high is None:
        return text
    decimals = 2 if found.median < 10 else 1 if found.median < 100 else 0
    return f"{text} ± {(found.high - found.low) / 2:,.{decimals}f}"


# ---- all rows -----------------------------------------------------------------------------------


def _print_columns(found: Sequence[Standing], text: Callable[[Standing, Row], str]) -> None:
    """A row a structure, a column a size, and memory at the largest; then who is left out."""
    _print_grid(found, text, [BYTES])
    if found[0].heat.asked.is_timed_alone:
        cells = f"{', '.join(PERCENTILES.values())} of {together_text(found[0].heat)}"
    else:
        cells = "minimum, median ± half of its 95 % interval"
    where = " at the largest n" * (len(found) > 1)
    click.echo(f"{cells}; bytes an item{where}\n{order_text(found)}")
    for line in left_out(found):
        _print_broken(line)
    click.echo()


def _print_grid(
    found: Sequence[Standing], text: Callable[[Standing, Row], str], further: Sequence[str] = ()
) -> None:
    """A row a structure, a column a size; `further` columns are of the largest."""
    columns = {standing.heat.asked.size: standing for standing in found}
    largest = found[-1]
    names = by_speed(found)

    def build(wanted: Sequence[str]) -> Table:
        table = _table()
        table.add_column("n", no_wrap=True)
        for column in wanted:
            table.add_column(column, justify="right", no_wrap=True)
        for name in names:
            cells = [_cell(columns.get(column, largest), name, column, text) for column in wanted]
            table.add_row(escape(marked(name, found)), *cells)
        return table

    print_columns([*columns, *further], build)


def by_speed(found: Sequence[Standing]) -> list[str]:
    """Structures, the fastest at the largest n first; who has no time there comes last."""
    names = dict.fromkeys(name for standing in found for name in standing.rows)
    return sorted(names, key=lambda name: _slowness(found, name))


def order_text(found: Sequence[Standing]) -> str:
    """In which order `by_speed` has structures, as a line below a table."""
    by = "half of its operations" if found[0].heat.asked.is_timed_alone else "minimum"
    where = " at the largest n where it raced" * (len(found) > 1)
    return f"rows: who is fastest first, by the {by}{where}"


def _slowness(found: Sequence[Standing], name: str) -> tuple[int, float]:
    """How late in the order: at how many of the largest sizes it is missing, then its time."""
    for missing, standing in enumerate(reversed(found)):
        row = standing.rows.get(name)
        if row is not None and row.single:
            return missing, row.single["p50"]
        if row is not None and row.ticks is not None:
            return missing, row.fewest
    return len(found), 0.0


def marked(name: str, found: Sequence[Standing]) -> str:
    """A structure's name, and a sign if its order is not exact."""
    row = next(one.rows[name] for one in found if name in one.rows)
    return name if row.is_exact else f"{name} ~"


def _cell(standing: Standing, name: str, column: str, text: Callable[[Standing, Row], str]) -> str:
    row = standing.rows.get(name)
    if row is None:
        return DASH
    if column == BYTES:
        return DASH if row.bytes_per_item is None else f"{row.bytes_per_item:,.0f}"
    return text(standing, row)


def together_text(heat: Heat) -> str:
    """Which two operations the percentiles of a heat are of that times each alone."""
    removes = "remove" in TIMED_ALONE[heat.asked.workload]
    return f"a {'removal' if removes else 'pop'} and the push after it, added"


def _together_text(_standing: Standing, row: Row) -> str:
    if not row.single:
        return DASH
    return " ".join(ticks_text(row.single[name]) for name in PERCENTILES)


def _print_apart(found: Sequence[Standing]) -> None:
    """The tail of each operation by itself."""
    _print_grid(found, apart_text)
    operations = ", ".join(TIMED_ALONE[found[0].heat.asked.workload])
    click.echo(f"{PERCENTILES[TAIL]} of each alone: {operations}\n")


def apart_text(standing: Standing, row: Row) -> str:
    """The tail of each operation of a heat that times each alone."""
    if not row.single:
        return DASH
    operations = TIMED_ALONE[standing.heat.asked.workload]
    return " ".join(ticks_text(row.single[name][TAIL]) for name in operations)


def left_out(found: Sequence[Standing]) -> list[str]:
    """Who does not take part and why, the sizes with one reason together; and what ~ means."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for standing in found:
        for name, row in standing.rows.items():
            if row.left_out:
                reasons.setdefault((name, row.left_out), []).append(standing.heat.asked.size)
    lines = []
    if any(not row.is_exact for standing in found for row in standing.rows.values()):
        lines.append("~: not in exact order, so no peer")
    for (name, why), sizes in reasons.items():
        where = "" if len(sizes) == len(found) else f" at n = {', '.join(sizes)}"
        lines.append(f"{name} is left out{where}: {why}")
    return lines


def print_counters(found: Sequence[Standing]) -> None:
    """Instructions and cache misses a loop, where the machine counts them."""
    counted = [one for one in found if one.heat.result["counters"]["available"]]
    if not counted:
        return
    columns = {one.heat.asked.size: one for one in counted}

    def build(wanted: Sequence[str]) -> Table:
        table = _table()
        table.add_column("n", no_wrap=True)
        for column in wanted:
            table.add_column(column, justify="right", no_wrap=True)
        for name in counted[0].rows:
            table.add_row(escape(name), *(_counts(columns[size].rows[name]) for size in wanted))
        return table

    print_columns(list(columns), build)
    click.echo(f"{INSTRUCTIONS} and {MISSES} a loop\n")


def _counts(row: Row) -> str:
    counts = (row.instructions, row.cache_misses)
    return " ".join(DASH if count is None else f"{count:,.1f}" for count in counts)


# ---- what follows -------------------------------------------------------------------------------


def print_aims(standings: Sequence[Standing]) -> None:
    """How many of the aims are met, and each that is not."""
    aims = [(one.heat, aim) for one in standings for aim in one.aims]
    if not aims:
        return
    counts = {verdict: sum(aim.verdict == verdict for _, aim in aims) for verdict in Verdict}
    click.echo("aims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    for heat, aim in aims:
        if aim.verdict is not Verdict.MET:
            _print_broken(f"  {MARKS[aim.verdict]} {aim_text(heat, aim)}", indent=4)
    click.echo()


def aim_text(heat: Heat, aim: Aim) -> str:
    """An aim in words: where, what was found, and what it should be."""
    bounds = " (no interval)"
    if aim.found.low is not None:
        bounds = f" [{ratio_text(aim.found.low)}, {ratio_text(aim.found.high)}]"
    what, against = aim.what, aim.found.against
    what = what if against in what else f"{against}, {what}"
    return (
        f"{heat.asked.place}: {ratio_text(aim.found.ratio)}{bounds} × {what}; aim ≤ {aim.limit:g}"
    )


def notes(standings: Sequence[Standing]) -> list[str]:
    """What must be known to read the numbers: what is not counted, and a machine that was busy."""
    said = []
    why_not = {one.heat.result["counters"].get("why_not") for one in standings} - {None, ""}
    if why_not:
        said.append(f"Instructions and cache misses are not counted: {'; '.join(sorted(why_not))}.")
    if too_short := [
        one.heat.asked
        for one in standings
        if any(ticks <= 0 for row in one.rows.values() for ticks in row.rounds)
    ]:
        said.append(
            f"The clock is too coarse for {race.places(too_short)}: a round took no time, so there"
            " are no ratios to it. Race more loops, with -l."
        )
    if (step := _clock_step(standings)) > 1:
        said.append(
            f"The clock goes forward {step} ticks at a time, so single operations that differ by"
            " one such step, or a pop and a push by two, may have taken as long."
        )
    said.extend(_disturbances(standings))
    return said


def _clock_step(standings: Sequence[Standing]) -> int:
    """The step, in ticks, of the clock that times single operations; 0 if it timed none.

    It is the greatest common divisor of all their percentiles, 1 where steps are no whole ticks.
    """
    found = [row.single for one in standings for row in one.rows.values() if row.single]
    found += [of_one for single in found for of_one in single.values() if isinstance(of_one, dict)]
    return math.gcd(*(int(percentiles[name]) for percentiles in found for name in PERCENTILES))


def _disturbances(standings: Sequence[Standing]) -> Iterable[str]:
    """Who else was on the machine, as far as it is known."""
    pace = race.own_pace(one.heat for one in standings)
    shares = {one.heat.asked: one.heat.disturbed_share(pace) for one in standings}
    disturbed = [asked for asked, share in shares.items() if share > DISTURBED_SHARE]
    if disturbed:
        disturbed.sort(key=shares.__getitem__, reverse=True)
        yield (
            "Another thread had the CPU, or the other half of its core, in"
            f" {shares[disturbed[0]]:.0%} of the figures of {race.places(disturbed)}. Who keeps"
            " many units of the core busy suffers most from that, so ratios there are not those of"
            " an idle machine. --again races anew."
        )
    loads = [one.heat.load for one in standings if one.heat.load is not None]
    if loads and max(loads) >= BUSY_LOAD:
        yield (
            f"The machine was busy: up to {max(loads):.1f} tasks at a time ran or waited. Minima"
            " suffer least; for times to quote, race on an idle machine."
        )


def print_published(rows: Sequence[Beside], remarks: Sequence[str]) -> None:
    """The race of 2007 beside ours, and what must be known of both."""
    if not rows:
        return
    click.echo(
        "2007 beside today: cycles a loop then, fewest ticks now; rb, gavl and ring: the\n"
        f"three of 2007, today {', '.join(names[0] for names in TODAY.values())}"
    )
    for machine in dict.fromkeys(row.machine for row in rows):
        click.echo(f"\n{machine}", nl=False)
        table = _table()
        table.add_column("\nn", justify="right", no_wrap=True)
        for side in ("2007", "today"):
            for column in (f"{side}\nrb", "\ngavl", "\nring"):
                table.add_column(column, justify="right", no_wrap=True)
        for column in ("rb/gavl", "ring/rb"):
            table.add_column(f"then, now\n{column}", justify="right", no_wrap=True)
        for row in (row for row in rows if row.machine == machine):
            table.add_row(f"{row.n:,}", *published_texts(row))
        print_table(table)
    click.echo()
    for text in remarks:
        _print_paragraph(text)


def published_texts(row: Beside) -> list[str]:
    """The cells of a row: three times then, three now, and two ratios as `then, now`."""
    names = (CFS_2007, GAVL_2007, RING_2007)
    times = [side.get(name) for side in (row.then, row.now) for name in names]
    texts = [DASH if time is None else ticks_text(time) for time in times]
    for over, under in ((CFS_2007, GAVL_2007), (RING_2007, CFS_2007)):
        pair = row.ratios(over, under)
        texts.append(", ".join(DASH if one is None else ratio_text(one) for one in pair))
    return texts


def race_json(
    standings: Sequence[Standing],
    machine: Machine,
    rows: Sequence[Beside],
    remarks: Sequence[str],
) -> dict:
    """All that is known of a race."""
    pace = race.own_pace(one.heat for one in standings)
    return {
        "machine": {
            "cpu_model": machine.cpu_model,
            "caches": [{"name": name, "size_bytes": size} for name, size in machine.caches],
        },
        "heats": [_heat_json(standing, pace) for standing in standings],
        "published": [asdict(row) for row in rows],
        "remarks": list(remarks),
        "notes": notes(standings),
    }


def _heat_json(standing: Standing, pace: float) -> dict:
    heat, peer = standing.heat, standing.best_peer
    fastest = standing.fastest
    return {
        **heat.result,
        "raced_at": heat.raced_at,
        "load": heat.load,
        "reused": heat.is_reused,
        "disturbed_share": heat.disturbed_share(pace),
        "rows": [
            {**row, "ticks": _estimate_json(standing.rows[row["structure"]].ticks)}
            for row in heat.result["rows"]
        ],
        "fastest": fastest and fastest.structure,
        "best_exact_peer": peer and peer.structure,
        "ratios": {
            name: found and asdict(found)
            for name, found in (
                ("best_exact_peer", standing.to_peer),
                ("red_black_tree", standing.to_red_black),
                ("gavl", standing.to_gavl),
            )
        },
        "aims": [asdict(aim) for aim in standing.aims],
    }


def _estimate_json(found: Estimate | None) -> Mapping | None:
    if found is None:
        return None
    return {"min": found.quantiles[0], "median": found.median, "low": found.low, "high": found.high}
