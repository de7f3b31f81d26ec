"""Measures the cases of a suite in virtual machines, one boot after the other.

Repetitions within a boot share its memory layout and all else that is settled at its begin. So each
kernel, under each policy, is booted several times, in turn with the others; each boot is a campaign
of its own, whose series is its number, and one that broke off is made up for by another. With
`--until-ci` a boot is one run, and a case ends in all guests at once, when the last of them is
known: were one booted on alone, what changes with time would look like what sets it apart.
"""

import functools
import hashlib
import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from schedlab import programs
from schedlab.bench import environment, guests
from schedlab.bench.guests import Guest
from schedlab.bench.plan import Plan, Turn, in_turn
from schedlab.bench.program import Ended
from schedlab.bench.request import BOOTS, BOOTS_UNTIL, Request, last_series
from schedlab.bench.suite import Case
from schedlab.bench.work import FAILURES_MAX, CampaignRun
from schedlab.digests import timestamp
from schedlab.kernel import play, result, vm
from schedlab.report.progress import Progress
from schedlab.store.measurements import FAILED, Campaign, Measurements, Repetition

# Where a guest has what a command may use.
PROGRAM, WORK = "/bin/schedlab-bench", "/tmp"
# Between two programs: what was started ends, and here the repetition is committed.
PAUSE_NS = 50_000_000
# Until a guest speaks: emulated, a large policy takes a while to be verified.
QUIET_S = 120.0
# Until its first line, and in all, beyond what the programs themselves may take.
BOOT_S, WALL_S = 300.0, 600.0


# A guest and the number of one of its boots.
Place = tuple[Guest, int]


def order(several: Sequence[Guest], numbers: Sequence[int], seed: int) -> list[Place]:
    """Every guest with every number of a boot, number by number; see `in_turn`."""
    return [(one, number) for number in numbers for one in in_turn(several, f"{seed} boot", number)]


def begin(request: Request, kept: Measurements, command: str, notes: Progress) -> "Boots":
    """Finds kernels, QEMU, programs and policies, and what of the campaigns is there already; tells
    what is left out, and what makes results worse. Errors are those of `guests`."""
    request = guests.restricted(request, notes.tell)
    program = programs.BENCH.find().read_bytes()
    asked = guests.found(request, notes.tell)
    host = environment.capture()
    for warning in guests.warnings(asked[0], host):
        notes.note(warning.text)
    executables = {"/init": programs.GUEST.find().read_bytes(), PROGRAM: program}
    plan = request.plan({})

    def campaign(guest: Guest, number: int) -> Campaign:
        of_policy = replace(plan, policies=[guest.policy])
        return request.campaign(of_policy, number, guests.condition(guest, host), command)

    def boots(nr_boots: int) -> "Boots":
        places = itertools.product(asked, range(1, nr_boots + 1))
        return Boots(plan, {place: campaign(*place) for place in places}, kept, host, executables)

    nr_boots = request.boots or (BOOTS if request.until is None else BOOTS_UNTIL)
    if request.again:
        # As many more as were asked for, once all that there are are complete.
        series = [last_series(kept, functools.partial(campaign, guest)) for guest in asked]
        highest = max(nr_boots, *series)
        nr_boots = highest + nr_boots * boots(highest).is_complete
    return boots(nr_boots)


@dataclass
class Boots:
    """The boots of a comparison, on their way; what `RunHere` is for a campaign on this machine."""

    plan: Plan
    """What every boot measures, but for the policy."""
    campaigns: Mapping[Place, Campaign]
    """Of each guest and number of a boot, all of one suite and one machine."""
    kept: Measurements
    host: Mapping[str, Any]
    """The environment of this machine."""
    executables: Mapping[str, bytes]
    """The programs of every guest."""
    tell: Callable[[str], None] = lambda text: None
    """Called with what went wrong, as the next with what is measured now."""
    begins: Callable[[str], None] = lambda text: None
    # In a row.
    _lost: Counter[Guest] = field(default_factory=Counter)
    _runs: dict[Place, "BootRun"] = field(default_factory=dict)
    _spent_s: list[float] = field(default_factory=list)
    # No case is one of which nobody knows how long it takes: all are taken to be alike here.
    untimed = ()

    def __post_init__(self) -> None:
        self.guests = list(dict.fromkeys(guest for guest, _ in self.campaigns))
        self.numbers = sorted({number for _, number in self.campaigns})
        self.campaign = next(iter(self.campaigns.values()))
        self._failures = {guest: Counter() for guest in self.guests}
        for (guest, number), campaign in self.campaigns.items():
            # One run, and made whole: it is the boots that are looked at.
            plan = replace(self.plan, policies=[guest.policy], until=None)
            values = {"bench": PROGRAM, "work": WORK, "nr_cpus": guest.platform.nr_cpus}
            base = (plan, campaign, self.kept, str(uuid.uuid4()), values)
            shared = {"failures": self._failures[guest], "tell": lambda text: self.tell(text)}
            self._runs[guest, number] = BootRun(*base, boots=self, guest=guest, **shared)
        self.tallies = [run.tally for run in self._runs.values()]

    @property
    def is_complete(self) -> bool:
        """Whether every boot has all its repetitions, of those that the width asked for takes."""
        return not any(self._turns(*place) for place in self._runs)

    def left_s(self) -> float | None:
        """How long it will still take, from what it took so far; None if nothing tells."""
        if not self._spent_s:
            return None
        nr_left = sum(tally.nr_planned - tally.nr_done for tally in self.tallies)
        return nr_left * sum(self._spent_s) / len(self._spent_s)

    def measure(self) -> None:
        """Boots whatever is not complete yet.

        Two boots of a guest that are lost in a row end the trials with it, and two failures in a
        row those with a case in it, until the command is given again. Raises StoreError if a
        repetition cannot be kept, NativeError if a machine cannot be started.
        """
        # In the order in which they were named: what others are compared with is the first.
        for campaign in self.campaigns.values():
            self.kept.begin(campaign)
        for guest, number in order(self.guests, self.numbers, self.plan.seed):
            if turns := self._turns(guest, number, self._given_up()):
                why = self._boot(guest, number, turns)
                self._lost[guest] = self._lost[guest] + 1 if why else 0
                if why:
                    self.tell(f"error: boot {number} of {guest.name}: {why}")

    def start(self, guest: Guest, job: play.Job, limits: vm.Limits) -> vm.Boot:
        """Boots a guest with a job; two kernels are told apart by their boots, so none is kept."""
        options = {"executables": self.executables, "keep": False, "limits": limits}
        return play.start(guest.platform, job, **options)

    def series(self) -> Iterator[tuple[str, list[float], int]]:
        """As `RunHere.series`, with a value a boot."""
        for case in self.plan.cases:
            for guest in self.guests:
                name = f"{case.name}, {guest.name}" if len(self.guests) > 1 else case.name
                yield name, self._medians(guest, case, self.numbers), len(self.numbers)

    def _given_up(self) -> set[tuple[Guest, str]]:
        return {
            (guest, case.name)
            for guest, case in itertools.product(self.guests, self.plan.cases)
            if max(self._failures[guest][case.name, guest.policy], self._lost[guest])
            >= FAILURES_MAX
        }

    def _turns(
        self, guest: Guest, number: int, given_up: Collection[tuple[Guest, str]] = ()
    ) -> list[Turn]:
        run = self._runs[guest, number]
        turns = run.tally.turns(run.boot)
        cases = {
            turn.case.name: turn.case for turn in turns if (guest, turn.case.name) not in given_up
        }
        wanted = {name for name in cases if not self._is_known(cases[name], number, given_up)}
        return [turn for turn in turns if turn.case.name in wanted]

    def _is_known(self, case: Case, number: int, given_up: Collection[tuple[Guest, str]]) -> bool:
        """Whether the boots before this number know a case as well as is asked for, in all guests
        but those that are given up, which would never be done.

        Boots of this number have no say, so that a round that broke off goes on as it began.
        """
        if self.plan.until is None:
            return False
        # SciPy takes longer to load than many a repetition takes.
        from schedlab.statistics import stopping

        before = [one for one in self.numbers if one < number]
        return all(
            stopping.settled(self._medians(guest, case, before), self.plan.until, len(self.numbers))
            for guest in self.guests
            if (guest, case.name) not in given_up
        )

    def _medians(self, guest: Guest, case: Case, numbers: Sequence[int]) -> list[float]:
        """A median of each of these boots that has the case whole."""
        counted = [self._runs[guest, one].tally.counted(case, guest.policy) for one in numbers]
        whole = [some for some in counted if len(some) == self.plan.repetitions[case.name]]
        return [median(one.value for one in some) for some in whole]

    def _boot(self, guest: Guest, number: int, turns: Sequence[Turn]) -> str | None:
        """Makes these turns in one boot; gives why some are missing, None if none is."""
        run = self._runs[guest, number]
        run.turns = turns
        began_s, nr_before = time.monotonic(), run.tally.nr_done
        limits_s = [turn.case.benchmark.timeout_s for turn in turns]
        limits = vm.Limits(BOOT_S, WALL_S + sum(limits_s), QUIET_S + max(limits_s))
        self.begins(f"boot {number} of {guest.name}")
        with self.start(guest, run.job(), limits) as booted:
            for line in booted:
                for record in result.parse([line]):
                    run.hear(record, booted)
        if booted.failed_start:
            self.tell(
                f"note: boot {number} of {guest.name} was started twice: before the first program"
                f" of the first one, {booted.failed_start}"
            )
        if nr_made := run.tally.nr_done - nr_before:
            self._spent_s += [(time.monotonic() - began_s) / nr_made] * nr_made
        return run.why_missing(booted)


@dataclass
class BootRun(CampaignRun):
    """One boot's campaign: what the guest tells becomes repetitions, each committed at once."""

    boots: Boots = field(kw_only=True)
    guest: Guest = field(kw_only=True)
    turns: Sequence[Turn] = ()
    """What it is booted for."""
    nr_made: int = 0
    why: str = ""
    # Its program began: when, and what was read then.
    _begun: tuple[str, environment.Reading] | None = None
    # Its program ended; whether the policy was in force till then is told by the next record.
    _open: Repetition | None = None

    def job(self) -> play.Job:
        """What the guest is to do: tell of itself, then each turn, and a pause after it."""
        made = play.Job()
        made.add("read", paths=list(guests.PATHS))
        for turn in self.turns:
            limit_ns = round(turn.case.benchmark.timeout_s * 1e9)
            made.add("command", argv=list(self.command(turn)), time_limit_ns=limit_ns)
            made.add("wait", wall_ns=PAUSE_NS)
        if self.guest.object is not None:
            made.load(self.guest.object.read_bytes(), dict(self.guest.settings))
        return made

    def hear(self, record: Mapping[str, Any], booted: vm.Boot) -> None:
        """Takes in one record, as it comes."""
        kind = record["record"]
        was_open = self._open is not None
        if kind == "ejected":
            self._close(_ejection(self.guest, record))
        elif kind in ("started", "detached", "done"):
            self._close(None)
        if kind in ("refused", "error", "ejected"):
            self.why = self.why or _sentence(self.guest, record, was_open)
        elif kind == "files":
            self._surround(record["texts"])
        elif kind == "started" and (turn := self._turn(record)):
            place = f"{self.guest.name}, boot {self.campaign.series}"
            self.boots.begins(f"{place}: {self.title(turn)}")
            self._begun = timestamp(), environment.Reading.now(booted.pid)
        elif kind == "finished" and (turn := self._turn(record)):
            (started_at, before), ended = self._begun, ended_of(record)
            facts = before.since()[1] | {"failure": ended.failure}
            self._open = self.repetition(turn, started_at, ended, facts)

    def why_missing(self, booted: vm.Boot) -> str | None:
        """Why turns are missing now that the machine is gone; None if none is."""
        if self.nr_made == len(self.turns):
            return None
        made = f"{self.nr_made} of {len(self.turns)} repetitions were made"
        if self.why:
            sentence, *hint = self.why.split("\n", 1)
            return "\n".join([f"{sentence}; {made}", *hint])
        return "\n  ".join([f"{booted.message}; {made}", *vm.evidence(booted.console)])

    def _turn(self, record: Mapping[str, Any]) -> Turn | None:
        """The turn that a piece of work is; None for a pause, or for reading files."""
        place, rest = divmod(record["index"] - 1, 2)
        return self.turns[place] if rest == 0 and place >= 0 else None

    def _surround(self, texts: Mapping[str, str]) -> None:
        guest, campaign, host = self.guest, self.campaign, self.boots.host
        facts = guests.facts(guest, texts, campaign.condition, host) | {"boot_id": self.boot}
        digest = hashlib.sha256(self.boots.executables[PROGRAM]).hexdigest()
        facts["tools"]["schedlab-bench"] = digest[: guests.DIGITS]
        warnings = guests.warnings(guest, host)
        self.surroundings = self.kept.surround(campaign.id, timestamp(), facts, warnings)

    def _close(self, ejection: str | None) -> None:
        """Commits the repetition that was made last, which an ejection makes a failed one."""
        if self._open is None:
            return
        repetition, self._open = self._open, None
        if ejection:
            manifest = {**repetition.manifest, "failure": ejection}
            repetition = replace(repetition, status=FAILED, value=None, manifest=manifest)
        self.commit(repetition, f" in boot {self.campaign.series} of {self.guest.name}")
        # What an ejection spoilt was not made.
        self.nr_made += ejection is None


def ended_of(record: Mapping[str, Any]) -> Ended:
    """A program's end from a guest's record of it; a guest does not tell errors from output."""
    status, number = record["status"], record["signal"]
    code = -number if status is None and number else status or 0
    failed = record["timed_out"] or code != 0
    same = {name: record[name] for name in ("timed_out", "wall_ns", "user_ns", "system_ns")}
    output = record["output"]
    return Ended(status=code, stdout=output, stderr=output if failed else "", **same)


def _ejection(guest: Guest, record: Mapping[str, Any]) -> str:
    words = ": ".join(filter(None, (record["reason"], record["message"])))
    return f"{guest.policy} was no longer in force: the kernel ended it: {words}"


def _sentence(guest: Guest, record: Mapping[str, Any], is_told: bool) -> str:
    """Why a boot was lost, in the guest's own words unless a repetition was told with them."""
    hint = f"\n  hint: {record['hint']}" if record.get("hint") else ""
    if record["record"] == "ejected":
        ended = f"{guest.policy} was no longer in force" if is_told else _ejection(guest, record)
        return ended + hint
    if record["record"] == "refused":
        return f"the kernel did not take {guest.policy}: {record['reason']}{hint}"
    return record["message"]
