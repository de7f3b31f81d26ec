"""The verb `schedlab bench`: measures this machine under whatever schedules it now.

The same command, given again after a reboot into another kernel, adds what is measured there to the
same store, and compares.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from schedlab import catalogue, programs
from schedlab.bench import environment, guests, policies, preparation, suite
from schedlab.bench.boots import Boots
from schedlab.bench.plan import (
    BOOTS,
    BOOTS_UNTIL,
    CPUS,
    REPETITIONS_A_BOOT,
    REPETITIONS_UNTIL,
    Asked,
)
from schedlab.bench.suite import Suite
from schedlab.bench.work import Plan, Turn, Work, identity
from schedlab.commands.options import json_option
from schedlab.errors import EXIT_FOUND, SchedlabError
from schedlab.kernel import platform
from schedlab.report import tables
from schedlab.report.progress import Progress
from schedlab.store.measurements import Campaign, Measurements, Repetition
from schedlab.store.runs import DEFAULT_PATH, Store
from schedlab.user_file import refuse_unwritable

REPETITIONS_MAX = suite.REPETITIONS_MAX
SEED_MAX = 2**62
BOOTS_MAX = 1000
# QEMU takes more; a machine has less.
MEMORY_MIB_LEAST, MEMORY_MIB_MOST = 128, 1 << 20


@click.command("bench")
@click.argument("name", metavar="SUITE")
@click.option(
    "--size",
    type=click.Choice(suite.SIZES),
    default=suite.SIZES[0],
    show_default=True,
    help="How much each program is given to do.",
)
@click.option("--only", multiple=True, metavar="BENCHMARK", help="This one; repeatable.")
@click.option(
    "--repeat",
    type=click.IntRange(1, REPETITIONS_MAX),
    help="Repetitions of each case, in place of the suite's, to which one more is added for each"
    " disturbed one; with --until-ci the most that are"
    f" made ({REPETITIONS_UNTIL} if not said), with --on vm those of each boot"
    f" ({REPETITIONS_A_BOOT} at most if not said).",
)
@click.option(
    "--until-ci",
    "until",
    metavar="PERCENT%",
    help="Stop when a mean is known so well, either way, looking every five repetitions, or with"
    " --on vm every five boots.",
)
@click.option(
    "--policies",
    metavar="POLICY,POLICY…",
    help="Policies that take turns through sched_ext; `kernel` is the kernel's own scheduler.",
)
@click.option(
    "--on",
    type=click.Choice(["here", platform.VM]),
    default="here",
    show_default=True,
    help="Measure this machine, or kernels of `schedlab kernels list` in virtual machines.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME",
    help="With --on vm: what to boot; repeatable.  [default: the newest that takes policies]",
)
@click.option(
    "--boots",
    type=click.IntRange(1, BOOTS_MAX),
    help="With --on vm: how often each kernel is booted, with --until-ci at most.  [default:"
    f" {BOOTS}, with --until-ci {BOOTS_UNTIL}]",
)
@click.option(
    "--cpus",
    metavar="N[,SOCKETS,CORES,THREADS]",
    help=f"With --on vm: CPUs of the machine.  [default: {CPUS}]",
)
@click.option(
    "--memory",
    "memory_mib",
    type=click.IntRange(MEMORY_MIB_LEAST, MEMORY_MIB_MOST),
    metavar="MIB",
    help=f"With --on vm: its memory.  [default: {platform.MEMORY_MIB}]",
)
@click.option("--label", default="", help="What this is, if kernel and scheduler do not tell.")
@click.option(
    "--seed", type=click.IntRange(0, SEED_MAX), default=1, show_default=True, help="Of the order."
)
@click.option("--again", is_flag=True, help="Another series, although the last one is complete.")
@click.option("--show", is_flag=True, help="Measure nothing; show what the store has.")
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where programs work, and inputs are kept.  [default: in the user's cache]",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Keeps every repetition.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write an HTML page of all that the store has of this suite.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress, no warnings on stderr.")
@json_option
def bench_verb(name, show, store, report, quiet, as_json, **options) -> int:
    """Measure this machine under the scheduler that it has now.

    SUITE is a name, or the path of your own *.toml file. Every repetition is kept in the store at
    once: after Ctrl-C, a reboot or a panic the same command goes on where it stopped. Given again
    under another kernel, it measures there, and compares. With --on vm it boots kernels in virtual
    machines instead, in turn.
    """
    path = catalogue.find(catalogue.SUITES, name)
    read = suite.read(path)
    if report is not None:
        refuse_unwritable(report, store)
    if show:
        hint = f"schedlab bench {name}"
        if not store.exists():
            raise SchedlabError(f"store {store} does not exist", hint)
        with Store(store, read_only=True) as kept:
            code = _show(Measurements(kept), read, hint, as_json)
            _report(Measurements(kept), read, report)
            return code
    asked = Asked.of(read, **options)
    directory = preparation.work_directory(options["work_dir"])
    with preparation.alone(directory), Store(store) as kept:
        session = _begin(asked, Measurements(kept), directory, quiet)
        try:
            if asked.machines:
                guests.measure(session.work, quiet)
            else:
                _measure(session, quiet)
        except KeyboardInterrupt:
            work = session.work
            click.echo(
                f"\n{work.nr_done} of {work.nr_planned} repetitions are kept in {store}; the same"
                f" command goes on from there: {session.command}",
                err=True,
            )
            raise
        code = _tell(session, as_json, quiet)
        _report(session.kept, read, report)
        return code


def _report(kept: Measurements, read: Suite, path: Path | None) -> None:
    """Writes the page that was asked for, if one was."""
    if path is None:
        return
    from schedlab.bench import page

    page.write(path, kept, _campaigns(kept, read.name), read.title, read.description)
    click.echo(f"report: {path}", err=True)


def _campaigns(kept: Measurements, name: str) -> list[Campaign]:
    """All that a store has of a suite, the latest last."""
    return [campaign for campaign in kept.campaigns() if campaign.suite == name]


def _show(kept: Measurements, read: Suite, hint: str, as_json: bool) -> int:
    chosen = _campaigns(kept, read.name)
    if not chosen:
        raise SchedlabError(f"the store {kept.store.path} has nothing of suite {read.name}", hint)
    _print(kept, chosen, read.title, as_json)
    return 0


@dataclass
class Session:
    """A campaign, and what is needed to tell of it."""

    asked: Asked
    work: Work | Boots
    kept: Measurements
    command: str
    nr_before: int


def _begin(asked: Asked, kept: Measurements, directory: Path, quiet: bool) -> Session:
    """Looks at the machine, prepares what is needed, and finds the campaign to go on with."""
    command = shlex.join(["schedlab", *sys.argv[1:]])
    if asked.machines:
        boots = guests.begin(asked, kept, command, quiet)
        return Session(asked, boots, kept, command, boots.nr_done)
    packages = preparation.refuse_missing_packages(asked.suite, asked.cases)
    facts = environment.capture(packages)
    values: dict[str, Any] = {"nr_cpus": facts["machine"]["nr_cpus_usable"]}
    if preparation.uses_program(asked.suite, asked.cases):
        program = programs.BENCH.find()
        values["bench"] = program
        facts["tools"]["schedlab-bench"] = preparation.program_digest(program)
    found = environment.warnings(facts)
    for warned in () if quiet else found:
        click.echo(f"warning: {warned.what}\n  what to do: {warned.to_do}", err=True)
    inputs = _prepare(asked, values, directory, quiet)
    facts["inputs"] = inputs
    plan = asked.plan(inputs, asked.policies)
    campaign = _campaign(asked, plan, kept, facts, command)
    kept.begin(campaign)
    warned_texts = [[warned.what, warned.to_do] for warned in found]
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)
    values["work"] = scratch
    work = Work(
        plan=plan,
        campaign=campaign,
        kept=kept,
        surroundings=kept.surround(campaign.id, campaign.asked_at, facts, warned_texts),
        boot=facts["boot_id"] or "unknown",
        values=values,
        scratch=scratch,
        in_force=policies.in_force,
    )
    return Session(asked, work, kept, command, work.nr_done)


def _prepare(asked: Asked, values: dict[str, Any], directory: Path, quiet: bool) -> dict[str, Any]:
    """Makes the inputs that are needed; adds their folders to `values`, gives their digests."""
    needed = {name for case in asked.cases for name in case.benchmark.inputs}
    found = {}

    def tell(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    for made in asked.suite.inputs:
        if made.name in needed:
            given = {name: values.get(name, "") for name in suite.GIVEN}
            folder, sums = preparation.prepared(made, asked.size, given, directory, tell)
            values[made.name], found[made.name] = folder, sums
    return found


def _campaign(
    asked: Asked, plan: Plan, kept: Measurements, facts: dict[str, Any], command: str
) -> Campaign:
    """The campaign that this command goes on with: the last of its kind, or another series."""
    condition = environment.condition(facts)
    before = {campaign.id: campaign for campaign in kept.campaigns()}
    series = 1
    while True:
        found = identity(asked.suite.name, plan, asked.label, series, condition)
        following = identity(asked.suite.name, plan, asked.label, series + 1, condition)
        if following not in before:
            break
        series += 1
    if found in before and asked.again and _is_complete(plan, before[found], kept):
        series, found = series + 1, following
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Campaign(
        id=found,
        suite=asked.suite.name,
        definition=plan.definition,
        label=asked.label,
        series=series,
        condition=condition,
        command=command,
        version=catalogue.core_version(),
        asked_at=now,
    )


def _is_complete(plan: Plan, campaign: Campaign, kept: Measurements) -> bool:
    """Whether a campaign has all that it was to have."""
    work = Work(plan, campaign, kept, 0, "", {}, Path(), policies.in_force)
    return work.is_complete


def _measure(session: Session, quiet: bool) -> None:
    work = session.work
    progress = Progress(work.nr_planned, quiet)

    def begins(turn: Turn) -> None:
        # Disturbed repetitions are followed by more.
        progress.nr_planned = work.nr_planned
        progress.tell(work.title(turn), work.nr_done, work.left_s(), not work.untimed)

    def tell(found: Repetition) -> None:
        if found.value is None:
            progress.clear()
            click.echo(_failure(found), err=True)

    work.begins, work.tell = begins, tell
    try:
        work.measure()
    finally:
        progress.clear()


def _failure(found: Repetition) -> str:
    """What is to be known of a repetition that failed."""
    said = found.manifest.get("stderr", "").strip().splitlines()[-5:]
    text = f"error: {found.case_name} failed: {found.manifest['failure']}"
    return "\n".join([text, *(f"  {line}" for line in said)])


def _tell(session: Session, as_json: bool, quiet: bool) -> int:
    """Prints the answer, and gives the exit code."""
    work, kept = session.work, session.kept
    like = [
        campaign
        for campaign in _campaigns(kept, work.campaign.suite)
        if campaign.condition["machine"] == work.campaign.condition["machine"]
        and _shares_case(campaign, work.campaign)
    ]
    if not quiet:
        nr_made = work.nr_done - session.nr_before
        click.echo(
            f"{nr_made} repetitions made, {session.nr_before} were in {kept.store.path} before",
            err=True,
        )
        if not session.asked.machines and work.nr_made_up:
            click.echo(
                f"note: {work.nr_made_up} repetitions were added, as others were disturbed",
                err=True,
            )
    _print(kept, like, session.asked.suite.title, as_json)
    _tell_widths(session, quiet)
    if not quiet:
        for failed in work.failed:
            under = f" under {failed.policy}" if len(session.asked.policies) > 1 else ""
            click.echo(
                f"note: {failed.case_name} failed{under} ({failed.manifest['failure']}); the same"
                " command tries it again",
                err=True,
            )
        if session.asked.machines and not work.is_complete:
            click.echo("note: some boots are not complete; the same command goes on", err=True)
    return 0 if work.is_complete else EXIT_FOUND


def _shares_case(one: Campaign, other: Campaign) -> bool:
    names = {case[0] for case in other.definition["cases"]}
    return any(case[0] in names for case in one.definition["cases"])


def _tell_widths(session: Session, quiet: bool) -> None:
    """With --until-ci: what was reached, and what it would take to get there."""
    until = session.work.plan.until
    if until is None or quiet:
        return
    from schedlab.bench.answers import reached

    what = "boots" if session.asked.machines else "runs"
    for name, values, runs_max in session.work.series():
        if values:
            click.echo(f"{name}: {reached(values, until, runs_max, what)}", err=True)


def _print(kept: Measurements, chosen: Sequence[Campaign], title: str, as_json: bool) -> None:
    """Statistics are loaded only now, because that takes a while."""
    from schedlab.bench import answers, forms, table

    found = answers.rows(kept, chosen)
    if as_json:
        tables.print_json(forms.results_json(found))
    else:
        table.print_results(found, title)
