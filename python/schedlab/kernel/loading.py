"""A policy on this machine: whether its kernel takes one, and the object that is loaded.

`schedlab-guest` loads the object and tells what happens, one record a line. The kernel kills the
guest, and with it the policy, when the process that started it dies.
"""

import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.errors import BadValue, SchedlabError
from schedlab.kernel import sched_ext

OBJECT_SUFFIX = ".o"
# The kernel may take this long to take every task from a policy, and some time to tell.
STOP_WAIT_S = 35.0


def require_kernel(sys: Path = Path("/sys"), command: Sequence[str] | None = None) -> None:
    """Raises SchedlabError if the running kernel has no sched_ext, we are not root, or a scheduler
    is attached. `command` is what sudo may be given."""
    if (now := sched_ext.sched_ext(sys)) is None:
        raise SchedlabError(
            f"the running kernel, Linux {platform.release()}, has no sched_ext",
            "it needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y; `schedlab doctor` tells"
            " what this machine can do, `schedlab kernels fetch` gets kernels for VMs",
        )
    if os.geteuid() != 0:
        raise SchedlabError(
            "not root: only root may give the kernel another scheduler",
            f"sudo {shlex.join(command)}" if command else "run the same command as root",
        )
    if now.state != "disabled":
        raise SchedlabError(
            f"the scheduler {now.ops or '(unnamed)'} is attached already (sched_ext is"
            f" {now.state}), and there can be one only",
            "stop the program that loaded it",
        )


def object_of(policy: str) -> tuple[str, Path, dict[str, int]]:
    """Name and BPF object of what the user named: an object as it is, else built from its C. Also
    the tunables of the set that was named."""
    path = Path(os.path.expanduser(policy))  # noqa: PTH111 - as in `catalogue.find`
    if policy.endswith(OBJECT_SUFFIX) and not catalogue.has_loader(path):
        hint = "give a *.bpf.c file, or a name of `schedlab list policies`"
        user_file.refuse_unfit(f"BPF object {policy!r}", path, user_file.MADE_BYTES_MAX, hint)
        return path.name.removesuffix(OBJECT_SUFFIX).removesuffix(".bpf"), path.resolve(), {}
    given, set_name = catalogue.split_set(policy)
    if set_name is not None and given.endswith(OBJECT_SUFFIX):
        hint = "name its *.bpf.c file instead, or say each tunable by --set"
        raise BadValue("policy", policy, "is a BPF object, which has no tunable sets", hint)
    source, set_name = catalogue.find_policy(policy)
    compiled = catalogue.load_policy(source)
    of_set = catalogue.values_of_set(compiled, set_name)
    return catalogue.label_of(catalogue.with_set(policy)), Path(compiled.object_path), of_set
