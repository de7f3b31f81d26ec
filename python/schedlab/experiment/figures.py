"""The figures of a report: from what a study says to Plotly's JSON, ready to stand in the page.

Which numbers are drawn where is decided here, how they look in `plots` and its kin. A figure whose
metric the runs do not have is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from markupsafe import Markup

from schedlab.experiment import interactivity_figures, timeline_figure
from schedlab.experiment.fairness import ShareErrors
from schedlab.experiment.interactivity import PERCENTILES, REQUEST_GROUPS_MAX, Delays, Requests
from schedlab.experiment.study import Panel, ScenarioRuns, Study
from schedlab.report import figures as report_figures
from schedlab.report import forms, pages
from schedlab.report.figures import CPU_PARTS, Look, Point

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from schedlab.experiment.timeline_figure import Timelines

Drawn = list[tuple[Panel, Markup]]
Row = TypeVar("Row", Delays, Requests, ShareErrors)


def figures_of(
    study: Study,
    looks: Mapping[str, Look],
    split_rows: Sequence[Mapping],
    latencies: Sequence[Delays],
    found: Sequence[Requests],
    shares: Sequence[ShareErrors],
    timelines: Timelines | None,
) -> dict[str, Drawn | dict | None]:
    """Every figure of the page by the name it has there: lists of panels with their figures.

    Parameters
    ----------
    study : Study
        Its makespans are drawn.
    looks : mapping of policy to Look
        One for every policy of the study.
    split_rows : sequence of mapping
        `panel`, `policy` and `shares` of each row of the table of CPU time.
    latencies, found, shares : sequences
        As `interactivity` and `fairness` give them; empty where the runs have none.
    timelines : Timelines, optional
        A pair of runs to look into.
    """
    return {
        "curve_figures": [
            (panel, pages.script(figure)) for panel, figure in makespan_figures(study, looks)
        ],
        "ratio_figures": _ratio_figures(study, looks),
        "split_figures": _split_figures(study, split_rows),
        "ecdf_figures": _ecdf_figures(latencies, looks, "wake-up latency", "wake-ups within"),
        "latency_figures": _latency_figures(latencies, looks),
        "response_figures": _response_figures(found, looks),
        "deadline_figures": _deadline_figures(found, looks),
        "share_figures": _share_figures(shares, looks),
        "timeline": _timeline(timelines, looks),
    }


def _points(
    panel: Panel, policies: Iterable[str], take: Callable[[ScenarioRuns, str], Point | None]
) -> dict[str, list[Point]]:
    series = {
        policy: [point for cell in panel.cells if (point := take(cell, policy)) is not None]
        for policy in policies
    }
    return {policy: points for policy, points in series.items() if points}


def _makespan_point(cell: ScenarioRuns, policy: str) -> Point | None:
    found = cell.makespan.get(policy)
    return found and Point(cell.x, found.mean, found.low, found.high)


def _ratio_point(cell: ScenarioRuns, policy: str) -> Point | None:
    found = cell.comparisons.get(policy)
    return found and Point(cell.x, found.ratio.ratio, found.ratio.low, found.ratio.high)


def makespan_figures(study: Study, looks: Mapping[str, Look]) -> list[tuple[Panel, go.Figure]]:
    """Makespan over what was varied, a curve a policy, else a dot each; a figure a panel with runs.

    All have the same scale.
    """
    drawn = [(panel, _points(panel, study.policies, _makespan_point)) for panel in study.panels]
    drawn = [(panel, series) for panel, series in drawn if series]
    y_max = report_figures.shared_y_max([report_figures.highest_of(series) for _, series in drawn])
    title = f"makespan ({study.unit})"
    figures = []
    for panel, series in drawn:
        if study.axis is None:
            points = {policy: found[0] for policy, found in series.items()}
            figure = report_figures.dot_figure(points, looks, title, y_max)
        else:
            figure = report_figures.curve_figure(series, looks, study.axis, title, y_max)
        figures.append((panel, figure))
    return figures


def _ratio_figures(study: Study, looks: Mapping[str, Look]) -> Drawn:
    drawn = [(panel, _points(panel, study.policies, _ratio_point)) for panel in study.panels]
    drawn = [(panel, series) for panel, series in drawn if series]
    if study.axis is None or not drawn:
        return []
    low = min(report_figures.lowest_of(series) for _, series in drawn)
    high = max(report_figures.highest_of(series) for _, series in drawn)
    first = study.policies[0]
    return [
        (
            panel,
            pages.script(
                report_figures.ratio_figure(series, looks, study.axis, first, (low, high))
            ),
        )
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
            figures.append((panel, pages.script(report_figures.cpu_split_figure(shares))))
    return figures


def _latency_figures(latencies: Sequence[Delays], looks: Mapping[str, Look]) -> Drawn:
    figures = []
    for panel, rows in _by_panel(latencies):
        series = {
            row.policy: [
                Point(name, found.mean, found.low, found.high)
                for name, found in row.percentiles.items()
                if name in PERCENTILES
            ]
            for row in rows
        }
        figure = report_figures.latency_figure(series, looks, "wake-up latency")
        figures.append((panel, pages.script(figure)))
    return figures


def _ecdf_figures(
    delays: Sequence[Delays], looks: Mapping[str, Look], x_title: str, y_title: str
) -> Drawn:
    """None for a panel in which a run kept no histogram: a missing curve would mislead."""
    figures = []
    for panel, rows in _by_panel(delays):
        curves = {row.policy: row.curve for row in rows}
        if all(len(values) for values, _ in curves.values()):
            figure = interactivity_figures.ecdf_figure(curves, looks, x_title, y_title)
            figures.append((panel, pages.script(figure)))
    return figures


def _response_figures(found: Sequence[Requests], looks: Mapping[str, Look]) -> Drawn:
    """A figure a panel and name, unless there are too many names to look at."""
    names = list(dict.fromkeys(row.name for row in found))
    if len(names) > REQUEST_GROUPS_MAX:
        return []
    figures = []
    for name in names:
        delays = [row.delays for row in found if row.name == name and row.delays]
        drawn = _ecdf_figures(delays, looks, f"response time of {name}", "requests within")
        figures += [(replace(panel, name=f"{panel.name}: {name}"), f) for panel, f in drawn]
    return figures


def _deadline_figures(found: Sequence[Requests], looks: Mapping[str, Look]) -> Drawn:
    figures = []
    for panel, rows in _by_panel([row for row in found if row.missed]):
        series: dict[str, list[Point]] = {}
        for row in rows:
            point = Point(row.name, row.missed.mean, row.missed.low, row.missed.high)
            series.setdefault(row.policy, []).append(point)
        title = "deadlines missed (%)"
        figure = interactivity_figures.grouped_figure(series, looks, "requests of", title)
        figures.append((panel, pages.script(figure)))
    return figures


def _share_figures(found: Sequence[ShareErrors], looks: Mapping[str, Look]) -> Drawn:
    figures = []
    for panel, rows in _by_panel(found):
        series = {
            row.policy: [
                Point(str(one.nice), one.error.mean, one.error.low, one.error.high)
                for one in row.shares
            ]
            for row in rows
        }
        titles = ("nice value of the tasks", "error of share (percentage points)")
        figure = interactivity_figures.grouped_figure(series, looks, *titles, about_zero=True)
        figures.append((panel, pages.script(figure)))
    return figures


def _by_panel(rows: Sequence[Row]) -> list[tuple[Panel, list[Row]]]:
    """Rows of one panel together, in order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.panel.name, []).append(row)
    return [(found[0].panel, found) for found in groups.values()]


def _timeline(timelines: Timelines | None, looks: Mapping[str, Look]) -> dict | None:
    if timelines is None:
        return None
    return {
        "told": timelines,
        "until": forms.tick_text(timelines.until_ns),
        "figure": pages.script(timeline_figure.timeline_figure(timelines, looks)),
    }
