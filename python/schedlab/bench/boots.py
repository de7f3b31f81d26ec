"""Measures the cases of a suite in virtual machines, one boot after the other.

Two kernels are told apart by their boots: repetitions within one share its memory layout and all
else that was settled when it was switched on. So each kernel, under each policy, is booted several
times, in turn with the others and in an order that follows from the seed; and each of these boots
is a campaign of its own, whose series is its number, in which the cases are repeated in blocks as
on a real machine. A repetition is committed the moment the guest tells of it; a boot that broke off
is made up for by another, which measures what is missing.

With `--until-ci` a boot is one run. Cases are given up round by round, in all guests at once: were
one guest booted on alone, what changes with time would look like what sets it apart.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from schedlab.bench import environment, guest_facts
from schedlab.bench.environment import KERNEL_OWN, TICKS_PER_S, Reading
from schedlab.bench.program import Ended
from schedlab.bench.suite import GIVEN, Case, fill
from schedlab.bench.work import (
    FAILURES_MAX,
    Plan,
    Turn,
    Work,
    facts_of_end,
    in_turn,
    last_words,
    value_of,
)
from schedlab.kernel import result, vm
from schedlab.kernel.platform import Platform
from schedlab.store.measurements import FAILED, OK, Campaign, Measurements, Repetition

# Where a guest has what a command may use.
PROGRAM, WORK = "/bin/schedlab-bench", "/tmp"
POLICY_OBJECT = "/policy.o"
# Between two programs: what was started ends, and here the repetition is committed.
PAUSE_NS = 50_000_000
# Until a guest speaks: emulated, a large policy takes a while to be verified.
QUIET_S = 120.0
# Beyond what the programs themselves may take; see `on_vm.LIMITS`.
BOOT_S, WALL_S = 300.0, 600.0


@dataclass(frozen=True)
class Guest:
    """What is booted: a machine with a kernel, and the policy that is loaded into it.

    `object` is the policy's, None under the kernel's own scheduler; `settings` are tunables that
    are set in it. `hz` are the kernel's ticks a second, None where the cache does not know.
    """

    platform: Platform
    hz: int | None = None
    policy: str = KERNEL_OWN
    object: Path | None = None
    settings: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """In messages: the kernel as the user named it, and the policy."""
        kernel = self.platform.kernel.name
        return kernel if self.policy == KERNEL_OWN else f"{self.policy} on {kernel}"


def order(guests: Sequence[Guest], numbers: Sequence[int], seed: int) -> list[tuple[Guest, int]]:
    """Every guest with every number of a boot: number by number, see `bench.in_turn`."""
    return [
        (guest, number) for number in numbers for guest in in_turn(guests, f"{seed} boot", number)
    ]


@dataclass
class Boots:
    """The boots of a comparison, on their way; what `Work` is for a campaign on this machine.

    Attributes
    ----------
    plans, campaigns : mapping
        What is measured under each policy; the campaign of each guest and number.
    host, tools : mapping
        The environment of this machine; versions of what runs in the guests.
    start : callable
        Boots a guest with a job, and gives a `vm.Boot`; another one in tests.
    says, begins : callable
        Called with what went wrong, and with what is measured now, in words.
    """

    guests: Sequence[Guest]
    numbers: Sequence[int]
    plans: Mapping[str, Plan]
    campaigns: Mapping[tuple[Guest, int], Campaign]
    kept: Measurements
    host: Mapping[str, Any]
    tools: Mapping[str, str]
    start: Callable[[Guest, Mapping[str, Any], vm.Limits], vm.Boot]
    says: Callable[[str], None] = lambda text: None
    begins: Callable[[str], None] = lambda text: None
    _works: dict[tuple[Guest, int], Work] = field(default_factory=dict)
    _lost: dict[Guest, int] = field(default_factory=dict)
    _failures: dict[tuple[Guest, str], int] = field(default_factory=dict)
    _spent_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for place in itertools.product(self.guests, self.numbers):
            self._works[place] = self._work(*place)

    @property
    def plan(self) -> Plan:
        """What every boot measures, but for the policy."""
        return next(iter(self.plans.values()))

    @property
    def campaign(self) -> Campaign:
        """One of the campaigns; all are of one suite and one machine."""
        return self.campaigns[self.guests[0], self.numbers[0]]

    @property
    def nr_done(self) -> int:
        """How many repetitions that count are kept."""
        return sum(work.nr_done for work in self._works.values())

    @property
    def nr_planned(self) -> int:
        """How many there may be at most."""
        return sum(work.nr_planned for work in self._works.values())

    @property
    def is_complete(self) -> bool:
        """Whether every boot has all its repetitions, of those that the width asked for takes."""
        return not any(self._missing(*place) for place in self._works)

    @property
    def failed(self) -> list[Repetition]:
        """The last failure of each case that is not done."""
        return [found for work in self._works.values() for found in work.failed]

    def left_s(self) -> float | None:
        """How long it will still take, from what it took so far; None if nothing tells."""
        if not self._spent_s:
            return None
        mean_s = sum(self._spent_s) / len(self._spent_s)
        return mean_s * (self.nr_planned - self.nr_done)

    def measure(self) -> None:
        """Boots whatever is not complete yet. Two boots of a guest that are lost in a row end the
        trials with it, and two failures in a row those with a case in its later boots, until the
        command is given again.

        Raises
        ------
        StoreError
            If a repetition cannot be kept; all before it are.
        NativeError
            If a machine cannot be started.
        """
        # In the order in which they were named: what others are compared with is the first.
        for campaign in self.campaigns.values():
            self.kept.begin(campaign)
        for guest, number in order(self.guests, self.numbers, self.plan.seed):
            # A guest that is given up has no say: nobody would ever be done.
            missing = self._missing(guest, number, self._is_hopeless)
            turns = [turn for turn in missing if not self._is_hopeless(guest, turn.case)]
            if not turns:
                continue
            why = self._boot(guest, number, self._works[guest, number], turns)
            self._lost[guest] = self._lost.get(guest, 0) + 1 if why else 0
            if why:
                self.says(f"error: boot {number} of {guest.name}: {why}")

    def count(self, guest: Guest, found: Repetition) -> None:
        """Remembers how often a case failed in a guest since it last did not."""
        place = (guest, found.case_name)
        self._failures[place] = self._failures.get(place, 0) + 1 if found.status == FAILED else 0

    def series(self) -> Iterator[tuple[str, list[float], int]]:
        """As `Work.series`, with a value a boot."""
        for case in self.plan.cases:
            for guest in self.guests:
                name = f"{case.name}, {guest.name}" if len(self.guests) > 1 else case.name
                yield name, self._medians(guest, case, self.numbers), len(self.numbers)

    def _missing(
        self,
        guest: Guest,
        number: int,
        has_no_say: Callable[[Guest, Case], bool] = lambda guest, case: False,
    ) -> list[Turn]:
        """What a boot is to have and has not; see `_is_settled`."""
        turns = self._works[guest, number].remaining()
        cases = {turn.case.name: turn.case for turn in turns}
        settled = {
            name for name, case in cases.items() if self._is_settled(case, number, has_no_say)
        }
        return [turn for turn in turns if turn.case.name not in settled]

    def _is_settled(
        self, case: Case, number: int, has_no_say: Callable[[Guest, Case], bool]
    ) -> bool:
        """Whether the boots before this number know a case as well as is asked for, in all guests
        that have a say.

        Of earlier rounds only, so that a round that was broken off is gone on with as it began.
        """
        if self.plan.until is None:
            return False
        # SciPy takes longer to load than many a repetition takes.
        from schedlab.statistics import stopping

        before = [one for one in self.numbers if one < number]
        return all(
            stopping.settled(self._medians(guest, case, before), self.plan.until, len(self.numbers))
            for guest in self.guests
            if not has_no_say(guest, case)
        )

    def _medians(self, guest: Guest, case: Case, numbers: Sequence[int]) -> list[float]:
        """One number of each of these boots that has the case whole, as comparisons take it."""
        found = [self._works[guest, one].measured(case, guest.policy) for one in numbers]
        whole = [of for of in found if len(of) == self.plan.repetitions[case.name]]
        return [median(one.value for one in of) for of in whole]

    def _is_hopeless(self, guest: Guest, case: Case) -> bool:
        """Whether the boots so far say that a case is to be left alone in a guest."""
        nr_failures = self._failures.get((guest, case.name), 0)
        return max(nr_failures, self._lost.get(guest, 0)) >= FAILURES_MAX

    def _work(self, guest: Guest, number: int) -> Work:
        """A boot's campaign as one on a machine that is switched on for it, and never before."""
        return Work(
            # One run, and made whole: it is the boots that are looked at.
            plan=replace(self.plans[guest.policy], until=None),
            campaign=self.campaigns[guest, number],
            kept=self.kept,
            surroundings=0,
            boot=str(uuid.uuid4()),
            values=dict(zip(GIVEN, (PROGRAM, WORK, guest.platform.nr_cpus), strict=True)),
            scratch=Path(WORK),
            # A guest is booted with its policy.
            in_force=contextlib.nullcontext,
            # No guest is told to go on, and another boot would be another run.
            makes_up=False,
        )

    def _boot(self, guest: Guest, number: int, work: Work, turns: Sequence[Turn]) -> str | None:
        """Makes these turns in one boot; gives why some are missing, None if none is."""
        told = Told(self, guest, number, work, turns)
        began_s, nr_before = time.monotonic(), self.nr_done
        longest_s = max(turn.case.benchmark.timeout_s for turn in turns)
        all_s = sum(turn.case.benchmark.timeout_s for turn in turns)
        limits = vm.Limits(BOOT_S, WALL_S + all_s, QUIET_S + longest_s)
        self.begins(f"boot {number} of {guest.name}")
        with self.start(guest, job(guest, work, turns), limits) as booted:
            for line in booted:
                for record in result.parse([line]):
                    told.hear(record, booted)
        if booted.failed_start:
            self.says(
                f"note: boot {number} of {guest.name} was started twice: before the first program"
                f" of the first one, {booted.failed_start}"
            )
        if nr_made := self.nr_done - nr_before:
            self._spent_s += [(time.monotonic() - began_s) / nr_made] * nr_made
        return told.why_missing(booted)


@dataclass
class Told:
    """What a guest told of its boot so far: records become repetitions, each committed at once."""

    boots: Boots
    guest: Guest
    number: int
    work: Work
    turns: Sequence[Turn]
    nr_made: int = 0
    why: str = ""
    _begun: Begun | None = None
    # Its program ended; whether the policy was in force till then is told by the next record.
    _open: Repetition | None = None

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
            self.boots.begins(f"{self.guest.name}, boot {self.number}: {self.work.title(turn)}")
            self._begun = Begun.now(booted.pid)
        elif kind == "finished" and (turn := self._turn(record)):
            self._open = self._repetition(turn, record, booted.pid)

    def why_missing(self, booted: vm.Boot) -> str | None:
        """Why turns are missing now that the machine is gone; None if none is."""
        if self.nr_made == len(self.turns):
            return None
        made = f"{self.nr_made} of {len(self.turns)} repetitions were made"
        if self.why:
            said, *hint = self.why.split("\n", 1)
            return "\n".join([f"{said}; {made}", *hint])
        return "\n  ".join([f"{booted.message}; {made}", *vm.evidence(booted.console)])

    def _turn(self, record: Mapping[str, Any]) -> Turn | None:
        """The turn that a piece of work is; None for a pause, or for reading files."""
        place, rest = divmod(record["index"] - 1, 2)
        return self.turns[place] if rest == 0 and place >= 0 else None

    def _surround(self, texts: Mapping[str, str]) -> None:
        platform, campaign = self.guest.platform, self.work.campaign
        boots = self.boots
        facts = guest_facts.facts(texts, platform, self.guest.hz, campaign.condition, boots.host)
        facts["boot_id"] = self.work.boot
        facts["tools"] |= boots.tools
        found = guest_facts.warnings(platform, boots.host)
        self.work.surroundings = boots.kept.surround(
            campaign.id, _now(), facts, [[warned.what, warned.to_do] for warned in found]
        )

    def _repetition(self, turn: Turn, record: Mapping[str, Any], pid: int) -> Repetition:
        ended = ended_of(record)
        manifest = self.work.manifest(turn, _command(self.work, turn))
        manifest |= facts_of_end(ended) | self._begun.until(pid)
        manifest |= last_words(turn.case.benchmark, ended)
        value, failure = None, ended.failure
        if failure is None:
            value, failure = value_of(turn.case.benchmark.record, ended)
        return self.work.repetition(turn, self._begun.started_at, manifest, value, failure)

    def _close(self, ejection: str | None) -> None:
        """Commits the repetition that was made last, which an ejection makes a failed one."""
        if self._open is None:
            return
        found, self._open = self._open, None
        if ejection:
            manifest = {**found.manifest, "failure": ejection}
            found = replace(found, status=FAILED, value=None, manifest=manifest)
        self.work.commit(found)
        self.boots.count(self.guest, found)
        # What an ejection spoilt was not made.
        self.nr_made += ejection is None
        if found.status != OK:
            where = f"{found.case_name} failed in boot {self.number} of {self.guest.name}"
            said = found.manifest["stderr"].strip().splitlines()[-vm.LAST_LINES :]
            self.boots.says("\n  ".join([f"error: {where}: {found.manifest['failure']}", *said]))


@dataclass(frozen=True)
class Begun:
    """The moment at which a guest's program began, on this machine."""

    started_at: str
    reading: Reading
    own_ns: int | None

    @classmethod
    def now(cls, pid: int) -> Begun:
        """At this moment; `pid` is QEMU's."""
        return cls(_now(), Reading.now(), _own_ns(pid))

    def until(self, pid: int) -> dict[str, Any]:
        """What others than QEMU and we did on this machine since, see `environment`."""
        now, nr_cpus = _own_ns(pid), os.cpu_count() or 1
        if now is None or self.own_ns is None:
            unknown = "what others did is not known: QEMU was gone before it could be asked"
            return {"foreign_ns": None, "steal_ns": None, "throttled": None, "noisy": [unknown]}
        own_ns = now - self.own_ns
        return environment.disturbance(self.reading, Reading.now(), own_ns, nr_cpus)


def job(guest: Guest, work: Work, turns: Sequence[Turn]) -> dict[str, Any]:
    """What a guest is to do: tell of itself, then each turn, and a pause after it."""
    todo: list[dict[str, Any]] = [{"kind": "read", "paths": list(guest_facts.PATHS)}]
    for turn in turns:
        limit_ns = round(turn.case.benchmark.timeout_s * 1e9)
        argv = _command(work, turn)
        todo.append({"kind": "command", "argv": argv, "time_limit_ns": limit_ns})
        todo.append({"kind": "wait", "wall_ns": PAUSE_NS})
    made: dict[str, Any] = {"work": todo}
    if guest.object is not None:
        set_ = {name: str(value) for name, value in guest.settings}
        made["policy"] = {"object": POLICY_OBJECT, "set": set_}
    return made


def booted_with(init: bytes, program: bytes) -> Callable:
    """`Boots.start`: boots with the guest's program and that of the benchmarks."""

    def start(guest: Guest, todo: Mapping[str, Any], limits: vm.Limits) -> vm.Boot:
        files = {} if guest.object is None else {POLICY_OBJECT: guest.object.read_bytes()}
        platform = guest.platform
        return vm.start(
            platform.kernel.name,
            todo,
            files,
            executables={"/init": init, PROGRAM: program},
            # Two kernels are told apart by their boots.
            keep=False,
            cpus=platform.cpus,
            memory_mib=platform.memory_mib,
            accelerator=platform.accelerator,
            limits=limits,
        )

    return start


def ended_of(record: Mapping[str, Any]) -> Ended:
    """A program's end from a guest's record of it; a guest does not tell errors from output."""
    status, number = record["status"], record["signal"]
    code = -number if status is None and number else status or 0
    failed = record["timed_out"] or code != 0
    return Ended(
        status=code,
        timed_out=record["timed_out"],
        wall_ns=record["wall_ns"],
        user_ns=record["user_ns"],
        system_ns=record["system_ns"],
        stdout=record["output"],
        stderr=record["output"] if failed else "",
    )


def _command(work: Work, turn: Turn) -> list[str]:
    return list(fill(turn.case.benchmark.command, {**work.values, **turn.case.values}))


def _ejection(guest: Guest, record: Mapping[str, Any]) -> str:
    said = ": ".join(filter(None, (record["reason"], record["message"])))
    return f"{guest.policy} was no longer in force: the kernel ended it: {said}"


def _sentence(guest: Guest, record: Mapping[str, Any], is_told: bool) -> str:
    """Why a boot was lost, in the guest's own words unless a repetition was told with them."""
    hint = f"\n  hint: {record['hint']}" if record.get("hint") else ""
    if record["record"] == "ejected":
        ended = f"{guest.policy} was no longer in force" if is_told else _ejection(guest, record)
        return ended + hint
    if record["record"] == "refused":
        return f"the kernel did not take {guest.policy}: {record['reason']}{hint}"
    return record["message"]


def _own_ns(pid: int) -> int | None:
    """CPU time of QEMU and of this process; None once QEMU is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    ours_ns = round((used.ru_utime + used.ru_stime) * 1e9)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # After the name in brackets, which may hold anything, user and system time are the 12th and
    # 13th field. Source: proc(5).
    fields = stat.rpartition(")")[2].split()
    return ours_ns + (int(fields[11]) + int(fields[12])) * 1_000_000_000 // TICKS_PER_S


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
