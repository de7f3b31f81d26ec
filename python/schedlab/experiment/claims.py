"""What others claimed of schedulers, as an experiment's file puts it into numbers.

A claim is about one ratio in one or more places: a time over another of the same experiment, over
its published twin, or over the ideal; or about the share of CPU time that tasks of one nice value
got. It says within which bounds the number must lie. `verdicts` holds runs against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from schedlab.errors import BadValue, ExperimentError, UnknownName

CLAIM_HINT = "see [[claims]] in docs/reference/cli.md"
CLAIMS_MAX = 100
KEYS = (
    "says", "of", "over", "over_ideal", "share_of_nice", "published", "at_least", "at_most",
    "within", "cannot_tell",
)  # fmt: skip
NICE_RANGE = range(-20, 20)

Place = Mapping[str, str | int | float]
"""What tells cells apart: `policy`, `machine`, and the values of what was varied."""


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
    """The claims of an experiment file.

    Parameters
    ----------
    place : str
        Where they stand, for messages.
    raw : object
        What TOML has under `claims`.
    known : mapping
        The values that there are of `policy`, `machine` and each varied parameter.
    ideal : str or None
        What the published times call ideal; None where the file names no table of them.

    Raises
    ------
    SchedlabError
        If a claim has an unknown key, names what is not in the experiment, or says no bounds.
    """
    if not isinstance(raw, list) or not all(isinstance(table, dict) for table in raw):
        raise BadValue(place, raw, "is not a list of tables", f"write [[claims]]; {CLAIM_HINT}")
    if len(raw) > CLAIMS_MAX:
        raise BadValue(place, len(raw), f"are more than {CLAIMS_MAX} claims")
    choices = {name: list(values) for name, values in known.items()}
    return tuple(_claim(f"{place} {at + 1}", table, choices, ideal) for at, table in enumerate(raw))


def _claim(place: str, table: Mapping, known: Mapping[str, list], ideal: str | None) -> Claim:
    for key in table:
        if key not in KEYS:
            raise UnknownName("key", key, KEYS, f"in {place}")
    says = table.get("says")
    if not isinstance(says, str) or not says.strip():
        raise ExperimentError(f"{place} does not say what is claimed: {says!r}", CLAIM_HINT)
    if "cannot_tell" in table:
        if not isinstance(table["cannot_tell"], str) or set(table) != {"says", "cannot_tell"}:
            raise ExperimentError(
                f"{place}: cannot_tell is a text, the reason, and stands alone beside says",
                CLAIM_HINT,
            )
        return Claim(says, cannot_tell=table["cannot_tell"])
    claim = Claim(
        says,
        _everywhere(f"{place}: of", table.get("of"), known),
        _places(f"{place}: over", table["over"], known) if "over" in table else (),
        _is_true(f"{place}: over_ideal", table.get("over_ideal", False)),
        _nice(f"{place}: share_of_nice", table.get("share_of_nice")),
        *(
            _number(f"{place}: {key}", table.get(key))
            for key in ("published", "at_least", "at_most", "within")
        ),
    )
    _refuse_contradictions(place, claim, ideal)
    return claim


def _refuse_contradictions(place: str, claim: Claim, ideal: str | None) -> None:
    kinds = [bool(claim.over), claim.over_ideal, claim.share_of_nice is not None]
    if sum(kinds) > 1:
        raise ExperimentError(
            f"{place}: of over, over_ideal and share_of_nice one can be meant", CLAIM_HINT
        )
    if claim.over_ideal and not ideal:
        raise ExperimentError(
            f"{place}: over_ideal, but the experiment does not say what is ideal",
            'name the parameter that counts equal parts of work, as in ideal = "n"',
        )
    open_bounds = claim.at_least is None and claim.at_most is None
    if open_bounds == (claim.within is None):
        raise ExperimentError(
            f"{place} needs bounds: at_least, at_most or both; or within, a factor less one",
            CLAIM_HINT,
        )
    if None not in (claim.at_least, claim.at_most) and claim.at_least > claim.at_most:
        raise BadValue(f"{place}: at_least", claim.at_least, f"is above at_most, {claim.at_most}")
    twin = claim.published is not None or (ideal is not None and claim.share_of_nice is None)
    if not twin and (claim.within is not None or not any(kinds)):
        raise ExperimentError(
            f"{place}: there is no published number to hold it against",
            "give it as published, or the experiment a table [published]",
        )


def _everywhere(place: str, raw: object, known: Mapping[str, list]) -> tuple[Place, ...]:
    """Whole places: what a table does not name has every value that the experiment gives it."""
    named = raw if isinstance(raw, dict) else {}
    rest = {name: values for name, values in known.items() if name not in named}
    return tuple(
        {**found, **dict(zip(rest, values, strict=True))}
        for found in _places(place, raw, known)
        for values in product(*rest.values())
    )


def _places(place: str, raw: object, known: Mapping[str, list]) -> tuple[Place, ...]:
    """Every combination of what a table lists; a value that is no list stands for itself."""
    if not isinstance(raw, dict) or not raw:
        raise BadValue(place, raw, "is not a table that says where", CLAIM_HINT)
    listed = {}
    for name, value in raw.items():
        if name not in known:
            raise UnknownName("name", name, known, f"in {place}")
        raw_values = value if isinstance(value, list) else [value]
        if not raw_values:
            raise BadValue(f"{place}.{name}", value, "is empty", CLAIM_HINT)
        for one in raw_values:
            if one not in known[name] or isinstance(one, bool):
                valid = map(str, known[name])
                raise UnknownName(name, str(one), valid, f"in {place} (not in this experiment)")
        # As the experiment has it: 2.0 is 2.
        listed[name] = [known[name][known[name].index(one)] for one in raw_values]
    return tuple(dict(zip(listed, values, strict=True)) for values in product(*listed.values()))


def _number(place: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise BadValue(place, value, "is not a number above 0", CLAIM_HINT)
    return float(value)


def _nice(place: str, value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or value not in NICE_RANGE):
        raise BadValue(place, value, "is not a nice value, -20 to 19", CLAIM_HINT)
    return value


def _is_true(place: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadValue(place, value, "is neither true nor false", CLAIM_HINT)
    return value


def of_definition(raw: Sequence[Mapping]) -> tuple[Claim, ...]:
    """The claims that a stored definition of an experiment holds."""
    return tuple(
        Claim(**{**claim, "of": tuple(claim["of"]), "over": tuple(claim["over"])}) for claim in raw
    )
