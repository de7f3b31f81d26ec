"""schedlab, a laboratory for CPU schedulers: one policy in C, many machines, honest comparisons.

    import schedlab as sl

    sl.policies()
    answer = sl.compare(["cfs", "bfs"], "hackbench", "osdl-4", vary={"groups": [5, 10, 20]})
    answer.figure()

    answer.table()

`schedlab.notebook` says what each name does, docs/guides/notebook.md shows them at work.
"""

from importlib import import_module

__all__ = [
    "SchedlabError",
    "__version__",
    "check",
    "compare",
    "compare_groups",
    "machines",
    "play",
    "policies",
    "read_experiment",
    "simulate",
    "vm",
    "workloads",
]


def __getattr__(name: str):
    """What `__all__` names, looked up when it is asked for: most commands need none of it."""
    # `from schedlab import *` leaves Python's own `open` alone.
    if name not in (*__all__, "open"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "__version__":
        module = "errors" if name == "SchedlabError" else "notebook"
        return getattr(import_module(f"schedlab.{module}"), name)
    from importlib import metadata

    try:
        return metadata.version("schedlab")
    except metadata.PackageNotFoundError:  # A checkout on PYTHONPATH that was never installed.
        return "0+not-installed"


def __dir__() -> list[str]:
    return sorted({*__all__, "open"})
