"""`schedlab bench --on vm`: what can be measured in a guest, and what has to be there for it.

Everything that can be missing is found here, before anything is booted. In a guest there is neither
a shell nor a package, only `schedlab-bench`.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from schedlab import programs
from schedlab.bench import environment, guest_facts, preparation
from schedlab.bench.boots import Boots, Guest, booted_with
from schedlab.bench.environment import KERNEL_OWN
from schedlab.bench.plan import Tally
from schedlab.bench.request import CPUS, Request, last_series
from schedlab.bench.suite import Benchmark
from schedlab.errors import SchedlabError
from schedlab.kernel import loading
from schedlab.kernel import platform as kernel_platform
from schedlab.kernel.platform import Platform
from schedlab.store.measurements import Campaign, Measurements

PROGRAM_PLACE = "{bench}"


def begin(
    request: Request,
    kept: Measurements,
    command: str,
    tell: Callable[[str], None],
    note: Callable[[str], None],
) -> Boots:
    """Finds kernels, QEMU, programs and policies, and what of the campaigns is there already.

    `tell` is called with what is left out and why, `note` with what makes results worse. Raises
    SchedlabError or NativeError if something is missing, or a kernel does not take a policy.
    """
    request = restricted(request, tell)
    program = programs.BENCH.find()
    guests = _guests(request, _platforms(request), tell)
    host = environment.capture()
    for warning in guest_facts.warnings(guests[0].platform, host):
        note(warning.text)
    plan = request.plan({})

    def campaign(guest: Guest, number: int) -> Campaign:
        of_policy = dataclasses.replace(plan, policies=[guest.policy])
        return request.campaign(of_policy, number, _condition(guest, host), command)

    def is_complete(one: Campaign) -> bool:
        of_boot = dataclasses.replace(plan, policies=one.definition["policies"])
        return Tally(of_boot, one.series, kept.repetitions(one.id)).is_complete

    nr_boots = request.nr_boots
    if request.again:
        # As many more as were asked for, once all that there are are complete.
        highest = [last_series(kept, lambda n, guest=guest: campaign(guest, n)) for guest in guests]
        places = itertools.product(guests, range(1, max(nr_boots, *highest) + 1))
        done = all(is_complete(campaign(*place)) for place in places)
        nr_boots = max(nr_boots, *highest) + nr_boots * done
    places = itertools.product(guests, range(1, nr_boots + 1))
    return Boots(
        plan=plan,
        campaigns={place: campaign(*place) for place in places},
        kept=kept,
        host=host,
        tools={"schedlab-bench": preparation.program_digest(program)},
        start=booted_with(programs.GUEST.find().read_bytes(), program.read_bytes()),
    )


def restricted(request: Request, tell: Callable[[str], None]) -> Request:
    """The same, without the benchmarks that no guest can run; these are told."""
    reasons = {case.benchmark.name: why_not(case.benchmark) for case in request.cases}
    left_out = ", ".join(f"{name} ({why})" for name, why in reasons.items() if why)
    able = [name for name, why in reasons.items() if why is None]
    if not able:
        raise SchedlabError(
            f"nothing of suite {request.suite.name} can be measured in a virtual machine:"
            f" {left_out}",
            f'give a benchmark whose command is a list that begins with "{PROGRAM_PLACE}", with'
            " neither needs, inputs, prepare nor cleanup; `schedlab bench quick --on vm` has some",
        )
    if left_out:
        tell(f"left out in a virtual machine: {left_out}")
    return dataclasses.replace(request, only=able)


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
    return None if benchmark.command[0] == PROGRAM_PLACE else f"needs {benchmark.command[0]}"


def _platforms(request: Request) -> dict[Platform, int | None]:
    """The machine of each kernel, with the ticks a second of that; refuses one kernel twice."""
    memory_mib = request.memory_mib or kernel_platform.MEMORY_MIB
    platforms, names = {}, {}
    for record in [kernel_platform.find_record(name) for name in request.kernels or (None,)]:
        made = kernel_platform.platform_of(record, request.cpus or CPUS, deterministic=False)
        other = names.setdefault(made.kernel.sha256, made.kernel.name)
        if other != made.kernel.name:
            why = f"kernels {other} and {made.kernel.name} are the same image"
            raise SchedlabError(why, "leave out one")
        platforms[dataclasses.replace(made, memory_mib=memory_mib)] = record["hz"]
    return platforms


def _guests(
    request: Request, platforms: Mapping[Platform, int | None], tell: Callable[[str], None]
) -> list[Guest]:
    """Every kernel under every policy that it takes, at least one each; `platforms` have ticks."""
    names = request.policy_names
    objects = {name: loading.object_of(name) for name in names if name != KERNEL_OWN}
    takes_policies = {one: one.kernel.sched_ext == "sound" for one in platforms}
    if objects and not any(takes_policies.values()):
        without = "without --policies each kernel is measured under its own scheduler"
        raise _not_taken(next(iter(objects)), next(iter(platforms)), without)
    guests = []
    for platform, hz in platforms.items():
        if KERNEL_OWN in names:
            guests.append(Guest(platform, hz))
        if takes_policies[platform]:
            guests += [
                Guest(platform, hz, policy, built, tuple(sorted(values.items())))
                for policy, (_, built, values) in objects.items()
            ]
        elif objects and KERNEL_OWN not in names:
            own = f"with {KERNEL_OWN} among --policies, it is measured under its own scheduler"
            raise _not_taken(next(iter(objects)), platform, own)
        elif objects:
            tell(
                f"kernel {platform.kernel.name} takes no policies: only its own scheduler is"
                " measured in it"
            )
    return guests


def _not_taken(policy: str, platform: Platform, way_out: str) -> SchedlabError:
    kernel = platform.kernel
    return SchedlabError(
        f"policy {policy} cannot be loaded into kernel {kernel.name} ({kernel.release}), which has"
        " no sched_ext that works",
        f"name a --kernel that takes policies, see `schedlab kernels list`; {way_out}",
    )


def _condition(guest: Guest, host: Mapping[str, Any]) -> dict[str, str]:
    condition = guest_facts.condition(guest.platform, guest.policy, host)
    if guest.object is not None:
        # A policy that changed is measured anew.
        content = guest.object.read_bytes() + repr(guest.settings).encode()
        condition["policy"] = hashlib.sha256(content).hexdigest()[: guest_facts.DIGITS]
    return condition
