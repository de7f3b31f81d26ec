"""What an experiment's runs say: tables for people, and the same as JSON for programs.

A table has a column a policy, or a row a policy where they do not fit beside each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.digests import attributes
from schedlab.experiment import switch_costs, verdicts
from schedlab.experiment.answer import Answer
from schedlab.experiment.definition import id_of, told_sets
from schedlab.experiment.headline import told_panels
from schedlab.experiment.metrics import Delays, Metrics, OfPolicy
from schedlab.experiment.published import Beside, over_first, rank_agreement_of, rank_text
from schedlab.experiment.study import ScenarioRuns, Study, bounded
from schedlab.experiment.until_clear import clearing_of
from schedlab.report import tables
from schedlab.report.forms import DASH, number_text, ratio_text, time_text
from schedlab.shown import print_data
from schedlab.statistics import estimates
from schedlab.statistics.samples import by_key
from schedlab.store.runs import RunRecord, measured_on

SHOWN_PERCENTILES = ("p50", "p99", "max")
SAYS_COLUMNS_MAX = 56
# Columns of what others published, that stand beside each other.
OF_TIMES = ("published", "simulated", "unit", "error")
MEASURED_NOTE = (
    "measured in virtual machines: compare these times with each other, not with simulated ones,"
    " nor with those of a real machine"
)

Rows = Mapping[str, Sequence[tuple[str, Sequence[tables.Column]]]]
"""By panel: what stands beside its name, and the columns that a policy's row has of it."""


def _wide_table(policies: Sequence[str], rows: Rows, axis: str = "") -> Table:
    """A column a policy; what its row would have in several columns stands below each other."""
    table = tables.headed(("machine", axis, *policies), left=("machine", ""), is_lined=True)
    for panel, of_panel in rows.items():
        for index, (label, columns) in enumerate(of_panel):
            texts = ([texts.get(policy, "–") for _, texts in columns] for policy in policies)
            cells = ("\n".join(filter(None, of_policy)) for of_policy in texts)
            table.add_row(*map(escape, ("" if index else panel, label, *cells)))
        table.add_section()
    return table


def _print_by_policy(policies: Sequence[str], wide: Table, rows: Rows) -> None:
    """The wide table, or a row a policy where it does not fit."""
    if tables.fits(wide):
        tables.print_table(wide)
        return
    for panel, of_panel in rows.items():
        tables.print_policy_rows(policies, panel, [columns for _, columns in of_panel])


# ---- times --------------------------------------------------------------------------------------


def print_study(answer: Answer) -> None:
    """Of each policy mean, half-width, and ratio to the first policy, but for panels whose times
    are all equal. Above it what `headline.told_panels` says and which sets policies are, below it
    published times."""
    study, definition = answer.study, answer.definition
    for text in filter(None, (definition.get("title"), definition.get("description"))):
        tables.print_text(text)
    for name, sentence in told_panels(study, answer.metrics).items():
        tables.print_text(f"{name}: {sentence}")
    rows = _study_rows(study)
    wide = _wide_table(study.policies, rows, study.axis or "")
    if rows:
        print_data(_study_legend(study, "below" if tables.fits(wide) else "beside"))
    if sets := told_sets(definition):
        print_data(sets)
    if study.axis is None and rows:
        rows = {"": [row for of_panel in rows.values() for row in of_panel]}
    if rows:
        _print_by_policy(study.policies, wide, rows)
    elif sets:
        print_data()
    if clearing := clearing_of(definition, study):
        tables.print_text(clearing.text)
    records = [*study.completed, *study.incomplete]
    platforms = measured_on(sorted(records, key=lambda record: study.policies.index(record.policy)))
    for platform, policies in platforms.items():
        print_data(f"{', '.join(policies)}: {platform}")
    if platforms:
        print_data(MEASURED_NOTE)
    if answer.published:
        _print_published(answer.published)


def _study_rows(study: Study) -> Rows:
    rows = {}
    # The first policy has no ratio, and what failed neither that nor a growth.
    blank = dict.fromkeys(study.policies, "")
    for panel in (panel for panel in study.panels if not panel.is_flat):
        of_panel = rows[panel.name] = []
        for cell in panel.cells:
            heading = panel.name if study.axis is None else f"{study.axis} = {cell.x}"
            columns = [(heading, {p: cell.makespan_text(p) for p in study.policies})]
            if cell.comparisons:
                ratios = {policy: compared.ratio for policy, compared in cell.comparisons.items()}
                texts = {p: f"× {ratio_text(r.ratio, r.low, r.high)}" for p, r in ratios.items()}
                columns.append((f"× {study.policies[0]}", blank | texts))
            of_panel.append(("" if cell.x is None else str(cell.x), columns))
        if panel.growth:
            texts = {p: ratio_text(g.exponent, g.low, g.high) for p, g in panel.growth.items()}
            of_panel.append(("growth", [("growth", blank | texts)]))
    return rows


def _study_legend(study: Study, where: str) -> str:
    """Promises no interval that is not there; a ratio stands `where` from its makespan."""
    first, makespans = study.policies[0], study.makespans
    ratios = [contrast.ratio for contrast in study.contrasts]
    growths = [growth for panel in study.panels for growth in panel.growth.values()]
    lines = [f"makespan in {study.unit}: mean"]
    if known := [makespan for makespan in makespans if makespan.low is not None]:
        lines[0] += " ± half of its 95 % interval"
        if any(makespan.low == makespan.high for makespan in known):
            lines[0] += "; ± 0: all repetitions were equal"
    elif makespans:
        lines[0] += f"; an interval needs {estimates.RUNS_FOR_INTERVAL_MIN} repetitions or more"
    if ratios:
        lines.append(f"{where} it: × the makespan of {first}{_with_interval(ratios)}")
    lacks_first = any(cell.makespan and first not in cell.makespan for cell in study.cells)
    if len(study.policies) > 1 and lacks_first:
        lines.append(f"no × where {first} failed: it is what others are compared with")
    if growths:
        interval = _with_interval(growths)
        lines.append(f"growth: exponent of makespan over {study.axis}{interval}, 1 is linear")
    return "\n".join(lines)


def _with_interval(
    numbers: Sequence[estimates.Estimate | estimates.Ratio | estimates.Growth],
) -> str:
    """What a legend adds to a number that has an interval somewhere; nothing if none has."""
    return " [95 % interval]" * any(number.low is not None for number in numbers)


# ---- what others published ----------------------------------------------------------------------


def _print_published(published: Mapping[str, Beside]) -> None:
    """A row a number: times, and what they are over the ideal, or else how policies stand to each
    other. Where that is too wide, ratios stand in a table of their own."""
    print_data("what others measured, beside the mean of what was simulated")
    ideals = [row.ideal for row in published.values() if row.ideal]
    ratios = {} if ideals else over_first(published)
    columns: dict[str, dict[str, str]] = {}
    for what, row in published.items():
        error = DASH if row.error_percent is None else f"{row.error_percent:+.1f} %"
        times = (number_text(row.value), number_text(row.simulated.mean), row.unit, error)
        texts = dict(zip(OF_TIMES, times, strict=True))
        if row.ideal:
            texts["published/ideal"] = ratio_text(row.ideal.published)
            texts["simulated/ideal"] = ratio_text(row.ideal.simulated)
        elif ratios:
            over = map(ratio_text, ratios.get(what, (None, None)))
            texts |= zip(("published ×", "simulated ×"), over, strict=True)
        for heading, text in texts.items():
            columns.setdefault(heading, {})[what] = text
    _print_columns(list(columns.items()))
    for text in dict.fromkeys(ideal.meaning for ideal in ideals):
        print_data(f"ideal: {text}")
    if ratios:
        print_data("×: over the time of the first policy of the same place and side")
    for source in dict.fromkeys(row.source for row in published.values()):
        print_data(f"published: {source}")
    print_data(f"{rank_text(published)}\n")


def _print_columns(columns: Sequence[tables.Column]) -> None:
    """Each with a text for what the first column has one for."""
    whats = list(columns[0][1])
    table = tables.rows_table(whats, "what", [columns], are_broken=False)
    if tables.fits(table):
        tables.print_table(table)
        return
    groups = [columns[: len(OF_TIMES)], columns[len(OF_TIMES) :]]
    tables.print_policy_rows(whats, "what", list(filter(None, groups)))


def print_verdicts(judged: Sequence[verdicts.Judged]) -> None:
    """A row a claim, and what decides; nothing where an experiment holds no claims."""
    if not judged:
        return
    print_data("what others claimed")
    table = Table(box=box.SIMPLE)
    table.add_column("claim", max_width=SAYS_COLUMNS_MAX)
    for column in ("published", "simulated", "claimed"):
        table.add_column(column, justify="right")
    table.add_column("verdict", max_width=SAYS_COLUMNS_MAX)
    numbers = (verdicts.published_text, verdicts.simulated_text, verdicts.bounds_text)
    for one in judged:
        texts = (one.says, *(form(one) for form in numbers), verdicts.verdict_text(one))
        table.add_row(*map(escape, texts))
    tables.print_table(table)
    print_data(
        "verdict: reproduced if the 95 % interval [ ] lies within what is claimed, not reproduced"
        " if outside it;\nof several places: the smallest and the largest, and all must agree"
    )
    if paired := verdicts.pairing_text(judged):
        print_data(f"paired: {paired}")
    print_data()


# ---- interactivity and fairness -----------------------------------------------------------------


def print_interactivity(study: Study, metrics: Metrics) -> None:
    """A row a machine and metric that the runs have; nothing where they have none. Where something
    was varied, what says most stands against it, a table a metric."""
    if not any(metrics.rows):
        return
    print_data(_interactivity_legend(study, metrics))
    if study.axis is None:
        rows: dict[str, list] = {}
        texts = by_key(((row.panel.name, metric), (row.policy, text))
                       for row, metric, text in _metric_texts(metrics))  # fmt: skip
        for (panel, metric), of_policies in texts.items():
            rows.setdefault(panel, []).append((metric, [(metric, dict(of_policies))]))
        _print_by_policy(study.policies, _wide_table(study.policies, rows), rows)
        return
    texts = by_key(
        (metric, (row, text)) for row, metric, text in _metric_texts(metrics, is_short=True)
    )
    for metric, of_metric in texts.items():
        _print_against(study, metric, of_metric)


def _print_against(study: Study, what: str, texts: Sequence[tuple[OfPolicy, str]]) -> None:
    """A table of a text a row, policies beside each other, against what was varied."""
    rows: dict[str, list] = {}
    cells = by_key(((row.panel.name, row.x), (row.policy, text)) for row, text in texts)
    for (panel, x), of_policies in cells.items():
        column = (f"{study.axis} = {x}", dict(of_policies))
        rows.setdefault(panel, []).append((str(x), [column]))
    print_data(what)
    _print_by_policy(study.policies, _wide_table(study.policies, rows, study.axis), rows)


def print_knees(answer: Answer) -> None:
    """What a switch costs, and where it begins to cost more and why; nothing where it nowhere costs
    much more."""
    if texts := list(switch_costs.knee_texts(answer.study, answer.knees)):
        rows = [(row, bounded(row.total, form=time_text)) for row in answer.switch_costs]
        _print_against(answer.study, "cost of a switch: time of scheduling over switches", rows)
        for text in texts:
            print_data(f"{text}\n")


def print_instructions(answer: Answer) -> None:
    """What the policies' own instructions take of a switch, and how many they are; nothing where
    they take no time."""
    rows, study = [], answer.study
    for row in answer.switch_costs:
        if row.executed:
            ns = bounded(row.parts[switch_costs.INSTRUCTIONS], form=time_text)
            rows.append((row, f"{ns} for {number_text(row.executed.mean)}"))
    what = "policies' own instructions: time and number a switch"
    if study.axis is not None and rows:
        _print_against(study, what, rows)
    if study.axis is not None or not rows:
        return
    of_panels: dict[str, list] = {}
    for panel, texts in by_key((row.panel.name, (row.policy, text)) for row, text in rows).items():
        of_panels[panel] = [("a switch", [("a switch", dict(texts))])]
    print_data(what)
    _print_by_policy(study.policies, _wide_table(study.policies, of_panels), of_panels)


def _metric_texts(metrics: Metrics, is_short: bool = False) -> Iterator[tuple[OfPolicy, str, str]]:
    """Each row with the name of a metric of it and its text; `is_short` for what says most."""
    percentiles = ("p99",) if is_short else SHOWN_PERCENTILES
    for row in metrics.latencies:
        for name in percentiles:
            yield row, f"wake-up latency {name}", bounded(row.percentiles[name], form=time_text)
    for row in metrics.requests:
        if row.missed:
            yield row, f"{row.name}: deadlines missed, %", bounded(row.missed, form="{:.2f}".format)
        for name in percentiles if row.delays else ():
            text = bounded(row.delays.percentiles[name], form=time_text)
            yield row, f"{row.name}: response {name}", text
    for row in metrics.shares:
        errors = {"largest": row.largest} | ({} if is_short else {"mean": row.mean})
        for what, error in errors.items():
            half = (error.high - error.low) / 2 if error.low is not None else 0.0
            text = f"{error.mean:.2f}" + f" ± {half:.2f}" * (half > 0)
            yield row, f"share error, {what}", text


def _interactivity_legend(study: Study, metrics: Metrics) -> str:
    fairness = " and fairness" * bool(metrics.shares)
    against = f" against {study.axis}" if study.axis else ""
    lines = [f"interactivity{fairness}{against}: means over runs"]
    if any("[" in text for _, _, text in _metric_texts(metrics, study.axis is not None)):
        lines[0] += " [95 % interval]"
        delays = [*metrics.latencies, *(row.delays for row in metrics.requests if row.delays)]
        percentiles = ("p99",) if study.axis else SHOWN_PERCENTILES
        shown = [row.percentiles[name] for row in delays for name in percentiles]
        reasons = []
        if any(delay.low is not None and delay.low == delay.high for delay in shown):
            reasons.append("equal in all runs")
        if any(delay.low is None for delay in shown):
            reasons.append(f"fewer than {estimates.RUNS_FOR_INTERVAL_MIN} runs")
        if reasons:
            lines.append(f"without [ ]: {', or '.join(reasons)}")
    if metrics.shares:
        lines.append(
            "share error: of the CPU time of tasks that never sleep, by nice value, against their"
            " weights; percentage points"
        )
    return "\n".join(lines)


# ---- for programs -------------------------------------------------------------------------------


def answer_json(answer: Answer, records: Sequence[RunRecord], nr_reused: int) -> dict:
    """The experiment, all that its runs say, and every run.

    Makespans and published times are in the study's unit, delays in ns, shares and errors in
    percent; claims are ratios, or percentages where their unit is %.
    """
    study, published = answer.study, answer.published
    return {
        "experiment": {"id": id_of(answer.definition), **answer.definition},
        "unit": study.unit,
        "compared_with": study.policies[0],
        "cells": [_cell_json(cell, policy) for cell in study.cells for policy in cell.makespan],
        "growth": [
            {"panel": panel.name, "policy": policy, "of": study.axis, **asdict(growth)}
            for panel in study.panels
            for policy, growth in panel.growth.items()
        ],
        "until_ci": attributes(
            clearing_of(answer.definition, study), "nr_runs", "nr_runs_most", "nr_looks", "open"
        ),
        "rank_agreement": published and rank_agreement_of(published),
        "published": [
            {
                "what": what,
                "published": row.value,
                "simulated": row.simulated.mean,
                "over_ideal": row.ideal and asdict(row.ideal),
            }
            for what, row in published.items()
        ],
        "runs": [asdict(record) for record in records],
        "reused": nr_reused,
        **_metrics_json(answer.metrics),
        "switch_costs": [
            _place(row)
            | {"total": asdict(row.total), "work": asdict(row.work)}
            | {"parts": {name: asdict(part) for name, part in row.parts.items()}}
            | ({"executed": asdict(row.executed)} if row.executed else {})
            for row in answer.switch_costs
        ],
        "knees": [
            asdict(replace(knee, panel=None)) | {"panel": knee.panel.name} for knee in answer.knees
        ],
        "claims": [_claim_json(claim) for claim in answer.judged],
    }


def _cell_json(cell: ScenarioRuns, policy: str) -> dict:
    makespan = asdict(cell.makespan[policy])
    quantiles = zip(map(str, estimates.QUANTILE_LEVELS), makespan["quantiles"], strict=True)
    comparison = cell.comparisons.get(policy)
    record = cell.runs[policy][0]
    return {
        "policy": policy,
        **attributes(record, "machine", "workload", "varied"),
        "makespan": {**makespan, "quantiles": dict(quantiles)},
        "compared": comparison and asdict(comparison),
    }


def _place(row: OfPolicy) -> dict:
    return {"panel": row.panel.name, "x": row.x, "policy": row.policy}


def _metrics_json(metrics: Metrics) -> dict[str, list[dict]]:
    def percentiles(delays: Delays) -> dict[str, dict]:
        return {name: asdict(one) for name, one in delays.percentiles.items()}

    latencies = [_place(row) | {"percentiles": percentiles(row)} for row in metrics.latencies]
    requests = [
        _place(row)
        | {"name": row.name, "deadlines": row.deadlines and asdict(row.deadlines)}
        | {"missed": row.missed and asdict(row.missed)}
        | {"response": row.delays and percentiles(row.delays)}
        for row in metrics.requests
    ]
    shares = [
        _place(row)
        | {"largest_error": asdict(row.largest), "mean_error": asdict(row.mean)}
        | {"shares": [asdict(share) for share in row.shares]}
        for row in metrics.shares
    ]
    return {"wakeup_latency": latencies, "requests": requests, "shares": shares}


def _claim_json(judged: verdicts.Judged) -> dict:
    return {
        **attributes(judged, "says", "unit"),
        "verdict": str(judged.verdict),
        "told": verdicts.verdict_text(judged),
        "nr_places": judged.nr_places,
        "places": [asdict(one) | {"verdict": str(one.verdict)} for one in judged.findings],
    }
