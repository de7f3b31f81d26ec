"""The figures of a report: from what a study says to Plotly's JSON, ready to stand in the page.

Which numbers are drawn where is decided here, how they look in `report.figures`. A figure whose
metric the runs do not have is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from schedlab.experiment.metrics import PERCENTILES, Delays, OfPolicy, Requests
from schedlab.experiment.study import Panel, ScenarioRuns, Study, centre_of
from schedlab.experiment.switch_costs import SwitchCost
from schedlab.experiment.timeline_figure import timeline_figure
from schedlab.experiment.timelines import Timelines
from schedlab.report import figures, forms, pages
from schedlab.report.drawing import Drawing
from schedlab.report.figures import Looks, Point, Series
from schedlab.statistics.estimates import Estimate, Ratio
from schedlab.statistics.samples import by_key

if TYPE_CHECKING:
    from schedlab.experiment.answer import Answer
    from schedlab.experiment.followed import Followed

# A workload with more kinds of requests is told without a figure for each.
REQUEST_GROUPS_MAX = 8
SHARE_TITLES = ("nice value of the tasks", "error of share (percentage points)")

Drawn = Iterator[tuple[Panel, Drawing]]


def figures_of(
    answer: "Answer",
    looks: Looks,
    split_rows: Sequence[Mapping],
    timelines: Timelines | None,
    followed: "Followed | None",
) -> dict[str, list[tuple[Panel, Markup]] | dict | None]:
    """Every figure of the page by the name it has there: lists of panels with their figures.

    `looks` has one for every policy of the study; `split_rows` are the rows of the table of CPU
    time, with `panel`, `policy` and `shares`.
    """
    study, metrics = answer.study, answer.metrics
    last = metrics.last
    drawn = {
        "curve_figures": makespan_figures(study, looks),
        "ratio_figures": _ratio_figures(study, looks),
        "split_figures": _split_figures(study, split_rows),
        "cost_figures": _cost_figures(study, answer.switch_costs, looks),
        "ecdf_figures": _ecdf_figures(last.latencies, looks, "wake-up latency", "wake-ups"),
        "latency_figures": _percentile_figures(last.latencies, looks),
        "latency_axis_figures": _delays_on_axis(
            study, [(row.panel, row) for row in metrics.latencies], looks, "wake-up latency"
        ),
        "response_figures": _response_figures(last.requests, looks),
        "response_axis_figures": _delays_on_axis(
            study, _by_name(metrics.requests, lambda row: row.delays), looks, "response time"
        ),
        "deadline_axis_figures": _on_axis(
            study,
            _by_name(metrics.requests, lambda row: row.missed and row),
            lambda row: row.missed,
            lambda series: figures.curve_figure(
                series, looks, study.axis, "deadlines missed (%)", top_min=1.0
            ),
        ),
        "deadline_figures": _figures_of_rows(
            [row for row in last.requests if row.missed],
            lambda row: [_point(row.name, row.missed)],
            lambda series: figures.grouped_figure(
                series, looks, "requests of", "deadlines missed (%)"
            ),
        ),
        "share_figures": _figures_of_rows(
            last.shares,
            lambda row: [_point(str(share.nice), share.error) for share in row.shares],
            lambda series: figures.grouped_figure(series, looks, *SHARE_TITLES, about_zero=True),
        ),
        "share_axis_figures": _on_axis(
            study,
            [(row.panel, row) for row in metrics.shares],
            lambda row: row.largest,
            lambda series: figures.curve_figure(
                series, looks, study.axis, "largest error (percentage points)", top_min=0.1
            ),
        ),
    }
    scripts: dict[str, Any] = {
        name: [(panel, pages.script(figure)) for panel, figure in of_panels]
        for name, of_panels in drawn.items()
    }
    scripts["timeline"] = timelines and {
        "told": timelines,
        "until": forms.tick_text(timelines.until_ns),
        "figure": pages.script(timeline_figure(timelines, looks)),
    }
    scripts["followed"] = followed and {
        "told": followed,
        "figures": [pages.script(figure) for figure in followed_figures(followed, looks)],
    }
    return scripts


def followed_figures(followed: "Followed", looks: Looks) -> Iterator[Drawing]:
    """A figure for each number that was followed, with a line for each policy that has it."""
    unit, unit_ns = forms.time_unit(followed.until_ns)
    time = f"{'' if followed.is_measured else 'simulated '}time ({unit})"
    for number in followed.numbers:
        title, until = f"{number.expression} ({number.type})", followed.until_ns / unit_ns
        curves = {
            policy: [
                (at_ns / unit_ns, value)
                for at_ns, value in [*samples, (followed.ends_ns[policy], samples[-1][1])]
            ]
            for policy, samples in number.samples.items()
        }
        yield figures.step_figure(curves, looks, time, escape(title), until)


def makespan_figures(study: Study, looks: Looks) -> Drawn:
    """Makespan over what was varied, a curve a policy, else a dot each; a figure a panel with runs
    whose times are not all equal. All have the same scale."""
    drawn = _series_of_panels(study, lambda cell, policy: cell.makespan.get(policy))
    y_max = figures.shared_y_max([max(figures.bounds_of(series)) for _, series in drawn])
    title = f"makespan ({study.unit})"
    for panel, series in drawn:
        if study.axis is None:
            dots = {policy: points[0] for policy, points in series.items()}
            yield panel, figures.dot_figure(dots, looks, title, y_max)
        else:
            yield panel, figures.curve_figure(series, looks, study.axis, title, y_max)


def _series_of_panels(
    study: Study, take: Callable[[ScenarioRuns, str], Estimate | Ratio | None]
) -> list[tuple[Panel, dict[str, list[Point]]]]:
    """The points of each policy, of panels and policies that have any that are worth a line."""
    drawn = []
    for panel in (panel for panel in study.panels if not panel.is_flat):
        series = by_key(
            (policy, _point(cell.x, value))
            for policy in study.policies
            for cell in panel.cells
            if (value := take(cell, policy)) is not None
        )
        if series:
            drawn.append((panel, series))
    return drawn


def _point(x: float | str | None, value: Estimate | Ratio) -> Point:
    return Point(x, centre_of(value), value.low, value.high)


def _ratio_figures(study: Study, looks: Looks) -> Drawn:
    drawn = _series_of_panels(
        study, lambda cell, policy: getattr(cell.comparisons.get(policy), "ratio", None)
    )
    bounds = [bound for _, series in drawn for bound in figures.bounds_of(series)]
    for panel, series in drawn if study.axis is not None else ():
        limits = (min(bounds), max(bounds))
        yield panel, figures.ratio_figure(series, looks, study.axis, study.policies[0], limits)


def _split_figures(study: Study, rows: Sequence[Mapping]) -> Drawn:
    for panel in study.panels:
        shares = {
            row["policy"]: {part: share.mean for part, share in row["shares"].items()}
            for row in rows
            if row["cell"] is panel.cells[-1] and row["shares"]
        }
        if shares:
            yield panel, figures.cpu_split_figure(shares)


def _cost_figures(study: Study, costs: Sequence[SwitchCost], looks: Looks) -> Drawn:
    return _on_axis(
        study,
        [(row.panel, row) for row in costs],
        lambda row: row.total,
        lambda series: figures.delay_figure(series, looks, study.axis, "cost of a switch"),
    )


def _percentile_figures(latencies: Sequence[Delays], looks: Looks) -> Drawn:
    return _figures_of_rows(
        latencies,
        lambda row: [_point(name, row.percentiles[name]) for name in PERCENTILES],
        lambda series: figures.delay_figure(series, looks, "percentile", "wake-up latency"),
    )


def _ecdf_figures(delays: Sequence[Delays], looks: Looks, what: str, events: str) -> Drawn:
    """None for a panel in which a run kept no histogram: a missing curve would mislead."""
    for panel, rows in _by_panel(delays):
        curves = {row.policy: row.curve for row in rows}
        if all(len(values) for values, _ in curves.values()):
            yield panel, figures.ecdf_figure(curves, looks, what, f"{events} within")


def _response_figures(requests: Sequence[Requests], looks: Looks) -> Drawn:
    """A figure a panel and name, unless there are too many names to look at."""
    names = list(dict.fromkeys(row.name for row in requests))
    for name in names if len(names) <= REQUEST_GROUPS_MAX else ():
        delays = [row.delays for row in requests if row.name == name and row.delays]
        for panel, figure in _ecdf_figures(delays, looks, f"response time of {name}", "requests"):
            yield replace(panel, name=f"{panel.name}: {name}"), figure


def _figures_of_rows(
    rows: Sequence, points: Callable[[Any], list[Point]], draw: Callable[[Series], Drawing]
) -> Drawn:
    """A figure a panel, with the points of all rows of a policy."""
    for panel, of_panel in _by_panel(rows):
        yield panel, draw(by_key((row.policy, point) for row in of_panel for point in points(row)))


def _by_name(
    requests: Sequence[Requests], take: Callable[[Requests], OfPolicy | None]
) -> list[tuple[Panel, OfPolicy]]:
    """What is taken of each, each name in a panel of its own, unless there are too many to look
    at."""
    names = {row.name for row in requests}
    if len(names) > REQUEST_GROUPS_MAX:
        return []
    return [
        (replace(row.panel, name=f"{row.panel.name}: {row.name}"), taken)
        for row in requests
        if (taken := take(row)) is not None
    ]


def _delays_on_axis(
    study: Study, rows: Sequence[tuple[Panel, Delays]], looks: Looks, what: str
) -> Drawn:
    return _on_axis(
        study,
        rows,
        lambda row: row.percentiles["p99"],
        lambda series: figures.delay_figure(series, looks, study.axis, f"{what} p99"),
    )


def _on_axis(
    study: Study,
    rows: Sequence[tuple[Panel, Any]],
    take: Callable[[Any], Estimate],
    draw: Callable[[Series], Drawing],
) -> Drawn:
    """A figure a panel of what is taken of each row, against what was varied."""
    for of_panel in by_key((panel.name, (panel, row)) for panel, row in rows).values():
        points = ((row.policy, _point(row.x, take(row))) for _, row in of_panel)
        if study.axis is not None:
            yield of_panel[0][0], draw(by_key(points))


def _by_panel(rows: Sequence) -> Iterator[tuple[Panel, list]]:
    for of_panel in by_key((row.panel.name, row) for row in rows).values():
        yield of_panel[-1].panel, of_panel
