"""sched_ext of the kernel that runs here: whether it is there, and who is attached."""

import contextlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SchedExt:
    """sched_ext of a kernel: its state, and the name of the scheduler that is attached."""

    state: str
    ops: str


def sched_ext(sys: Path = Path("/sys")) -> SchedExt | None:
    """What the running kernel tells under `sys`; None if it has no sched_ext."""
    directory, ops = sys / "kernel/sched_ext", ""
    try:
        state = (directory / "state").read_text("utf-8").strip()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        ops = (directory / "root/ops").read_text("utf-8").strip()
    return SchedExt(state, ops)
