"""schedlab, a laboratory for CPU schedulers: one policy in C, many machines, honest comparisons."""

from importlib import metadata

try:
    __version__ = metadata.version("schedlab")
except metadata.PackageNotFoundError:  # A checkout on PYTHONPATH that was never installed.
    __version__ = "0+not-installed"

__all__ = ["__version__"]
