"""Recorded operations of several queues: which of them is taken, and what is said of the others.

A queue is a mapping as the core gives it: `queue`, its name, `operations`, how many there are, and
`text`, a line each.
"""

from collections.abc import Mapping, Sequence

from schedlab.errors import refuse_unknown


def choose(
    queues: Sequence[Mapping], name: str | None, usual: Sequence[Mapping], where: str
) -> Mapping | None:
    """The queue of this name, else the busiest of the `usual` ones; None if there is none.

    Raises UnknownName if there is no queue of this name; `where` says in what.
    """
    if name is None:
        return max(usual, key=lambda queue: queue["operations"], default=None)
    named = {queue["queue"]: queue for queue in queues}
    refuse_unknown("queue", [name], named, where)
    return named[name]


def others_text(queues: Sequence[Mapping], chosen: Mapping) -> str:
    """What else `--queue` can name; empty if there is nothing else."""
    others = [f"{one['queue']} {one['operations']:,}" for one in queues if one is not chosen]
    return f"others for --queue: {', '.join(others)}" if others else ""
