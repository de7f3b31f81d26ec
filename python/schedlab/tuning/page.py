"""The page of a search: what may be said, what was tried, which tunable decides, and the front."""

from collections.abc import Mapping
from pathlib import Path

from schedlab.report import pages
from schedlab.report.forms import count_text
from schedlab.tuning import figures
from schedlab.tuning.answer import Tuned, value_text
from schedlab.tuning.verdict import LOSS_MAX

WAY_OUT = "every run and trial is kept: the same command makes the page without searching again"
# Tunables that are drawn, those that decide most first.
DRAWN_MAX = 8


def write(path: Path, tuned: Tuned, written: Mapping[str, str]) -> None:
    """Writes the page whole; `written` has the name of its set for each candidate that has one.
    Raises SchedlabError if it cannot be written."""
    pages.write(path, render(tuned, written), WAY_OUT)


def render(tuned: Tuned, written: Mapping[str, str]) -> str:
    """The page as one HTML text."""
    objectives = []
    for at, objective in enumerate(tuned.tuning.objectives):
        importance = tuned.searched.importance[at]
        names = sorted(tuned.tuning.ranges, key=lambda name: -importance.get(name, 0))
        drawn = [
            (name, pages.script(figures.tunable_figure(tuned, name, at)))
            for name in names[:DRAWN_MAX]
        ]
        has_several = len(importance) > 1
        bars = pages.script(figures.importance_figure(importance)) if has_several else None
        search = pages.script(figures.search_figure(tuned, at))
        objectives.append({"text": objective.text, "search": search, "bars": bars, "drawn": drawn})
    has_front = len(tuned.tuning.objectives) > 1
    return pages.render(
        "tune.html",
        (count_text, value_text),
        tuned=tuned,
        tuning=tuned.tuning,
        searched=tuned.searched,
        judgement=tuned.judgement,
        objectives=objectives,
        front=pages.script(figures.front_figure(tuned)) if has_front else None,
        written=written,
        loss_max_percent=f"{100 * LOSS_MAX:g}",
        states=[trial.state for trial in tuned.searched.trials],
    )
