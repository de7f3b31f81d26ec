"""`schedlab race --trace` with what a kernel's scheduler did, as `perf script` or ftrace tell it.

The core reads the text and says what was done to the run queue of each CPU; here one is chosen, and
its operations are kept as a file that the race plays.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from schedlab import catalogue, user_file, whole_file
from schedlab.errors import SchedlabError
from schedlab.report import queue_traces

# The queue that all CPUs would have had together.
ALL = "all"
# What is no trace of operations; the core says what is wrong with it, if something is.
_EVENT = re.compile(rb"[ :]sched_(switch|wakeup|wakeup_new|waking): ")

_HEADER = """\
# What a kernel did to {what}: {operations} operations, from {source}.
# Keys are virtual times as in a tree of CFS: nanoseconds of CPU time over weight, and who wakes up
# has no less than the queue's minimum. Tasks of real-time classes are left out.
# Switches to tasks that nobody saw come: {unseen}. Lost events: {lost}.
# Replay: schedlab race --trace FILE
"""


def played(path: Path, queue: str | None, say: Callable[[str], None]) -> Path:
    """The file of operations to play: `path` itself, or what a kernel's trace in it comes to.

    Of a kernel's trace `queue` is `cpu0`, `cpu1`, …, or `all`; None is the CPU whose queue was
    busiest, and `say` is told which, and which others there are. Raises UnknownName if the trace
    has no such queue, SchedlabError if it cannot be read or is of one queue and `queue` is given.
    """
    if not _EVENT.search(user_file.read(f"--trace {path}", path, user_file.MADE_BYTES_MAX)):
        if queue is not None:
            hint = "leave out --queue, or give what perf script or ftrace says of a kernel"
            raise SchedlabError(f"--queue {queue}: {path} is a trace of one queue", hint)
        return path
    recorded = catalogue.native().race_kernel_trace(str(path))
    queues = recorded["queues"]
    of_cpus = [one for one in queues if one["queue"] != ALL]
    chosen = queue_traces.choose(queues, queue, of_cpus, f"in {path}")
    if chosen is None or not (chosen["operations"] or queue):
        hint = "record for longer, and all CPUs: perf sched record -a"
        raise SchedlabError(f"{path}: no task was queued in it", hint)
    name = chosen["queue"]
    what = "one run queue for all CPUs" if name == ALL else f"the run queue of {name}"
    head = _HEADER.format(what=what, source=path.name, lost=recorded["lost"], **chosen)
    text = head + chosen["text"]
    # Under the digest of their text the same operations are kept once.
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    kept = catalogue.cache_directory() / f"{digest}.trace"
    with whole_file.named_errors(str(kept), "make room there, or set XDG_CACHE_HOME"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write(kept, text)
    say(f"{path}: {what}, {chosen['operations']:,} operations, kept as {kept}")
    say(queue_traces.others_text(queues, chosen))
    return kept
