"""Whether a kernel takes a policy: asked of the newest one at hand, in a virtual machine.

The simulator sees what a policy does, the kernel's verifier all that it might do. An answer is kept
in the user's cache by what decides it, so that one object is asked about once.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlab import catalogue, whole_file
from schedlab.digests import digest_of
from schedlab.errors import SchedlabError
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import Cell, expand
from schedlab.kernel.result import NOT_ENABLED

# What a kernel that takes the policy then plays: as little as there is.
WORKLOAD = {"workload": "counter", "with": {"n": "1", "work": "1ms"}}
CPUS = "2"


@dataclass(frozen=True)
class Asked:
    """A kernel's answer: `verdict` is holds, violated or not_asked.

    `kernel` names it, empty where there is none. `what` is why it refuses the policy, or why none
    was asked; `hint` a way out, and `log` the end of what the verifier said, both perhaps empty.
    """

    verdict: str
    kernel: str = ""
    what: str = ""
    hint: str = ""
    log: str = ""


def ask(policy: str, tunables: Mapping[str, int], tell: Callable[[str], None]) -> Asked:
    """Asks whether the newest kernel at hand takes a policy with these values of its tunables.
    `tell` is told, before a machine boots, which one that is."""
    try:
        cell = _cell(policy, tunables)
        path = catalogue.cache_directory() / "verifier" / f"{_digest_of(cell)}.json"
        if kept := _kept(path):
            return kept
        kernel = f"Linux {cell.platform.kernel.release}"
        tell(f"asking {kernel} whether it takes {cell.policy.label}")
        answer = _answer(kernel, vm.measure_cell(cell))
    except (SchedlabError, catalogue.native().NativeError) as error:
        return Asked("not_asked", what=getattr(error, "message", str(error)), hint=error.hint or "")
    if answer.verdict != "not_asked":
        # Where it cannot be kept it is asked again.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            whole_file.write(path, json.dumps(asdict(answer)))
    return answer


def _cell(policy: str, tunables: Mapping[str, int]) -> Cell:
    texts = {name: str(value) for name, value in tunables.items()}
    asked = {"policies": [policy], "vm": definition.VmChoice(None, (CPUS,), False), **WORKLOAD}
    [cell] = expand(definition.build(asked | {"set": {"": texts} if texts else {}}))
    return cell


def _digest_of(cell: Cell) -> str:
    """What decides the answer: the object, what is set in it, the kernel, and who loads it."""
    return digest_of([cell.policy.digest, cell.policy.changed, cell.platform.digest, cell.version])


def _kept(path: Path) -> Asked | None:
    try:
        return Asked(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        # None is there, or one that is damaged: it is asked again.
        return None


def _answer(kernel: str, outcome: vm.sweep.Outcome) -> Asked:
    error: Mapping = (outcome.result or {}).get("error") or {}
    if outcome.fault is not None:
        return Asked("not_asked", kernel, outcome.fault, outcome.hint or "")
    is_enabled = not error.get("message", "").startswith(NOT_ENABLED)
    if error.get("kind") == "refused" and is_enabled:
        return Asked("violated", kernel, error["message"], error["hint"], error["evidence"])
    # Who cannot begin, is ejected, or brings no end to a task, was taken before.
    if not error or error["kind"] in ("refused", "ejected", "time_limit"):
        return Asked("holds", kernel)
    return Asked("not_asked", kernel, error["message"], error["hint"])
