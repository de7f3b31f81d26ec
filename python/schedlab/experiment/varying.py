"""What an experiment varies: parameters of its workload, tunables of its policies, or how many CPUs
its machines have.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schedlab.errors import BadValue, UnknownName
from schedlab.experiment.sampling import Sample, place_of
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


class Combinations(Sequence[Combination]):
    """Every combination of what is varied, for policies with these labels and a workload with these
    parameters; where there is a sample, each with every point of it. Each is made when it is asked
    for.

    Raises SchedlabError for a name that is neither a parameter nor a tunable nor `cpus`, or, where
    that is asked for, if a machine cannot have so many CPUs.
    """

    def __init__(
        self,
        varied: Mapping[str, Sequence[Value]],
        sample: Sample | None,
        parameters: Collection[str],
        labels: Sequence[str],
        workload: str,
    ):
        self._varied, self._sample = varied, sample
        self.parameters, self._labels = parameters, labels
        for name in [*varied, *(sample.ranges if sample else ())]:
            if name not in parameters and not tunable_of(name, labels) and name != CPUS:
                raise _unknown(name, place_of(name, sample), parameters, labels, workload)
        self._drawn = sample.drawn() if sample else None
        self._nr_points = sample.points if sample else 1

    def __len__(self) -> int:
        return math.prod(map(len, self._varied.values())) * self._nr_points

    def __getitem__(self, index: int) -> Combination:
        return self._combination(self.values(index))

    def values(self, index: int) -> dict[str, Value]:
        """The value of each name in the combination at this place."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        at, point = divmod(index, self._nr_points)
        one = {}
        for name, values in reversed(self._varied.items()):
            at, of = divmod(at, len(values))
            one[name] = values[of]
        one = dict(reversed(one.items()))
        return one | self._sample.point(self._drawn[point]) if self._sample else one

    def probes(self, few: int) -> Iterable[Combination]:
        """What shows whether values are wrong: all combinations if they are few, else each value
        that is listed beside the first of the others, and both ends of all ranges at once."""
        if not self._sample and len(self) <= few:
            return self
        first, ranges = self.values(0), self._sample.ranges if self._sample else {}
        ends = zip(*(of.ends for of in ranges.values()), strict=True)
        ones = [dict(zip(ranges, end, strict=True)) for end in ends]
        listed = {**self._varied, **{name: of.values for name, of in ranges.items()}}
        ones += [{name: value} for name, values in listed.items() for value in values]
        return [self._combination(first | one) for one in ones]

    def _combination(self, one: Mapping[str, Value]) -> Combination:
        own, cpus = [], None
        tunables: dict[str, dict[str, Value]] = {}
        for name, value in one.items():
            if name in self.parameters:
                own.append((name, value))
            elif found := tunable_of(name, self._labels):
                tunables.setdefault(found[0], {})[found[1]] = value
            else:
                cpus = machine_size(f"{place_of(name, self._sample)} {CPUS}", value)
        return Combination(one, tuple(own), cpus, tunables)


def _unknown(
    name: str, place: str, parameters: Collection[str], labels: Sequence[str], workload: str
) -> Exception:
    label, dot, tunable = name.rpartition(".")
    if dot and not tunable:
        return BadValue(place, name, "names no tunable", f"write {labels[0]}.TUNABLE")
    if dot and label:
        return UnknownName("policy", label, labels, f"in {place} (it is not in this experiment)")
    if dot:
        hint = f"write {labels[0]}.{tunable}"
        return BadValue(place, name, "does not say of which policy", hint)
    error = UnknownName("parameter", name, [*parameters, CPUS], f"of workload {workload}")
    tunables = " or ".join(f"{label}.{name}" for label in labels)
    error.hint += f"; if it is a policy's tunable, write {tunables}, whichever has it"
    return error
