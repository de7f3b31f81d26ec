"""One HTML file that says what runs were made, what came of them, and how to make them again.

`write_report` has run records grouped by `study`, asks `statistics` for every number and `plots`
for every figure, and fills `templates/report.html`. The file carries its own copy of plotly.js and
forbids every request over a network. Runs that did not complete are listed with their messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from schedlab import whole_file
from schedlab.experiment.fairness import share_errors
from schedlab.experiment.figures import figures_of
from schedlab.experiment.headline import overlap, told_panels
from schedlab.experiment.interactivity import PERCENTILES, last_runs, requests, wakeup_latencies
from schedlab.experiment.published import Beside, rank_text
from schedlab.experiment.study import (
    Panel,
    ScenarioRuns,
    Study,
    factor,
    interval,
    mean_count,
    number,
    p_value,
    points,
    study_of,
)
from schedlab.experiment.verdicts import (
    Judged,
    bounds_text,
    pairing_text,
    place_text,
    published_text,
    simulated_text,
    verdict_text,
)
from schedlab.report import figures, pages
from schedlab.report.figures import CPU_PARTS
from schedlab.statistics.estimates import (
    CONFIDENCE,
    QUANTILE_LEVELS,
    THRESHOLD,
    Contrast,
    Estimate,
    Verdict,
    estimate,
)
from schedlab.store.runs import measured_on

if TYPE_CHECKING:
    from schedlab.experiment.timeline_figure import Timelines
    from schedlab.store.runs import RunRecord

DIGEST_CHARACTERS_SHOWN = 12
CLAIM_FORMS = (published_text, simulated_text, bounds_text, verdict_text, place_text)


def write_report(
    path: str | os.PathLike[str],
    records: Iterable[RunRecord],
    title: str,
    command: str,
    published: Mapping[str, Beside] | None = None,
    description: str = "",
    timelines: Timelines | None = None,
) -> None:
    """Write a self-contained HTML report; readers of `path` see the old file or the whole new one.

    Parameters
    ----------
    path : path
        The file to write, in a folder that exists.
    records : iterable of RunRecord
        Every run, completed or not. Policies are shown in the order in which they first appear
        and compared with the first; so are machines, without comparison.
    title : str
        Heading of the report.
    command : str
        What to type to make the same runs again.
    published : mapping of label to Published, optional
        Rows of the table "published beside simulated".
    description : str, optional
        What the experiment is about, below the heading.
    timelines : Timelines, optional
        Which task ran where, for a pair of the runs.

    Raises
    ------
    ValueError
        If there is no record.
    OSError
        If the file cannot be written.
    """
    study = study_of(list(records))
    write_study(path, study, title, command, published, description, timelines)


def write_study(
    path: str | os.PathLike[str],
    study: Study,
    title: str,
    command: str,
    published: Mapping[str, Beside] | None = None,
    description: str = "",
    timelines: Timelines | None = None,
    judged: Sequence[Judged] = (),
) -> None:
    """As `write_report`, of runs that somebody has grouped already, which takes a while.

    `judged` is what `verdicts.judge` says of them.
    """
    whole_file.write(path, render(study, title, command, published, description, timelines, judged))


def render(
    study: Study,
    title: str,
    command: str,
    published: Mapping[str, Beside] | None = None,
    description: str = "",
    timelines: Timelines | None = None,
    judged: Sequence[Judged] = (),
) -> str:
    """The report as one HTML text; see `write_study`."""
    looks = figures.looks_of(study.policies)
    split_rows, told = _split_rows(study), told_panels(study)
    latencies, found, shares = wakeup_latencies(study), requests(study), share_errors(study)
    return pages.render(
        "report.html",
        (number, mean_count, factor, interval, p_value, points, message_of, *CLAIM_FORMS),
        title=title,
        description=description,
        command=command,
        published=published or {},
        ranks=rank_text(published) if published else "",
        claims=judged,
        pairing=pairing_text(judged),
        ideals=list(
            dict.fromkeys(row.ideal.meaning for row in (published or {}).values() if row.ideal)
        ),
        study=study,
        looks=looks,
        baseline=study.policies[0],
        summary=summary(study, told),
        **figures_of(study, looks, split_rows, latencies, found, shares, timelines),
        measured_on=measured_on([*study.completed, *study.incomplete]),
        split_rows=split_rows,
        latency_rows=latencies,
        request_rows=found,
        share_rows=shares,
        what_was_run=_what_was_run(study),
        cpu_parts=CPU_PARTS,
        percentiles=PERCENTILES,
        quantile_levels=QUANTILE_LEVELS,
        number_form=number,
        percent_form="{:.2f}".format,
        is_time_equal=len(told) == len(study.panels),
        factor_form=factor,
        digest_characters=DIGEST_CHARACTERS_SHOWN,
        confidence_percent=round(100 * CONFIDENCE),
        threshold_percent=f"{100 * THRESHOLD:g}",
    )


# --- words and numbers ----------------------------------------------------------------------------


def summary(
    study: Study, told: Mapping[str, str] | None = None
) -> dict[str, str | list[tuple[str, str]]]:
    """What the data say in plain words: `opening`, `panels` (name, sentence) and `growth`.

    `told` is what `headline.told_panels` gives, for who has it already.
    """
    told = told_panels(study) if told is None else told
    is_time_equal = len(told) == len(study.panels)
    return {
        "opening": " ".join(_opening_sentences(study, is_time_equal)),
        "panels": [(p.name, told.get(p.name) or _panel_sentence(study, p)) for p in study.panels],
        "growth": _growth_sentence(study),
    }


def _opening_sentences(study: Study, is_time_equal: bool) -> list[str]:
    made = [*study.completed, *study.incomplete]
    machines = {record.machine for record in made}
    what = "measured run" if measured_on(made) else "simulated run"
    sentences = [
        f"{_count(len(made), what)}{_lost(study.incomplete)} of"
        f" {_listed(study.policies)} on {_count(len(machines), 'machine')}."
    ]
    words = [
        comparison.verdict
        for panel in study.panels
        for cell in panel.cells
        for comparison in cell.comparisons.values()
    ]
    if words and is_time_equal:
        sentences.append("Their times are equal; what tells them apart stands first.")
    elif words:
        counts = ", ".join(f"{words.count(word)} {word.value}" for word in Verdict)
        sentences.append(
            f"Of {_count(len(words), 'comparison')} with {study.policies[0]}: {counts}; "
            "every one of them is below."
        )
    cells = [found for p in study.panels for c in p.cells for found in c.makespan.values()]
    if cells and all(found.n > 1 and found.sd == 0 for found in cells):
        sentences.append(
            "Every repetition of a scenario gave the same value, so intervals have no width and a "
            "verdict compares two exact numbers of the model."
        )
    if study.incomplete:
        sentences.append("What did not complete is left out of every number, and listed below.")
    return sentences


def _lost(incomplete: Sequence[RunRecord]) -> str:
    """How many runs gave no number, as an insertion; nothing if all did."""
    if not incomplete:
        return ""
    failed = all(record.status == "failed" for record in incomplete)
    return f", {len(incomplete):,} of them {'failed' if failed else 'incomplete'},"


def _panel_sentence(study: Study, panel: Panel) -> str:
    """Who has the lowest mean in the last cell, how it compares with the first, and elsewhere.

    For panels that tell policies apart somewhere; of the others see `headline`.
    """
    cells = [cell for cell in panel.cells if cell.makespan]
    if not cells:
        return "no run completed."
    last = cells[-1]
    order = sorted(last.makespan, key=lambda name: last.makespan[name].mean)
    best, where = order[0], "" if study.axis is None else f" at {study.axis} = {last.x}"
    text = (
        f"{best} has the lowest mean time{where}: "
        f"{number(last.makespan[best].mean)} {study.unit} {_aside(interval(last.makespan[best]))}"
    )
    if best in last.comparisons:
        text += f", {_compared(last.comparisons[best])} {study.policies[0]}"
    elif len(order) > 1 and order[1] in last.comparisons:
        text += f"; next is {order[1]} with {_compared(last.comparisons[order[1]])} that"
    close = [
        name
        for name in order[1:]
        if last.makespan[name].mean <= (1 + THRESHOLD) * last.makespan[best].mean
    ]
    if close:
        verb = "is" if len(close) == 1 else "are"
        text += f"; {_listed(close)} {verb} less than {100 * THRESHOLD:g} % above it"
    unsure = [
        name
        for name in order[1:]
        if name not in close and overlap([last.makespan[best], last.makespan[name]])
    ]
    if unsure:
        verb = "is" if len(unsure) == 1 else "are"
        text += f"; {_listed(unsure)} {verb} above it by less than the intervals"
    return text + "." + (_elsewhere(best, cells, study.axis) if len(cells) > 1 else "")


def _elsewhere(best: str, cells: Sequence[ScenarioRuns], axis: str | None) -> str:
    """Who has the lowest mean at the other values of what was varied."""
    lowest = [min(c.makespan, key=lambda name: c.makespan[name].mean) for c in cells]
    others = [name for name in dict.fromkeys(lowest) if name != best]
    if not others:
        return f" It is lowest at every value of {axis}."
    counts = [f"{name} at {lowest.count(name)}" for name in (best, *others)]
    return f" Lowest over all {len(cells)} values of {axis}: {_listed(counts)} of them."


def _aside(bounds: str) -> str:
    return bounds if bounds.startswith("[") else f"({bounds})"


def _compared(comparison: Contrast) -> str:
    found = comparison.ratio
    known = found.low is not None and found.low != found.high
    bounds = f" [{factor(found.low)}, {factor(found.high)}]" if known else ""
    return f"{factor(found.ratio)}{bounds} times the time of"


def _growth_sentence(study: Study) -> str:
    parts = []
    for policy in study.policies:
        found = [panel.growth[policy] for panel in study.panels if policy in panel.growth]
        if len(found) == 1:
            bounds = _aside(interval(found[0], factor))
            parts.append(f"{factor(found[0].exponent)} {bounds} for {policy}")
        elif found:
            exponents = [growth.exponent for growth in found]
            parts.append(f"{factor(min(exponents))} to {factor(max(exponents))} for {policy}")
    if not parts:
        return ""
    return f"Time grows with {study.axis} to the power {_listed(parts)} (1 is linear, 2 quadratic)."


def message_of(record: RunRecord) -> str:
    """Why a run did not complete, in the words of simulator or kernel where it gave any."""
    error = record.result.get("error") or {}
    if error.get("message"):
        return str(error["message"])
    if record.status == "stopped":
        return (
            f"stopped as asked after {number(record.result['elapsed_ns'] / 1e9)}"
            f" {'s' if record.measured_on else 'simulated seconds'}"
        )
    return "no message"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# --- tables ---------------------------------------------------------------------------------------


def _split_rows(study: Study) -> list[dict]:
    rows = []
    for panel, cell, policy, runs in last_runs(study):
        # A recording that lost events has no counts, and a real kernel no split.
        results = [record.result for record in runs if record.result["switches"] is not None]
        if not results:
            continue
        counted = {
            name: estimate([result[name] for result in results])
            for name in ("switches", "involuntary_switches", "migrations", "jain_fairness")
        }
        shares = _shares(results) if all(result["cpu_time_ns"] for result in results) else None
        rows.append({"panel": panel, "x": cell.x, "policy": policy, "shares": shares, **counted})
    return rows


def _shares(results: Sequence[Mapping]) -> dict[str, Estimate]:
    """What part of all CPU time went to what."""
    totals_ns = [sum(result["cpu_time_ns"][part] for part in CPU_PARTS) for result in results]
    return {
        part: estimate(
            [r["cpu_time_ns"][part] / max(t, 1) for r, t in zip(results, totals_ns, strict=True)]
        )
        for part in CPU_PARTS
    }


def _what_was_run(study: Study) -> dict:
    records = [*study.completed, *study.incomplete]
    started = sorted(str(r.manifest["started_at"]) for r in records if r.manifest.get("started_at"))
    wall_ns = sum(record.manifest.get("wall_ns") or 0 for record in records)
    return {
        "policies": [_policy_row(study, records, policy) for policy in study.policies],
        "machines": _digested(records, "machine"),
        "workloads": _digested(records, "workload"),
        "parameters": _parameters(records),
        "seeds": _ranges(sorted({record.seed for record in records})),
        "versions": sorted({str(record.manifest.get("version", "unknown")) for record in records}),
        "started": (started[0], started[-1]) if started else None,
        "wall_s": wall_ns / 1e9,
        "repetitions": sorted({len(runs) for *_, runs in _all_runs(study)}),
    }


def _all_runs(study: Study) -> list[tuple[ScenarioRuns, Sequence[RunRecord]]]:
    return [(c, runs) for panel in study.panels for c in panel.cells for runs in c.runs.values()]


def _policy_row(study: Study, records: Sequence[RunRecord], policy: str) -> dict:
    mine = [record for record in records if record.policy == policy]
    tunables = {_settings(record.manifest.get("tunables") or {}) for record in mine}
    return {
        "label": policy,
        "names": sorted({str(record.manifest.get("policy_name", policy)) for record in mine}),
        "digests": sorted({str(r.manifest.get("policy_source_digest", "unknown")) for r in mine}),
        "tunables": sorted(tunables),
        "completed": sum(record.status == "completed" for record in mine),
        "made": len(mine),
    }


def _settings(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {values[name]}" for name in sorted(values)) or "defaults"


def _digested(records: Sequence[RunRecord], kind: str) -> list[tuple[str, list[str]]]:
    """Name and digests of each machine or workload; a workload has one digest a parameter set."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        digest = str(record.manifest.get(f"{kind}_digest", "unknown"))
        found.setdefault(getattr(record, kind), {})[digest] = None
    return [(name, list(digests)) for name, digests in found.items()]


def _parameters(records: Sequence[RunRecord]) -> list[tuple[str, str, str]]:
    """Workload, parameter and every value it had, in the order of the runs."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        settings = {**record.varied, **(record.manifest.get("parameters") or {})}
        for name, value in settings.items():
            found.setdefault((record.workload, name), {})[str(value)] = None
    return [(workload, name, ", ".join(values)) for (workload, name), values in found.items()]


def _ranges(values: Sequence[int]) -> str:
    """Ascending integers with unbroken stretches written as one: 1 to 5, 9."""
    stretches: list[list[int]] = []
    for value in values:
        if stretches and value == stretches[-1][-1] + 1:
            stretches[-1].append(value)
        else:
            stretches.append([value])
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]} to {s[-1]}" for s in stretches)
