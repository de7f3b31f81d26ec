"""The verb `schedlab race`: which run queue is fastest at your size?

Heats are raced one after the other by the core, each is kept in the store the moment it ends, and
the same command goes on where it was stopped.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from schedlab import catalogue, shown, user_file
from schedlab.commands.options import json_option
from schedlab.errors import EXIT_FOUND, SchedlabError, UnknownName
from schedlab.race import plan, worker
from schedlab.race.plan import Asked, Heat, Plugin
from schedlab.race.trace import played
from schedlab.report import tables
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.runs import DEFAULT_PATH, Store

LOOPS_MAX = 10**9
ROUNDS_MAX = 10_000
CPUS_MAX = 4096
# Of a heat's figures, the part from which on it is raced once more.
MOSTLY_DISTURBED = 0.5
OBJECT_SUFFIX = ".so"
SOURCE_SUFFIXES = (".c", ".cpp", ".cc", ".cxx")


class _Number(click.IntRange):
    """A whole number; click calls it a range, also where it is no number at all."""

    name = "whole number"


@click.command("race")
@click.option(
    "-n",
    "sizes",
    multiple=True,
    metavar="N[,N…]",
    help="Items in a queue.  [default: the sizes published in 2007, 1 to 100,000]",
)
@click.option(
    "-l",
    "--loops",
    type=_Number(1, LOOPS_MAX),
    help="Loops a round, as in 2007.  [default: so many that a round takes a few milliseconds; of"
    " more than 100,000 items one for each]",
)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    metavar="NAME",
    help=f"What the queue is put through: {', '.join(plan.WORKLOADS)}.  [default: hold]",
)
@click.option(
    "--keys",
    multiple=True,
    metavar="NAME",
    help=f"How keys grow: {', '.join(plan.KEYS)}.  [default: uniform]",
)
@click.option(
    "--structure",
    "structures",
    multiple=True,
    metavar="NAME",
    help="Who takes part; repeatable.  [default: all]",
)
@click.option(
    "--with",
    "files",
    multiple=True,
    metavar="FILE.c|.cpp|.so",
    type=click.Path(path_type=Path),
    help="Your own queue, written against schedlab_race.h; repeatable.",
)
@click.option("--peers", is_flag=True, help="Also the queues of the C++ library and of Boost.")
@click.option(
    "--order",
    default=plan.ORDERS[0],
    show_default=True,
    metavar="|".join(plan.ORDERS),
    help="Who runs when in a round; abcba is the order of 2007.",
)
@click.option(
    "--rounds",
    type=_Number(1, ROUNDS_MAX),
    default=plan.ROUNDS,
    show_default=True,
    help="How often each runs; an interval takes six.",
)
@click.option(
    "--cpu",
    type=_Number(0, CPUS_MAX),
    help="The CPU to race on.  [default: the last one that may be used]",
)
@click.option(
    "--seed",
    type=_Number(0, 2**62),
    default=plan.SEED,
    show_default=True,
    help="Of all keys.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recorded operations to play: push ITEM KEY, pop, remove ITEM, one a line; or what a"
    " kernel's scheduler did, as perf script or ftrace tell it.",
)
@click.option(
    "--queue",
    metavar="NAME",
    help="The run queue of a kernel's trace: cpu0, cpu1, …, or all for one that all CPUs share."
    "  [default: the CPU's with most operations]",
)
@click.option("--full", is_flag=True, help="All workloads, keys and sizes: takes long.")
@click.option("--again", is_flag=True, help="Race anew what the store has already.")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Keeps every heat; heats already in it are not raced again.",
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write an HTML page with figures here.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary on stderr.")
@json_option
def race_verb(store, report_path, again, quiet, as_json, **options) -> int:
    """Race run queues: which one is fastest at your size?

    Without options the loop of 2007 at the sizes published then, in about a minute or two. All
    structures meet in every round, on one CPU; compare times of one heat only. Every heat is kept
    in the store at once: after Ctrl-C the same command goes on where it stopped. A plug-in is
    native code that runs with your rights.
    """
    from schedlab.user_file import refuse_unwritable

    if report_path:
        refuse_unwritable(report_path, store)
    if options["cpu"] is None:
        options["cpu"] = plan.usual_cpu()
    asked = _ask(lambda line: None if quiet else click.echo(line, err=True), **options)
    machine = plan.this_machine(options["cpu"])
    command = shlex.join(["schedlab", *sys.argv[1:]])
    with Store(store) as kept:
        meeting = Meeting(asked, Heats(kept), machine.cpu_model, catalogue.core_version(), again)
        try:
            meeting.race(quiet)
        except KeyboardInterrupt:
            missing = meeting.nr_kept < len(asked)
            goes_on = f"goes on from there{' without --again' * again}" if missing else "shows them"
            click.echo(
                f"\n{meeting.nr_kept} of {len(asked)} heats are kept in {store}; the same command"
                f" {goes_on}: {command}",
                err=True,
            )
            raise
    if not quiet:
        reused = len(meeting.heats) - meeting.nr_raced
        raced = f"{meeting.nr_raced} heat{'s' * (meeting.nr_raced != 1)} raced"
        click.echo(f"{raced}, {reused} reused from {store}", err=True)
    _tell(meeting.heats, machine, as_json)
    if report_path:
        from schedlab.race.page import write

        write(report_path, meeting.heats, machine, command)
        if not quiet:
            click.echo(f"report: {report_path}", err=True)
    return _conclude(meeting.failed)


def _conclude(failed: Sequence[tuple[Asked, Exception]]) -> int:
    """Says which heats there are not and why, each reason once, and gives the exit code."""
    reasons: dict[str, list[Asked]] = {}
    for asked, error in failed:
        reasons.setdefault(str(error), []).append(asked)
    for reason, heats in reasons.items():
        click.echo(f"error: {plan.places(heats)}: {reason}", err=True)
    return EXIT_FOUND if failed else 0


def _tell(heats: Sequence[Heat], machine: plan.Machine, as_json: bool) -> None:
    """The answer on stdout. Statistics are loaded only now, because that takes a while."""
    from schedlab.race import answers, april_2007, table

    found = answers.standings(heats)
    published = april_2007.read_published()
    rows = april_2007.beside(published, found)
    remarks = april_2007.remarks(published, found)
    if as_json:
        tables.print_json(table.race_json(found, machine, rows, remarks))
    else:
        table.print_race(found, machine)
        table.print_published(rows, remarks)


# ---- what is asked ------------------------------------------------------------------------------


def _ask(
    say: Callable[[str], None],
    *,
    sizes, loops, workloads, keys, structures, files, peers, order, rounds, cpu, seed, trace, queue,
    full,
) -> list[Asked]:  # fmt: skip
    """The heats that the options ask for; `say` is told what they do not tell."""
    for kind, given, known in (
        ("workload", workloads, plan.WORKLOADS),
        ("distribution of keys", keys, plan.KEYS),
        ("order", [order], plan.ORDERS),
    ):
        _refuse_unknown(kind, given, known)
    wanted = plan.parse_sizes("-n", sizes)
    heats = plan.plan(workloads, keys, wanted, full, trace is not None)
    if trace is not None:
        given, trace = trace, played(trace, queue, say)
        plan.refuse_unheeded(given, heats, sizes, keys)
    elif queue is not None:
        raise SchedlabError(
            f"--queue {queue}: there is no trace to take it from", "add --trace FILE"
        )
    digest = "" if trace is None else plan.digest_of(trace)
    plugins = _plugins(files, peers)
    names = _structures(structures, plugins)
    return [
        Asked(
            workload=workload,
            keys=drawn,
            n=n,
            queues=queues,
            structures=names,
            loops=loops,
            rounds=rounds,
            order=order,
            cpu=cpu,
            seed=seed,
            plugins=plugins,
            trace=str(trace) if workload == "trace" else "",
            trace_digest=digest if workload == "trace" else "",
        )
        for workload, drawn, n, queues in heats
    ]


def _refuse_unknown(kind: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UnknownName(kind, name, known)


def _structures(given: Sequence[str], plugins: Sequence[Plugin]) -> tuple[str, ...] | None:
    """Who takes part, by name; None, which is everybody, if nobody is named.

    A plug-in was named by its file, so its queues take part whoever else is named.
    """
    if not given:
        return None
    paths = [plugin.path for plugin in plugins]
    entrants = worker.entrants(paths, _show)
    _refuse_unknown("structure", given, [entrant["structure"] for entrant in entrants])
    guests = [
        entrant["structure"]
        for entrant in entrants
        if entrant["source"].startswith(plan.PLUGIN_PREFIX)
    ]
    return tuple(dict.fromkeys([*given, *guests]))


def _show(text: str) -> None:
    print(text, file=sys.stderr)


def _plugins(files: Sequence[Path], peers: bool) -> tuple[Plugin, ...]:
    """The shared objects of the user's queues, and of the shipped peers; sources are compiled."""
    objects = [_object_of(path) for path in files]
    if peers:
        objects += filter(None, map(_peer_object, plan.peers()))
    return tuple(plan.plugin_of(path) for path in dict.fromkeys(objects))


def _peer_object(source: Path) -> Path | None:
    """A shipped peer, compiled; None, with a note, where its library or a compiler is missing."""
    try:
        return _compiled(source)
    except catalogue.native().RaceError as error:
        click.echo(
            f"note: the peers of {source.name} are left out: {error}\n"
            "note: they need a C++ compiler and, for boost.cpp, Boost's headers"
            " (apt-get install g++ libboost-dev)",
            err=True,
        )
        return None


def _object_of(path: Path) -> Path:
    """A shared object as it is, a source compiled into the cache."""
    if path.suffix not in (OBJECT_SUFFIX, *SOURCE_SUFFIXES):
        raise SchedlabError(
            f"--with {path}: is neither a shared object nor a source",
            f"its name must end in {', '.join((OBJECT_SUFFIX, *SOURCE_SUFFIXES))}",
        )
    user_file.refuse_unfit(f"--with {path}", path, user_file.MADE_BYTES_MAX)
    if path.suffix == OBJECT_SUFFIX:
        return path.resolve()
    return _compiled(path)


def _compiled(source: Path) -> Path:
    return catalogue.native().race_compile(
        str(source.resolve()), str(plan.header_directory()), str(catalogue.cache_directory())
    )


# ---- racing -------------------------------------------------------------------------------------


@dataclass
class Meeting:
    """Heats on their way: `heats` are those that are there, `failed` those that cannot be."""

    asked: Sequence[Asked]
    kept: Heats
    cpu_model: str
    version: str
    again: bool
    nr_raced: int = 0

    def __post_init__(self) -> None:
        self._found: dict[Asked, Heat] = {}
        self._has_told = False
        self.failed: list[tuple[Asked, Exception]] = []

    @property
    def heats(self) -> list[Heat]:
        """What came of the heats so far."""
        return [self._found[asked] for asked in self.asked if asked in self._found]

    @property
    def nr_kept(self) -> int:
        """How many heats are in the store by now."""
        return len(self._found)

    def race(self, quiet: bool) -> None:
        """Takes from the store what it has, and races the others.

        A heat that cannot be raced, such as one with more items than there is memory for, does not
        keep the others from it.

        Raises
        ------
        RaceError
            If there is no heat at all: what is wrong with the first.
        StoreError
            If a heat cannot be kept.
        SchedlabError
            If a plug-in or the trace was changed meanwhile.
        """
        if not self.again:
            self._reuse()
        waiting = [asked for asked in self.asked if asked not in self._found]
        with _progress(waiting, quiet) as show:
            for done, asked in enumerate(list(waiting), 1):
                try:
                    self._race_one(asked)
                except catalogue.native().RaceError as error:
                    self.failed.append((asked, error))
                show(done)
            self._race_disturbed(waiting, show)
        if not self._found:
            raise self.failed[0][1]

    def _race_disturbed(self, raced: list[Asked], show: Callable[[int], None]) -> None:
        """Anew those heats that others disturbed for longer than they waited; they come to `raced`.

        The quieter one of both stays. One that fails now, although it did not before, is told, and
        the first one stays.
        """
        first = len(raced)
        raced += [
            asked
            for asked in raced
            if asked in self._found and self._unrest(self._found[asked]) > MOSTLY_DISTURBED
        ]
        for done, asked in enumerate(raced[first:], first):
            show(done)
            try:
                self._race_one(asked)
            except (catalogue.native().RaceError, SchedlabError) as error:
                self.failed.append((asked, error))

    def _tell_printed(self, text: str) -> None:
        """What plug-ins printed, of the first heat in which they did."""
        if not self._has_told:
            self._has_told = True
            _show(text)

    def _unrest(self, heat: Heat) -> float:
        return heat.disturbed_share(min(heat.pace, plan.own_pace(self.heats)))

    def _reuse(self) -> None:
        for asked in self.asked:
            stored = self.kept.find(asked.key(self.cpu_model, self.version))
            if stored is not None:
                self._found[asked] = Heat(
                    asked, stored.result, stored.raced_at, stored.load, is_reused=True
                )

    def _race_one(self, asked: Asked) -> None:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        raced_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        spec = {**asked.spec, "pace": plan.own_pace(self.heats)}
        result = worker.race(spec, self._tell_printed)
        plan.refuse_changed(asked)
        heat, before = Heat(asked, result, raced_at, load), self._found.get(asked)
        if before is None:
            self.nr_raced += 1
        elif self._unrest(heat) > self._unrest(before):
            return
        self.kept.add(asked.key(self.cpu_model, self.version), StoredHeat(raced_at, load, result))
        self._found[asked] = heat


@contextlib.contextmanager
def _progress(heats: Sequence[Asked], quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr with the heat that is raced: a function to call with how many are done.

    `heats` may grow meanwhile.
    """
    if quiet or not heats or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.fields[done]}/{task.fields[heats]} heats"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[now]}"),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("left"),
    )
    with progress.Progress(
        *columns,
        console=Console(file=shown.own(sys.stderr)),
        transient=True,
        # Each is work on another CPU, which may be the other half of the core that races.
        refresh_per_second=1,
    ) as bar:
        task = bar.add_task("", total=1, done=0, heats=len(heats), now=_now_text(heats, 0))

        def show(done: int) -> None:
            weights = [asked.weight for asked in heats]
            bar.update(
                task,
                completed=sum(weights[:done]),
                total=sum(weights),
                done=done,
                heats=len(heats),
                now=_now_text(heats, done),
            )

        show(0)
        yield show


def _now_text(heats: Sequence[Asked], done: int) -> str:
    """What is raced after so many heats."""
    return heats[done].place if done < len(heats) else ""
