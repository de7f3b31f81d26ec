"""Numbers written with no more digits than their interval carries.

Half the width of an interval is its uncertainty. That is written with one digit or two, and the
number to the same place: 1.1186 in [1.0561, 1.1848] is 1.12 [1.06, 1.18].

Source of the rule: Particle Data Group, "Review of Particle Physics", section "Rounding": of the
three leading digits of the uncertainty, 100 to 354 keep two, 355 to 949 one, and 950 to 999 are
1000 and keep two.
"""

import math

DIGITS_WITHOUT_INTERVAL = 3
# Of what is known exactly, or so well that nobody needs more.
DIGITS_EXACT = 6
TWO_DIGITS_BELOW = 3.55
# Below this a p value rests on the far tails of a distribution that no sample knows.
P_SMALLEST = 0.001


def decimals(low: float, high: float) -> int:
    """How many decimals a number in the interval from `low` to `high` deserves; negative before the
    point. Where both agree to `DIGITS_EXACT` digits, so many are written.
    """
    uncertainty = (high - low) / 2
    if uncertainty <= abs(high) * 10.0**-DIGITS_EXACT:
        return _decimals_of(max(abs(low), abs(high)), DIGITS_EXACT)
    power = math.floor(math.log10(uncertainty))
    # The first of two digits of 1000 is where the only one of 949 is.
    return (1 if uncertainty / 10.0**power < TWO_DIGITS_BELOW else 0) - power


def number(value: float, low: float | None = None, high: float | None = None) -> str:
    """A number to the digits of its interval, or to `DIGITS_WITHOUT_INTERVAL` without one."""
    return _written(value, _places(value, low, high))


def with_interval(value: float, low: float | None, high: float | None, unit: str = "") -> str:
    """A number and its interval in one precision, such as "1.12 [1.06, 1.18] s".

    Without interval the text says so, for a number alone would seem to be known.
    """
    after = f" {unit}" if unit else ""
    places = _places(value, low, high)
    if low is None or high is None:
        return f"{_written(value, places)}{after} (no interval)"
    return f"{_written(value, places)} [{_written(low, places)}, {_written(high, places)}]{after}"


def change_percent(ratio: float, low: float | None, high: float | None) -> str:
    """A ratio new/old as a change in percent, `+11.9 % [+5.6, +18.5]`: negative is less.

    A change is new/old - 1 and never a speedup, old/new - 1. A bound that excludes no change is not
    written as 0, even if that takes a digit more.
    """
    change = 100 * (ratio - 1)
    if low is None or high is None:
        return f"{_written(change, _places(change, None, None), '+')} % (no interval)"
    bounds = 100 * (low - 1), 100 * (high - 1)
    places = _places(change, *bounds)
    if bounds[0] * bounds[1] > 0:
        nearer = min(map(abs, bounds))
        first = _decimals_of(nearer, 1)
        if round(nearer, first - 1):  # 0.96 is 1 and not 0
            first -= 1
        places = min(DIGITS_EXACT, max(places, first))
    centre, low_text, high_text = (_written(of, places, "+") for of in (change, *bounds))
    return f"{centre} % [{low_text}, {high_text}]"


def percent(change: float) -> str:
    """A relative size in percent with two digits, and never as 1.1e+02."""
    return f"{float(f'{100 * change:.2g}'):,g} %"


def p_text(p_value: float | None) -> str:
    """A p value in a sentence, with two digits: p = 0.031, p < 0.001 or p unknown."""
    if p_value is None:
        return "p unknown"
    return f"p {'' if p_value < P_SMALLEST else '= '}{p_number(p_value)}"


def p_number(p_value: float | None) -> str:
    """A p value in a table, with two digits: 0.031, < 0.001, or a dash for one that is unknown."""
    if p_value is None:
        return "–"
    if p_value < P_SMALLEST:
        return f"< {P_SMALLEST:g}"
    return _written(p_value, min(4, _decimals_of(p_value, 2)))


def _places(value: float, low: float | None, high: float | None) -> int:
    if low is None or high is None:
        return _decimals_of(abs(value), DIGITS_WITHOUT_INTERVAL)
    return decimals(low, high)


def _decimals_of(size: float, digits: int) -> int:
    return 0 if size == 0 else digits - 1 - math.floor(math.log10(size))


def _written(value: float, places: int, sign: str = "") -> str:
    """With the sign that a format asks for; what rounds to zero has none."""
    rounded = round(value, places)
    return f"{rounded:{sign}.{max(0, places)}f}" if rounded else f"{0:.{max(0, places)}f}"
