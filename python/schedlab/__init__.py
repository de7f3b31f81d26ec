"""schedlab, a laboratory for CPU schedulers: one policy in C, many machines, honest comparisons."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """`__version__`, looked up when it is asked for: most commands never need it."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("schedlab")
    except metadata.PackageNotFoundError:  # A checkout on PYTHONPATH that was never installed.
        return "0+not-installed"
