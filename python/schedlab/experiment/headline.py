"""What to say first of a panel: who has the lowest mean time, unless that is chance.

Many workloads end when their time is up, or wait for a clock; then runs are equally long under
every policy and none is faster. What such a workload is about is told instead: missed deadlines,
else response times, else shares of CPU time, else wake-up latencies.
"""

from collections.abc import Callable, Mapping, Sequence

from schedlab.experiment.metrics import Metrics, OfPolicy
from schedlab.experiment.study import Panel, ScenarioRuns, Study, are_equal, bounded, mean
from schedlab.report.forms import Form, list_text, number_text, ratio_text, time_text
from schedlab.statistics.estimates import THRESHOLD, Estimate


def equal_times(cell: ScenarioRuns) -> bool:
    """Whether nothing in the times of a cell tells policies apart; False for fewer than two. Every
    two of them differ by less than their intervals, or by less than what is worth a word, and no
    comparison, which may be seed by seed, calls one faster."""
    makespans = list(cell.makespan.values())
    told = {compared.verdict for compared in cell.comparisons.values()}
    if len(makespans) < 2 or told & {"faster", "slower"}:
        return False
    return are_equal([makespan.mean for makespan in makespans]) or overlap(makespans)


def overlap(estimates: Sequence[Estimate]) -> bool:
    """Whether there is a value that lies in all intervals; False if one has none."""
    lows = [estimate.low for estimate in estimates]
    highs = [estimate.high for estimate in estimates]
    return None not in (*lows, *highs) and max(lows) <= min(highs)


def told_panels(study: Study, metrics: Metrics) -> dict[str, str]:
    """A sentence for each panel in all of whose cells times are equal, by the panel's name."""
    told = {}
    for panel in study.panels:
        if panel.cells and all(map(equal_times, panel.cells)):
            told[panel.name] = f"{_times(study, panel)}. {_difference(study, metrics, panel)}."
        elif panel.is_flat:
            # Some policy is alone somewhere, because there is no other or others failed.
            span = _span(study, panel.makespans)
            told[panel.name] = f"times do not change with {study.axis}: all take {span}."
    return told


def _times(study: Study, panel: Panel) -> str:
    last = panel.cells[-1]
    makespans = panel.makespans if panel.is_flat else list(last.makespan.values())
    where = ":" if study.axis is None else f" at any {study.axis};{study.at(last)}"
    if panel.is_flat and study.axis is not None:
        where = f": at every value of {study.axis}"
    some = len(last.makespan) < len(study.policies)
    who = f"of {list_text(list(last.makespan))} none" if some else "no policy"
    shortest, longest = _ends(makespans)
    text = f"{who} is faster{where} all take {_span(study, makespans)}"
    if overlap(makespans) and any(makespan.low != makespan.high for makespan in makespans):
        text += ", less apart than their intervals are wide"
    elif shortest != longest:
        text += f", less than {100 * THRESHOLD:g} % apart"
    return text


def _ends(makespans: Sequence[Estimate]) -> tuple[str, str]:
    means = [makespan.mean for makespan in makespans]
    return number_text(min(means)), number_text(max(means))


def _span(study: Study, makespans: Sequence[Estimate]) -> str:
    """From the shortest to the longest, once if they look equal."""
    shortest, longest = _ends(makespans)
    return f"{shortest}{f' to {longest}' * (shortest != longest)} {study.unit}"


def _difference(study: Study, metrics: Metrics, panel: Panel) -> str:
    """The first metric in which any two policies differ anywhere: its best and its worst where
    they are furthest apart."""
    latencies, requests, shares = (
        [row for row in rows if row.panel is panel] for rows in metrics.rows
    )
    missed = [(row, row.name, row.missed) for row in requests if row.missed]
    answered = [(row, row.name, row.delays.percentiles["p99"]) for row in requests if row.delays]
    errors = [(row, "", row.largest) for row in shares]
    woken = [(row, "", row.percentiles["p99"]) for row in latencies]
    text = ""
    if missed and not any(number.mean for _, _, number in missed):
        somewhere = study.at(panel.cells[-1]) if len(panel.cells) == 1 else f" at any {study.axis}"
        text = f"No deadline was missed{somewhere}"
    for what, rows, form in (
        ("Missed deadlines", missed, "{:.2f} %".format),
        ("99th percentile of response time", answered, time_text),
        ("Largest error of a share of CPU time", errors, "{:.2f} points".format),
        ("99th percentile of wake-up latency", woken, time_text),
    ):
        widest, told = 0.0, ""
        for cell in panel.cells:
            name, values = _worst_served([row for row in rows if row[0].cell is cell])
            means = [value.mean for value in values.values()]
            low, high = (_end(values, choose, form) for choose in (min, max))
            # Of equal ones the last: more is asked of policies there.
            if low != high and max(means) - min(means) >= widest:
                widest = max(means) - min(means)
                told = f"{f' ({name})' * bool(name)}{study.at(cell)}: from {low} to {high}"
        if told:
            return f"{text}{'. ' * bool(text)}{what}{told}"
    return text or "Nothing else that was measured tells them apart"


def _worst_served(
    rows: Sequence[tuple[OfPolicy, str, Estimate]],
) -> tuple[str, dict[str, Estimate]]:
    """In what somebody serves worst policies differ most: its name, and the numbers of all."""
    worst = max(rows, key=lambda row: row[2].mean, default=(None, ""))[1]
    return worst, {row.policy: number for row, name, number in rows if name == worst}


def _end(values: Mapping[str, Estimate], choose: Callable, form: Form) -> str:
    """The lowest or highest number, its interval, and everybody who has it."""
    end = choose(values.values(), key=lambda value: value.mean, default=None)
    names = [name for name, value in values.items() if value.mean == end.mean]
    return f"{bounded(end, form=form)} under {list_text(names)}" if names else ""


# --- where times tell policies apart --------------------------------------------------------------


def panel_sentences(study: Study, equal: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the data say of each panel, by its name; `equal` is what `told_panels` gives."""
    return [(p.name, equal.get(p.name) or _panel_sentence(study, p)) for p in study.panels]


def _panel_sentence(study: Study, panel: Panel) -> str:
    """Who has the lowest mean in the last cell, how it compares with the first, and elsewhere."""
    if not (cells := [cell for cell in panel.cells if cell.makespan]):
        return "no run completed."
    last = cells[-1]
    best, *others = sorted(last.makespan, key=lambda name: last.makespan[name].mean)
    at, time = study.at(last), mean(last.makespan[best])
    text = f"{best} has the lowest mean time{at}: {time} {study.unit}"
    compared = {
        policy: f"{bounded(contrast.ratio, form=ratio_text)} times the time of"
        for policy, contrast in last.comparisons.items()
    }
    if best in compared:
        text += f", {compared[best]} {study.policies[0]}"
    elif others and others[0] in compared:
        text += f"; next is {others[0]} with {compared[others[0]]} that"
    text += f"{_near(last, best, others)}."
    if len(cells) == 1:
        return text
    lowest = [min(cell.makespan, key=lambda name: cell.makespan[name].mean) for cell in cells]
    leaders = dict.fromkeys([best, *lowest])
    if len(leaders) == 1:
        return f"{text} It is lowest at every value of {study.axis}."
    counts = list_text([f"{name} at {lowest.count(name)}" for name in leaders])
    return f"{text} Lowest over all {len(cells)} values of {study.axis}: {counts} of them."


def _near(cell: ScenarioRuns, best: str, others: Sequence[str]) -> str:
    """Who is above the lowest mean by so little that it may be chance."""
    lowest = cell.makespan[best]
    close = [n for n in others if cell.makespan[n].mean <= (1 + THRESHOLD) * lowest.mean]
    rest = [name for name in others if name not in close]
    unsure = [name for name in rest if overlap([lowest, cell.makespan[name]])]
    text = ""
    for names, how in (
        (close, f"less than {100 * THRESHOLD:g} % above it"),
        (unsure, "above it by less than the intervals"),
    ):
        if names:
            text += f"; {list_text(names)} {'is' if len(names) == 1 else 'are'} {how}"
    return text
