"""schedlab, a laboratory for CPU schedulers: one policy in C, many machines, honest comparisons.

    import schedlab as sl

    sl.policies()
    answer = sl.compare(["cfs", "bfs"], "hackbench", "osdl-4", vary={"groups": [5, 10, 20]})
    answer.figure()

`schedlab.notebook` says what each of these does.
"""

from importlib import import_module

__all__ = [
    "__version__",
    "check",
    "compare",
    "compare_groups",
    "machines",
    "open",
    "play",
    "policies",
    "read_experiment",
    "simulate",
    "vm",
    "workloads",
]


def __getattr__(name: str):
    """What `__all__` names, looked up when it is asked for: most commands need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "__version__":
        return getattr(import_module("schedlab.notebook"), name)
    from importlib import metadata

    try:
        return metadata.version("schedlab")
    except metadata.PackageNotFoundError:  # A checkout on PYTHONPATH that was never installed.
        return "0+not-installed"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
