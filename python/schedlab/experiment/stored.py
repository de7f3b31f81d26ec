"""Experiments of a store: which one is meant, in what order its runs are shown, and its runs as
rows of a table for other programs."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from schedlab import values
from schedlab.digests import attributes, canonical_json
from schedlab.errors import SchedlabError, UnknownName
from schedlab.experiment.definition import id_of, machine_name, name_of
from schedlab.report.forms import count_text
from schedlab.store import faults
from schedlab.store.runs import RunRecord, Store, StoredExperiment

# How many other experiments of a store are told.
OTHERS_MAX = 20
# Of a run's result: what says how it was made is in columns of its own, the rest is no number.
NOT_NUMBERS = {"digest", "error", "recording", "status", "timeline", "timeline_names"}
# Of a result: lists of tables, and what tells the tables of each apart.
NAMED_BY = {"requests": ("name",), "task_groups": ("name", "nice")}


def _others_text(store: Store, others: Sequence[StoredExperiment]) -> str:
    """That there are other experiments, and what each of the latest is."""
    query = "SELECT experiment, count(*) AS runs FROM experiment_runs GROUP BY experiment"
    runs = {row["experiment"]: row["runs"] for row in store.rows(query)}
    lines = [f"this is the latest experiment; the others of {store.path}, for --experiment:"]
    for other in reversed(others[-OTHERS_MAX:]):
        definition, what = other.definition, "damaged"
        if definition:
            what = title_of(definition)
            machines = _machines(definition)
            if vm := definition.get("vm"):
                machines = [f"a virtual machine of {cpus} CPUs" for cpus in vm["cpus"]]
            # A title says it all.
            what += "" if definition.get("title") else f" on {', '.join(machines)}"
        count, asked = count_text(runs.get(other.id, 0), "run"), other.asked_at[:16]
        name = f" ({other.name})" if other.name else ""
        lines.append(f"  {other.id}{name}: {what}; {count}, {asked.replace('T', ' ')} UTC")
    if len(others) > OTHERS_MAX:
        lines.append(f"  and {len(others) - OTHERS_MAX} that are older")
    return "\n".join(lines)


Tell = Callable[[str], None]


def choose_experiment(
    store: Store, wanted: str | None, tell: Tell = lambda note: None
) -> tuple[StoredExperiment, list[RunRecord]]:
    """The experiment asked for, or the latest, and then `tell` is told of the others; and its runs
    in the order in which it names things."""
    chosen = _choose(store, wanted, tell)
    return chosen, list(store.each(chosen.id, _stored_order(chosen)))


def run_rows(store: Store, wanted: str | None) -> Iterator[dict]:
    """A `run_row` of each run of an experiment, in order, or of every run of the store."""
    records = store.each()
    if wanted is not None:
        chosen = _choose(store, wanted, lambda note: None)
        records = store.each(chosen.id, _stored_order(chosen))
    return map(run_row, records)


def _choose(store: Store, wanted: str | None, tell: Tell) -> StoredExperiment:
    if not (stored := store.experiments()):
        hint = "`schedlab compare --store` makes one"
        raise SchedlabError(f"{store.path} holds no experiment", hint)
    matching = [question for question in stored if wanted in (None, question.id, question.name)]
    if not matching:
        valid = [question.name or question.id for question in stored]
        raise UnknownName("experiment", wanted, valid, f"in {store.path}")
    chosen = matching[-1]
    if id_of(chosen.definition) != chosen.id:
        why = "its definition is another than its id stands for"
        hint = f"ask it again, which makes no sound run again: {chosen.command}"
        raise faults.damaged(store.path, f"experiment {chosen.name or chosen.id}", why, hint)
    others = [question for question in stored if question is not chosen]
    if others and wanted is None:
        tell(_others_text(store, others))
    return chosen


def _machines(definition: Mapping) -> list[str]:
    own = (definition.get("cpus"), definition.get("kernel"))
    return [machine_name(text, *own) for text in definition["machines"]]


def _stored_order(stored: StoredExperiment) -> Callable[[Mapping], tuple]:
    """Sorts places, as rows of the store, by what the definition names first."""
    policies = [choice["label"] for choice in stored.definition["policies"]]
    machines = _machines(stored.definition)

    def order(place: Mapping) -> tuple:
        try:
            varied = json.loads(place["varied"]).values()
        except (ValueError, AttributeError):
            # Who reads its run says what is wrong.
            varied = ()
        return (
            machines.index(place["machine"]) if place["machine"] in machines else len(machines),
            policies.index(place["policy"]),
            [values.numeric(value) or 0.0 for value in varied],
            place["seed"],
        )

    return order


def title_of(definition: Mapping) -> str:
    """What an experiment calls itself, or else its policies and its workload."""
    if definition.get("title"):
        return definition["title"]
    labels = ", ".join(choice["label"] for choice in definition["policies"])
    return f"{labels} with {name_of(definition['workload'])}"


def run_row(record: RunRecord) -> dict:
    """What ran, all parameters and what else was varied (parameter.NAME), and every number of the
    result by its name."""
    manifest, error = record.manifest, record.result.get("error")
    row = {
        "policy": record.policy,
        "policy_name": manifest["policy_name"],
        **attributes(record, "machine", "workload", "seed", "status"),
        "error": None if error is None else canonical_json(error),
        "backend": manifest["backend"],
        "measured_on": record.measured_on,
        **{name: manifest[name] for name in ("version", "started_at")},
        "digest": record.digest,
        "tunables": canonical_json(manifest["tunables"]),
    }
    varied = {name: str(value) for name, value in record.varied.items()}
    parameters = varied | dict(sorted(manifest["parameters"].items()))
    row |= {f"{values.PARAMETER}{name}": value for name, value in parameters.items()}
    # In one order, whether or not the run has been in a store.
    return row | dict(sorted(_numbers("", record.result)))


def _numbers(prefix: str, metrics: Mapping) -> Iterator[tuple[str, float | int]]:
    """Every number of a result by its name; of one that is in a table, as TABLE.NAME."""
    for name, value in metrics.items():
        if not prefix and name in NOT_NUMBERS:
            continue
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}.", value)
        elif name in NAMED_BY:
            for table in value or ():
                place = ".".join(str(table[key]) for key in NAMED_BY[name])
                rest = {key: number for key, number in table.items() if key not in NAMED_BY[name]}
                yield from _numbers(f"{prefix}{name}.{place}.", rest)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
