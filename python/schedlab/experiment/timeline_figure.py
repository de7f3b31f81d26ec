"""Which task ran where: a row a CPU, a bar a stay, the runs of a pair below each other.

Both runs share one axis of time, so that zooming into one shows the same moments of the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from schedlab.report.drawing import Drawing
from schedlab.report.figures import FAINT_INK, INK, Look, label, layout, legend_above, rgb_of
from schedlab.report.forms import tick_text, time_unit
from schedlab.statistics.samples import by_key

if TYPE_CHECKING:
    from schedlab.experiment.timelines import PlayedRun, Timelines

# Groups with a colour of their own; what took least CPU time shares the last colour.
GROUPS_MAX = 7
OTHERS = "others"
_IDLE = "#f1f3f6"
# Neighbours differ in lightness too, so that they can be told apart in grey.
_FILLS = ("#1f3f66", "#e08a3c", "#a9c7e0", "#8c3b2a", "#7fb069", "#5c5470", "#d8c7a3")
_TINT = 0.28
_NEARLY_OPAQUE = 0.999
_ROWS_PX = 420
_ROW_PX_MAX, _ROW_PX_MIN = 34, 3
_HEAD_PX = 34
_LEGEND_PX = 40
_FOOT_PX = 46
_CURVE_PX = 70
_CPU_TICKS_MAX = 16


def timeline_figure(timelines: Timelines, looks: Mapping[str, Look]) -> Drawing:
    """Bars of stays on CPUs, coloured by the tasks' name; zoomable along time only. `looks` is as
    `report.figures.looks_of` gives it for the whole report."""
    runs = timelines.runs
    unit, unit_ns = time_unit(timelines.until_ns)
    row_px = max(_ROW_PX_MIN, min(_ROW_PX_MAX, _ROWS_PX // sum(run.nr_cpus for run in runs)))
    plots_px, rows = [], []
    for run in runs:
        rows.append(len(plots_px) + 1)
        plots_px += [row_px * run.nr_cpus] + [_CURVE_PX] * len(run.watched)
    inside_px = sum(plots_px) + _HEAD_PX * (len(plots_px) - 1)
    style = layout("", "", 16)
    axis = style.pop("xaxis")
    style.pop("yaxis")
    figure = Drawing(style)
    groups = groups_of(runs)
    for place in sorted(set(groups.values())):
        # An entry of the legend, which no stay is drawn with: a trace without stays has none.
        names = [name for name in groups if groups[name] == place]
        title = names[0] if len(names) == 1 else f"{OTHERS} ({len(names)} names)"
        figure.add_bar(
            name=label(title), legendgroup=str(place), x=[None], y=[None],
            marker={"color": _FILLS[place], "line": {"width": 0}}, **_in(1),
        )  # fmt: skip
    for row, run in zip(rows, runs, strict=True):
        _draw_run(figure, run, row, groups, (unit, unit_ns))
        look = looks[run.policy]
        text = f"{look.glyph} <b>{escape(run.policy)}</b>, makespan {tick_text(run.makespan_ns)}"
        _head(figure, row, text, look.ink)
        for below, one in enumerate(run.watched, start=row + 1):
            _draw_curve(figure, below, one, (timelines.until_ns, unit_ns), look.ink)
            _head(figure, below, escape(f"{one['expression']} ({one['type']})"), FAINT_INK)
    figure.update_layout(
        barmode="overlay",
        # With a gap and a colour that is not opaque, Plotly leaves bars as short as they are; else
        # each would be widened to a pixel, and what is drawn last would hide what it stands beside.
        bargap=0.1,
        height=inside_px + _HEAD_PX + _LEGEND_PX + _FOOT_PX,
        margin={"l": 70, "t": _LEGEND_PX + _HEAD_PX, "b": _FOOT_PX},
        plot_bgcolor=_IDLE, hovermode="closest", dragmode="zoom", showlegend=True,
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": FAINT_INK, "activecolor": INK},
        legend={**legend_above(), "yref": "container", "y": 1, "yanchor": "top"},
    )  # fmt: skip
    axis = {"tickfont": axis["tickfont"], "showgrid": False, "zeroline": False} | {
        "range": [0, timelines.until_ns / unit_ns],
        "title": {**axis["title"], "text": f"simulated time ({unit})"},
    }
    # Only the lowest axis says what it is of; the others show the same time.
    lowest = _in(len(plots_px))["xaxis"]
    tied = axis | {"matches": lowest, "showticklabels": False, "title": None}
    top_px = inside_px
    for row, plot_px in enumerate(plots_px, start=1):
        ends = [max(top_px - plot_px, 0) / inside_px, top_px / inside_px]
        time = axis if row == len(plots_px) else tied
        _say(figure, "x", row, time | {"anchor": _in(row)["yaxis"]})
        _say(figure, "y", row, {"domain": ends, "anchor": _in(row)["xaxis"]})
        top_px -= plot_px + _HEAD_PX
    return figure


def _in(row: int) -> dict[str, str]:
    """The axes that a row of the figure has, as a trace names them."""
    return {"xaxis": f"x{_number(row)}", "yaxis": f"y{_number(row)}"}


def _say(figure: Drawing, letter: str, row: int, axis: dict) -> None:
    """Changes what is said of an axis of a row."""
    figure.update_layout(**{f"{letter}axis{_number(row)}": axis})


def _number(row: int) -> str:
    """Plotly's first axes have none."""
    return "" if row == 1 else str(row)


def _head(figure: Drawing, row: int, text: str, ink: str) -> None:
    """What stands above a row of the figure."""
    axes = _in(row)
    figure.add_annotation(
        text=text, xref=f"{axes['xaxis']} domain", yref=f"{axes['yaxis']} domain",
        x=0, y=1, xanchor="left", yanchor="bottom", showarrow=False,
        font={"size": 14, "color": ink},
    )  # fmt: skip


def _draw_curve(
    figure: Drawing, row: int, one: Mapping, times: tuple[int, float], ink: str
) -> None:
    """A number that was followed: it keeps its value up to the next change, and to the end."""
    until_ns, unit_ns = times
    samples = [(at_ns, number) for at_ns, number in one["samples"] if at_ns <= until_ns]
    ends = [*samples, (until_ns, samples[-1][1])] if samples else []
    figure.add_scatter(
        x=[at_ns / unit_ns for at_ns, _ in ends], y=[number for _, number in ends],
        mode="lines", line={"shape": "hv", "width": 1.5, "color": ink}, showlegend=False,
        hovertemplate="%{y} from %{x:.6~g}<extra></extra>", **_in(row),
    )  # fmt: skip
    axis = {"fixedrange": True, "showgrid": False, "zeroline": False, "nticks": 3}
    _say(figure, "y", row, axis)


def groups_of(runs: Sequence[PlayedRun]) -> dict[str, int]:
    """A place among the colours for each task name, by the CPU time that its tasks took here."""
    taken: Counter[str] = Counter()
    for run in runs:
        for start_ns, end_ns, _, pid in run.stays:
            taken[run.names[pid]] += end_ns - start_ns
    order = sorted(taken, key=lambda name: (-taken[name], name))
    return {name: min(place, GROUPS_MAX - 1) for place, name in enumerate(order)}


def _draw_run(
    figure: Drawing, run: PlayedRun, row: int, groups: Mapping[str, int], unit: tuple[str, float]
) -> None:
    """Two traces a colour: tasks of one name take turns between a fill and its tint."""
    # The first task of a name has the fill of the legend.
    turns: dict[int, int] = {}
    counts: Counter[str] = Counter()
    for pid in sorted({pid for _, _, _, pid in run.stays}):
        turns[pid] = counts[run.names[pid]] % 2
        counts[run.names[pid]] += 1
    of_trace = by_key(((groups[run.names[s[3]]], turns[s[3]]), s) for s in run.stays)
    unit_text, unit_ns = unit
    for (place, odd), stays in sorted(of_trace.items()):
        figure.add_bar(
            legendgroup=str(place), showlegend=False, orientation="h", width=0.84, **_in(row),
            base=[start_ns / unit_ns for start_ns, _, _, _ in stays],
            x=[(end_ns - start_ns) / unit_ns for start_ns, end_ns, _, _ in stays],
            y=[cpu for _, _, cpu, _ in stays],
            customdata=[f"{escape(run.names[pid])}, pid {pid}" for _, _, _, pid in stays],
            marker={"color": fill_of(place, bool(odd)), "line": {"width": 0}},
            hovertemplate=f"%{{customdata}}<br>CPU %{{y}}, from %{{base:.6~g}} {unit_text}"
            f" for %{{x:.4~g}} {unit_text}<extra></extra>",
        )  # fmt: skip
    cpus = list(range(0, run.nr_cpus, math.ceil(run.nr_cpus / _CPU_TICKS_MAX)))
    axis = {
        "range": [run.nr_cpus - 0.5, -0.5],
        "tickvals": cpus, "ticktext": [f"CPU {cpu}" for cpu in cpus],
        "ticklabelstandoff": 6, "fixedrange": True, "showgrid": False, "zeroline": False,
    }  # fmt: skip
    _say(figure, "y", row, axis)


def fill_of(place: int, tint: bool) -> str:
    """A colour of the palette, or the same a step nearer to white, for CSS; see `bargap`."""
    parts = [round(part + _TINT * tint * (255 - part)) for part in rgb_of(_FILLS[place])]
    return "rgba({},{},{},{})".format(*parts, _NEARLY_OPAQUE)
