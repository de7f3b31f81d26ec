"""sched_ext of the kernel that runs here: whether it is there, and who is attached."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SchedExt:
    """sched_ext of a kernel: its state, and the name of the scheduler that is attached."""

    state: str
    ops: str


def sched_ext(sys: Path = Path("/sys")) -> SchedExt | None:
    """What the running kernel tells under `sys`; None if it has no sched_ext."""
    if (state := read_text(sys / "kernel/sched_ext/state")) is None:
        return None
    return SchedExt(state, read_text(sys / "kernel/sched_ext/root/ops") or "")


def read_text(path: Path) -> str | None:
    """What a file of the kernel says; None if there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
