"""One HTML file that says what runs were made, what came of them, and how to make them again.

The numbers are those of an `Answer`, the figures those of `figures`; both fill
`templates/report.html`. Runs that did not complete are listed with their messages.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from schedlab.experiment import switch_costs, verdicts
from schedlab.experiment.answer import Answer
from schedlab.experiment.figures import figures_of
from schedlab.experiment.headline import panel_sentences, told_panels
from schedlab.experiment.metrics import PERCENTILES, Metrics, ShareErrors
from schedlab.experiment.published import rank_text
from schedlab.experiment.study import Study, bounded, mean, rule_of
from schedlab.experiment.timelines import Timelines
from schedlab.experiment.until_clear import clearing_of
from schedlab.report import figures, forms, pages
from schedlab.report.forms import count_text, list_text, number_text, ratio_text
from schedlab.statistics import estimates
from schedlab.statistics.digits import p_number
from schedlab.statistics.estimates import estimate
from schedlab.statistics.samples import by_key
from schedlab.store.runs import RunRecord, measured_on

if TYPE_CHECKING:
    from schedlab.experiment.followed import Followed

TEMPLATE = "report.html"
WAY_OUT = "every run is kept: `schedlab report STORE -o OUT.html` makes the report of a store"


def write(
    path: str | os.PathLike[str],
    answer: Answer,
    timelines: Timelines | None = None,
    followed: "Followed | None" = None,
) -> None:
    """Writes the page of an experiment, with `timelines` of a pair of its runs and the numbers that
    were `followed`. Readers of `path` see the old file or the whole new one. Raises SchedlabError
    if it cannot be written."""
    pages.write(path, render(answer, timelines, followed), WAY_OUT)


def render(
    answer: Answer, timelines: Timelines | None = None, followed: "Followed | None" = None
) -> str:
    """The page as one HTML text; see `write`."""
    study, published = answer.study, answer.published
    looks, split_rows = figures.looks_of(study.policies), list(_split_rows(study))
    equal = told_panels(study, answer.metrics)
    return pages.render(
        TEMPLATE,
        _forms(),
        answer=answer,
        ranks=rank_text(published) if published else "",
        pairing=verdicts.pairing_text(answer.judged),
        ideals=list(dict.fromkeys(row.ideal.meaning for row in published.values() if row.ideal)),
        study=study,
        metrics=answer.metrics,
        share_tables=_share_tables(answer.metrics),
        looks=looks,
        baseline=study.policies[0],
        panel_sentences=panel_sentences(study, equal),
        growths=list(_growth_texts(study)),
        growths_have_intervals=any(
            growth.low is not None for panel in study.panels for growth in panel.growth.values()
        ),
        verdicts=[contrast.verdict for contrast in study.contrasts],
        verdict_words=list(estimates.Verdict),
        is_exact=all(makespan.n > 1 and makespan.sd == 0 for makespan in study.makespans),
        **figures_of(answer, looks, split_rows, timelines, followed),
        measured_on=measured_on([*study.completed, *study.incomplete]),
        split_rows=split_rows,
        switch_costs=answer.switch_costs,
        cost_parts=[
            part
            for part in switch_costs.PARTS
            if any(part in of.parts and of.parts[part].mean for of in answer.switch_costs)
        ],
        knees=list(switch_costs.knee_texts(study, answer.knees)),
        what_was_run=_what_was_run(study),
        cpu_parts=figures.parts_of(row["shares"] or {} for row in split_rows),
        percentiles=PERCENTILES,
        quantile_levels=estimates.QUANTILE_LEVELS,
        percent_form="{:.2f}".format,
        ratio_form=ratio_text,
        is_time_equal=len(equal) == len(study.panels),
        confidence_percent=round(100 * estimates.CONFIDENCE),
        threshold_percent=f"{100 * rule_of(answer.definition).threshold:g}",
        clearing=clearing_of(answer.definition, study),
    )  # fmt: skip


def prepare() -> None:
    """Reads what a page is made of, for whoever waits for the runs of one."""
    pages.prepared(TEMPLATE, _forms())


def _forms() -> tuple[Callable, ...]:
    return (
        number_text, forms.mean_count_text, ratio_text, forms.points_text, p_number,
        mean, bounded, message_of, count_text, list_text,
        verdicts.published_text, verdicts.simulated_text, verdicts.bounds_text,
        verdicts.verdict_text, verdicts.place_text,
    )  # fmt: skip


# --- words and numbers ----------------------------------------------------------------------------


def _growth_texts(study: Study) -> Iterator[str]:
    """Of each policy the power by which time grows, or from which to which on several panels."""
    for policy in study.policies:
        growths = [panel.growth[policy] for panel in study.panels if policy in panel.growth]
        exponents = [growth.exponent for growth in growths]
        if len(growths) == 1:
            yield f"{ratio_text(exponents[0], growths[0].low, growths[0].high)} for {policy}"
        elif growths:
            yield f"{ratio_text(min(exponents))} to {ratio_text(max(exponents))} for {policy}"


def message_of(record: RunRecord) -> str:
    """Why a run did not complete, in the words of simulator or kernel where it gave any."""
    if error := record.result.get("error"):
        return error["message"]
    elapsed_s = number_text(record.result["elapsed_ns"] / 1e9)
    return f"stopped as asked after {elapsed_s} {'s' if record.measured_on else 'simulated s'}"


# --- tables ---------------------------------------------------------------------------------------


def _share_tables(metrics: Metrics) -> list[list[ShareErrors]]:
    """Rows by the tasks that they are of, as varied values may change these: a table each."""
    columns = (([(one.nice, one.count) for one in row.shares], row) for row in metrics.shares)
    return list(by_key((tuple(tasks), row) for tasks, row in columns).values())


def _split_rows(study: Study) -> Iterator[dict]:
    for panel, cell, policy in study.places:
        # A recording that lost events has no counts, and a real kernel no split.
        results = [
            record.result for record in cell.runs[policy] if record.result["switches"] is not None
        ]
        if not results:
            continue
        row = {
            name: estimate([result[name] for result in results])
            for name in ("switches", "involuntary_switches", "migrations", "jain_fairness")
        }
        row |= {"panel": panel, "cell": cell, "x": cell.x, "policy": policy, "shares": None}
        if all(result["cpu_time_ns"] for result in results):
            splits = [result["cpu_time_ns"] for result in results]
            parts = figures.parts_of(splits)
            all_ns = [max(sum(split.get(part, 0) for part in parts), 1) for split in splits]
            row["shares"] = {
                part: estimate([s.get(part, 0) / ns for s, ns in zip(splits, all_ns, strict=True)])
                for part in parts
            }
        yield row


def _what_was_run(study: Study) -> dict:
    records = [*study.completed, *study.incomplete]
    started = [record.manifest["started_at"] for record in records]
    policies = []
    for policy in study.policies:
        mine = [record for record in records if record.policy == policy]
        settings = (sorted(record.manifest["tunables"].items()) for record in mine)
        tunables = {", ".join(f"{name} = {value}" for name, value in of) for of in settings}
        row = {
            "label": policy,
            "names": sorted({record.manifest["policy_name"] for record in mine}),
            "digests": sorted({record.manifest["policy_source_digest"] for record in mine}),
            "tunables": sorted(text or "defaults" for text in tunables),
            "completed": sum(record.status == "completed" for record in mine),
            "made": len(mine),
        }
        policies.append(row)
    return {
        "policies": policies,
        "machines": _distinct((r.machine, r.manifest["machine_digest"]) for r in records),
        # A workload has one digest a parameter set.
        "workloads": _distinct((r.workload, r.manifest["workload_digest"]) for r in records),
        "parameters": _distinct(
            ((record.workload, name), str(value))
            for record in records
            for name, value in {**record.varied, **record.manifest["parameters"]}.items()
        ),
        "seeds": forms.ranges_text(sorted({record.seed for record in records})),
        "versions": sorted({record.manifest["version"] for record in records}),
        "started": (min(started), max(started)),
        "wall_s": sum(record.manifest["wall_ns"] for record in records) / 1e9,
        "repetitions": sorted({len(runs) for cell in study.cells for runs in cell.runs.values()}),
    }


def _distinct(pairs: Iterable[tuple[Hashable, str]]) -> dict[Hashable, list[str]]:
    """Every value of each key once, in the order of the pairs."""
    return {key: list(dict.fromkeys(values)) for key, values in by_key(pairs).items()}
