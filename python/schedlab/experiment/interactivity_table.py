"""Interactivity and fairness as `compare` prints them: a table for people, the same as JSON.

Below the table of makespans stand only the metrics that the runs have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.report.forms import interval_text, time_text
from schedlab.report.tables import Block, fits, print_policy_rows, print_table
from schedlab.shown import print_data

if TYPE_CHECKING:
    from schedlab.experiment.fairness import ShareErrors
    from schedlab.experiment.interactivity import Delays, Metrics, Requests
    from schedlab.experiment.study import Study
    from schedlab.statistics.estimates import Estimate

SHOWN_PERCENTILES = ("p50", "p99", "max")

Texts = dict[str, dict[str, dict[str, str]]]
"""Of each machine and metric, in their order, a text for each policy that has the metric."""


def print_interactivity(study: Study, metrics: Metrics) -> None:
    """A row a machine and metric, or a row a policy where not all of them fit beside each other.

    Nothing where no run has any of the metrics.
    """
    texts = _texts(study, metrics)
    if not texts:
        return
    print_data(_legend(study, metrics, texts))
    table = _table(study, texts)
    if fits(table):
        print_table(table)
        return
    blocks = [
        Block(machine, [[(metric, of_policies)] for metric, of_policies in of_machine.items()])
        for machine, of_machine in texts.items()
    ]
    print_policy_rows(study.policies, blocks)


def interactivity_json(metrics: Metrics) -> dict[str, list[dict]]:
    """The same numbers, and all that belongs to them; times in ns, shares and errors in percent."""
    return {
        "wakeup_latency": [
            {**_place(row), "percentiles": _as_dicts(row.percentiles)} for row in metrics.latencies
        ],
        "requests": [
            {
                **_place(row),
                "name": row.name,
                "deadlines": row.deadlines and dataclasses.asdict(row.deadlines),
                "missed": row.missed and dataclasses.asdict(row.missed),
                "response": row.delays and _as_dicts(row.delays.percentiles),
            }
            for row in metrics.requests
        ],
        "shares": [
            {
                **_place(row),
                "largest_error": dataclasses.asdict(row.largest),
                "mean_error": dataclasses.asdict(row.mean),
                "shares": [dataclasses.asdict(one) for one in row.shares],
            }
            for row in metrics.shares
        ],
    }


def _place(row: Delays | Requests | ShareErrors) -> dict:
    return {"panel": row.panel.name, "x": row.x, "policy": row.policy}


def _as_dicts(estimates: dict[str, Estimate]) -> dict[str, dict]:
    return {name: dataclasses.asdict(one) for name, one in estimates.items()}


def _texts(study: Study, metrics: Metrics) -> Texts:
    texts: Texts = {panel.name: {} for panel in study.panels}

    def add(row: Delays | Requests | ShareErrors, metric: str, text: str) -> None:
        texts[row.panel.name].setdefault(metric, {})[row.policy] = text

    for row in metrics.latencies:
        for name in SHOWN_PERCENTILES:
            add(row, f"wake-up latency {name}", _bounded(row.percentiles[name]))
    for row in metrics.requests:
        if row.missed:
            form = "{:.2f}".format
            text = interval_text(row.missed.mean, row.missed.low, row.missed.high, form)
            add(row, f"{row.name}: deadlines missed, %", text)
        for name in SHOWN_PERCENTILES if row.delays else ():
            add(row, f"{row.name}: response {name}", _bounded(row.delays.percentiles[name]))
    for row in metrics.shares:
        for what, error in (("largest", row.largest), ("mean", row.mean)):
            half = (error.high - error.low) / 2 if error.low is not None else 0.0
            add(row, f"share error, {what}", f"{error.mean:.2f}" + f" ± {half:.2f}" * (half > 0))
    return {machine: of_machine for machine, of_machine in texts.items() if of_machine}


def _bounded(delay: Estimate) -> str:
    return interval_text(delay.mean, delay.low, delay.high, time_text)


def _table(study: Study, texts: Texts) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("machine", no_wrap=True)
    table.add_column("", no_wrap=True)
    for policy in study.policies:
        table.add_column(policy, justify="right")
    for machine, of_machine in texts.items():
        for index, (metric, of_policies) in enumerate(of_machine.items()):
            cells = (escape(of_policies.get(policy, "–")) for policy in study.policies)
            table.add_row(escape("" if index else machine), escape(metric), *cells)
        table.add_section()
    return table


def _legend(study: Study, metrics: Metrics, texts: Texts) -> str:
    where = "" if study.axis is None else f" at {study.axis} = {study.panels[0].cells[-1].x}"
    fairness = " and fairness" if metrics.shares else ""
    lines = [f"interactivity{fairness}{where}: means over runs"]
    cells = "".join(
        text
        for machine in texts.values()
        for metric in machine.values()
        for text in metric.values()
    )
    if "[" in cells:
        lines[0] += " [95 % interval]"
        if reasons := _without_interval(metrics):
            lines.append(f"without [ ]: {', or '.join(reasons)}")
    if metrics.shares:
        lines.append(
            "share error: of the CPU time of tasks that never sleep, by nice value, against their"
            " weights; percentage points"
        )
    return "\n".join(lines)


def _without_interval(metrics: Metrics) -> Sequence[str]:
    """Why some of the delays that are shown stand without an interval."""
    from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN

    delays = [*metrics.latencies, *(row.delays for row in metrics.requests if row.delays)]
    shown = [row.percentiles[name] for row in delays for name in SHOWN_PERCENTILES]
    reasons = []
    if any(one.low is not None and one.low == one.high for one in shown):
        reasons.append("equal in all runs")
    if any(one.low is None for one in shown):
        reasons.append(f"fewer than {RUNS_FOR_INTERVAL_MIN} runs")
    return reasons
