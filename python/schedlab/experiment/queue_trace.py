"""`schedlab run --queue-trace`: what a run did to a dispatch queue, as a file that a race replays.

The core records and writes the text; here a queue is chosen and the file is made.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from schedlab import user_file, whole_file
from schedlab.errors import SchedlabError
from schedlab.report import queue_traces

HEADER = """\
# What a run did to dispatch queue {queue}: {operations} operations.
# {replay}
# Replay: schedlab race --trace FILE
"""


def refuse_unfit(path: Path | None, queue: str | None, is_simulated: bool) -> None:
    """Raises SchedlabError, before anything runs, for options that cannot be had together, or if
    there is no folder for the file."""
    if path is None and queue is not None:
        raise SchedlabError(f"--queue {queue}: nothing is written of it", "add --queue-trace FILE")
    if path is None:
        return
    if not is_simulated:
        what = "--queue-trace: a real kernel does not tell what it does to its dispatch queues"
        raise SchedlabError(what, "leave out --on: a simulated run tells all of it")
    user_file.refuse_target(f"--queue-trace {path}", path)
    user_file.refuse_source(f"--queue-trace {path}", path)
    if not path.absolute().parent.is_dir():
        what = f"--queue-trace {path}: there is no directory {path.parent}"
        raise SchedlabError(what, "create it first")


def write(path: Path, queue: str | None, traces: Sequence[Mapping], replay: str) -> str:
    """Writes the trace of one queue, and gives a line that says which.

    `traces` are as `_native.simulate` gives them in `queue_traces`; the command `replay` does the
    run again. Raises SchedlabError if no queue of this name, or none at all, was used, or the file
    cannot be written.
    """
    own = [trace for trace in traces if trace["is_policys"]]
    if (trace := queue_traces.choose(traces, queue, own or traces, "in this run")) is None:
        raise SchedlabError(
            "--queue-trace: no dispatch queue was used in this run",
            "the tasks never became runnable: give the run more time, or take another workload",
        )
    with whole_file.named_errors(f"--queue-trace {path}", "name another file"):
        whole_file.write(path, HEADER.format(**trace, replay=replay) + trace["text"])
    line = f"{path}: queue {trace['queue']}, {trace['operations']:,} operations"
    return "\n".join(filter(None, (line, queue_traces.others_text(traces, trace))))
