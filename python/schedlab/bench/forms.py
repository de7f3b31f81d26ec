"""Measurements as texts that the terminal and the page share, and as data."""

from collections.abc import Sequence
from typing import Any

from schedlab.bench.answers import Answer, CaseRow, Sample, Setup, answers, samples
from schedlab.report.forms import DASH
from schedlab.statistics.digits import number, percent
from schedlab.statistics.estimates import THRESHOLD
from schedlab.statistics.power import POWER


def location_and_spread(sample: Sample) -> tuple[str, str, str]:
    """Of a sample with values: geometric mean, SD of logarithms and MAD in percent, as texts."""
    of = sample.geometric
    spreads = (DASH if one is None else percent(one) for one in (of.sd, sample.mad))
    return (number(of.mean, of.low, of.high), *spreads)


def detectable_text(answer: Answer) -> str:
    """The smallest change that so many runs of such noise would show, in percent."""
    change = answer.pair.detectable
    return DASH if change is None else percent(change)


def runs_text(answer: Answer) -> str:
    """How many runs of each the threshold would take with this noise."""
    runs = answer.pair.runs_needed
    return DASH if runs is None else f"{runs:,}"


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


def results_json(rows: Sequence[CaseRow]) -> list[dict[str, Any]]:
    """The same as data, with every value."""
    against = {(id(answer.row), answer.setup): answer for answer in answers(rows)}
    return [
        _sample_json(row, setup, sample) | {"against_first": answer and _answer_json(answer)}
        for row, setup, sample in samples(rows)
        for answer in [against.get((id(row), setup))]
    ]


def _sample_json(row: CaseRow, setup: Setup, sample: Sample) -> dict[str, Any]:
    centre, geometric = sample.estimate, sample.geometric
    return {
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
        **{name: centre and getattr(centre, name) for name in ("median", "low", "high")},
        "geometric_mean": geometric and geometric.mean,
        "sd_log": geometric and geometric.sd,
        "mad_log": sample.mad,
        "values_by_boot": list(sample.by_boot.values()),
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    pair, comparison = answer.pair, answer.row.comparison
    ratio, medians, resampled = pair.ratio, pair.medians, pair.resampled
    of_ratio = ("ratio", "low", "high", "p_value", "log_error")
    return {
        "against": pair.b,
        **{name: getattr(ratio, name) for name in of_ratio},
        "exchange_p": pair.exchange_p,
        "p_adjusted": pair.p_adjusted,
        "p_table": answer.p_table,
        "verdict": answer.word,
        "method": pair.method.value,
        "why": str(comparison.why),
        "notes": list(comparison.notes),
        "ratio_of_medians": medians.ratio,
        "ratio_of_medians_low": medians.low,
        "ratio_of_medians_high": medians.high,
        "resampled_low": resampled and resampled.low,
        "resampled_high": resampled and resampled.high,
        "hedges_g": pair.hedges_g,
        "cliffs_delta": pair.cliffs_delta,
        "noise_floor": pair.floor and pair.floor.change,
        "noise_floor_of": pair.floor and pair.floor.of.value,
        "detectable_change": pair.detectable,
        "runs_needed": pair.runs_needed,
    }
