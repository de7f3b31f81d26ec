"""The figures of a search: trial after trial, a tunable's values, what decides, and the front.

Costs are over those of the policy as it is, on a logarithmic axis: below the line at 1 is better. A
trial is filled if it is sound, hollow if it breaks a bound, and a cross if it was stopped.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from schedlab.report.drawing import Drawing
from schedlab.report.figures import FAINT_INK, layout, looks_of, ratio_ticks
from schedlab.tuning.answer import STOPPED, Trial, Tuned, value_text

# Room for the names of tunables.
NAMES_PX = 190
BAR_PX = 26
MARK_PX = 8


def search_figure(tuned: Tuned, at: int) -> Drawing:
    """Every trial's cost by an objective, in order, and the best so far as a line."""
    told = [trial for trial in tuned.searched.trials if trial.values]
    figure = _scatter(told, [one.number for one in told], _costs(told, at), "trial", tuned, at)
    best, steps = math.inf, []
    for trial in told:
        if trial.is_sound and trial.values[at] < best:
            best = trial.values[at]
        if best < math.inf:
            steps.append((trial.number, math.exp(best)))
    figure.add_scatter(
        x=[x for x, _ in steps], y=[y for _, y in steps], mode="lines", hoverinfo="skip",
        line={"color": FAINT_INK, "width": 1.6, "dash": "4px,3px", "shape": "hv"},
    )  # fmt: skip
    return figure


def tunable_figure(tuned: Tuned, name: str, at: int) -> Drawing:
    """The cost of every trial over the value that a tunable had in it; a line where it is now."""
    told = [trial for trial in tuned.searched.trials if trial.values]
    values = [trial.settings[name] for trial in told]
    figure = _scatter(told, values, _costs(told, at), name, tuned, at)
    of, base = tuned.tuning.ranges[name], tuned.base[name]
    if of.is_log:
        low, high = math.log10(of.low), math.log10(of.high)
        ticks = [10 ** (low + (high - low) * step / 4) for step in range(5)]
        figure.update_xaxes(type="log", range=[low - 0.05, high + 0.05])
        texts = [value_text(name, float(f"{tick:.2g}")) for tick in ticks]
        figure.update_xaxes(tickvals=ticks, ticktext=texts)
    figure.add_vline(x=base, line={"color": FAINT_INK, "width": 1.4, "dash": "4px,3px"})
    return figure


def importance_figure(importance: Mapping[str, float]) -> Drawing:
    """How much each tunable decides whether a trial is among the best: a bar each, 1 in all."""
    names = sorted(importance, key=importance.get)
    style = layout("importance (share of all)", None, 24)
    style |= {"height": 70 + BAR_PX * len(names), "margin": {**style["margin"], "l": NAMES_PX}}
    figure = Drawing(style)
    look = looks_of(["tunable"])["tunable"]
    figure.add_bar(
        orientation="h", y=list(map(escape, names)), x=[importance[of] for of in names],
        marker={"color": look.colour}, hovertemplate="%{y}: %{x:.3f}<extra></extra>",
    )  # fmt: skip
    return figure.update_xaxes(rangemode="tozero")


def front_figure(tuned: Tuned) -> Drawing:
    """The first two objectives against each other; trials of the front are joined."""
    told = [trial for trial in tuned.searched.trials if trial.values]
    figure = _scatter(told, _costs(told, 0), _costs(told, 1), "", tuned, 1)
    first = tuned.tuning.objectives[0].text
    title = escape(f"{first}, cost over that as it is (×)")
    figure.update_xaxes(title={"text": title}, type="log")
    _ticked(figure.update_xaxes, _costs(told, 0))
    front = tuned.searched.front
    figure.add_scatter(
        x=_costs(front, 0), y=_costs(front, 1), mode="lines", hoverinfo="skip",
        line={"color": FAINT_INK, "width": 1.6, "shape": "hv"},
    )  # fmt: skip
    return figure


def _costs(trials: Sequence[Trial], at: int) -> list[float]:
    return [trial.costs[at] for trial in trials]


def _scatter(
    trials: Sequence[Trial], xs: Sequence[float], ys: Sequence[float], x_title: str,
    tuned: Tuned, at: int,
) -> Drawing:  # fmt: skip
    """A mark a trial, on a logarithmic axis of costs."""
    objective = tuned.tuning.objectives[at].text
    style = layout(x_title, escape(f"{objective}, cost over that as it is (×)"), 24)
    figure = Drawing(style | {"hovermode": "closest"})
    look = looks_of(["trial"])["trial"]
    figure.add_hline(y=1, line={"color": FAINT_INK, "width": 1.4}, layer="below")
    figure.add_scatter(
        x=xs, y=ys, mode="markers",
        marker={
            "color": look.colour, "size": MARK_PX,
            "symbol": [_symbol(trial) for trial in trials],
        },
        customdata=[_told(trial) for trial in trials],
        hovertemplate="%{customdata}<br>%{y:.4g}×<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(type="log")
    _ticked(figure.update_yaxes, ys)
    return figure


def _ticked(update, values: Sequence[float]) -> None:
    low, high = min([*values, 0.97]), max([*values, 1.03])
    pad = (high / low) ** 0.06
    low, high = low / pad, high * pad
    ticks = ratio_ticks(low, high)
    limits = [math.log10(low), math.log10(high)]
    update(range=limits, tickvals=ticks, ticktext=[f"{tick:g}×" for tick in ticks])


def _symbol(trial: Trial) -> str:
    if trial.state == STOPPED:
        return "x-thin-open"
    return "circle" if trial.is_sound else "circle-open"


def _told(trial: Trial) -> str:
    values = (f"{name} = {value_text(name, of)}" for name, of in trial.settings.items())
    return escape(f"trial {trial.number}: ") + "<br>".join(map(escape, values))
