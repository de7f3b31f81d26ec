"""What a race prints: who wins at each size, every structure's times, and 2007 beside it.

Every table fits 80 columns or is cut into several.
"""

import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from rich.markup import escape
from rich.table import Table

from schedlab.digests import attributes
from schedlab.race import forms, plan
from schedlab.race.answers import HeatRow, Standing
from schedlab.race.april_2007 import REMARKS, TODAY, Beside
from schedlab.report.forms import DASH, count_text
from schedlab.report.tables import headed, print_columns, print_table
from schedlab.shown import print_data
from schedlab.statistics.samples import by_key

# Text is no wider than this, whatever stdout is.
TEXT_COLUMNS = 80
# So that 80 columns hold much; and with a blank line above.
NARROW = {"title": " ", "padding": (0, 2, 0, 0)}


def print_race(standings: Sequence[Standing], machine: plan.Machine) -> None:
    """Both tables of every workload and distribution of keys, and what is true of all."""
    result, spec = standings[0].heat.result, standings[0].heat.spec
    rate = f", {result['ticks_per_s'] / 1e9:.2f} ticks a nanosecond" * (result["clock"] == "tsc")
    rounds = f"{count_text(spec.rounds, 'round')} in {spec.order} order"
    twice = ";\nfigures are means of two runs, but for the last structure's"
    twice *= spec.order == "abcba"
    print_data(f"{machine.cpu_model}\nCPU {result['cpu']}{rate}; {rounds}{twice}\n")
    for title, of_title in forms.by_title(standings).items():
        print_data(f"{title}: {forms.unit_of(of_title[0].heat)}")
        if of_title[0].heat.spec.is_timed_alone:
            _print_times(of_title)
            operations = plan.TIMED_ALONE[of_title[0].heat.spec.workload]
            _print_rows(of_title, functools.partial(forms.apart_text, operations=operations))
            print_data(f"{forms.PERCENTILES[forms.TAIL]} of each alone: {', '.join(operations)}\n")
        else:
            _print_answer(of_title)
            _print_times(of_title)
            _print_counters(of_title)
    for text in forms.notes(standings):
        _print_text(text)


def _print_text(text: str, indent: str = "", end: str = "\n\n") -> None:
    """A text broken between words, so that paths and names in it can be copied."""
    whole = {"break_on_hyphens": False, "break_long_words": False, "replace_whitespace": False}
    print_data(textwrap.fill(text, TEXT_COLUMNS, subsequent_indent=indent, **whole), end=end)


def _print_grid(
    labels: Sequence[str], columns: Mapping[str, Sequence[str]], left: Sequence[str]
) -> None:
    """Columns of texts beside their labels, which every part repeats where stdout is narrow."""

    def build(wanted: Sequence[str]) -> Table:
        table = headed(("n", *wanted), left, **NARROW)
        for texts in zip(labels, *(columns[head] for head in wanted), strict=True):
            table.add_row(*map(escape, texts))
        return table

    print_columns(list(columns), build)


def _print_answer(standings: Sequence[Standing]) -> None:
    """A row a size: the fastest exact structure, and how far the next one is behind it."""
    cells = {
        "fastest": [forms.fewest_text(standing.fastest) for standing in standings],
        "next": [forms.fewest_text(standing.next) for standing in standings],
        "×": [forms.compared_text(standing.next_to_fastest) for standing in standings],
    }
    _print_grid([standing.heat.spec.size for standing in standings], cells, left=list(cells))
    print_data(
        "who keeps exact order, by the minimum; next: no form of the same structure;\n"
        "×: how many times as long it takes, round by round, and its 95 % interval"
    )


def _print_times(standings: Sequence[Standing]) -> None:
    """Every structure's times and its memory at the largest size; then who is left out."""
    _print_rows(standings, forms.times_text, has_bytes=True)
    several = len(standings) > 1
    cells, by = "minimum, median ± half of its 95 % interval", "minimum"
    if (heat := standings[0].heat).spec.is_timed_alone:
        cells = f"{', '.join(forms.PERCENTILES.values())} of {forms.together_text(heat)}"
        by = "half of its operations"
    print_data(
        f"{cells}; bytes an item{' at the largest n' * several}\n"
        f"rows: who is fastest first, by the {by}{' at the largest n where it raced' * several}"
    )
    for line in forms.left_out(standings):
        _print_text(line, indent="  ", end="\n")
    print_data()


def _print_rows(
    standings: Sequence[Standing], text: Callable[[HeatRow], str], has_bytes: bool = False
) -> None:
    names = forms.by_speed(standings)
    told = [(one.heat.spec.size, one, text) for one in standings]
    told += [("bytes", standings[-1], forms.bytes_text)] * has_bytes
    columns = {
        head: [form(one.rows[name]) if name in one.rows else DASH for name in names]
        for head, one, form in told
    }
    _print_grid([forms.marked(name, standings) for name in names], columns, left=["n"])


def _print_counters(standings: Sequence[Standing]) -> None:
    def text(row: HeatRow) -> str:
        counts = (row.instructions_per_loop, row.cache_misses_per_loop)
        return " ".join(DASH if count is None else f"{count:,.1f}" for count in counts)

    if counted := [one for one in standings if one.heat.result["counters"]["available"]]:
        _print_rows(counted, text)
        print_data("instructions and cache misses a loop\n")


def print_published(rows: Sequence[Beside]) -> None:
    """The race of 2007 beside ours, and what must be known of both."""
    if not rows:
        return
    print_data(
        "2007 beside today: cycles a loop then, fewest ticks now; rb, gavl and ring: the\n"
        f"three of 2007, today {', '.join(names[0] for names in TODAY.values())}"
    )
    for machine, of_machine in by_key((row.machine, row) for row in rows).items():
        print_data(f"\n{machine}", end="")
        table = headed(
            ("\nn", "2007\nrb", "\ngavl", "\nring", "today\nrb", "\ngavl", "\nring",
             "then, now\nrb/gavl", "then, now\nring/rb"), **NARROW,
        )  # fmt: skip
        for row in of_machine:
            table.add_row(f"{row.n:,}", *forms.published_texts(row))
        print_table(table)
    print_data()
    for text in REMARKS:
        _print_text(text)


def race_json(standings: Sequence[Standing], machine: plan.Machine, rows: Sequence[Beside]) -> dict:
    """All that is known of a race."""
    pace = plan.own_pace(one.heat for one in standings)
    return {
        "machine": {
            "cpu_model": machine.cpu_model,
            "caches": [{"name": name, "size_bytes": size} for name, size in machine.caches],
        },
        "heats": [_heat_json(standing, pace) for standing in standings],
        "published": [asdict(row) for row in rows],
        "remarks": list(REMARKS) if rows else [],
        "notes": list(forms.notes(standings)),
    }


def _heat_json(standing: Standing, pace: float) -> dict:
    heat = standing.heat
    ratios = {**standing.ratios, "next_to_fastest": standing.next_to_fastest}
    named = attributes(standing, "fastest", "next") | {"best_exact_peer": standing.best_peer}
    rows = []
    for row in heat.result["rows"]:
        ticks = standing.rows[row["structure"]].ticks
        centre = attributes(ticks, "median", "low", "high")
        rows.append(row | {"ticks": ticks and {"min": ticks.quantiles[0], **centre}})
    return {
        **heat.result,
        **attributes(heat, "raced_at", "load"),
        "reused": heat.is_reused,
        "disturbed_share": heat.disturbed_share(pace),
        "rows": rows,
        **{name: row and row.structure for name, row in named.items()},
        "ratios": {name: ratio and asdict(ratio) for name, ratio in ratios.items()},
    }
