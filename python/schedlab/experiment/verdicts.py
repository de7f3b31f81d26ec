"""Whether what others claimed comes out of the runs: a number, its interval and a word a claim.

The interval decides. All of it within the bounds: reproduced. None of it: not reproduced. Across a
bound, or no interval because there are too few runs: cannot tell. A claim about several places is
reproduced if it is in each of them, and not if it is not in one.

Two simulated times whose runs have the same seeds are compared seed by seed (common random
numbers), any others as independent samples. Where seeds were added until something was clear, those
of both are compared, as the table of times compares them (`estimates.ratio_to_stop`): an interval
has the share of the error that each look has, else who stops where it suits a claim would find it
there, and equal times that may be equal by chance have none.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schedlab.experiment.metrics import share_errors
from schedlab.experiment.study import Study, are_identical, rule_of
from schedlab.report.forms import ratio_text
from schedlab.statistics.estimates import Ratio, paired_ratio, ratio, ratio_to_stop
from schedlab.store.runs import RunRecord


class Reproduction(StrEnum):
    """What the runs say of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """A claim in one place: simulated, its 95 % interval, published, and the bounds.

    `low` and `high` are None for too few runs, `published` where there is no such number. All are
    ratios, or percentages of CPU time where the claim is about a share. `is_paired` says whether
    the interval is that of a ratio seed by seed.
    """

    where: str
    simulated: float
    low: float | None
    high: float | None
    published: float | None
    at_least: float | None
    at_most: float | None
    is_paired: bool = False

    @property
    def verdict(self) -> Reproduction:
        """By the interval, see the module's beginning."""
        if self.low is None or self.high is None:
            return Reproduction.CANNOT_TELL
        least = self.at_least or 0.0
        most = math.inf if self.at_most is None else self.at_most
        if least <= self.low and self.high <= most:
            return Reproduction.REPRODUCED
        if self.high < least or most < self.low:
            return Reproduction.NOT_REPRODUCED
        return Reproduction.CANNOT_TELL


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim and what was found of it; `nr_places` are all that it is about, run or not.

    `why` is the reason where nothing was found: the model contains nothing of it, or it was not
    run. Else it is empty.
    """

    says: str
    unit: str
    nr_places: int
    findings: Sequence[ClaimFinding]
    why: str = ""

    @property
    def verdict(self) -> Reproduction:
        """Over all places: each must say so."""
        words = [finding.verdict for finding in self.findings]
        if Reproduction.NOT_REPRODUCED in words:
            return Reproduction.NOT_REPRODUCED
        if words and len(words) == self.nr_places and {*words} == {Reproduction.REPRODUCED}:
            return Reproduction.REPRODUCED
        return Reproduction.CANNOT_TELL


def judge(definition: Mapping, study: Study) -> list[Judged]:
    """What the runs say of each claim, also of those of which no place was run.

    `definition` is that of an `Experiment`, or what a store has of it; without claims in it the
    runs are not looked at.
    """
    if not (claims := definition.get("claims")):
        return []
    runs = _Runs(definition, study)
    judged = []
    for claim in claims:
        if claim["cannot_tell"]:
            judged.append(Judged(claim["says"], "", 0, (), claim["cannot_tell"]))
            continue
        pairs = [(of, {**of, **over}) for of in claim["of"] for over in claim["over"] or ({},)]
        findings = [found for of, over in pairs if (found := runs.finding(claim, of, over))]
        why = "" if findings else runs.why_nothing(claim)
        unit = "" if claim["share_of_nice"] is None else "%"
        judged.append(Judged(claim["says"], unit, len(pairs), findings, why))
    return judged


class _Runs:
    """The runs of a study, their shares of CPU time, and the published times, by place."""

    def __init__(self, definition: Mapping, study: Study):
        published = definition.get("published") or {"times": (), "ideal": ""}
        self.ideal = published["ideal"]
        self.rule = rule_of(definition)
        self.published_ns = {}
        for time in published["times"]:
            place = {**time["varied"], "policy": time["policy"], "machine": time["machine"]}
            self.published_ns[_key(place)] = time["makespan_ns"]
        cells = [records for cell in study.cells for records in cell.runs.values()]
        self.runs = {_place_of(records[0]): records for records in cells}
        self.shares = {
            _place_of(row.cell.runs[row.policy][0]): row.shares for row in share_errors(study)
        }

    def finding(self, claim: Mapping, of: Mapping, over: Mapping) -> ClaimFinding | None:
        """The claim in one place; None where it was not run, or nothing it could be held against.

        That is the time in the place `over`, times the parts that each CPU has where it is ideal;
        of a time alone it is the published one of its own place.
        """
        if not (records := self.runs.get(_key(of))):
            return None
        if claim["share_of_nice"] is not None:
            shares = self.shares.get(_key(of), ())
            if not (got := [share.got for share in shares if share.nice == claim["share_of_nice"]]):
                return None
            return _finding(claim, of, (got[0].mean, got[0].low, got[0].high), claim["published"])
        parts = 1.0
        if claim["over_ideal"]:
            over = {**of, self.ideal: 1}
            parts = max(of[self.ideal] / records[0].result["nr_cpus"], 1)
        own, base = self._by_seed(of), self._by_seed(over)
        is_alone = not (claim["over"] or claim["over_ideal"])
        if self.rule.looks and not is_alone:
            of_both = own.keys() & base.keys()
            own, base = ({s: one[s] for s in one if s in of_both} for one in (own, base))
        one_ns, other_ns = (self.published_ns.get(_key(place)) for place in (of, over))
        if not (one_ns if is_alone else base):
            return None
        is_paired = not is_alone and own.keys() == base.keys()
        compared = self._against_published(own, one_ns) if is_alone else self._ratio(own, base)
        published = claim["published"]
        if not published and one_ns and other_ns:
            published = one_ns / (other_ns * parts)
        ends = (None if end is None else end / parts for end in (compared.low, compared.high))
        return _finding(claim, of, (compared.ratio / parts, *ends), published, is_paired)

    def why_nothing(self, claim: Mapping) -> str:
        """Why there is no number of a claim that names places."""
        if not any(_key(of) in self.runs for of in claim["of"]):
            return "nothing of it was run"
        if claim["share_of_nice"] is not None:
            return f"no run has a share of CPU time for nice {claim['share_of_nice']}"
        return "there is nothing that it could be held against"

    def _by_seed(self, place: Mapping) -> dict[int, RunRecord]:
        """The runs of a place; none where that was not run."""
        return {record.seed: record for record in self.runs.get(_key(place), ())}

    def _ratio(self, own: Mapping[int, RunRecord], base: Mapping[int, RunRecord]) -> Ratio:
        """Of two simulated times, seed by seed where both have the same seeds."""
        if own.keys() != base.keys():
            return ratio(_makespans_ns(own.values()), _makespans_ns(base.values()))
        records = [*own.values()], [base[seed] for seed in own]
        own_ns, base_ns = map(_makespans_ns, records)
        if not self.rule.looks:
            return paired_ratio(own_ns, base_ns)
        is_without_chance = all(map(are_identical, records))
        return ratio_to_stop(own_ns, base_ns, self.rule.shares, is_without_chance)

    def _against_published(self, own: Mapping[int, RunRecord], published_ns: float) -> Ratio:
        """Of a simulated time and a published one, which has no seed."""
        own_ns = _makespans_ns(own.values())
        if not self.rule.looks:
            return ratio(own_ns, [published_ns] * len(own_ns))
        is_without_chance = are_identical([*own.values()])
        return ratio_to_stop(own_ns, published_ns, self.rule.shares, is_without_chance)


def _makespans_ns(records: Iterable[RunRecord]) -> list[float]:
    return [record.result["makespan_ns"] for record in records]


def _finding(
    claim: Mapping,
    of: Mapping,
    simulated: tuple[float, float | None, float | None],
    published: float | None,
    is_paired: bool = False,
) -> ClaimFinding:
    """A number and the ends of its interval beside its bounds; `within` is a factor either way."""
    bounds = claim["at_least"], claim["at_most"]
    if claim["within"] is not None and published is not None:
        bounds = published / (1 + claim["within"]), published * (1 + claim["within"])
    rest = [f"{n} = {v}" for n, v in of.items() if n not in ("policy", "machine")]
    where = ", ".join([of["policy"], of["machine"], *rest])
    return ClaimFinding(where, *simulated, published, *bounds, is_paired)


def _key(place: Mapping) -> tuple:
    """What equal places have in common; equal numbers are equal, however they are written."""
    return tuple(sorted(place.items()))


def _place_of(record: RunRecord) -> tuple:
    return _key({**record.varied, "policy": record.policy, "machine": record.machine})


# --- words and numbers, the same in the terminal and in the report --------------------------------


def published_text(judged: Judged) -> str:
    """The published number, or the smallest and the largest; empty if there is none."""
    published = [finding.published for finding in judged.findings if finding.published is not None]
    return _span(judged, published)


def simulated_text(judged: Judged) -> str:
    """The number and its interval, or the smallest and the largest and what holds them all."""
    text = _span(judged, [finding.simulated for finding in judged.findings])
    lows = [finding.low for finding in judged.findings]
    highs = [finding.high for finding in judged.findings]
    if None in lows or lows == highs:
        return text
    low, high = (_form(judged, end).removesuffix(" %") for end in (min(lows), max(highs)))
    return f"{text} [{low}, {high}]"


def bounds_text(judged: Judged) -> str:
    """Within which bounds the number must lie; empty where they differ from place to place."""
    bounds = {(finding.at_least, finding.at_most) for finding in judged.findings}
    if len(bounds) != 1:
        return "as published, each" if bounds else ""
    [(least, most)] = bounds
    if least is None:
        return f"≤ {_form(judged, most)}"
    if most is None:
        return f"≥ {_form(judged, least)}"
    return f"{_form(judged, least).removesuffix(' %')} to {_form(judged, most)}"


def verdict_text(judged: Judged) -> str:
    """The word, and of how many places it is true where they do not agree; or why there is none."""
    if judged.why:
        return f"{Reproduction.CANNOT_TELL}: {judged.why}"
    text = str(judged.verdict)
    nr_same = sum(finding.verdict == Reproduction.REPRODUCED for finding in judged.findings)
    if judged.nr_places > 1 and judged.verdict != Reproduction.REPRODUCED:
        text += f"; it is in {nr_same} of {judged.nr_places} places"
        if len(judged.findings) < judged.nr_places:
            text += f", of which {len(judged.findings)} were run"
    return text


def place_text(judged: Judged, finding: ClaimFinding) -> str:
    """One place of a claim in a line: where, simulated, published, and what is to be said."""
    one = Judged(judged.says, judged.unit, 1, (finding,))
    paired = " paired" if finding.is_paired and finding.low != finding.high else ""
    published = f", published {published_text(one)}" if finding.published is not None else ""
    return f"{finding.where}: {simulated_text(one)}{paired}{published}; {finding.verdict}"


def pairing_text(judged: Sequence[Judged]) -> str:
    """What is to be known of the intervals where some are paired; else empty."""
    return (
        "a ratio of two simulated times is paired, seed by seed, where both sides ran with the"
        " same seeds"
    ) * any(finding.is_paired for one in judged for finding in one.findings)


def _span(judged: Judged, values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = (_form(judged, value) for value in (min(values), max(values)))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _form(judged: Judged, value: float) -> str:
    return f"{value:.2f} %" if judged.unit else ratio_text(value)
