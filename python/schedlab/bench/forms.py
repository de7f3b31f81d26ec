"""Measurements as texts that the terminal and the page share, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlab.bench.answers import (
    Answer,
    Row,
    Sample,
    answers,
)
from schedlab.statistics.digits import number, p_number, percent
from schedlab.statistics.estimates import THRESHOLD, Estimate
from schedlab.statistics.power import POWER


def location_and_spread(sample: Sample) -> tuple[str, str, str]:
    """Of a sample with values: geometric mean, SD of logarithms and MAD in percent, as texts."""
    of = sample.geometric
    spreads = ("–" if one is None else percent(one) for one in (of.sd, sample.mad))
    return (number(of.mean, of.low, of.high), *spreads)


def with_digits(centre: Estimate) -> tuple[str, str]:
    """A median and its interval, to the digits that the interval carries; see `digits`."""
    low, high = centre.low, centre.high
    median = number(centre.median, low, high)
    if low is None or high is None:
        return median, "–"
    return median, f"{number(low, low, high)} … {number(high, low, high)}"


def detectable_text(answer: Answer) -> str:
    """The smallest change that so many runs of such noise would show, in percent."""
    change = answer.pair.detectable
    return "–" if change is None else percent(change)


def runs_text(answer: Answer) -> str:
    """How many runs of each the threshold would take with this noise."""
    runs = answer.pair.runs_needed
    return "–" if runs is None else f"{runs:,}"


def plain_p(p_value: float | None) -> str:
    """A p value in a table."""
    return p_number(p_value)


def legend(nr_compared: int) -> list[str]:
    """What the columns of comparisons mean."""
    several = f" and for all {nr_compared} comparisons" if nr_compared > 1 else ""
    return [
        "change: of the time taken, new / old - 1, with its 95 % interval; below zero is faster",
        f"p: adjusted within a benchmark{several}, raw is of the test alone; no difference shown is"
        " not the same as the same",
        f"shows from: the smallest change that so many runs of such noise show in {100 * POWER:g} %"
        f" of cases; runs for {100 * THRESHOLD:g} %: how many of each would show that (– where more"
        " runs would not)",
    ]


def results_json(found: Sequence[Row]) -> list[dict[str, Any]]:
    """The same as data, with every value."""
    told = []
    against = {(id(answer.row), answer.setup): answer for answer in answers(found)}
    for row in found:
        for setup, sample in row.samples.items():
            answer = against.get((id(row), setup))
            told.append(
                {
                    "benchmark": row.name,
                    "suite": row.suite,
                    "digest": row.digest,
                    "machine": row.machine,
                    "unit": row.unit,
                    "kernel": setup.kernel,
                    "kernel_version": setup.version,
                    "scheduler": setup.scheduler,
                    "policy": setup.policy,
                    "label": setup.label,
                    "values": sample.values,
                    "noisy": sample.nr_noisy,
                    "failed": sample.nr_failed,
                    "earlier": row.nr_earlier,
                    "boots": sample.nr_boots,
                    **_estimate_json(sample.estimate),
                    "geometric_mean": sample.geometric and sample.geometric.mean,
                    "sd_log": sample.geometric and sample.geometric.sd,
                    "mad_log": sample.mad,
                    "values_by_boot": list(sample.by_boot.values()),
                    "against_first": answer and _answer_json(answer),
                }
            )
    return told


def _estimate_json(centre: Estimate | None) -> dict[str, Any]:
    if centre is None:
        return {"median": None, "low": None, "high": None}
    return {"median": centre.median, "low": centre.low, "high": centre.high}


def _answer_json(answer: Answer) -> dict[str, Any]:
    pair, comparison = answer.pair, answer.row.comparison
    return {
        "against": pair.b,
        "ratio": pair.ratio.ratio,
        "low": pair.ratio.low,
        "high": pair.ratio.high,
        "p_value": pair.ratio.p_value,
        "log_error": pair.ratio.log_error,
        "exchange_p": pair.exchange_p,
        "p_adjusted": pair.p_adjusted,
        "p_table": answer.p_table,
        "verdict": answer.word,
        "method": pair.method.value,
        "why": comparison.why,
        "notes": list(comparison.notes),
        "ratio_of_medians": pair.medians.ratio,
        "ratio_of_medians_low": pair.medians.low,
        "ratio_of_medians_high": pair.medians.high,
        "resampled_low": pair.resampled and pair.resampled.low,
        "resampled_high": pair.resampled and pair.resampled.high,
        "hedges_g": pair.hedges_g,
        "cliffs_delta": pair.cliffs_delta,
        "noise_floor": pair.floor and pair.floor.change,
        "noise_floor_of": pair.floor and pair.floor.of.value,
        "detectable_change": pair.detectable,
        "runs_needed": pair.runs_needed,
    }
