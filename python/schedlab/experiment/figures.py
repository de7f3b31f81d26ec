"""The figures of a report: from what a study says to Plotly's JSON, ready to stand in the page.

Which numbers are drawn where is decided here, how they look in `report.figures` and its kin. A
figure whose metric the runs do not have is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
from markupsafe import Markup

from schedlab.experiment import interactivity_figures, timeline_figure
from schedlab.experiment.fairness import ShareErrors
from schedlab.experiment.interactivity import PERCENTILES, Delays, Metrics, Requests
from schedlab.experiment.study import Panel, ScenarioRuns, Study
from schedlab.experiment.timelines import Timelines
from schedlab.report import figures as report_figures
from schedlab.report import forms, pages
from schedlab.report.figures import CPU_PARTS, Look, Point
from schedlab.statistics.estimates import Estimate, Ratio

# A workload with more kinds of requests is told without a figure for each.
REQUEST_GROUPS_MAX = 8

Drawn = list[tuple[Panel, go.Figure]]


def figures_of(
    study: Study,
    metrics: Metrics,
    looks: Mapping[str, Look],
    split_rows: Sequence[Mapping],
    timelines: Timelines | None,
) -> dict[str, list[tuple[Panel, Markup]] | dict | None]:
    """Every figure of the page by the name it has there: lists of panels with their figures.

    `looks` has one for every policy of the study; `split_rows` are the rows of the table of CPU
    time, with `panel`, `policy` and `shares`.
    """
    drawn = {
        "curve_figures": makespan_figures(study, looks),
        "ratio_figures": _ratio_figures(study, looks),
        "split_figures": _split_figures(study, split_rows),
        "ecdf_figures": _ecdf_figures(metrics.latencies, looks, "wake-up latency", "wake-ups"),
        "latency_figures": _latency_figures(metrics, looks),
        "response_figures": _response_figures(metrics.requests, looks),
        "deadline_figures": _deadline_figures(metrics, looks),
        "share_figures": _share_figures(metrics, looks),
    }
    scripts: dict[str, Any] = {
        name: [(panel, pages.script(figure)) for panel, figure in figures]
        for name, figures in drawn.items()
    }
    scripts["timeline"] = timelines and {
        "told": timelines,
        "until": forms.tick_text(timelines.until_ns),
        "figure": pages.script(timeline_figure.timeline_figure(timelines, looks)),
    }
    return scripts


def makespan_figures(study: Study, looks: Mapping[str, Look]) -> Drawn:
    """Makespan over what was varied, a curve a policy, else a dot each; a figure a panel with runs.
    All have the same scale."""
    drawn = _series_of_panels(study, lambda cell, policy: cell.makespan.get(policy))
    y_max = report_figures.shared_y_max([report_figures.highest_of(series) for _, series in drawn])
    title = f"makespan ({study.unit})"
    if study.axis is not None:
        return [
            (panel, report_figures.curve_figure(series, looks, study.axis, title, y_max))
            for panel, series in drawn
        ]
    figures = []
    for panel, series in drawn:
        points = {policy: of_policy[0] for policy, of_policy in series.items()}
        figures.append((panel, report_figures.dot_figure(points, looks, title, y_max)))
    return figures


def _series_of_panels(
    study: Study, take: Callable[[ScenarioRuns, str], Estimate | Ratio | None]
) -> list[tuple[Panel, dict[str, list[Point]]]]:
    """The points of each policy, of panels and policies that have any."""
    drawn = []
    for panel in study.panels:
        series: dict[str, list[Point]] = {}
        for policy in study.policies:
            for cell in panel.cells:
                if (value := take(cell, policy)) is not None:
                    series.setdefault(policy, []).append(_point(cell.x, value))
        if series:
            drawn.append((panel, series))
    return drawn


def _point(x: float | str | None, value: Estimate | Ratio) -> Point:
    centre = value.ratio if isinstance(value, Ratio) else value.mean
    return Point(x, centre, value.low, value.high)


def _ratio_figures(study: Study, looks: Mapping[str, Look]) -> Drawn:
    drawn = _series_of_panels(
        study, lambda cell, policy: getattr(cell.comparisons.get(policy), "ratio", None)
    )
    if study.axis is None or not drawn:
        return []
    low = min(report_figures.lowest_of(series) for _, series in drawn)
    high = max(report_figures.highest_of(series) for _, series in drawn)
    first, axis = study.policies[0], study.axis
    return [
        (panel, report_figures.ratio_figure(series, looks, axis, first, (low, high)))
        for panel, series in drawn
    ]


def _split_figures(study: Study, rows: Sequence[Mapping]) -> Drawn:
    figures = []
    for panel in study.panels:
        shares = {
            row["policy"]: {part: row["shares"][part].mean for part in CPU_PARTS}
            for row in rows
            if row["panel"] is panel and row["shares"]
        }
        if shares:
            figures.append((panel, report_figures.cpu_split_figure(shares)))
    return figures


def _latency_figures(metrics: Metrics, looks: Mapping[str, Look]) -> Drawn:
    figures = []
    for panel, rows in _by_panel(metrics.latencies):
        series = {
            row.policy: [_point(name, row.percentiles[name]) for name in PERCENTILES]
            for row in rows
        }
        figures.append((panel, report_figures.latency_figure(series, looks, "wake-up latency")))
    return figures


def _ecdf_figures(
    delays: Sequence[Delays], looks: Mapping[str, Look], what: str, events: str
) -> Drawn:
    """None for a panel in which a run kept no histogram: a missing curve would mislead."""
    figures = []
    for panel, rows in _by_panel(delays):
        curves = {row.policy: row.curve for row in rows}
        if all(len(values) for values, _ in curves.values()):
            figure = interactivity_figures.ecdf_figure(curves, looks, what, f"{events} within")
            figures.append((panel, figure))
    return figures


def _response_figures(requests: Sequence[Requests], looks: Mapping[str, Look]) -> Drawn:
    """A figure a panel and name, unless there are too many names to look at."""
    names = list(dict.fromkeys(row.name for row in requests))
    if len(names) > REQUEST_GROUPS_MAX:
        return []
    figures = []
    for name in names:
        delays = [row.delays for row in requests if row.name == name and row.delays]
        for panel, figure in _ecdf_figures(delays, looks, f"response time of {name}", "requests"):
            figures.append((replace(panel, name=f"{panel.name}: {name}"), figure))
    return figures


def _deadline_figures(metrics: Metrics, looks: Mapping[str, Look]) -> Drawn:
    rows = [row for row in metrics.requests if row.missed]
    titles = ("requests of", "deadlines missed (%)")
    return _grouped_figures(rows, lambda row: [_point(row.name, row.missed)], looks, titles)


def _share_figures(metrics: Metrics, looks: Mapping[str, Look]) -> Drawn:
    titles = ("nice value of the tasks", "error of share (percentage points)")

    def points(row: ShareErrors) -> list[Point]:
        return [_point(str(share.nice), share.error) for share in row.shares]

    return _grouped_figures(metrics.shares, points, looks, titles, about_zero=True)


def _grouped_figures(
    rows: Sequence,
    points: Callable[[Any], list[Point]],
    looks: Mapping[str, Look],
    titles: tuple[str, str],
    about_zero: bool = False,
) -> Drawn:
    """A figure a panel, with the points of all rows of a policy."""
    figures = []
    for panel, of_panel in _by_panel(rows):
        series: dict[str, list[Point]] = {}
        for row in of_panel:
            series.setdefault(row.policy, []).extend(points(row))
        figure = interactivity_figures.grouped_figure(series, looks, *titles, about_zero)
        figures.append((panel, figure))
    return figures


def _by_panel(rows: Sequence) -> Iterator[tuple[Panel, list]]:
    """Rows of one panel together, in order."""
    for panel in {row.panel.name: row.panel for row in rows}.values():
        yield panel, [row for row in rows if row.panel.name == panel.name]
