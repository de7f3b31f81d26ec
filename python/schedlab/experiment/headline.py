"""What to say first of a panel whose runs are equally long under every policy.

Many workloads end when their time is up, or wait for a clock; then no policy is faster, and who
has the lowest mean is chance. What such a workload is about is told instead: missed deadlines,
else response times, else shares of CPU time, else wake-up latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from schedlab.experiment.fairness import share_errors
from schedlab.experiment.interactivity import Requests, requests, wakeup_latencies
from schedlab.experiment.study import number
from schedlab.report.forms import time_text
from schedlab.statistics.estimates import THRESHOLD, Estimate

if TYPE_CHECKING:
    from schedlab.experiment.study import Panel, ScenarioRuns, Study

Form = Callable[[float], str]
Named = Mapping[str, Estimate]


def equal_times(cell: ScenarioRuns) -> bool:
    """Whether nothing in the times of a cell tells policies apart; False for fewer than two.

    Every two of them differ by less than their intervals, or by less than what is worth a word.
    """
    found = list(cell.makespan.values())
    if len(found) < 2:
        return False
    if max(one.mean for one in found) <= (1 + THRESHOLD) * min(one.mean for one in found):
        return True
    return overlap(found)


def overlap(found: Sequence[Estimate]) -> bool:
    """Whether there is a value that lies in all intervals; False if one has none."""
    if any(one.low is None or one.high is None for one in found):
        return False
    return max(one.low for one in found) <= min(one.high for one in found)


def told_panels(study: Study) -> dict[str, str]:
    """A sentence for each panel in all of whose cells times are equal, by the panel's name."""
    equal = [panel for panel in study.panels if panel.cells and all(map(equal_times, panel.cells))]
    if not equal:
        return {}
    about = _about(study)
    return {panel.name: _sentence(study, panel, about.get(panel.name)) for panel in equal}


def _sentence(study: Study, panel: Panel, about: str | None) -> str:
    cell = panel.cells[-1]
    means = [one.mean for one in cell.makespan.values()]
    where = ""
    if study.axis is not None:
        where = f" at any {study.axis}; at {study.axis} = {cell.x}"
    shortest, longest = (number(end) for end in (min(means), max(means)))
    text = f"no policy is faster{where or ':'} all take {shortest}"
    if shortest != longest:
        text += f" to {longest}"
    text += f" {study.unit}"
    if _by_intervals(cell):
        text += ", less apart than their intervals are wide"
    elif shortest != longest:
        text += f", less than {100 * THRESHOLD:g} % apart"
    return f"{text}. {about or 'Nothing else that was measured tells them apart'}."


def _by_intervals(cell: ScenarioRuns) -> bool:
    """Whether it is intervals that make times equal, and not that they are the same."""
    found = list(cell.makespan.values())
    return overlap(found) and any(one.low != one.high for one in found)


def _about(study: Study) -> dict[str, str]:
    """What tells policies apart in each panel: the first of these in which any two differ."""
    found: dict[str, str] = {}
    for told in (_deadlines, _responses, _shares, _latencies):
        for panel, text in told(study).items():
            found.setdefault(panel, text)
    for panel in _punctual_panels(study):
        found[panel] = "No deadline was missed" + (f". {found[panel]}" if panel in found else "")
    return found


def _punctual_panels(study: Study) -> list[str]:
    missed: dict[str, float] = {}
    for row in requests(study):
        if row.missed:
            missed[row.panel.name] = missed.get(row.panel.name, 0) + row.missed.mean
    return [panel for panel, percent in missed.items() if not percent]


def _deadlines(study: Study) -> dict[str, str]:
    rows = [row for row in requests(study) if row.missed]
    return _of_worst_name(rows, lambda row: row.missed, "Missed deadlines ({})", _percent_form)


def _responses(study: Study) -> dict[str, str]:
    rows = [row for row in requests(study) if row.delays]
    what = "99th percentile of response time ({})"
    return _of_worst_name(rows, lambda row: row.delays.percentiles["p99"], what, time_text)


def _latencies(study: Study) -> dict[str, str]:
    named: dict[str, dict[str, Estimate]] = {}
    for row in wakeup_latencies(study):
        named.setdefault(row.panel.name, {})[row.policy] = row.percentiles["p99"]
    return _told(named, "99th percentile of wake-up latency", time_text)


def _shares(study: Study) -> dict[str, str]:
    named: dict[str, dict[str, Estimate]] = {}
    for row in share_errors(study):
        named.setdefault(row.panel.name, {})[row.policy] = row.largest
    return _told(named, "Largest error of a share of CPU time", _points_form)


def _of_worst_name(rows: list[Requests], value: Callable, what: str, form: Form) -> dict[str, str]:
    """Of each panel the requests that somebody serves worst: there, policies differ most."""
    found: dict[str, str] = {}
    for panel in dict.fromkeys(row.panel.name for row in rows):
        mine = [row for row in rows if row.panel.name == panel]
        worst = max(mine, key=lambda row: value(row).mean).name
        named = {row.policy: value(row) for row in mine if row.name == worst}
        found |= _told({panel: named}, what.format(worst), form)
    return found


def _told(named: Mapping[str, Named], what: str, form: Form) -> dict[str, str]:
    """The best and the worst of each panel; nothing of one in which all are alike."""
    return {
        panel: f"{what}: from {_end(of, min, form)} to {_end(of, max, form)}"
        for panel, of in named.items()
        if len({one.mean for one in of.values()}) > 1
    }


def _end(of: Named, choose: Callable, form: Form) -> str:
    """The lowest or highest number, its interval, and everybody who has it."""
    name = choose(of, key=lambda name: of[name].mean)
    alike = [other for other in of if of[other].mean == of[name].mean]
    return f"{_bounded(of[name], form)} under {listed(alike)}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _bounded(found: Estimate, form: Form) -> str:
    if found.low is None or found.high is None or form(found.low) == form(found.high):
        return form(found.mean)
    texts = [form(value) for value in (found.mean, found.low, found.high)]
    if len({text.rpartition(" ")[2] for text in texts}) == 1:
        texts[1:] = [text.rpartition(" ")[0] for text in texts[1:]]
    return "{} [{}, {}]".format(*texts)


def _percent_form(value: float) -> str:
    return f"{value:.2f} %"


def _points_form(value: float) -> str:
    return f"{value:.2f} points"
