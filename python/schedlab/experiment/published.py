"""Times that others published: read for an experiment, and set beside what is simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab import catalogue, user_file
from schedlab.errors import BadValue, ExperimentError, refuse_unknown
from schedlab.report.forms import TIME_UNITS_NS
from schedlab.values import UNIT_NS, Table, Value, parse_duration_ns, parse_value

if TYPE_CHECKING:
    from schedlab.experiment.study import Study
    from schedlab.statistics.estimates import Estimate

HINT = "see [published] in docs/reference/cli.md"
PARTS_MAX = 10**9

# ---- as an experiment has them ------------------------------------------------------------------


@dataclass(frozen=True)
class PublishedTime:
    """What others measured where a cell of an experiment simulates, in nanoseconds."""

    policy: str
    machine: str
    varied: Mapping[str, Value]
    makespan_ns: int


@dataclass(frozen=True)
class PublishedTimes:
    """Times from the literature that stand beside simulated ones, and who measured them.

    `ideal` names the varied parameter that counts equal parts of work, "" if none does: ideal is
    then what the same policy needs for one part, times the parts that each CPU has, at least one.
    """

    source: str
    times: tuple[PublishedTime, ...]
    ideal: str = ""


def read(
    table: Table, folder: Path, policies: Sequence[str], machines: Sequence[str]
) -> PublishedTimes:
    """The times that the table [published] of an experiment file says how to find.

    `folder` is that of the file, from which a path of a table begins; `policies` and `machines` are
    the labels and names that there are in the experiment. Raises SchedlabError if a key is missing,
    unknown or ill-typed, or no row of the published table fits.
    """
    needed = ("table", "source", "makespan", "vary", "policies", "machines")
    table.refuse_others((*needed, "parts", "ideal"))
    for key in needed:
        if key not in table.given:
            raise ExperimentError(f"{table.place} does not say its {key}", HINT)
    name, source, makespan = (table.word(key) for key in ("table", "source", "makespan"))
    columns, parts = table.words("vary", HINT), table.number("parts", 1, 1, PARTS_MAX, whole=True)
    ideal = table.word("ideal", "")
    if ideal and ideal not in columns:
        hint = f"one of {', '.join(columns)}" if columns else HINT
        table.refuse("ideal", ideal, "is not a parameter that has a column in published.vary", hint)
    policies_wanted = _wanted(table, "policies", "policy", policies)
    machines_wanted = _wanted(table, "machines", "machine", machines)
    if catalogue.is_path(catalogue.PUBLISHED, name):
        name = str(folder / name)
    path = catalogue.find(catalogue.PUBLISHED, name)
    rows = user_file.csv_rows(f"published table {path}", path)
    every = [*policies_wanted.values(), *machines_wanted.values()]
    named = [makespan, *columns.values(), *(column for wanted in every for column in wanted)]
    refuse_unknown("column", named, rows[0] if rows else named, f"of {path}")
    place, unit = f"{path}: {makespan}", makespan.rpartition("_")[2]
    if unit not in UNIT_NS:
        raise BadValue(f"{path}: column", makespan, "does not end in a unit", "as elapsed_s does")
    times = []
    for policy, machine in product(policies_wanted, machines_wanted):
        wanted = {**policies_wanted[policy], **machines_wanted[machine]}
        if not (found := [row for row in rows if wanted.items() <= row.items()]):
            raise ExperimentError(
                f"{table.place}: no row of {path} has {wanted}, for {policy} on {machine}",
                "the values must be written as in the table",
            )
        for row in found:
            varied = {name: parse_value(row[column]) for name, column in columns.items()}
            makespan_ns = parse_duration_ns(place, f"{row[makespan]}{unit}", parts)
            times.append(PublishedTime(policy, machine, varied, makespan_ns))
            counted = varied.get(ideal, 1)
            if not isinstance(counted, int | float) or counted <= 0:
                raise BadValue(f"{path}: {columns[ideal]}", counted, "counts no parts")
    return PublishedTimes(source, tuple(times), ideal)


def _wanted(
    table: Table, key: str, kind: str, known: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    """Of each policy or machine, the values that its rows have, by column."""
    tables = table.table(key, HINT)
    refuse_unknown(kind, tables.given, known, f"in {table.place} (it is not in this experiment)")
    return {name: tables.words(name, HINT) for name in tables.given}


# ---- beside what is simulated -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ideal:
    """Times over the ideal of the same side: published over published, simulated over simulated.

    `parameter` counts equal parts of work; ideal is the time of one part, times the parts that each
    CPU has, at least one. Dimensionless; None where that side has no time for one part.
    """

    parameter: str
    published: float | None
    simulated: float | None

    @property
    def meaning(self) -> str:
        """What is ideal, for a caption."""
        n = self.parameter
        return (
            f"time at {n} = 1 × max({n} / CPUs, 1), of the same policy and side;"
            f" – where {n} = 1 is missing"
        )


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure from the literature beside the simulation of the same thing, in one unit. `ideal` is
    None where the experiment does not say what would be ideal."""

    value: float
    simulated: "Estimate"
    unit: str
    source: str
    ideal: Ideal | None = None
    policy: str = ""
    where: str = ""

    @property
    def error_percent(self) -> float | None:
        """Simulated over published, less one; None of a published zero."""
        return 100 * (self.simulated.mean / self.value - 1) if self.value else None


def published_beside(definition: Mapping, study: "Study") -> dict[str, Beside]:
    """Published times that a cell of the study simulates, by a label that says which it is.
    `definition` is that of an `Experiment`, or what a store has of it."""
    if not (published := definition.get("published")):
        return {}
    times, simulated, nr_cpus, beside = {}, {}, {}, {}
    for time in published["times"]:
        place = _place(time["policy"], time["machine"], time["varied"])
        times[place] = time["makespan_ns"] / TIME_UNITS_NS[study.unit]
    for cell in study.cells:
        for policy, makespan in cell.makespan.items():
            record = cell.runs[policy][0]
            place = _place(policy, record.machine, record.varied)
            simulated[place], nr_cpus[place] = makespan, record.result["nr_cpus"]
    means = {place: makespan.mean for place, makespan in simulated.items()}
    for time in published["times"]:
        policy, machine, varied = time["policy"], time["machine"], time["varied"]
        place, ideal = _place(policy, machine, varied), None
        if place not in simulated:
            continue
        if parameter := published.get("ideal"):
            one = _place(policy, machine, {**varied, parameter: 1})
            parts = max(varied[parameter] / nr_cpus[place], 1)
            over = [side[place] / (side[one] * parts) if side.get(one) else None
                    for side in (times, means)]  # fmt: skip
            ideal = Ideal(parameter, *over)
        told = (study.unit, published["source"], ideal, policy, _place("", machine, varied))
        beside[place] = Beside(times[place], simulated[place], *told)
    return beside


def _place(policy: str, machine: str, varied: Mapping) -> str:
    return ", ".join([policy, machine, *(f"{name} = {value}" for name, value in varied.items())])


def over_first(published: Mapping[str, Beside]) -> dict[str, tuple[float, float]]:
    """Times over those of the policy that comes first in the same place: published, simulated. By
    the same labels; without the first policies themselves, and empty where each is alone."""
    first: dict[str, Beside] = {}
    ratios = {}
    for label, row in published.items():
        one = first.setdefault(row.where, row)
        if one is not row:
            ratios[label] = (row.value / one.value, row.simulated.mean / one.simulated.mean)
    return ratios


def rank_agreement_of(published: Mapping[str, Beside]) -> dict[str, int | float | None]:
    """How far the means simulated beside published times, of which there are some, are in their
    order: `tau` is Kendall's, over all `n` times, None if it is not defined. Of `nr_pairs` pairs of
    policies in one place, the same one is faster on both sides in `nr_same`."""
    from schedlab.statistics.estimates import rank_agreement

    rows = list(published.values())
    tau = rank_agreement([row.value for row in rows], [row.simulated.mean for row in rows])
    same = [
        (one.simulated.mean < other.simulated.mean) == (one.value < other.value)
        for one, other in combinations(rows, 2)
        if one.where == other.where and one.value != other.value
    ]
    return {"n": len(rows), "tau": tau, "nr_pairs": len(same), "nr_same": sum(same)}


def rank_text(published: Mapping[str, Beside]) -> str:
    """`rank_agreement_of` in a line, of at least one published time."""
    agreement = rank_agreement_of(published)
    tau, nr_pairs = agreement["tau"], agreement["nr_pairs"]
    tau = "not defined" if tau is None else f"{tau:.2f}"
    text = f"order of all {agreement['n']} times: Kendall's τ = {tau}"
    if nr_pairs:
        text += f"; the same policy is faster in {agreement['nr_same']} of {nr_pairs} pairs"
    return text
