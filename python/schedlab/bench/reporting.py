"""The report of measurements: whether one is asked for, and the page that is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedlab import catalogue
from schedlab.bench import suite as suites
from schedlab.bench.rows import choose_suite
from schedlab.errors import SchedlabError
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store


def is_asked_for(store: Store, suite: str | None) -> bool:
    """Whether a report without more ado is of measurements: of what was asked for last."""
    if suite is not None:
        return True
    campaigns, experiments = Measurements(store).campaigns(), store.experiments()
    if not campaigns or not experiments:
        return bool(campaigns)
    return campaigns[-1].asked_at > experiments[-1].asked_at


def write_page(store: Store, suite: str | None, output: Path) -> dict[str, Any]:
    """Writes the page of a suite's measurements; gives what `--json` tells of it."""
    kept = Measurements(store)
    chosen = choose_suite(kept.campaigns(), suite, store.path)
    # Loading the statistics takes a while.
    from schedlab.bench import page

    title, description = _words_of(chosen[-1].suite)
    page.write(output, kept, chosen, title, description)
    nr = sum(not one.warm_up for campaign in chosen for one in kept.repetitions(campaign.id))
    return {"report": str(output), "suite": chosen[-1].suite, "repetitions": nr}


def _words_of(name: str) -> tuple[str, str]:
    """Title and description of a suite, where it is one of ours: a store keeps none."""
    try:
        read = suites.read(catalogue.find(catalogue.SUITES, name))
    except SchedlabError:
        return f"Measurements of suite {name}", ""
    return read.title, read.description
