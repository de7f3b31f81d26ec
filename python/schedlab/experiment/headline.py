"""What to say first of a panel whose runs are equally long under every policy.

Many workloads end when their time is up, or wait for a clock; then no policy is faster, and who
has the lowest mean is chance. What such a workload is about is told instead: missed deadlines,
else response times, else shares of CPU time, else wake-up latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from schedlab.experiment.interactivity import Metrics
from schedlab.experiment.study import Panel, ScenarioRuns, Study
from schedlab.report.forms import interval_text, list_text, number_text, time_text
from schedlab.statistics.estimates import THRESHOLD, Estimate

Form = Callable[[float], str]


def equal_times(cell: ScenarioRuns) -> bool:
    """Whether nothing in the times of a cell tells policies apart; False for fewer than two. Every
    two of them differ by less than their intervals, or by less than what is worth a word."""
    makespans = list(cell.makespan.values())
    if len(makespans) < 2:
        return False
    means = [makespan.mean for makespan in makespans]
    return max(means) <= (1 + THRESHOLD) * min(means) or overlap(makespans)


def overlap(estimates: Sequence[Estimate]) -> bool:
    """Whether there is a value that lies in all intervals; False if one has none."""
    lows = [estimate.low for estimate in estimates]
    highs = [estimate.high for estimate in estimates]
    return None not in (*lows, *highs) and max(lows) <= min(highs)


def told_panels(study: Study, metrics: Metrics) -> dict[str, str]:
    """A sentence for each panel in all of whose cells times are equal, by the panel's name."""
    return {
        panel.name: f"{_times(study, panel)}. {_difference(metrics, panel)}."
        for panel in study.panels
        if panel.cells and all(map(equal_times, panel.cells))
    }


def _times(study: Study, panel: Panel) -> str:
    makespans = list(panel.cells[-1].makespan.values())
    means = [makespan.mean for makespan in makespans]
    shortest, longest = number_text(min(means)), number_text(max(means))
    x = panel.cells[-1].x
    where = ":" if study.axis is None else f" at any {study.axis}; at {study.axis} = {x}"
    text = f"no policy is faster{where} all take {shortest}"
    text += f" to {longest}" * (shortest != longest) + f" {study.unit}"
    if overlap(makespans) and any(makespan.low != makespan.high for makespan in makespans):
        text += ", less apart than their intervals are wide"
    elif shortest != longest:
        text += f", less than {100 * THRESHOLD:g} % apart"
    return text


def _difference(metrics: Metrics, panel: Panel) -> str:
    """The first metric in which any two policies differ: its best and its worst."""
    sentences = []
    missed = [row.missed.mean for row in metrics.requests if row.panel is panel and row.missed]
    if missed and not any(missed):
        sentences.append("No deadline was missed")
    for what, values, form in _metrics(metrics, panel):
        if len({value.mean for value in values.values()}) > 1:
            best, worst = (_end(values, choose, form) for choose in (min, max))
            sentences.append(f"{what}: from {best} to {worst}")
            break
    return ". ".join(sentences) or "Nothing else that was measured tells them apart"


def _metrics(metrics: Metrics, panel: Panel) -> Iterator[tuple[str, Mapping[str, Estimate], Form]]:
    """What there is, its value under each policy, and how to write it; in order of their worth."""
    mine = [row for row in metrics.requests if row.panel is panel]
    missed = [(row.name, row.policy, row.missed) for row in mine if row.missed]
    answered = [(row.name, row.policy, row.delays.percentiles["p99"]) for row in mine if row.delays]
    for what, rows, form in (
        ("Missed deadlines", missed, "{:.2f} %".format),
        ("99th percentile of response time", answered, time_text),
    ):
        if rows:
            # Policies differ most in what somebody serves worst.
            worst = max(rows, key=lambda row: row[2].mean)[0]
            values = {policy: value for name, policy, value in rows if name == worst}
            yield f"{what} ({worst})", values, form
    shares = {row.policy: row.largest for row in metrics.shares if row.panel is panel}
    yield "Largest error of a share of CPU time", shares, "{:.2f} points".format
    latencies = {
        row.policy: row.percentiles["p99"] for row in metrics.latencies if row.panel is panel
    }
    yield "99th percentile of wake-up latency", latencies, time_text


def _end(values: Mapping[str, Estimate], choose: Callable, form: Form) -> str:
    """The lowest or highest number, its interval, and everybody who has it."""
    end = choose(values.values(), key=lambda value: value.mean)
    names = [name for name, value in values.items() if value.mean == end.mean]
    return f"{interval_text(end.mean, end.low, end.high, form)} under {list_text(names)}"
