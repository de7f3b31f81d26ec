"""What the verbs print: tables for people, and the same as JSON for programs.

Data go to stdout; what is said about them, such as why a run failed, goes to stderr. Statistics
and plots are imported where they are needed, because they take longer to load than a short run
takes to simulate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab import catalogue
from schedlab.experiment.cells import Cell
from schedlab.experiment.definition import id_of, told_sets
from schedlab.report.forms import (
    mean_text,
    number_text,
    ratio_text,
    time_text,
)
from schedlab.report.tables import Block, fits, print_policy_rows, print_table, print_text
from schedlab.shown import print_data, print_note
from schedlab.store.runs import RunRecord, measured_on

if TYPE_CHECKING:
    from schedlab.experiment.answer import Answer
    from schedlab.experiment.published import Beside
    from schedlab.experiment.study import Panel, ScenarioRuns, Study
    from schedlab.statistics.estimates import Estimate, Growth, Ratio

TIMELINE_ROWS_MAX = 1_000
EVIDENCE_LINES_MAX = 30
# Columns of what others published, that stand beside each other.
OF_TIMES = ("published", "simulated", "unit", "error")
MEASURED_NOTE = (
    "measured in virtual machines: compare these times with each other, not with simulated ones,"
    " nor with those of a real machine"
)


def report_failures(records: Sequence[RunRecord]) -> None:
    """Says of runs that did not complete what went wrong, once a policy, and how to see it."""
    by_policy: dict[str, list[RunRecord]] = {}
    for record in records:
        by_policy.setdefault(record.policy, []).append(record)
    for policy, failed in by_policy.items():
        failed.sort(key=_is_untried)
        print_note(f"error: {_failure_text(failed[0])}")
        print_note(f"replay: {failed[0].manifest['replay']}")
        error = failed[0].result.get("error") or {}
        if error.get("hint"):
            print_note(f"hint: {error['hint']}")
        if len(failed) > 1:
            more, untried = len(failed) - 1, sum(map(_is_untried, failed))
            print_note(
                f"hint: {more:,} more {'run' if more == 1 else 'runs'} of {policy} did not complete"
                f"{f', {untried} of which were not tried' * bool(untried)}: --json has them all"
            )


def _is_untried(record: RunRecord) -> bool:
    error = record.result.get("error") or {}
    return error.get("kind") == "untried"


def _failure_text(record: RunRecord) -> str:
    error = record.result.get("error") or {}
    at_s = error.get("at_ns", 0) / 1e9
    is_told = at_s or (error.get("kind") == "crash" and error["cpu"] is not None)
    when = f" at {at_s:.6f} s" if is_told else ""
    place = f"on {record.machine}, seed {record.seed}"
    if not error:
        return f"policy {record.policy} brought no end to its tasks with {record.workload} {place}"
    if error["kind"] == "deadlock":
        # What tasks wait for is written in the workload; no policy can end it.
        why = error["message"].removeprefix("deadlock: ")
        return (
            f"workload {record.workload} came to a deadlock{when} under {record.policy} {place}:"
            f" {why}"
        )
    return f"policy {record.policy} failed{when} with {record.workload} {place}: {error['message']}"


def print_evidence(record: RunRecord) -> None:
    """The end of what a kernel said when a run failed: its console, dump or verifier's log."""
    error = record.result.get("error") or {}
    lines = (error.get("evidence") or "").strip().splitlines()
    if len(lines) > EVIDENCE_LINES_MAX:
        print_note(f"... {len(lines) - EVIDENCE_LINES_MAX} lines more, see --json")
    for line in lines[-EVIDENCE_LINES_MAX:]:
        print_note(f"| {line}")


# ---------------------------------------------------------------------------------------------
# One run


def run_title(cell: Cell) -> str:
    """What ran where."""
    parameters = "".join(f" {name}={value}" for name, value in cell.workload.parameters.items())
    label = catalogue.label_of(cell.policy.given)
    where = f"{cell.machine.name}, seed {cell.seed}"
    return f"{label} with {cell.workload.name}{parameters} on {where}"


def run_table(record: RunRecord) -> Table:
    """Name and value of each metric of a run."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    if record.measured_on:
        table.add_row("measured on", escape(record.measured_on))
    for name, value in _metrics(record.result):
        table.add_row(name, escape(value))
    return table


def _metrics(result: Mapping) -> Iterator[tuple[str, str]]:
    # What it would have taken, and how long tasks waited, nobody knows of a run without an end.
    if result["status"] != "failed":
        was_stopped = " (stopped before its end)" * (result["status"] == "stopped")
        yield "makespan", time_text(result["makespan_ns"]) + was_stopped
        if messages := result["messages"]:
            yield "messages", _messages(messages, result["makespan_ns"])
    yield "tasks", f"{result['nr_tasks']:,} on {result['nr_cpus']} CPUs"
    yield (
        "switches",
        f"{_count(result['switches'])}: {result['voluntary_switches']:,} voluntary,"
        f" {result['involuntary_switches']:,} involuntary",
    )
    if result.get("restarts"):
        yield "restarts", f"{result['restarts']}: it does not hear of CPUs that come and go"
    yield "migrations", f"{_count(result['migrations'])}; wake-ups {_count(result['wakeups'])}"
    if result["status"] != "failed":
        yield from _waits_and_shares(result)
    if result["events"] is not None:
        yield "simulated", f"{time_text(result['elapsed_ns'])}, {result['events']:,} events"
    if result.get("recording"):
        yield "elapsed", time_text(result["elapsed_ns"])
        yield "recording", _recording(result)
    yield "digest", result["digest"]


def _waits_and_shares(result: Mapping) -> Iterator[tuple[str, str]]:
    """What is known of tasks that came to their end, or to the end of the time."""
    yield "wake-up latency", _spread(result["wakeup_latency_ns"])
    if result.get("requests"):
        yield "response", _spread(result["response_ns"])
    if result.get("deadlines"):
        yield "deadlines", _deadlines(result)
    yield "wait", _spread(result["wait_ns"])
    yield "run", _spread(result["run_ns"])
    if result["cpu_time_ns"] is not None:
        yield "CPU time", _cpu_shares(result["cpu_time_ns"])
    yield "Jain fairness", f"{result['jain_fairness']:.4f}"


def _messages(messages: int, makespan_ns: int) -> str:
    """How many, and how fast; whether that is what the workload is about, its reader knows."""
    rate = f": {messages * 1e9 / makespan_ns:,.0f} a second" if makespan_ns else ""
    return f"{messages:,}{rate}"


def _cpu_shares(cpu_time_ns: Mapping) -> str:
    total_ns = sum(cpu_time_ns.values()) or 1
    shares = (
        f"{name.replace('_', ' ')} {100 * share_ns / total_ns:.2f} %"
        for name, share_ns in cpu_time_ns.items()
    )
    return ", ".join(shares)


def _deadlines(result: Mapping) -> str:
    """All that were missed, and whose."""
    misses, deadlines = result["deadline_misses"], result["deadlines"]
    groups = ", ".join(
        f"{group['name']} {group['deadline_misses']:,} of {group['deadlines']:,}"
        for group in result["requests"]
        if group["deadlines"]
    )
    return f"{misses:,} of {deadlines:,} missed ({100 * misses / deadlines:.2f} %): {groups}"


def _recording(result: Mapping) -> str:
    recording = result["recording"]
    if recording["lost"]:
        return f"{recording['lost']:,} events lost, so that it says nothing"
    all_ns = max(result["elapsed_ns"] * result["nr_cpus"], 1)
    wasted, others = (
        100 * recording[name] / all_ns for name in ("idle_while_waiting_ns", "others_ns")
    )
    return f"complete; CPUs idle beside waiting tasks {wasted:.2f} %, other tasks {others:.2f} %"


def _count(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _spread(histogram: Mapping | None) -> str:
    if histogram is None:
        return "not known"
    if not histogram["count"]:
        return "none"
    return ", ".join(
        f"{name} {time_text(histogram[name])}" for name in ("p50", "p90", "p99", "max")
    )


def print_timeline(record: RunRecord) -> None:
    """Every stay of a task on a CPU, a line each, in the order in which they began."""
    stays, names = record.result["timeline"], record.result["timeline_names"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("from, ms", "to, ms", "CPU", "pid"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("task", no_wrap=True)
    for start_ns, end_ns, cpu, pid in sorted(stays)[:TIMELINE_ROWS_MAX]:
        texts = (f"{start_ns / 1e6:.6f}", f"{end_ns / 1e6:.6f}", str(cpu), str(pid))
        table.add_row(*texts, escape(names[str(pid)]))
    print_data()
    print_table(table)
    if len(stays) > TIMELINE_ROWS_MAX:
        print_note(
            f"note: these are the first {TIMELINE_ROWS_MAX:,} of {len(stays):,} stays: --json has"
            " them all, --until makes a run shorter"
        )


# ---------------------------------------------------------------------------------------------
# Many runs


def print_study(answer: Answer) -> None:
    """A column a policy, or a row a policy where they do not fit beside each other: mean,
    half-width, and ratio to the first policy.

    Above it what `headline.told_panels` says and which sets policies are, below it published times.
    """
    from schedlab.experiment.headline import told_panels

    study, definition = answer.study, answer.definition
    for text in filter(None, (definition.get("title"), definition.get("description"))):
        print_text(text)
    for name, sentence in told_panels(study, answer.metrics).items():
        print_text(f"{name}: {sentence}")
    table = _study_table(study)
    print_data(_study_legend(study, "below" if fits(table) else "beside"))
    if sets := told_sets(definition):
        print_data(sets)
    if fits(table):
        print_table(table)
    else:
        print_policy_rows(study.policies, _study_blocks(study))
    _print_platforms(study)
    if answer.published:
        _print_published(answer.published)


def _print_platforms(study: Study) -> None:
    """Which kernel each policy met, and what its times are not; nothing of simulations."""
    records = [*study.completed, *study.incomplete]
    platforms = measured_on(sorted(records, key=lambda record: study.policies.index(record.policy)))
    for platform, policies in platforms.items():
        print_data(f"{', '.join(policies)}: {platform}")
    if platforms:
        print_data(MEASURED_NOTE)


def _print_published(published: Mapping[str, Beside]) -> None:
    """A row a number; where it is too wide, ratios stand in a table of their own."""
    from schedlab.experiment.published import over_first, rank_text

    print_data("what others measured, beside the mean of what was simulated")
    columns, rows = _published_cells(published)
    _print_published_table(columns, rows)
    for text in dict.fromkeys(row.ideal.meaning for row in published.values() if row.ideal):
        print_data(f"ideal: {text}")
    if not any(row.ideal for row in published.values()) and over_first(published):
        print_data("×: over the time of the first policy of the same place and side")
    for source in dict.fromkeys(row.source for row in published.values()):
        print_data(f"published: {source}")
    print_data(f"{rank_text(published)}\n")


def _print_published_table(columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    table = Table(box=box.SIMPLE)
    table.add_column("what", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for what, texts in rows.items():
        table.add_row(*map(escape, (what, *texts)))
    if fits(table):
        print_table(table)
        return
    cells = [
        (column, {what: texts[place] for what, texts in rows.items()})
        for place, column in enumerate(columns)
    ]
    groups = [cells[: len(OF_TIMES)], cells[len(OF_TIMES) :]]
    print_policy_rows(list(rows), [Block("what", [group for group in groups if group])])


def _published_cells(published: Mapping[str, Beside]) -> tuple[list[str], dict[str, list[str]]]:
    from schedlab.experiment.published import over_first

    with_ideal = any(row.ideal for row in published.values())
    columns = list(OF_TIMES)
    columns += ["published/ideal", "simulated/ideal"] if with_ideal else []
    # Where nothing is ideal, how policies stand to each other is what can be compared.
    ratios = {} if with_ideal else over_first(published)
    columns += ["published ×", "simulated ×"] if ratios else []
    rows = {}
    for what, row in published.items():
        error = "–" if row.error_percent is None else f"{row.error_percent:+.1f} %"
        texts = [number_text(row.value), number_text(row.simulated.mean), row.unit, error]
        if row.ideal:
            texts += map(ratio_text, (row.ideal.published, row.ideal.simulated))
        elif ratios:
            texts += map(ratio_text, ratios.get(what, (None, None)))
        rows[what] = texts + [""] * (len(columns) - len(texts))
    return columns, rows


def _study_table(study: Study) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("machine", no_wrap=True)
    table.add_column(study.axis or "", justify="right", no_wrap=True)
    for policy in study.policies:
        table.add_column(policy, justify="right")
    for panel in study.panels:
        for index, cell in enumerate(panel.cells):
            name = panel.name if index == 0 else ""
            x = "" if cell.x is None else str(cell.x)
            pairs = ((makespan_text(cell, p), _ratio_text(cell, p)) for p in study.policies)
            texts = (escape("\n".join(filter(None, pair))) for pair in pairs)
            table.add_row(escape(name), escape(x), *texts)
        if panel.growth:
            table.add_row("", "growth", *map(escape, _growth_texts(study, panel).values()))
        table.add_section()
    return table


def _study_blocks(study: Study) -> list[Block]:
    """The same with policies as rows: a block a machine, or one of all if nothing was varied."""
    blocks = []
    for panel in study.panels:
        groups = []
        for cell in panel.cells:
            name = panel.name if study.axis is None else f"{study.axis} = {cell.x}"
            columns = [(name, {p: makespan_text(cell, p) for p in study.policies})]
            if cell.comparisons:
                ratios = {p: _ratio_text(cell, p) for p in study.policies}
                columns.append((f"× {study.policies[0]}", ratios))
            groups.append(columns)
        if panel.growth:
            groups.append([("growth", _growth_texts(study, panel))])
        blocks.append(Block(panel.name, groups))
    if study.axis is None:
        return [Block("", [group for block in blocks for group in block.groups])]
    return blocks


def _study_legend(study: Study, where: str) -> str:
    """What the table shows; it promises no interval that is not there.

    `where` is in which direction a ratio stands from its makespan.
    """
    first = study.policies[0]
    ratios = [one.ratio for cell in study.cells for one in cell.comparisons.values()]
    growths = [growth for panel in study.panels for growth in panel.growth.values()]
    lines = [_mean_legend(study)]
    if ratios:
        lines.append(f"{where} it: × the makespan of {first}{_with_interval(ratios)}")
    lacks_first = any(cell.makespan and first not in cell.makespan for cell in study.cells)
    if len(study.policies) > 1 and lacks_first:
        lines.append(f"no × where {first} failed: it is what others are compared with")
    if growths:
        interval = _with_interval(growths)
        lines.append(f"growth: exponent of makespan over {study.axis}{interval}, 1 is linear")
    return "\n".join(lines)


def _mean_legend(study: Study) -> str:
    from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN

    makespans = [makespan for cell in study.cells for makespan in cell.makespan.values()]
    text = f"makespan in {study.unit}: mean"
    if _with_interval(makespans):
        text += " ± half of its 95 % interval"
        if any(one.low == one.high for one in makespans if one.low is not None):
            text += "; ± 0: all repetitions were equal"
    elif makespans:
        text += f"; an interval needs {RUNS_FOR_INTERVAL_MIN} repetitions or more"
    return text


def _with_interval(numbers: Sequence[Estimate | Ratio | Growth]) -> str:
    """What a legend adds to a number that has an interval somewhere; nothing if none has."""
    return " [95 % interval]" if any(one.low is not None for one in numbers) else ""


def makespan_text(cell: ScenarioRuns, policy: str) -> str:
    """Mean ± half of its interval, and n where a run is missing; "failed" where all are."""
    makespan = cell.makespan.get(policy)
    if makespan is None:
        return "failed"
    text = mean_text(makespan.mean, makespan.low, makespan.high)
    is_missing = makespan.n < max(other.n for other in cell.makespan.values())
    return text + f" (n = {makespan.n})" * is_missing


def _ratio_text(cell: ScenarioRuns, policy: str) -> str:
    """How many times the makespan of the first policy; empty for that and for what failed."""
    if policy not in cell.comparisons:
        return ""
    ratio = cell.comparisons[policy].ratio
    return f"× {ratio_text(ratio.ratio, ratio.low, ratio.high)}"


def _growth_texts(study: Study, panel: Panel) -> dict[str, str]:
    texts = dict.fromkeys(study.policies, "")
    for policy, growth in panel.growth.items():
        texts[policy] = ratio_text(growth.exponent, growth.low, growth.high)
    return texts


def study_json(answer: Answer, records: Sequence[RunRecord]) -> dict:
    """The experiment, its estimates, comparisons and growth exponents, and every run.

    Published times have the unit of the study.
    """
    from schedlab.experiment.published import rank_agreement_of

    study, published = answer.study, answer.published
    return {
        "experiment": {"id": id_of(answer.definition), **answer.definition},
        "unit": study.unit,
        "compared_with": study.policies[0],
        "cells": [_cell_json(cell, policy) for cell in study.cells for policy in cell.makespan],
        "growth": [
            {"panel": panel.name, "policy": policy, "of": study.axis, **dataclasses.asdict(growth)}
            for panel in study.panels
            for policy, growth in panel.growth.items()
        ],
        "rank_agreement": published and dataclasses.asdict(rank_agreement_of(published)),
        "published": [
            {
                "what": what,
                "published": row.value,
                "simulated": row.simulated.mean,
                "over_ideal": row.ideal and dataclasses.asdict(row.ideal),
            }
            for what, row in published.items()
        ],
        "runs": [dataclasses.asdict(record) for record in records],
    }


def _cell_json(cell: ScenarioRuns, policy: str) -> dict:
    from schedlab.statistics.estimates import QUANTILE_LEVELS

    makespan = dataclasses.asdict(cell.makespan[policy])
    quantiles = zip(map(str, QUANTILE_LEVELS), makespan["quantiles"], strict=True)
    comparison = cell.comparisons.get(policy)
    record = cell.runs[policy][0]
    return {
        "policy": policy,
        "machine": record.machine,
        "workload": record.workload,
        "varied": record.varied,
        "makespan": {**makespan, "quantiles": dict(quantiles)},
        "compared": comparison and dataclasses.asdict(comparison),
    }
