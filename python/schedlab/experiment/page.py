"""One HTML file that says what runs were made, what came of them, and how to make them again.

The numbers are those of an `Answer`, the figures those of `figures`; both fill
`templates/report.html`. Runs that did not complete are listed with their messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from schedlab.experiment import verdicts
from schedlab.experiment.answer import Answer
from schedlab.experiment.figures import figures_of
from schedlab.experiment.headline import overlap, told_panels
from schedlab.experiment.interactivity import PERCENTILES
from schedlab.experiment.published import rank_text
from schedlab.experiment.study import Panel, ScenarioRuns, Study
from schedlab.experiment.timelines import Timelines
from schedlab.report import figures, forms, pages
from schedlab.report.figures import CPU_PARTS
from schedlab.report.forms import count_text, list_text, mean_text, number_text, ratio_text
from schedlab.statistics import estimates
from schedlab.statistics.digits import p_number
from schedlab.statistics.estimates import THRESHOLD, Estimate, Ratio, estimate
from schedlab.store.runs import RunRecord, measured_on

DIGEST_CHARACTERS_SHOWN = 12
WAY_OUT = "every run is kept: `schedlab report STORE -o OUT.html` makes the report of a store"


def write(path: str | os.PathLike[str], answer: Answer, timelines: Timelines | None = None) -> None:
    """Writes the page of an experiment, with `timelines` of a pair of its runs. Readers of `path`
    see the old file or the whole new one. Raises SchedlabError if it cannot be written."""
    pages.write(path, render(answer, timelines), WAY_OUT)


def render(answer: Answer, timelines: Timelines | None = None) -> str:
    """The page as one HTML text; see `write`."""
    study, published = answer.study, answer.published
    looks, split_rows = figures.looks_of(study.policies), _split_rows(study)
    equal = told_panels(study, answer.metrics)
    return pages.render(
        "report.html",
        (
            number_text, forms.mean_count_text, ratio_text, forms.points_text, p_number,
            mean, bounded, message_of, count_text, list_text,
            verdicts.published_text, verdicts.simulated_text, verdicts.bounds_text,
            verdicts.verdict_text, verdicts.place_text,
        ),
        answer=answer,
        ranks=rank_text(published) if published else "",
        pairing=verdicts.pairing_text(answer.judged),
        ideals=list(dict.fromkeys(row.ideal.meaning for row in published.values() if row.ideal)),
        study=study,
        metrics=answer.metrics,
        looks=looks,
        baseline=study.policies[0],
        panel_sentences=panel_sentences(study, equal),
        growths=_growth_texts(study),
        verdicts=[contrast.verdict for contrast in study.contrasts],
        verdict_words=list(estimates.Verdict),
        is_exact=all(makespan.n > 1 and makespan.sd == 0 for makespan in study.makespans),
        **figures_of(study, answer.metrics, looks, split_rows, timelines),
        measured_on=measured_on([*study.completed, *study.incomplete]),
        split_rows=split_rows,
        what_was_run=_what_was_run(study),
        cpu_parts=CPU_PARTS,
        percentiles=PERCENTILES,
        quantile_levels=estimates.QUANTILE_LEVELS,
        percent_form="{:.2f}".format,
        ratio_form=ratio_text,
        is_time_equal=len(equal) == len(study.panels),
        digest_characters=DIGEST_CHARACTERS_SHOWN,
        confidence_percent=round(100 * estimates.CONFIDENCE),
        threshold_percent=f"{100 * THRESHOLD:g}",
    )  # fmt: skip


# --- words and numbers ----------------------------------------------------------------------------


def mean(makespan: Estimate) -> str:
    """A mean and half of its interval."""
    return mean_text(makespan.mean, makespan.low, makespan.high)


def bounded(value: Estimate | Ratio, scale: float = 1.0, form: forms.Form = number_text) -> str:
    """What lies anywhere in its interval, times `scale`."""
    centre = value.ratio if isinstance(value, Ratio) else value.mean
    ends = (None if end is None else end * scale for end in (value.low, value.high))
    return forms.interval_text(centre * scale, *ends, form)


def panel_sentences(study: Study, equal: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the data say of each panel, by its name; `equal` is what `told_panels` gives."""
    return [(p.name, equal.get(p.name) or _panel_sentence(study, p)) for p in study.panels]


def _panel_sentence(study: Study, panel: Panel) -> str:
    """Who has the lowest mean in the last cell, how it compares with the first, and elsewhere. For
    panels that tell policies apart somewhere; of the others see `headline`."""
    cells = [cell for cell in panel.cells if cell.makespan]
    if not cells:
        return "no run completed."
    last = cells[-1]
    best, *others = sorted(last.makespan, key=lambda name: last.makespan[name].mean)
    where = "" if study.axis is None else f" at {study.axis} = {last.x}"
    text = f"{best} has the lowest mean time{where}: {mean(last.makespan[best])} {study.unit}"
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
    close = [name for name in others if cell.makespan[name].mean <= (1 + THRESHOLD) * lowest.mean]
    unsure = [
        name for name in others if name not in close and overlap([lowest, cell.makespan[name]])
    ]
    text = ""
    for names, how in (
        (close, f"less than {100 * THRESHOLD:g} % above it"),
        (unsure, "above it by less than the intervals"),
    ):
        if names:
            text += f"; {list_text(names)} {'is' if len(names) == 1 else 'are'} {how}"
    return text


def _growth_texts(study: Study) -> list[str]:
    """Of each policy the power by which time grows, or from which to which on several panels."""
    texts = []
    for policy in study.policies:
        growths = [panel.growth[policy] for panel in study.panels if policy in panel.growth]
        exponents = [growth.exponent for growth in growths]
        if len(growths) == 1:
            text = ratio_text(exponents[0], growths[0].low, growths[0].high)
            texts.append(f"{text} for {policy}")
        elif growths:
            ends = f"{ratio_text(min(exponents))} to {ratio_text(max(exponents))}"
            texts.append(f"{ends} for {policy}")
    return texts


def message_of(record: RunRecord) -> str:
    """Why a run did not complete, in the words of simulator or kernel where it gave any."""
    error = record.result.get("error") or {}
    if error.get("message"):
        return str(error["message"])
    if record.status == "stopped":
        elapsed_s = number_text(record.result["elapsed_ns"] / 1e9)
        return f"stopped as asked after {elapsed_s} {'s' if record.measured_on else 'simulated s'}"
    return "no message"


# --- tables ---------------------------------------------------------------------------------------


def _split_rows(study: Study) -> list[dict]:
    rows = []
    for panel, cell, policy, runs in study.last_runs:
        # A recording that lost events has no counts, and a real kernel no split.
        results = [record.result for record in runs if record.result["switches"] is not None]
        if not results:
            continue
        row = {
            name: estimate([result[name] for result in results])
            for name in ("switches", "involuntary_switches", "migrations", "jain_fairness")
        }
        row |= {"panel": panel, "x": cell.x, "policy": policy, "shares": None}
        if all(result["cpu_time_ns"] for result in results):
            splits = [result["cpu_time_ns"] for result in results]
            all_ns = [max(sum(split[part] for part in CPU_PARTS), 1) for split in splits]
            row["shares"] = {
                part: estimate([s[part] / ns for s, ns in zip(splits, all_ns, strict=True)])
                for part in CPU_PARTS
            }
        rows.append(row)
    return rows


def _what_was_run(study: Study) -> dict:
    records = [*study.completed, *study.incomplete]
    started = sorted(str(r.manifest["started_at"]) for r in records if r.manifest.get("started_at"))
    wall_ns = sum(record.manifest.get("wall_ns") or 0 for record in records)
    return {
        "policies": [_policy_row(records, policy) for policy in study.policies],
        "machines": _digests(records, "machine"),
        "workloads": _digests(records, "workload"),
        "parameters": _distinct(pair for record in records for pair in _parameters(record)),
        "seeds": forms.ranges_text(sorted({record.seed for record in records})),
        "versions": sorted({str(record.manifest.get("version", "unknown")) for record in records}),
        "started": (started[0], started[-1]) if started else None,
        "wall_s": wall_ns / 1e9,
        "repetitions": sorted({len(runs) for cell in study.cells for runs in cell.runs.values()}),
    }


def _policy_row(records: Sequence[RunRecord], policy: str) -> dict:
    mine = [record for record in records if record.policy == policy]
    manifests = [record.manifest for record in mine]
    settings = [sorted((manifest.get("tunables") or {}).items()) for manifest in manifests]
    tunables = {", ".join(f"{name} = {value}" for name, value in of_run) for of_run in settings}
    return {
        "label": policy,
        "names": sorted({str(manifest.get("policy_name", policy)) for manifest in manifests}),
        "digests": sorted({str(m.get("policy_source_digest", "unknown")) for m in manifests}),
        "tunables": sorted(text or "defaults" for text in tunables),
        "completed": sum(record.status == "completed" for record in mine),
        "made": len(mine),
    }


def _digests(records: Sequence[RunRecord], kind: str) -> dict[str, list[str]]:
    """Those of each machine or workload; a workload has one a parameter set."""
    key = f"{kind}_digest"
    return _distinct((getattr(r, kind), str(r.manifest.get(key, "unknown"))) for r in records)


def _distinct(pairs: Iterable[tuple[Any, str]]) -> dict[Any, list[str]]:
    """Every value of each key once, in the order of the pairs."""
    values: dict[Any, dict[str, None]] = {}
    for key, value in pairs:
        values.setdefault(key, {})[value] = None
    return {key: list(of_key) for key, of_key in values.items()}


def _parameters(record: RunRecord) -> Iterator[tuple[tuple[str, str], str]]:
    for name, value in {**record.varied, **(record.manifest.get("parameters") or {})}.items():
        yield (record.workload, name), str(value)
