"""Runs as rows of a table, for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedlab.digests import canonical_json
from schedlab.store.runs import RunRecord

# Of a run's result: what says how it was made is in columns of its own, the rest is no number.
NOT_NUMBERS = {"digest", "error", "recording", "status", "timeline", "timeline_names"}
# Of a result: lists of tables, and what tells the tables of each apart.
NAMED_BY = {"requests": ("name",), "task_groups": ("name", "nice")}


def run_row(record: RunRecord) -> dict:
    """What ran, all parameters (parameter.NAME) and every number of the result by its name."""
    manifest, error = record.manifest, record.result.get("error")
    row = {
        "policy": record.policy,
        "policy_name": manifest["policy_name"],
        "machine": record.machine,
        "workload": record.workload,
        "seed": record.seed,
        "status": record.status,
        "error": None if error is None else canonical_json(error),
        "backend": manifest["backend"],
        "measured_on": record.measured_on,
        "version": manifest["version"],
        "started_at": manifest["started_at"],
        "digest": record.digest,
        "tunables": canonical_json(manifest["tunables"]),
    }
    row |= {f"parameter.{name}": value for name, value in manifest["parameters"].items()}
    return row | dict(_numbers("", record.result))


def _numbers(prefix: str, values: Mapping) -> Iterator[tuple[str, float | int]]:
    """Every number of a result by its name; of one that is in a table, as TABLE.NAME."""
    for name, value in values.items():
        if not prefix and name in NOT_NUMBERS:
            continue
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}.", value)
        elif name in NAMED_BY:
            for one in value or ():
                row = ".".join(str(one[key]) for key in NAMED_BY[name])
                rest = {key: of for key, of in one.items() if key not in NAMED_BY[name]}
                yield from _numbers(f"{prefix}{name}.{row}.", rest)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
