"""`schedlab run --queue-trace`: what a run did to a dispatch queue, as a file that a race replays.

The core records and writes the text; here a queue is chosen and the file is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from schedlab import user_file, whole_file
from schedlab.errors import SchedlabError, UnknownName

HEADER = """\
# What a run did to dispatch queue {queue}: {operations} operations.
# {replay}
# Replay: schedlab race --trace FILE
"""


def refuse_unfit(path: Path | None, queue: str | None, is_simulated: bool) -> None:
    """Refuses options that cannot be had together, before anything runs.

    Raises
    ------
    SchedlabError
        If a queue is named and no file, if a real kernel runs, or if there is no folder for the
        file.
    """
    if path is None:
        if queue is not None:
            raise SchedlabError(
                f"--queue {queue}: nothing is written of it", "add --queue-trace FILE"
            )
        return
    if not is_simulated:
        raise SchedlabError(
            "--queue-trace: a real kernel does not tell what it does to its dispatch queues",
            "leave out --on: a simulated run tells all of it",
        )
    user_file.refuse_target(f"--queue-trace {path}", path)
    if not path.absolute().parent.is_dir():
        raise SchedlabError(
            f"--queue-trace {path}: there is no directory {path.parent}", "create it first"
        )


def write(path: Path, queue: str | None, traces: Sequence[Mapping], replay: str) -> str:
    """Writes the trace of one queue, and gives a line that says which.

    Parameters
    ----------
    traces : sequence of mapping
        As `_native.simulate` gives them in `queue_traces`.
    replay : str
        The command that does the run again.

    Raises
    ------
    UnknownName
        If no queue of this name was used.
    SchedlabError
        If no queue was used at all, or the file cannot be written.
    """
    trace = _chosen(queue, traces)
    try:
        whole_file.write(path, HEADER.format(**trace, replay=replay) + trace["text"])
    except OSError as error:
        raise SchedlabError(
            f"--queue-trace {path} cannot be written: {error.strerror}", "name another file"
        ) from error
    others = ", ".join(
        f"{other['queue']} {other['operations']:,}" for other in traces if other is not trace
    )
    line = f"{path}: queue {trace['queue']}, {trace['operations']:,} operations"
    return f"{line}\nothers for --queue: {others}" if others else line


def _chosen(queue: str | None, traces: Sequence[Mapping]) -> Mapping:
    if not traces:
        raise SchedlabError(
            "--queue-trace: no dispatch queue was used in this run",
            "the tasks never became runnable: give the run more time, or take another workload",
        )
    if queue is None:
        own = [trace for trace in traces if trace["is_policys"]]
        return max(own or traces, key=lambda trace: trace["operations"])
    for trace in traces:
        if trace["queue"] == queue:
            return trace
    raise UnknownName("queue", queue, [trace["queue"] for trace in traces], "in this run")
