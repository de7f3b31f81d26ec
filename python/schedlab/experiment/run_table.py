"""What one run did, and why runs failed, as people read it.

Data go to stdout; why a run failed goes to stderr. Nothing here needs statistics, which take longer
to load than a short run takes to simulate.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from schedlab import catalogue
from schedlab.experiment.cells import Cell
from schedlab.report.forms import count_text, time_text
from schedlab.report.tables import headed, print_table
from schedlab.shown import print_data, print_note
from schedlab.store.runs import RunRecord

TIMELINE_ROWS_MAX = 1_000
PROFILE_LINES_MAX = 15
SOURCE_COLUMNS_MAX = 60
EVIDENCE_LINES_MAX = 30


def report_failures(records: Sequence[RunRecord]) -> None:
    """Says of runs that did not complete what went wrong, once a policy, and how to see it."""
    for policy in dict.fromkeys(record.policy for record in records):
        failed = [record for record in records if record.policy == policy]
        for line in failure_lines(failed[0]):
            print_note(line)
        if len(failed) > 1:
            more = count_text(len(failed) - 1, "more run")
            print_note(f"hint: {more} of {policy} did not complete: --json has them all")


def failure_lines(record: RunRecord) -> list[str]:
    """What went wrong in a run that did not complete, how to see it, and the way out if known."""
    lines = [f"error: {_failure_text(record)}", f"replay: {record.manifest['replay']}"]
    error = record.result.get("error") or {}
    # A kernel's comes with its reason.
    if hint := error.get("hint") or catalogue.native().way_out(error.get("message", "")):
        lines.append(f"hint: {hint}")
    return lines


def _failure_text(record: RunRecord) -> str:
    error, policy, workload = record.result.get("error"), record.policy, record.workload
    place = f"on {record.machine}, seed {record.seed}"
    if not error:
        return f"policy {policy} brought no end to its tasks with {workload} {place}"
    at_s = error.get("at_ns", 0) / 1e9
    when = f" at {at_s:.6f} s" if at_s else ""
    if error["kind"] == "deadlock":
        # What tasks wait for is written in the workload; no policy can end it.
        why = error["message"].removeprefix("deadlock: ")
        return f"workload {workload} came to a deadlock{when} under {policy} {place}: {why}"
    where = f" on CPU {error['cpu']}" if error["kind"] in ("fault", "limit") and at_s else ""
    where += f" for task {error['task']}" if where and error["task"] else ""
    return f"policy {policy} failed{when}{where} with {workload} {place}: {error['message']}"


def print_evidence(record: RunRecord) -> None:
    """What a kernel said when a run failed: the end of its console or of its verifier's log, or the
    beginning of its dump."""
    error = record.result.get("error") or {}
    lines, left = (error.get("evidence") or "").strip().splitlines(), None
    if len(lines) > EVIDENCE_LINES_MAX:
        left = f"... {len(lines) - EVIDENCE_LINES_MAX} lines more, see --json"
    is_dump = error.get("kind") == "ejected"
    shown = lines[:EVIDENCE_LINES_MAX] if is_dump else lines[-EVIDENCE_LINES_MAX:]
    notes = [f"| {line}" for line in shown]
    at = len(notes) if is_dump else 0
    notes[at:at] = [left] if left else []
    for note in notes:
        print_note(note)


def run_title(cell: Cell) -> str:
    """What ran where."""
    parameters = "".join(f" {name}={value}" for name, value in cell.workload.parameters.items())
    what = f"{catalogue.label_of(cell.policy.given)} with {cell.workload.name}{parameters}"
    return f"{what} on {cell.machine.name}, seed {cell.seed}"


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
        makespan_ns, messages = result["makespan_ns"], result["messages"]
        was_stopped = " (stopped before its end)" * (result["status"] == "stopped")
        yield "makespan", time_text(makespan_ns) + was_stopped
        if messages:
            # Whether that is what the workload is about, its reader knows.
            rate = f": {messages * 1e9 / makespan_ns:,.0f} a second" if makespan_ns else ""
            yield "messages", f"{messages:,}{rate}"
    yield "tasks", f"{result['nr_tasks']:,} on {result['nr_cpus']} CPUs"
    split = "{voluntary_switches:,} voluntary, {involuntary_switches:,} involuntary"
    yield "switches", f"{_count(result['switches'])}: {split.format(**result)}"
    if result.get("restarts"):
        yield "restarts", f"{result['restarts']}: it does not hear of CPUs that come and go"
    yield "migrations", f"{_count(result['migrations'])}; wake-ups {_count(result['wakeups'])}"
    if result.get("background_interrupts"):
        yield "interrupts", f"{_count(result['background_interrupts'])} of the background"
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
        misses, deadlines = result["deadline_misses"], result["deadlines"]
        groups = [group for group in result["requests"] if group["deadlines"]]
        whose = ", ".join("{name} {deadline_misses:,} of {deadlines:,}".format(**g) for g in groups)
        percent = f"{100 * misses / deadlines:.2f} %"
        yield "deadlines", f"{misses:,} of {deadlines:,} missed ({percent}): {whose}"
    yield "wait", _spread(result["wait_ns"])
    yield "run", _spread(result["run_ns"])
    if result["cpu_time_ns"] is not None:
        total_ns = sum(result["cpu_time_ns"].values()) or 1
        yield "CPU time", _shares(result["cpu_time_ns"], total_ns)
        # Runs of older stores do not tell.
        if told := {name: ns for name, ns in (result.get("overhead_ns") or {}).items() if ns}:
            yield "of which", _shares(told, total_ns)
    if executed := result.get("policy_executed"):
        yield "executed", _executed(executed, result["switches"])
    yield "Jain fairness", f"{result['jain_fairness']:.4f}"


def _shares(parts_ns: Mapping[str, int], total_ns: int) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {100 * ns / total_ns:.2f} %" for name, ns in parts_ns.items()
    )


def _executed(executed: Mapping[str, int], switches: int) -> str:
    """What the policy executed, where that takes time."""
    instructions = executed["instructions"]
    a_switch = f", {instructions / switches:,.1f} a switch" if switches else ""
    of_them = "{divisions:,} divide, {calls:,} call the kernel".format(**executed)
    return f"{count_text(instructions, 'instruction')} of the policy{a_switch}; {of_them}"


def _recording(result: Mapping) -> str:
    recording = result["recording"]
    if recording["lost"]:
        return f"{recording['lost']:,} events lost, so that it says nothing"
    all_ns = max(result["elapsed_ns"] * result["nr_cpus"], 1)
    wasted = 100 * recording["idle_while_waiting_ns"] / all_ns
    others = 100 * recording["others_ns"] / all_ns
    return f"complete; CPUs idle beside waiting tasks {wasted:.2f} %, other tasks {others:.2f} %"


def _count(count: int | None) -> str:
    return "not known" if count is None else f"{count:,}"


def _spread(histogram: Mapping | None) -> str:
    if histogram is None:
        return "not known"
    if not histogram["count"]:
        return "none"
    percentiles = ("p50", "p90", "p99", "max")
    return ", ".join(f"{name} {time_text(histogram[name])}" for name in percentiles)


def print_profile(profile: Mapping) -> None:
    """Instructions of the policy, by operation and by line, those that take most first."""
    every = sum(one["instructions"] for one in profile["operations"])
    counts, ends = ("calls", "instructions"), ("p50", "p99", "max")
    shares = headed(("operation", *counts, "share", *ends), left=("operation",))
    for one in profile["operations"]:
        numbers, percentiles = ([f"{one[name]:,}" for name in names] for names in (counts, ends))
        shares.add_row(one["operation"], *numbers, _share(one, every), *percentiles)
    places = ("line", "function", "source")
    lines = headed(("instructions", "share", *places), left=places)
    for one in profile["lines"][:PROFILE_LINES_MAX]:
        place = f"{one['file'].rpartition('/')[2]}:{one['line']}" if one["line"] else "?"
        texts = (place, one["function"], _source_text(one)[:SOURCE_COLUMNS_MAX])
        lines.add_row(f"{one['instructions']:,}", _share(one, every), *map(escape, texts))
    for table in (shares, lines):
        print_data()
        print_table(table)
    if (more := len(profile["lines"]) - PROFILE_LINES_MAX) > 0:
        print_note(f"note: {count_text(more, 'more line')}: --json has them all")


def _share(one: Mapping, every: int) -> str:
    return f"{one['instructions'] / every:.1%}".replace("%", " %")


def _source_text(line: Mapping) -> str:
    """A line's text, which objects have of the policy's own file alone; of our headers, which they
    name otherwise than by their path, it is as it is now."""
    header = catalogue.include_directory() / line["file"].removeprefix("scx-include/")
    if line["text"] or not line["file"].startswith("scx-include/") or not header.is_file():
        return line["text"]
    return next(itertools.islice(header.open(), line["line"] - 1, None), "").strip()


def print_timeline(record: RunRecord) -> None:
    """Every stay of a task on a CPU, a line each, in the order in which they began."""
    stays, names = record.result["timeline"], record.result["timeline_names"]
    table = headed(("from, ms", "to, ms", "CPU", "pid", "task"), left=("task",))
    for start_ns, end_ns, cpu, pid in sorted(stays)[:TIMELINE_ROWS_MAX]:
        times = (f"{start_ns / 1e6:.6f}", f"{end_ns / 1e6:.6f}")
        table.add_row(*times, str(cpu), str(pid), escape(names[str(pid)]))
    print_data()
    print_table(table)
    if len(stays) > TIMELINE_ROWS_MAX:
        print_note(
            f"note: these are the first {TIMELINE_ROWS_MAX:,} of {len(stays):,} stays: --json has"
            " them all, --until makes a run shorter"
        )
