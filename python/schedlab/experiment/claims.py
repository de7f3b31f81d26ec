"""What others claimed of schedulers, as an experiment's file puts it into numbers.

A claim is about one ratio in one or more places: a time over another of the same experiment, over
its published twin, or over the ideal; or about the share of CPU time that tasks of one nice value
got. It says within which bounds the number must lie. `verdicts` holds runs against it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import product

from schedlab.errors import BadValue, ExperimentError, UnknownName, refuse_unknown
from schedlab.values import Table, Value

CLAIM_HINT = "see [[claims]] in docs/reference/cli.md"
CLAIMS_MAX = 100
NICE_RANGE = (-20, 19)
# Of a ratio, a share in percent, or a factor: what is no slip of the pen.
LEAST, MOST = 1e-12, 1e12
NUMBERS = ("published", "at_least", "at_most", "within")

Place = Mapping[str, Value]  # `policy`, `machine`, and the values of what was varied


@dataclass(frozen=True)
class Claim:
    """One statement, of each place in `of`; each of `over` names what is other in its counterpart.

    Without `over` a time is held against the published one of the same place, with `over_ideal`
    against what the experiment calls ideal. `share_of_nice` makes it a percentage of CPU time
    instead. The number must lie from `at_least` to `at_most`, or, with `within`, no more than
    that factor (0.1 is 10 %) from the published number. `published` is that number where the
    experiment's table does not have it. `cannot_tell` is why the model says nothing of it.
    """

    says: str
    of: tuple[Place, ...] = ()
    over: tuple[Place, ...] = ()
    over_ideal: bool = False
    share_of_nice: int | None = None
    published: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    within: float | None = None
    cannot_tell: str = ""


def read(
    place: str, raw: object, known: Mapping[str, Iterable], ideal: str | None
) -> tuple[Claim, ...]:
    """The claims of an experiment file: `raw` is what it has under `claims`.

    `known` has the values that there are of `policy`, `machine` and each varied parameter; `ideal`
    is what the published times call ideal, None where the file names no table of them. Raises
    SchedlabError if a claim has an unknown key, names what is not in the experiment, or says no
    bounds.
    """
    if not isinstance(raw, list) or not all(isinstance(table, dict) for table in raw):
        raise BadValue(place, raw, "is not a list of tables", f"write [[claims]]; {CLAIM_HINT}")
    if len(raw) > CLAIMS_MAX:
        raise BadValue(place, len(raw), f"are more than {CLAIMS_MAX} claims")
    choices = {name: list(values) for name, values in known.items()}
    return tuple(
        _claim(Table(table, f"{place} {number}"), choices, ideal)
        for number, table in enumerate(raw, 1)
    )


def _claim(table: Table, known: Mapping[str, list], ideal: str | None) -> Claim:
    place = table.place
    table.refuse_others(field.name for field in fields(Claim))
    says = table.get("says", str, "a text", CLAIM_HINT, "")
    if not says.strip():
        raise ExperimentError(f"{place} does not say what is claimed: {says!r}", CLAIM_HINT)
    if "cannot_tell" in table.given:
        if set(table.given) != {"says", "cannot_tell"}:
            raise ExperimentError(
                f"{place}: cannot_tell is the reason, and stands alone beside says", CLAIM_HINT
            )
        return Claim(says, cannot_tell=table.text("cannot_tell"))
    numbers = {
        key: float(table.number(key, None, LEAST, MOST)) for key in NUMBERS if key in table.given
    }
    if "share_of_nice" in table.given:
        numbers["share_of_nice"] = table.number("share_of_nice", None, *NICE_RANGE, whole=True)
    of = _places(table.table("of", CLAIM_HINT), known, is_whole=True)
    over = ()
    if "over" in table.given:
        over = _places(table.table("over", CLAIM_HINT), known, is_whole=False)
    claim = Claim(says, of, over, table.flag("over_ideal"), **numbers)
    _refuse_contradictions(place, claim, ideal)
    return claim


def _refuse_contradictions(place: str, claim: Claim, ideal: str | None) -> None:
    kinds = [bool(claim.over), claim.over_ideal, claim.share_of_nice is not None]
    least, most, within = claim.at_least, claim.at_most, claim.within
    twin = claim.published is not None or (ideal is not None and claim.share_of_nice is None)
    if sum(kinds) > 1:
        what = f"{place}: of over, over_ideal and share_of_nice one can be meant"
        raise ExperimentError(what, CLAIM_HINT)
    if claim.over_ideal and not ideal:
        hint = 'name the parameter that counts equal parts of work, as in ideal = "n"'
        what = f"{place}: over_ideal, but the experiment does not say what is ideal"
        raise ExperimentError(what, hint)
    if (least is None and most is None) == (within is None):
        what = f"{place} needs bounds: at_least, at_most or both; or within, a factor less one"
        raise ExperimentError(what, CLAIM_HINT)
    if not twin and (within is not None or not any(kinds)):
        hint = "give it as published, or the experiment a table [published]"
        raise ExperimentError(f"{place}: there is no published number to hold it against", hint)
    if None not in (least, most) and least > most:
        raise BadValue(f"{place}: at_least", least, f"is above at_most, {most}")


def _places(table: Table, known: Mapping[str, list], is_whole: bool) -> tuple[Place, ...]:
    """Every combination of what a table lists; a value that is no list stands for itself. With
    `is_whole`, what it does not name has every value that the experiment gives it."""
    if not table.given:
        raise BadValue(table.place, table.given, "does not say where", CLAIM_HINT)
    listed = {}
    refuse_unknown("name", table.given, known, f"in {table.place}")
    for name, value in table.given.items():
        values = value if isinstance(value, list) else [value]
        if not values:
            table.refuse(name, value, "is empty", CLAIM_HINT)
        for one in values:
            if one not in known[name] or isinstance(one, bool):
                valid = map(str, known[name])
                where = f"in {table.place} (not in this experiment)"
                raise UnknownName(name, str(one), valid, where)
        # As the experiment has it: 2.0 is 2.
        listed[name] = [known[name][known[name].index(one)] for one in values]
    if is_whole:
        listed |= {name: values for name, values in known.items() if name not in listed}
    return tuple(dict(zip(listed, values, strict=True)) for values in product(*listed.values()))
