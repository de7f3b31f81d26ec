"""The verb `schedlab load`: a policy schedules this machine until somebody stops it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from schedlab import programs
from schedlab.commands import options
from schedlab.errors import SchedlabError, UnknownName
from schedlab.kernel import result, sched_ext
from schedlab.kernel.loading import STOP_WAIT_S, object_of, require_kernel
from schedlab.shown import in_json, print_note
from schedlab.values import parse_set, parse_tunable

# `enum scx_exit_kind`: from here on a policy ended by an error.
FIRST_ERROR_KIND = 1024
HEADER_EVERY_LINES = 20

# Headings and how wide each column is.
COLUMNS = {"time": 8, "switches/s": 11, "enqueue/s": 10, "dispatch/s": 11}
COLUMNS |= {"waiting": 8, "runnable": 9, "tasks": 6, "rejected": 9}


@click.command("load")
@click.argument("policy")
@options.set_option
@click.option("--json", "as_json", is_flag=True, help="Every record as JSON, one a line.")
def load_verb(policy, settings, as_json) -> bool:
    """Let a policy schedule this machine, and show what it does.

    POLICY may also be a BPF object (*.o) with a `struct sched_ext_ops`, of whatever project. Needs
    root and a kernel with sched_ext. Ctrl-C or SIGTERM gives the machine back to the kernel's own
    scheduler; so does the end of this command for any other reason.
    """
    require_kernel(command=options.as_root())
    guest = programs.GUEST.find()
    name, built, of_set = object_of(policy)
    command = [str(guest), "load", str(built), "--parent", str(os.getpid())]
    for tunable, value in {**of_set, **_values(name, settings)}.items():
        command += ["--set", f"{tunable}={value}"]
    with _started(command) as process:
        name, end = show(process.stdout, name, as_json)
        status = process.wait()
    return judge(name, end, status, as_json)


def _values(name: str, settings: Sequence[str]) -> dict[str, str]:
    """Tunable -> value as the loader takes it: times become numbers, the rest is left to it."""
    values = {}
    for label, tunables in parse_set(settings).items():
        if label not in ("", name):
            raise UnknownName("policy", label, [name], "in --set")
        for tunable, text in tunables.items():
            values[tunable] = str(parse_tunable(f"--set {tunable}", tunable, "number", text))
    return values


@contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """The guest while it runs. SIGINT and SIGTERM ask it to stop; a second one insists."""
    asked = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked
        asked += 1
        process.send_signal(signal.SIGTERM if asked == 1 else signal.SIGKILL)

    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise SchedlabError(f"cannot run {command[0]}: {error.strerror}") from error
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield process
    finally:
        process.stdout.close()
        programs.end(process, STOP_WAIT_S)
        for number, handler in before.items():
            signal.signal(number, handler)


def show(lines: Iterable[str], policy: str, as_json: bool) -> tuple[str, Mapping | None]:
    """Shows the guest's records as they come; gives the policy's own name, and the last record."""
    kernel, end, started_at_ns, nr_shown = "", None, 0, 0
    for line in lines:
        # None of them is on it, or one that the end of the guest cut off.
        for record in result.parse([line]):
            if as_json:
                click.echo(in_json(line.rstrip("\n")))
            kind = record["record"]
            if kind == "booted":
                kernel = f"Linux {record['kernel_release']} on {record['nr_cpus']} CPUs"
            elif kind == "attached":
                policy = record["policy"] or policy
                ready = f"{(record['load_ns'] + record['attach_ns']) / 1e9:.2f} s"
                attached = f"{policy} schedules {kernel}, verified and attached in {ready}"
                print_note(f"{attached}; Ctrl-C gives the machine back")
            elif kind == "restarted":
                print_note(f"{policy} is loaded again, as the kernel asks: {record['message']}")
            elif kind == "started":
                started_at_ns = record["at_ns"]
            elif kind == "counters" and not as_json:
                if nr_shown % HEADER_EVERY_LINES == 0 and (sys.stdout.isatty() or not nr_shown):
                    heads = "".join(f"{title:>{width}}" for title, width in COLUMNS.items())
                    click.echo(f"{heads}  events")
                nr_shown += 1
                click.echo(counters_line(record, (record["at_ns"] - started_at_ns) / 1e9))
            elif kind in ("refused", "ejected", "detached", "error"):
                end = record
    return policy, end


def judge(policy: str, end: Mapping | None, status: int, as_json: bool) -> bool:
    """Tells the end, and gives whether the kernel found something; `status` is the guest's.

    Raises SchedlabError if the end is not the kernel's verdict: a wrong tunable or object, a guest
    that died.
    """
    if end is None:
        said = programs.signal_name(-status) if status < 0 else f"exit code {status}"
        raise SchedlabError(f"schedlab-guest ended with {said} and no word. {_scheduler_now()}")
    if end["record"] == "error":
        raise SchedlabError(end["message"])
    if end["record"] == "refused":
        if end["stage"] == "open":
            raise SchedlabError(end["reason"], end["hint"] or None)
        _tell_error(end["reason"], end["hint"])
        if end["log"] and not as_json:
            print_note("note: with --json the record has the kernel's whole log")
        return True
    sentence = ": ".join(part for part in (end["reason"], end["message"]) if part)
    sentence = sentence or "it gave no reason, `dmesg` may have one"
    is_found = end["record"] == "ejected" or end["kind"] >= FIRST_ERROR_KIND
    if is_found:
        _tell_error(f"the kernel ended {policy}: {sentence}", end["hint"])
        print_note(_scheduler_now())
    else:
        print_note(f"{policy} ended: {sentence}. {_scheduler_now()}")
    return is_found


def counters_line(counters: Mapping, at_s: float) -> str:
    """One second in one line: rates, then levels as they are, then events that there were."""
    wall_s = counters["wall_ns"] / 1e9
    counts = [[counters["switches"]]]
    for end in ("_enqueue", "_dispatch"):
        counts.append([nr for name, nr in counters["calls"].items() if name.endswith(end)])
    rates = [f"{sum(nrs) / wall_s:,.0f}" if nrs and wall_s > 0 else "-" for nrs in counts]
    levels = ("nr_waiting", "nr_runnable", "nr_tasks", "nr_rejected")
    fields = [f"{at_s:.1f} s", *rates, *(f"{counters[level]:,}" for level in levels)]
    nrs = {name.removeprefix("SCX_EV_").lower(): nr for name, nr in counters["events"].items()}
    events = ", ".join(f"{name} {nr:,}" for name, nr in nrs.items() if nr)
    columns = zip(fields, COLUMNS.values(), strict=True)
    line = "".join(f"{field:>{width}}" for field, width in columns)
    return f"{line}  {events}".rstrip()


def _tell_error(message: str, hint: str) -> None:
    print_note(f"error: {message}" + (f"\nhint: {hint}" if hint else ""))


def _scheduler_now() -> str:
    now = sched_ext.sched_ext()
    if now is None or now.state == "disabled":
        return "The kernel's own scheduler is in charge"
    return f"sched_ext is {now.state}: {now.ops or 'a policy'} may still be in charge"
