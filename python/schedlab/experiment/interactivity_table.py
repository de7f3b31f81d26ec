"""Interactivity and fairness as `compare` prints them: a table for people, the same as JSON.

Below the table of makespans stand only the metrics that the runs have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.report.forms import time_text
from schedlab.report.tables import Block, fits, print_policy_rows, print_table
from schedlab.shown import print_data

if TYPE_CHECKING:
    from schedlab.experiment.fairness import ShareErrors
    from schedlab.experiment.interactivity import Delays, Requests
    from schedlab.experiment.study import Study
    from schedlab.statistics.estimates import Estimate

SHOWN_PERCENTILES = ("p50", "p99", "max")

Row = tuple[str, str, dict[str, str]]
"""Machine, metric, and a text for each policy that has the metric."""


def print_interactivity(study: Study) -> None:
    """A row a machine and metric, or a row a policy where not all of them fit beside each other.

    Nothing where no run has any of the metrics.
    """
    from schedlab.experiment.fairness import share_errors
    from schedlab.experiment.interactivity import requests, wakeup_latencies

    latencies, found, shares = wakeup_latencies(study), requests(study), share_errors(study)
    rows = _latency_rows(latencies) + _request_rows(found) + _share_rows(shares)
    if not rows:
        return
    print_data(_legend(study, rows, shares, _without_interval(latencies, found)))
    table = _table(study, rows)
    if fits(table):
        print_table(table)
        return
    blocks = []
    for panel in study.panels:
        metrics = [[(metric, texts)] for name, metric, texts in rows if name == panel.name]
        blocks.append(Block(panel.name, metrics))
    print_policy_rows(study.policies, blocks)


def _table(study: Study, rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("machine", no_wrap=True)
    table.add_column("", no_wrap=True)
    for policy in study.policies:
        table.add_column(policy, justify="right")
    for panel in study.panels:
        mine = [row for row in rows if row[0] == panel.name]
        for index, (name, metric, texts) in enumerate(mine):
            cells = (escape(texts.get(policy, "–")) for policy in study.policies)
            table.add_row(escape("" if index else name), escape(metric), *cells)
        table.add_section()
    return table


def interactivity_json(study: Study) -> dict[str, list[dict]]:
    """The same numbers, and all that belongs to them; times in ns, shares and errors in percent."""
    from schedlab.experiment.fairness import share_errors
    from schedlab.experiment.interactivity import requests, wakeup_latencies

    return {
        "wakeup_latency": [
            {**_place(row), "percentiles": _as_dicts(row.percentiles)}
            for row in wakeup_latencies(study)
        ],
        "requests": [
            {
                **_place(row),
                "name": row.name,
                "deadlines": row.deadlines and dataclasses.asdict(row.deadlines),
                "missed": row.missed and dataclasses.asdict(row.missed),
                "response": row.delays and _as_dicts(row.delays.percentiles),
            }
            for row in requests(study)
        ],
        "shares": [
            {
                **_place(row),
                "largest_error": dataclasses.asdict(row.largest),
                "mean_error": dataclasses.asdict(row.mean),
                "shares": [dataclasses.asdict(one) for one in row.shares],
            }
            for row in share_errors(study)
        ],
    }


def _place(row: Delays | Requests | ShareErrors) -> dict:
    return {"panel": row.panel.name, "x": row.x, "policy": row.policy}


def _as_dicts(found: dict[str, Estimate]) -> dict[str, dict]:
    return {name: dataclasses.asdict(one) for name, one in found.items()}


def _without_interval(latencies: Sequence[Delays], found: Sequence[Requests]) -> list[str]:
    """Why some of the delays that are shown stand without an interval."""
    from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN

    delays = [*latencies, *(row.delays for row in found if row.delays)]
    shown = [row.percentiles[name] for row in delays for name in SHOWN_PERCENTILES]
    reasons = []
    if any(one.low is not None and one.low == one.high for one in shown):
        reasons.append("equal in all runs")
    if any(one.low is None for one in shown):
        reasons.append(f"fewer than {RUNS_FOR_INTERVAL_MIN} runs")
    return reasons


def _legend(
    study: Study, rows: Sequence[Row], shares: Sequence[ShareErrors], without: Sequence[str]
) -> str:
    where = "" if study.axis is None else f" at {study.axis} = {study.panels[0].cells[-1].x}"
    lines = [f"interactivity{' and fairness' if shares else ''}{where}: means over runs"]
    cells = "".join(text for _, _, texts in rows for text in texts.values())
    if "×÷" in cells:
        lines[0] += "; ×÷ is the factor to the ends of the 95 % interval"
        if without:
            lines.append(f"without ×÷: {', or '.join(without)}")
    if shares:
        lines.append(
            "share error: of the CPU time of tasks that never sleep, by nice value, against their"
            " weights; percentage points"
        )
    return "\n".join(lines)


def _latency_rows(latencies: Sequence[Delays]) -> list[Row]:
    return _rows(
        latencies,
        {
            f"wake-up latency {name}": lambda row, name=name: _delay_text(row.percentiles[name])
            for name in SHOWN_PERCENTILES
        },
    )


def _request_rows(found: Sequence[Requests]) -> list[Row]:
    rows: list[Row] = []
    for name in dict.fromkeys(row.name for row in found):
        mine = [row for row in found if row.name == name]
        late = [row for row in mine if row.missed]
        rows += _rows(late, {f"{name}: deadlines missed, %": lambda row: _missed_text(row.missed)})
        rows += _rows(
            [row for row in mine if row.delays],
            {
                f"{name}: response {at}": lambda row, at=at: _delay_text(row.delays.percentiles[at])
                for at in SHOWN_PERCENTILES
            },
        )
    return rows


def _share_rows(shares: Sequence[ShareErrors]) -> list[Row]:
    return _rows(
        shares,
        {
            "share error, largest": lambda row: _percent_text(row.largest),
            "share error, mean": lambda row: _percent_text(row.mean),
        },
    )


def _rows(found: Sequence, metrics: dict[str, Callable]) -> list[Row]:
    """Rows in order of machine, then of metric."""
    return [
        (panel, metric, {row.policy: text(row) for row in found if row.panel.name == panel})
        for panel in dict.fromkeys(row.panel.name for row in found)
        for metric, text in metrics.items()
    ]


def _delay_text(found: Estimate) -> str:
    """A geometric mean, and how many times more or less it may be."""
    text = time_text(found.mean)
    if found.low is None or found.high is None or found.low == found.high:
        return text
    return f"{text} ×÷ {found.high / found.mean:.2f}"


def _missed_text(found: Estimate) -> str:
    """A percentage and the ends of its interval, from which it is not equally far."""
    text = f"{found.mean:.2f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{found.low:.2f}, {found.high:.2f}]"


def _percent_text(found: Estimate) -> str:
    text = f"{found.mean:.2f}"
    if found.low is None or found.high is None or found.low == found.high:
        return text
    return f"{text} ± {(found.high - found.low) / 2:.2f}"
