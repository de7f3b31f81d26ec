"""What goes on inside a policy while it runs: its state at times, and numbers that are followed.

What a run was asked for is data, to stdout; the state of a run that failed is told after its cause,
to stderr.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape

from schedlab import values
from schedlab.errors import BadValue
from schedlab.report.forms import count_text
from schedlab.report.tables import headed, print_table
from schedlab.shown import print_data, print_note
from schedlab.store.runs import RunRecord

END = "end"
# As many as the simulator takes.
DUMPS_MAX = 100
WATCHED_MAX = 100
FAILURE_LINES_MAX = 20
SAMPLES_SHOWN_MAX = 1_000


def asked(dump_at: Sequence[str], watch: Sequence[str], is_simulated: bool) -> dict[str, Any]:
    """The options of `_native.simulate` for what --dump-at and --watch ask for. A kernel that ends
    a policy tells its state without being asked. Raises SchedlabError for what is no time, or more
    than there may be."""
    times = [text for text in dump_at if text.strip() != END]
    if len(times) > DUMPS_MAX:
        raise BadValue("--dump-at", times[-1], f"is one of more than {DUMPS_MAX} times")
    if len(watch) > WATCHED_MAX:
        raise BadValue("--watch", watch[-1], f"is one of more than {WATCHED_MAX}")
    if any(not expression.strip() for expression in watch):
        hint = "write NAME, NAME.FIELD, NAME[3] or MAP[KEY].FIELD"
        raise BadValue("--watch", "", "names no number of the policy's", hint)
    return {
        "dump_at_ns": [values.parse_duration_ns("--dump-at", text) for text in times],
        "dump_at_end": len(times) < len(dump_at),
        "watch": list(watch),
        **({"dump_on_failure": True} if is_simulated else {}),
    }


def print_failure(record: RunRecord, dump_at: Sequence[str]) -> None:
    """The first lines of the state in which a run failed, unless all of it is asked for."""
    if _is_end_asked(dump_at) or not (dumps := _of_failure(record)):
        return
    # Its head says again why it failed.
    lines = dumps[-1]["text"].partition("\n\n")[2].splitlines()
    for line in lines[:FAILURE_LINES_MAX]:
        print_note(f"| {line}".rstrip())
    if (left := len(lines) - FAILURE_LINES_MAX) > 0:
        print_note(f"hint: {count_text(left, 'line')} more: --dump-at {END} prints them all")


def print_dumps(record: RunRecord, dump_at: Sequence[str]) -> None:
    """The states that were asked for, one after the other."""
    dumps = record.result.get("dumps") or []
    left_out = [] if _is_end_asked(dump_at) else _of_failure(record)
    for dump in (one for one in dumps if one not in left_out):
        print_data()
        print_data(dump["text"], end="")
    times = [text for text in dump_at if text.strip() != END]
    reached = {dump["at_ns"] for dump in dumps}
    for text in times:
        if values.parse_duration_ns("--dump-at", text) not in reached:
            print_note(
                f"note: the run was over before --dump-at {text}: --dump-at {END} is its end"
            )


def _is_end_asked(dump_at: Sequence[str]) -> bool:
    return any(text.strip() == END for text in dump_at)


def _of_failure(record: RunRecord) -> list[Mapping[str, Any]]:
    # A kernel has one of what it ejected; other ends of its machine have none of their own.
    error, dumps = record.result.get("error") or {}, record.result.get("dumps") or []
    is_told = not record.measured_on or error.get("kind") == "ejected"
    return dumps[-1:] if record.status == "failed" and is_told else []


def print_watched(watched: Sequence[Mapping[str, Any]], each: bool) -> None:
    """What was followed: least, most and last; with `each` every change too, in order."""
    numbers = ("changes", "least", "most", "last")
    table = headed(("expression", "type", *numbers), left=("expression", "type"))
    for one in watched:
        known = [number for _, number in one["samples"] if number is not None]
        last = known and one["samples"][-1][1]
        ends = (min(known), max(known), last) if known else (None, None, None)
        texts = ["-" if number is None else f"{number:,}" for number in ends]
        name, of = escape(one["expression"]), escape(one["type"])
        table.add_row(name, of, f"{max(len(one['samples']) - 1, 0):,}", *texts)
    print_data()
    print_table(table)
    if each:
        _print_changes(watched)


def _print_changes(watched: Sequence[Mapping[str, Any]]) -> None:
    changes = sorted(samples_of(watched), key=lambda row: row[1])
    table = headed(("at, ms", "expression", "value"), left=("expression",))
    for expression, at_ns, number in changes[:SAMPLES_SHOWN_MAX]:
        text = "-" if number is None else f"{number:,}"
        table.add_row(f"{at_ns / 1e6:.6f}", escape(expression), text)
    print_data()
    print_table(table)
    if (left := len(changes) - SAMPLES_SHOWN_MAX) > 0:
        print_note(f"note: {count_text(left, 'more change')}: --json has them all")


def samples_of(watched: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, int | None]]:
    """Expression, time in ns and number of each change."""
    for one in watched:
        for at_ns, number in one["samples"]:
            yield one["expression"], at_ns, number
