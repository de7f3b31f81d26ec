"""Numbers, times, counts and lists as people read them: on the terminal and on every page.

A mean with a symmetrical interval is `mean ± half unit`. Whatever lies anywhere in its interval,
such as a ratio, a quantile or a geometric mean, is `value [low, high]`. Numbers of measured runs
that need the digits of their interval, changes in percent and p values are in
`statistics.digits`, because sentences about tests hold them too.
"""

import math
from collections.abc import Callable, Sequence

DASH = "–"
TIME_UNITS_NS = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}

Form = Callable[[float], str]


def time_unit(longest_ns: float) -> tuple[str, float]:
    """The largest unit, and its nanoseconds, in which a time is at least 1; ns for shorter ones."""
    return next((unit for unit in TIME_UNITS_NS.items() if longest_ns >= unit[1]), ("ns", 1.0))


def time_text(duration_ns: float) -> str:
    """A time with four significant digits in the unit that suits it: 1.500 ms; 17 ns."""
    unit, unit_ns = time_unit(duration_ns)
    if unit == "ns":
        return f"{duration_ns:.0f} ns"
    return f"{duration_ns / unit_ns:#.4g}".rstrip(".") + f" {unit}"


def tick_text(duration_ns: float) -> str:
    """A time for an axis, with three significant digits and no zeros at its end: 1.5 ms."""
    unit, unit_ns = time_unit(duration_ns)
    scaled = duration_ns / unit_ns
    return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"


def duration_text(seconds: float) -> str:
    """How long one has to wait: 2 h 5 min, 5 min 3 s, 3 s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size_text(size_bytes: int) -> str:
    """A size of memory in whole MiB, or KiB below one."""
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


def number_text(value: float | None) -> str:
    """Four significant digits, thousands separated; a dash for what is not known."""
    if value is None:
        return DASH
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:#.4g}".rstrip(".")


def mean_count_text(value: float) -> str:
    """A mean of counts as `number_text` has it, but a whole one looks like a count."""
    return f"{value:,.0f}" if value == round(value) else number_text(value)


def mean_text(
    mean: float, low: float | None = None, high: float | None = None, unit: str = ""
) -> str:
    """A mean and half the width of its symmetrical interval: 12.34 ± 0.12 s. A mean that stands
    alone has no interval; equal runs have one of ± 0."""
    text = number_text(mean)
    if low is not None and high is not None:
        text += f" ± {_half_text((high - low) / 2, text)}"
    return f"{text} {unit}" if unit else text


def _half_text(half: float, mean: str) -> str:
    """Two digits, because an uncertainty is not known better, and none finer than the mean's."""
    if half == 0:
        return "0"
    decimals = len(mean.partition(".")[2])
    if round(half, decimals) == 0:
        return f"<{10**-decimals:.{decimals}f}"
    return f"{half:.{min(decimals, max(0, 1 - math.floor(math.log10(half))))}f}"


def interval_text(
    value: float, low: float | None, high: float | None, form: Form = number_text
) -> str:
    """A value and its interval: 1.205 [1.170, 1.241]; 5.1 [4.9, 5.6] ms.

    The value stands alone without an interval, or where the whole interval looks like it. A unit
    that `form` writes after every number comes once, at the end.
    """
    if low is None or high is None or form(low) == form(high):
        return form(value)
    texts = [form(each) for each in (value, low, high)]
    unit = texts[0].partition(" ")[2]
    if {text.partition(" ")[2] for text in texts} != {unit}:
        return "{} [{}, {}]".format(*texts)
    numbers = [text.partition(" ")[0] for text in texts]
    return "{} [{}, {}] {}".format(*numbers, unit).rstrip()


def ratio_text(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """A ratio with three decimals, from 10 on three digits, and its interval: 12,300."""
    if ratio is None:
        return DASH
    if low is None or high is None:
        if ratio < 10:
            return f"{ratio:.3f}"
        return f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 999.5 else f"{ratio:#.3g}".rstrip(".")
    return f"{ratio_text(ratio)} [{ratio_text(low)}, {ratio_text(high)}]"


def points_text(value: float) -> str:
    """A difference of percentages with its sign, to a hundredth; no sign where that is zero."""
    text = f"{value:+.2f}"
    return text if text.strip("+-0.") else "0.00"


def count_text(count: int, thing: str) -> str:
    """A number of things: 1 run, 2 runs."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def list_text(parts: Sequence[str]) -> str:
    """Several texts in a sentence: a, b and c."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def ranges_text(values: Sequence[int]) -> str:
    """Ascending integers with unbroken stretches written as one: 1 to 5, 9."""
    stretches: list[list[int]] = []
    for value in values:
        if stretches and value == stretches[-1][-1] + 1:
            stretches[-1].append(value)
        else:
            stretches.append([value])
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]} to {s[-1]}" for s in stretches)
