"""Times and counts as people read them."""

from __future__ import annotations


def format_ns(duration_ns: float) -> str:
    """A time for people: four significant digits in the unit that suits it."""
    for unit, unit_ns in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if duration_ns >= unit_ns:
            return f"{duration_ns / unit_ns:#.4g}".rstrip(".") + f" {unit}"
    return f"{duration_ns:.0f} ns"
