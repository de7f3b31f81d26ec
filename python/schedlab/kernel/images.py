"""Kernels for virtual machines: those of the user's cache.

Kernels are kept in the user's cache, uncompressed, each with a record of what it is. What is done
with them is in the core (`crates/kernel/src/kernels.rs`), which is asked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlab import catalogue

NEWEST = "newest"


def present() -> list[dict]:
    """The record of every kernel in the cache that can be used, oldest release first."""
    return catalogue.native().kernels_list(str(catalogue.kernels_directory()))


def damaged() -> dict[str, str]:
    """What is wrong with each damaged kernel of the cache, and a way out, by its name."""
    return dict(catalogue.native().kernels_damaged(str(catalogue.kernels_directory())))


def missing(wanted: Sequence[str], kernels: Sequence[Mapping]) -> list[str]:
    """Of series such as "6.12" or "newest", those that no kernel of the cache answers. "newest" is
    answered by a kernel that takes policies and is newer than the series named."""
    names = {kernel["name"] for kernel in kernels}
    named = [series for series in wanted if series[:1].isdigit()]
    newest_named = max(map(_series_key, named), default=(0, 0))
    sound = [_series_key(each["release"]) for each in kernels if each["sched_ext"] == "sound"]
    if max(sound, default=(0, 0)) > newest_named:
        wanted = named
    return [series for series in wanted if series not in names]


def _series_key(release: str) -> tuple[int, int]:
    """Major and minor number of a release."""
    major, minor = release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def why_broken(kernel: Mapping) -> str | None:
    """Why policies cannot be loaded into a kernel that has sched_ext; None if they can."""
    state = kernel["sched_ext"]
    return state["broken"] if isinstance(state, Mapping) else None
