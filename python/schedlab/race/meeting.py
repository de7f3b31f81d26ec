"""A race on its way: what is asked becomes heats, which are raced one after the other and kept.

Each heat is in the store the moment it ends, and the same question goes on where it was stopped.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab import catalogue
from schedlab.digests import timestamp
from schedlab.errors import SchedlabError, refuse_unknown
from schedlab.race import plan, plugins, trace
from schedlab.race.plan import Heat, HeatSpec
from schedlab.race.plugins import Tell
from schedlab.report.forms import count_text
from schedlab.report.progress import Progress
from schedlab.shown import print_note
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.runs import Store

# Of a heat's figures, the part from which on it is raced once more.
MOSTLY_DISTURBED = 0.5


@dataclass(frozen=True)
class Options:
    """What is asked of a race, as the options of `schedlab race`; what is empty is chosen.

    A text of `sizes` may hold several, parted by commas. `files` are queues of one's own, in C, C++
    or compiled, and take part whoever is named; `cpu` is the last one that may be used.
    """

    sizes: Sequence[str | int] = ()
    workloads: Sequence[str] = ()
    keys: Sequence[str] = ()
    structures: Sequence[str] = ()
    files: Sequence[Path] = ()
    peers: bool = False
    full: bool = False
    loops: int | None = None
    rounds: int = plan.ROUNDS
    order: str = plan.ORDERS[0]
    cpu: int | None = None
    seed: int = plan.SEED
    trace: Path | None = None
    queue: str | None = None


def race(
    options: Options,
    store: Path,
    command: str = "",
    again: bool = False,
    quiet: bool = False,
    tell: Tell = print_note,
) -> "Meeting":
    """Races what is asked, on this machine; `again` also what the store has already.

    `command`, which asks for the same once more, is told where this is interrupted. Raises
    SchedlabError if something is asked that there is not, a file is changed meanwhile or a heat
    cannot be kept, and the RaceError of the first heat if there is none at all.
    """
    specs = _specs_of(options, tell, quiet)
    with Store(store) as kept:
        meeting = Meeting(specs, Heats(kept), plan.this_machine(specs[0].cpu), tell=tell)
        try:
            meeting.race(again, quiet)
        except KeyboardInterrupt:
            missing = len(meeting.heats) < len(specs)
            goes_on = f"goes on from there{' without --again' * again}" if missing else "shows them"
            kept_text = f"{len(meeting.heats)} of {len(specs)} heats are kept in {store}"
            tell(f"\n{kept_text}; the same command {goes_on}: {command}")
            raise
    if not quiet:
        nr_reused = len(meeting.heats) - meeting.nr_raced
        tell(f"{count_text(meeting.nr_raced, 'heat')} raced, {nr_reused} reused from {store}")
    return meeting


def _specs_of(options: Options, tell: Tell, quiet: bool) -> list[HeatSpec]:
    refuse_unknown("workload", options.workloads, plan.WORKLOADS)
    refuse_unknown("distribution of keys", options.keys, plan.KEYS)
    refuse_unknown("order", [options.order], plan.ORDERS)
    sizes = plan.parse_sizes("-n", map(str, options.sizes))
    heats = plan.plan(options.workloads, options.keys, sizes, options.full, options.trace)
    traced = {}
    if options.trace is not None:
        path = trace.played(options.trace, options.queue, tell if not quiet else lambda text: None)
        traced = {"trace": str(path), "trace_digest": plugins.digest_of(path)}
    elif options.queue is not None:
        why = f"--queue {options.queue}: there is no trace to take it from"
        raise SchedlabError(why, "add --trace FILE")
    guests = plugins.plugins_of(options.files, options.peers, tell)
    same = {name: getattr(options, name) for name in ("loops", "rounds", "order", "cpu", "seed")}
    if options.cpu is None and hasattr(os, "sched_getaffinity"):
        same["cpu"] = max(os.sched_getaffinity(0))
    same["plugins"] = guests
    if options.structures:
        entrants = plugins.entrants([guest.path for guest in guests], tell)
        sources = {entrant["structure"]: entrant["source"] for entrant in entrants}
        refuse_unknown("structure", options.structures, sources)
        # A plug-in was named by its file, so its queues take part whoever else is named.
        theirs = [name for name in sources if sources[name].startswith(plugins.SOURCE_PREFIX)]
        same["structures"] = tuple(dict.fromkeys([*options.structures, *theirs]))
    return [replace(heat, **same, **(traced if heat.workload == "trace" else {})) for heat in heats]


class Meeting:
    """Heats on their way, and what came of them: `specs` are those that are asked for, in order,
    `nr_raced` is how many were not taken from the store, and `failed` cannot be raced, with why."""

    def __init__(self, specs: Sequence[HeatSpec], kept: Heats, machine: plan.Machine, tell: Tell):
        self.specs, self.machine = specs, machine
        self.nr_raced = 0
        self.failed: list[tuple[HeatSpec, Exception]] = []
        self._kept, self._tell = kept, tell
        self._has_told = False
        self._version = catalogue.core_version()
        self._heats: dict[HeatSpec, Heat] = {}

    @property
    def heats(self) -> list[Heat]:
        """The heats that there are by now, all of them in the store."""
        return [self._heats[spec] for spec in self.specs if spec in self._heats]

    def race(self, again: bool, quiet: bool) -> None:
        """Takes from the store what it has, unless `again`, and races the others. One that cannot
        be raced, as for want of memory, keeps none from it; what was mostly disturbed is raced once
        more."""
        for spec in self.specs if not again else ():
            if stored := self._kept.find(self._key(spec)):
                heat = Heat(spec, stored.result, stored.raced_at, stored.load, is_reused=True)
                self._heats[spec] = heat
        waiting = [spec for spec in self.specs if spec not in self._heats]
        # A thread that draws works on another CPU, which may be the other half of the core.
        with Progress(len(waiting), "heats", quiet or not waiting, is_measured=True) as progress:
            self._race_all(waiting, progress, 0)
            raced = [spec for spec in waiting if spec in self._heats]
            disturbed = [s for s in raced if self._unrest(self._heats[s]) > MOSTLY_DISTURBED]
            self._race_all([*waiting, *disturbed], progress, len(waiting))
        if not self._heats:
            raise self.failed[0][1]

    def _race_all(self, specs: Sequence[HeatSpec], progress: Progress, first: int) -> None:
        """Races heats from the first on, shown as a part of all. A changed file ends the race, but
        not of a heat that there is already: that one stays."""
        race_error = catalogue.native().RaceError
        refused = (race_error, SchedlabError) if first else race_error
        weight = sum(spec.weight for spec in specs)
        for nr, spec in enumerate(specs[first:], first):
            share = sum(done.weight for done in specs[:nr]) / weight
            progress.update(nr, spec.place, share, total=len(specs))
            try:
                self._race_one(spec)
            except refused as error:
                self.failed.append((spec, error))

    def _race_one(self, spec: HeatSpec) -> None:
        """Races a heat; of one that was raced before the quieter one stays."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        raced_at = timestamp()
        core_spec = {**spec.for_core, "pace": plan.own_pace(self.heats)}
        result = plugins.race(core_spec, self._tell_printed)
        _refuse_changed(spec)
        heat, before = Heat(spec, result, raced_at, load), self._heats.get(spec)
        if before is None:
            self.nr_raced += 1
        elif self._unrest(heat) > self._unrest(before):
            return
        self._kept.add(self._key(spec), StoredHeat(raced_at, load, result))
        self._heats[spec] = heat

    def _key(self, spec: HeatSpec) -> str:
        return spec.key(self.machine.cpu_model, self._version)

    def _unrest(self, heat: Heat) -> float:
        return heat.disturbed_share(min(heat.pace, plan.own_pace(self.heats)))

    def _tell_printed(self, text: str) -> None:
        """What plug-ins printed, of the first heat in which they did."""
        if not self._has_told:
            self._has_told = True
            self._tell(text)


def _refuse_changed(spec: HeatSpec) -> None:
    """Each heat opens its files again: they must still be those that the race began with."""
    digests = {plugin.path: plugin.digest for plugin in spec.plugins}
    digests |= {spec.trace: spec.trace_digest} if spec.trace else {}
    for path, digest in digests.items():
        if plugins.digest_of(Path(path)) != digest:
            hint = "run the same command again; heats raced before the change stay in the store"
            why = f"{path} was changed during the race: {spec.place} is not kept"
            raise SchedlabError(why, hint)
