"""What an experiment varies: parameters of its workload, tunables of its policies, or how many CPUs
its machines have.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from schedlab.errors import BadValue, UnknownName
from schedlab.values import Value

# As the core has it: crates/scenario/src/model/machine.rs.
CPUS_MAX = 4096
# What the size of machines is called where it is varied.
CPUS = "cpus"

Items = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Combination:
    """One value of each thing that is varied, in `all`, and by what it belongs to.

    `parameters` are the workload's; `cpus` is the size of the machine, None if that is not varied.
    """

    all: Mapping[str, Value]
    parameters: Items
    cpus: int | None
    _tunables: Mapping[str, Mapping[str, Value]]

    def tunables(self, label: str) -> Items:
        """Those of a policy."""
        return tuple(self._tunables.get(label, {}).items())


def machine_size(place: str, value: object) -> int:
    """How many CPUs a simulated machine is to have; raises BadValue if it cannot."""
    if type(value) is int and 1 <= value <= CPUS_MAX:
        return value
    raise BadValue(place, value, f"is not a whole number of CPUs from 1 to {CPUS_MAX:,}")


def tunable_of(name: str, labels: Collection[str]) -> tuple[str, str] | None:
    """The policy's label and the tunable that a varied name such as "cfs.latency_ns" means; None
    if it names neither."""
    label, _, tunable = name.rpartition(".")
    return (label, tunable) if label in labels and tunable else None


def combinations(
    varied: Mapping[str, Sequence[Value]],
    parameters: Collection[str],
    labels: Sequence[str],
    workload: str,
) -> list[Combination]:
    """Every combination of what is varied, for policies with these labels and a workload with these
    parameters.

    Raises SchedlabError for a name that is neither a parameter nor a tunable nor `cpus`, or if a
    machine cannot have so many CPUs.
    """
    for name in varied:
        if name not in parameters and not tunable_of(name, labels) and name != CPUS:
            raise _unknown(name, parameters, labels, workload)
    made = []
    for values in itertools.product(*varied.values()):
        one = dict(zip(varied, values, strict=True))
        own, cpus = [], None
        tunables: dict[str, dict[str, Value]] = {}
        for name, value in one.items():
            if name in parameters:
                own.append((name, value))
            elif found := tunable_of(name, labels):
                tunables.setdefault(found[0], {})[found[1]] = value
            else:
                cpus = machine_size(f"--vary {CPUS}", value)
        made.append(Combination(one, tuple(own), cpus, tunables))
    return made


def _unknown(
    name: str, parameters: Collection[str], labels: Sequence[str], workload: str
) -> Exception:
    label, dot, tunable = name.rpartition(".")
    if dot and not tunable:
        return BadValue("--vary", name, "names no tunable", f"write {labels[0]}.TUNABLE")
    if dot and label:
        return UnknownName("policy", label, labels, "in --vary (it is not in this experiment)")
    if dot:
        hint = f"write {labels[0]}.{tunable}"
        return BadValue("--vary", name, "does not say of which policy", hint)
    error = UnknownName("parameter", name, [*parameters, CPUS], f"of workload {workload}")
    tunables = " or ".join(f"{label}.{name}" for label in labels)
    error.hint += f"; a policy's tunable is varied by {tunables}"
    return error
