"""Experiments of a store: which one is meant, and in what order its runs are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from schedlab import catalogue, values
from schedlab.errors import SchedlabError, UnknownName
from schedlab.experiment.definition import id_of
from schedlab.report.forms import count_text
from schedlab.store import faults
from schedlab.store.runs import RunRecord, Store, StoredExperiment

# How many other experiments of a store are told.
OTHERS_MAX = 20


def others_text(store: Store, others: Sequence[StoredExperiment]) -> str:
    """That there are other experiments, and what each of the latest is."""
    query = "SELECT experiment, count(*) AS runs FROM experiment_runs GROUP BY experiment"
    runs = {row["experiment"]: row["runs"] for row in store.rows(query)}
    lines = [f"this is the latest experiment; the others of {store.path}, for --experiment:"]
    for one in reversed(others[-OTHERS_MAX:]):
        count = count_text(runs.get(one.id, 0), "run")
        what = title_of(one.definition) + _where(one.definition) if one.definition else "damaged"
        asked = one.asked_at[:16].replace("T", " ") + " UTC"
        name = f" ({one.name})" if one.name else ""
        lines.append(f"  {one.id}{name}: {what}; {count}, {asked}")
    if len(others) > OTHERS_MAX:
        lines.append(f"  and {len(others) - OTHERS_MAX} that are older")
    return "\n".join(lines)


def _where(definition: Mapping) -> str:
    """On which machines, unless the title says it all."""
    if definition.get("title"):
        return ""
    machines = [Path(text).name.removesuffix(".toml") for text in definition["machines"]]
    if vm := definition.get("vm"):
        machines = [f"a virtual machine of {cpus} CPUs" for cpus in vm["cpus"]]
    return f" on {', '.join(machines)}"


def choose_experiment(
    store: Store, wanted: str | None
) -> tuple[StoredExperiment, list[StoredExperiment]]:
    """The experiment asked for, or the latest; and all others."""
    stored = store.experiments()
    if not stored:
        raise SchedlabError(
            f"{store.path} holds no experiment", "`schedlab compare --store` makes one"
        )
    matching = [one for one in stored if wanted in (None, one.id, one.name)]
    if not matching:
        valid = [one.name or one.id for one in stored]
        raise UnknownName("experiment", wanted, valid, f"in {store.path}")
    chosen = matching[-1]
    if id_of(chosen.definition) != chosen.id:
        raise faults.damaged(
            store.path,
            f"experiment {chosen.name or chosen.id}",
            "its definition is another than its id stands for",
            f"ask it again, which makes no sound run again: {chosen.command}",
        )
    return chosen, [one for one in stored if one is not chosen]


def stored_order(stored: StoredExperiment) -> Callable[[RunRecord], tuple]:
    """A sort key that puts records in the order in which their experiment names things."""
    policies = [choice["label"] for choice in stored.definition["policies"]]
    machines = [Path(text).name.removesuffix(".toml") for text in stored.definition["machines"]]
    return lambda record: (
        machines.index(record.machine) if record.machine in machines else len(machines),
        policies.index(record.policy),
        [values.numeric(value) or 0.0 for value in record.varied.values()],
        record.seed,
    )


def title_of(definition: Mapping) -> str:
    """What an experiment calls itself, or else its policies and its workload."""
    if definition.get("title"):
        return definition["title"]
    labels = ", ".join(choice["label"] for choice in definition["policies"])
    workload = Path(definition["workload"]).name.removesuffix(catalogue.WORKLOADS.suffix)
    return f"{labels} with {workload}"
