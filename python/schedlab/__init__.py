"""schedlab, a laboratory for CPU schedulers: one policy in C, many machines, honest comparisons.

    import schedlab as sl

    sl.policies()
    answer = sl.compare(["cfs", "bfs"], "hackbench", "osdl-4", vary={"groups": [5, 10, 20]})
    answer.figure()
    answer.table()

docs/guides/notebook.md shows all names at work, `help(sl.compare)` tells what one of them does.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlab.errors import SchedlabError
    from schedlab.notebook.questions import (
        check,
        compare,
        compare_groups,
        machines,
        play,
        policies,
        read_experiment,
        simulate,
        vm,
        workloads,
    )  # fmt: skip
    from schedlab.notebook.stores import measure, race_queues
    from schedlab.notebook.stores import open as open
    from schedlab.notebook.sweeps import sweep
    from schedlab.notebook.tuning import tune

    __version__: str

# `from schedlab import *` leaves Python's own `open` alone.
__all__ = [
    "SchedlabError", "__version__", "check", "compare", "compare_groups", "machines", "measure",
    "play", "policies", "race_queues", "read_experiment", "simulate", "sweep", "tune", "vm",
    "workloads",
]  # fmt: skip
_ELSEWHERE = {"SchedlabError": "errors", "sweep": "notebook.sweeps"}
_ELSEWHERE |= {"tune": "notebook.tuning"}
_ELSEWHERE |= dict.fromkeys(("measure", "open", "race_queues"), "notebook.stores")


def __getattr__(name: str):
    """What is offered, looked up when it is asked for: most commands need none of it."""
    if name not in __dir__():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "__version__":
        module = _ELSEWHERE.get(name, "notebook.questions")
        return getattr(import_module(f"schedlab.{module}"), name)
    from importlib import metadata

    try:
        return metadata.version("schedlab")
    except metadata.PackageNotFoundError:  # A checkout on PYTHONPATH that was never installed.
        return "0+not-installed"


def __dir__() -> list[str]:
    return sorted({*__all__, *_ELSEWHERE})
