"""What a report or an export has of the measurements of a store: pages and rows."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schedlab import catalogue
from schedlab.bench import suite as suites
from schedlab.digests import flat
from schedlab.errors import SchedlabError, refuse_unknown
from schedlab.store.measurements import Campaign, Measurements, Repetition
from schedlab.store.runs import Store

# What a repetition is and gave.
MEASURED = ("case_digest", "warm_up", "slot", "status", "value", "unit")
# What a repetition took, and what others did meanwhile.
MEANWHILE = ("wall_ns", "user_ns", "system_ns", "foreign_ns", "steal_ns", "throttled")

Tell = Callable[[str], None]


def choose_suite(
    campaigns: Sequence[Campaign], suite: str | None, where: Path, tell: Tell = lambda note: None
) -> list[Campaign]:
    """The campaigns of a suite, of the latest if none is named; `tell` is told of the others.
    Raises SchedlabError if there is none, UnknownName if there are some and none of this suite."""
    if not campaigns:
        raise SchedlabError(f"{where} holds no measurement", "`schedlab bench` makes some")
    known = list(dict.fromkeys(campaign.suite for campaign in campaigns))
    chosen = campaigns[-1].suite if suite is None else suite
    refuse_unknown("suite", [chosen], known, f"in {where}")
    others = [name for name in known if name != chosen]
    if others and suite is None:
        tell(f"this is the latest suite; the others of {where}, for --suite: {', '.join(others)}")
    return [campaign for campaign in campaigns if campaign.suite == chosen]


def is_asked_for(store: Store, suite: str | None) -> bool:
    """Whether a report without more ado is of measurements: of what was asked for last."""
    of_both = Measurements(store).campaigns(), store.experiments()
    measured, simulated = (max((one.asked_at for one in of), default="") for of in of_both)
    return suite is not None or measured > simulated


def write_page(store: Store, suite: str | None, output: Path, tell: Tell) -> dict[str, Any]:
    """Writes the page of the suite that `choose_suite` chooses; gives what `--json` tells of it."""
    kept = Measurements(store)
    chosen = choose_suite(kept.campaigns(), suite, store.path, tell)
    # Loading the statistics takes a while.
    from schedlab.bench import page

    name = chosen[-1].suite
    title, description = f"Measurements of suite {name}", ""
    # A store keeps neither; a suite of ours has both.
    with contextlib.suppress(SchedlabError):
        read = suites.read(catalogue.find(catalogue.SUITES, name))
        title, description = read.title, read.description
    page.write(output, kept, chosen, title, description)
    nr = sum(not one.warm_up for campaign in chosen for one in kept.repetitions(campaign.id))
    return {"report": str(output), "suite": name, "repetitions": nr}


def repetition_rows(kept: Measurements, suite: str | None) -> list[dict[str, Any]]:
    """A row a repetition of a suite, or of all: campaign, what it gave, what others did meanwhile,
    and the surroundings as `environment.NAME`. Times are in nanoseconds where the name says so.
    """
    rows = []
    for campaign in _campaigns(kept, suite):
        for one, around in kept.measured_in(campaign.id):
            warnings = "; ".join(what for what, _ in around.warnings)
            facts = {"captured_at": around.captured_at, **around.facts, "warnings": warnings}
            rows.append(_row(campaign, one) | flat("environment.", facts))
    return rows


def comparison_rows(kept: Measurements, suite: str | None) -> list[dict[str, Any]]:
    """A row for each setup that a suite's, or any, cases were compared in: all that `bench --json`
    has of it, with how many `runs` there are in place of the values, and what is `against_first` as
    columns of its own; `low` and `high` are the median's, `ratio_low` and `ratio_high` the ratio's.

    Raises SchedlabError if there is nothing to compare.
    """
    campaigns = _campaigns(kept, suite)
    # Loading the statistics takes a while.
    from schedlab.bench import answers, table

    rows = []
    for name in dict.fromkeys(campaign.suite for campaign in campaigns):
        of_suite = [campaign for campaign in campaigns if campaign.suite == name]
        for record in table.results_json(answers.rows(kept, of_suite)):
            if against := record.pop("against_first"):
                row = {key: value for key, value in record.items() if not isinstance(value, list)}
                row["runs"] = len(record["values"])
                against |= {f"ratio_{end}": against.pop(end) for end in ("low", "high")}
                assert not row.keys() & against.keys(), "no column stands for two things"
                rows.append({**row, **against, "notes": "; ".join(against["notes"])})
    if not rows:
        raise SchedlabError(
            f"{kept.store.path} has no case in two setups, so nothing is compared",
            "measure under another kernel, policy or --label; --what repetitions writes what there"
            " is",
        )
    return rows


def _campaigns(kept: Measurements, suite: str | None) -> list[Campaign]:
    campaigns = kept.campaigns()
    if suite is not None or not campaigns:
        campaigns = choose_suite(campaigns, suite, kept.store.path)
    return campaigns


def _row(campaign: Campaign, one: Repetition) -> dict[str, Any]:
    manifest, condition = one.manifest, campaign.condition
    row = {
        "suite": campaign.suite,
        "machine": condition["machine"],
        "kernel": condition["kernel"],
        "kernel_version": condition["version"],
        "policy": one.policy,
        "label": campaign.label,
        "case": one.case_name,
        **{name: getattr(one, name) for name in MEASURED},
        "higher_is_better": one.case_name in campaign.definition.get("higher_is_better", ()),
        "noisy": one.noisy,
        "noisy_why": "; ".join(manifest.get("noisy", ())),
        "failure": manifest.get("failure"),
        "started_at": one.started_at,
        "boot_id": manifest.get("boot_id"),
        "campaign": campaign.id,
        "series": campaign.series,
        "seed": campaign.definition["seed"],
        "version": campaign.version,
    }
    row |= {f"parameter.{name}": value for name, value in manifest.get("values", {}).items()}
    return row | {name: manifest.get(name) for name in MEANWHILE}
