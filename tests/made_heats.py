"""Heats made up for tests: each structure has the times it is given, one a round."""

from schedlab.race.plan import Heat, HeatSpec, Machine

MACHINE = Machine("A Processor", (("L1d", 48 << 10), ("L2", 2 << 20)))
INEXACT = ("fifo", "time_ring")


def row(structure, rounds, **changes):
    """A row as the core gives it."""
    made = {
        "structure": structure,
        "exact": structure not in INEXACT,
        "source": "schedlab",
        "ticks_per_loop": list(rounds),
        "instructions_per_loop": None,
        "cache_misses_per_loop": None,
        "bytes_per_item": 100.0,
        "single": None,
        "order_hash": None if structure in INEXACT else "ab12",
        "left_out": "",
        "disturbed": 0,
        "paces": [1.25] * len(rounds),
    }
    return made | changes


def heat(rows, workload="hold", keys="uniform", n=100, queues=1, counters=None, load=0.5, **spec):
    """A heat of these rows: structure -> times, or rows made before."""
    rows = [row(name, of) for name, of in rows.items()] if isinstance(rows, dict) else rows
    question = HeatSpec(workload, keys, n, queues, rounds=9, **spec)
    result = {
        "spec": {**question.for_core, "loops": 1000, "pace": 1.25},
        "per": "loop",
        "ticks_per_s": 2.5e9,
        "clock": "tsc",
        "cpu": 1,
        "counters": counters or {"available": False, "why_not": "no counters in this machine"},
        "rows": rows,
    }
    return Heat(question, result, f"2026-01-02T03:04:{n % 60:02d}.000+00:00", load)


def rounds(*first, nr=9):
    """Times of `nr` rounds that begin with these and then repeat the last."""
    return [*first, *[first[-1]] * (nr - len(first))]
