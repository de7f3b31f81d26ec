"""Boots of real kernels for tests that load policies into them."""

from pathlib import Path

import pytest
from cached_kernels import named
from schedlab import catalogue, programs
from schedlab.errors import SchedlabError
from schedlab.kernel import platform, result, vm

KERNELS = ("6.18", platform.NEWEST)
# What a guest may record of a play, all CPUs together.
RECORD_KIB = 16 * 1024
PLAY_LIMIT_NS = 300_000_000_000


def object_of(source):
    """Where the object of a policy's source is."""
    return Path(catalogue.load_policy(source).object_path)


def needed(kernel):
    """The kernel's name; skips where QEMU, the guest's program or the kernel is missing."""
    native = catalogue.native()
    try:
        native.find_qemu()
        programs.GUEST.find()
    except (native.VmError, SchedlabError) as error:
        pytest.skip(str(error).splitlines()[0])
    return named(kernel)


def booted(kernel, nr_cpus, job, files, deterministic=False):
    """The records of a machine that did `job` to its end, and what its kernel wrote last."""
    ran = vm.start(
        kernel,
        job,
        files,
        cpus=str(nr_cpus),
        accelerator="tcg",
        deterministic=deterministic,
        record_kib_per_cpu=RECORD_KIB // nr_cpus,
    ).run()
    assert ran.end == vm.POWERED_OFF, ran.message + ran.console
    return result.parse(ran.lines), ran.console
