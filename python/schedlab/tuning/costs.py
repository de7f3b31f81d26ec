"""What a run cost, by each measure that an objective can name: the lower, the better.

Runs are compared with the defaults' by the logarithms of costs, on the same scenario and seed: half
as much in one scenario then weighs as much as half as much in another, whatever their units.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from schedlab.errors import BadValue, UnknownName

# What each has, or None where a run has nothing of it.
Costs = Mapping[str, float | None]

TERM = re.compile(r"(?:(?P<weight>\d+(?:\.\d+)?)\s*\*\s*)?(?P<measure>\w+)")
# Weights count beside each other only; a longer number is a mistake.
WEIGHT_MAX = 1e6
KEEP = re.compile(r"(?P<measure>\w+)\s*=\s*(?P<percent>\d{1,6}(?:\.\d+)?)\s*%?")


def _delay(name: str, percentile: str) -> Callable[[Mapping], float | None]:
    """A percentile of delays; one of 0 ns is below the clock's step."""

    def cost(result: Mapping) -> float | None:
        delays = result.get(name)
        return max(delays[percentile], 1) if delays and delays["count"] else None

    return cost


def _wakeup(percentile: str) -> Callable[[Mapping], float | None]:
    """As `_delay`; the births of tasks that never sleep are no wake-ups to speak of."""
    delay = _delay("wakeup_latency_ns", percentile)

    def cost(result: Mapping) -> float | None:
        return delay(result) if (result["wakeups"] or 0) > result["nr_tasks"] else None

    return cost


def _missed(result: Mapping) -> float | None:
    """Half a deadline is added to both, as none missed has no logarithm."""
    if not (due := result.get("deadlines")):
        return None
    return (result["deadline_misses"] + 0.5) / (due + 1)


def _unfairness(result: Mapping) -> float | None:
    index = result.get("jain_fairness")
    return 1 / index if index else None


def _work(result: Mapping) -> float | None:
    """CPU time for each that went into the tasks' own computing."""
    spent = result.get("cpu_time_ns")
    if not spent or not spent["work"]:
        return None
    return result["elapsed_ns"] * result["nr_cpus"] / spent["work"]


# Each measure, and its cost in the result of a run.
MEASURES: Mapping[str, Callable[[Mapping], float | None]] = {
    "makespan": lambda result: result["makespan_ns"] or None,
    **{f"{percentile}_wakeup": _wakeup(percentile) for percentile in ("p50", "p90", "p99", "max")},
    "p99_response": _delay("response_ns", "p99"),
    "missed_deadlines": _missed,
    "fairness": _unfairness,
    "throughput": _work,
}


@dataclass(frozen=True)
class Objective:
    """What is to become less: a measure, or several, each with its part of the weight: above 0, 1
    in all, so that a score is a change of cost whatever numbers stand before the measures."""

    text: str
    weights: Mapping[str, float]

    def score(self, costs: Costs, defaults: Costs) -> float:
        """The weighted logarithm of the costs over the defaults': below 0 is better. What the
        defaults have nothing of counts as unchanged; see `lost` for what only they have."""
        logs = ((weight, _log_ratio(costs, defaults, of)) for of, weight in self.weights.items())
        return math.fsum(weight * log for weight, log in logs if log is not None)

    def has_part_in(self, costs: Costs) -> bool:
        """Whether a run has anything of it."""
        return any(costs[measure] is not None for measure in self.weights)


@dataclass(frozen=True)
class Keep:
    """What may cost more than under the defaults, but by no more than the share `within`."""

    measure: str
    within: float

    @property
    def text(self) -> str:
        """As it is given."""
        return f"{self.measure}={100 * self.within:g}%"

    def excess(self, costs: Costs, defaults: Costs) -> float | None:
        """By how much the logarithm of the cost is beyond what is allowed: at most 0 is kept; None
        if a run has nothing of it."""
        log = _log_ratio(costs, defaults, self.measure)
        return None if log is None else log - math.log1p(self.within)


def lost(measures: Iterable[str], costs: Costs, defaults: Costs) -> list[str]:
    """The measures that the defaults have and a run has nothing of: where nobody is answered, no
    answer is late, so such a run has failed."""
    return [of for of in measures if costs[of] is None and defaults[of] is not None]


def costs_of(result: Mapping) -> dict[str, float | None]:
    """Every measure of a completed run."""
    return {name: cost(result) for name, cost in MEASURES.items()}


def objective_of(text: str) -> Objective:
    """The objective that a text names, as in `0.5*makespan + 0.5*p99_wakeup`; BadValue if none."""
    weights: dict[str, float] = {}
    for part in text.split("+"):
        hint = (
            "write MEASURE, or WEIGHT*MEASURE + WEIGHT*MEASURE, as in 0.7*p99_wakeup+0.3*makespan"
        )
        if (term := TERM.fullmatch(part.strip())) is None:
            raise BadValue("--objective", text, "is no measure nor a sum of them", hint)
        measure, weight = term["measure"], float(term["weight"] or 1)
        _refuse_unknown(measure, "--objective")
        if measure in weights:
            raise BadValue("--objective", text, f"has {measure} twice", "add up its weights")
        if weight > WEIGHT_MAX:
            what, hint = f"gives {measure} a weight above {WEIGHT_MAX:,.0f}", "divide all weights"
            raise BadValue("--objective", text, what, hint)
        weights[measure] = weight
    total = math.fsum(weights.values()) or 1
    # Rounded, so that equal ones are equal.
    parts = {of: round(weight / total, 9) for of, weight in weights.items()}
    for measure, part in parts.items():
        if part == 0:
            raise BadValue("--objective", text, f"gives {measure} no weight", "leave it out")
    return Objective("+".join(part.strip() for part in text.split("+")), parts)


def keep_of(text: str) -> Keep:
    """The bound that a text such as `makespan=2%` sets; BadValue if it sets none."""
    if (keep := KEEP.fullmatch(text.strip())) is None:
        hint = "write MEASURE=PERCENT, as in throughput=2%: it may become worse by so much"
        raise BadValue("--keep", text, "is no bound", hint)
    _refuse_unknown(keep["measure"], "--keep")
    return Keep(keep["measure"], float(keep["percent"]) / 100)


def _refuse_unknown(measure: str, option: str) -> None:
    if measure not in MEASURES:
        raise UnknownName("measure", measure, MEASURES, f"in {option}")


def _log_ratio(costs: Costs, defaults: Costs, measure: str) -> float | None:
    cost, default = costs[measure], defaults[measure]
    return None if cost is None or default is None else math.log(cost / default)
