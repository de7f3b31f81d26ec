"""`schedlab bench --on vm`: what can be measured in a guest, and what has to be there for it.

Everything that can be missing is found here, before anything is booted. In a guest there is neither
a shell nor a package, only `schedlab-bench`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedlab import catalogue, programs
from schedlab.bench import environment, guest_facts, preparation
from schedlab.bench.boots import Boots, Guest, booted_with
from schedlab.bench.environment import KERNEL_OWN
from schedlab.bench.plan import Asked
from schedlab.bench.suite import Benchmark
from schedlab.bench.work import Plan, Work, identity
from schedlab.errors import SchedlabError
from schedlab.kernel import loading
from schedlab.kernel import platform as kernel_platform
from schedlab.kernel.platform import Platform
from schedlab.report.progress import Progress
from schedlab.shown import print_note
from schedlab.store.measurements import Campaign, Measurements

PROGRAM_PLACE = "{bench}"


def why_not(benchmark: Benchmark) -> str | None:
    """Why a benchmark cannot be measured in a guest; None if it can."""
    if benchmark.needs:
        return f"needs {', '.join(benchmark.needs)}"
    if benchmark.inputs:
        return f"needs the input {', '.join(benchmark.inputs)}"
    if benchmark.prepare or benchmark.cleanup:
        return "has commands before or after it"
    if isinstance(benchmark.command, str):
        return "needs a shell"
    if benchmark.command[0] != PROGRAM_PLACE:
        return f"needs {benchmark.command[0]}"
    return None


def restrict(asked: Asked) -> Asked:
    """The same, without the benchmarks that no guest can run; these are named on stderr.

    Raises
    ------
    SchedlabError
        If there is no other.
    """
    reasons = {case.benchmark.name: why_not(case.benchmark) for case in asked.cases}
    told = ", ".join(f"{name} ({why})" for name, why in reasons.items() if why)
    able = [case for case in asked.cases if reasons[case.benchmark.name] is None]
    if not able:
        raise SchedlabError(
            f"nothing of suite {asked.suite.name} can be measured in a virtual machine: {told}",
            f'give a benchmark whose command is a list that begins with "{PROGRAM_PLACE}", with'
            " neither needs, inputs, prepare nor cleanup; `schedlab bench quick --on vm` has some",
        )
    if told:
        print_note(f"left out in a virtual machine: {told}")
    return dataclasses.replace(asked, cases=able)


def begin(asked: Asked, kept: Measurements, command: str, quiet: bool) -> Boots:
    """Finds kernels, QEMU, programs and policies, and what of the campaigns is there already.

    Raises
    ------
    SchedlabError, NativeError
        If something is missing, or a kernel does not take a policy.
    """
    asked = restrict(asked)
    program = programs.BENCH.find()
    machines = asked.machines
    records = [kernel_platform.find_record(name) for name in machines.kernels or (None,)]
    found = {_platform(asked, record): record["hz"] for record in records}
    _refuse_same_image(found)
    guests = _guests(asked, found)
    host = environment.capture()
    for warned in () if quiet else guest_facts.warnings(guests[0].platform, host):
        print_note(f"warning: {warned.what}\n  what to do: {warned.to_do}")
    plans = {policy: asked.plan({}, [policy]) for policy in asked.policies}
    series = _Series(asked, plans, host, kept, command)
    numbers = range(1, series.last(guests) + 1)
    places = itertools.product(guests, numbers)
    return Boots(
        guests=guests,
        numbers=numbers,
        plans=plans,
        campaigns={place: series.campaign(*place) for place in places},
        kept=kept,
        host=host,
        tools={"schedlab-bench": preparation.program_digest(program)},
        start=booted_with(programs.GUEST.find().read_bytes(), program.read_bytes()),
    )


def measure(boots: Boots, quiet: bool) -> None:
    """Makes what is missing, and says on stderr where that is and what goes wrong."""
    progress = Progress(boots.nr_planned, quiet)

    def says(text: str) -> None:
        progress.clear()
        print_note(text)

    boots.says = says
    boots.begins = lambda text: progress.tell(text, boots.nr_done, boots.left_s())
    try:
        boots.measure()
    finally:
        progress.clear()


def _platform(asked: Asked, record: Mapping[str, Any]) -> Platform:
    machines = asked.machines
    found = kernel_platform.platform_of(record, machines.cpus, deterministic=False)
    return dataclasses.replace(found, memory_mib=machines.memory_mib)


def _refuse_same_image(found: Iterable[Platform]) -> None:
    names: dict[str, str] = {}
    for kernel in (platform.kernel for platform in found):
        other = names.setdefault(kernel.sha256, kernel.name)
        if other != kernel.name:
            raise SchedlabError(
                f"kernels {other} and {kernel.name} are the same image", "leave out one"
            )


def _guests(asked: Asked, found: Mapping[Platform, int | None]) -> list[Guest]:
    """Every kernel under every policy that it takes; each has to be under one at least.

    `found` has the ticks a second of each platform's kernel.
    """
    loaded = {
        policy: loading.object_of(policy) for policy in asked.policies if policy != KERNEL_OWN
    }
    if loaded and all(platform.kernel.sched_ext != "sound" for platform in found):
        without = "without --policies each kernel is measured under its own scheduler"
        raise _not_taken(next(iter(loaded)), next(iter(found)), without)
    guests = []
    for platform, hz in found.items():
        own = [Guest(platform, hz)] if KERNEL_OWN in asked.policies else []
        takes = platform.kernel.sched_ext == "sound"
        if loaded and not takes:
            if not own:
                raise _not_taken(
                    next(iter(loaded)),
                    platform,
                    f"with {KERNEL_OWN} among --policies, it is measured under its own scheduler",
                )
            print_note(
                f"kernel {platform.kernel.name} takes no policies: only its own scheduler is"
                " measured in it"
            )
        guests += own
        if takes:
            guests += [
                Guest(platform, hz, policy, built, tuple(sorted(of_set.items())))
                for policy, (_, built, of_set) in loaded.items()
            ]
    return guests


def _not_taken(policy: str, platform: Platform, else_: str) -> SchedlabError:
    kernel = platform.kernel
    return SchedlabError(
        f"policy {policy} cannot be loaded into kernel {kernel.name} ({kernel.release}), which has"
        " no sched_ext that works",
        f"name a --kernel that takes policies, see `schedlab kernels list`; {else_}",
    )


@dataclass(frozen=True)
class _Series:
    """The campaigns of boots: one a guest and number, which is its series."""

    asked: Asked
    plans: dict[str, Plan]
    host: dict[str, Any]
    kept: Measurements
    command: str

    def last(self, guests: Sequence[Guest]) -> int:
        """The highest number of a boot that is to be made.

        With --again as many more as were asked for, once all that there are are complete.
        """
        asked, before = self.asked, {one.id: one for one in self.kept.campaigns()}
        boots = asked.machines.boots
        if not asked.again:
            return boots
        highest = max(boots, *(self._highest(guest, before) for guest in guests))
        places = itertools.product(guests, range(1, highest + 1))
        is_complete = all(self._is_complete(self.campaign(*place)) for place in places)
        return highest + boots if is_complete else highest

    def _highest(self, guest: Guest, before: dict[str, Campaign]) -> int:
        number = 0
        while self.campaign(guest, number + 1).id in before:
            number += 1
        return number

    def _is_complete(self, campaign: Campaign) -> bool:
        plan = self.plans[campaign.definition["policies"][0]]
        none = contextlib.nullcontext
        work = Work(plan, campaign, self.kept, 0, "", {}, Path(), none, makes_up=False)
        return work.is_complete

    def campaign(self, guest: Guest, number: int) -> Campaign:
        """The campaign of one boot, whether the store has it or not."""
        plan, asked = self.plans[guest.policy], self.asked
        condition = guest_facts.condition(guest.platform, guest.policy, self.host)
        if guest.object is not None:
            # A policy that changed is measured anew.
            what = guest.object.read_bytes() + repr(guest.settings).encode()
            condition["policy"] = hashlib.sha256(what).hexdigest()[: guest_facts.DIGITS]
        return Campaign(
            id=identity(asked.suite.name, plan, asked.label, number, condition),
            suite=asked.suite.name,
            definition=plan.definition,
            label=asked.label,
            series=number,
            condition=condition,
            command=self.command,
            version=catalogue.core_version(),
            asked_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
