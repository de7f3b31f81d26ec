"""Kernels of the user's cache that tests boot; without its kernel a test is skipped and says so."""

import pytest
from schedlab import catalogue
from schedlab.kernel import platform


def present():
    """The records of the user's kernels; the tests use them, and never change them."""
    native = catalogue.native()
    try:
        native.find_qemu()
    except native.VmError as error:
        pytest.skip(str(error).splitlines()[0])
    found = {kernel["name"]: kernel for kernel in platform.present()}
    if not found:
        pytest.skip("no kernels in the cache: schedlab kernels fetch")
    return found


def named(kernel):
    """The name of a kernel of the cache. "newest" is what `kernels fetch` means by it: the newest
    that takes policies, whatever Debian has by now. Skips where it is missing.
    """
    found = present()
    if kernel != platform.NEWEST:
        if kernel not in found:
            pytest.skip(f"no kernel {kernel} in the cache: schedlab kernels fetch")
        return kernel
    default = catalogue.native().kernels_default_series()
    if platform.NEWEST in platform.missing(default, list(found.values())):
        pytest.skip("no newer kernel in the cache: schedlab kernels fetch newest")
    return catalogue.native().kernels_find(str(catalogue.kernels_directory()))["name"]
