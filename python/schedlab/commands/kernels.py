"""The verbs `schedlab kernels list`, `fetch` and `add`: kernels for virtual machines."""

import re
from collections.abc import Iterable, Mapping, Sequence

import click

from schedlab import catalogue, user_file
from schedlab.commands import options
from schedlab.errors import BadValue
from schedlab.kernel.platform import NEWEST, damaged, missing, present, why_broken
from schedlab.report import tables
from schedlab.shown import print_note

SERIES = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
COLUMNS = ("name", "release", "scheduler", "sched_ext", "hz", "source")
SCHED_EXT = {"absent": "no", "sound": "yes"}


@click.command("list")
@options.json_option
def list_verb(as_json) -> bool:
    """Every kernel in the cache, and what its own scheduler is.

    Exit code 1 says that one of them is damaged; with --json it is named on stderr only.
    """
    kernels, unusable = present(), damaged()
    _print(kernels, as_json, unusable)
    for why in unusable.values():
        print_note(f"error: {why}")
    known = {kernel["source"] for kernel in kernels}
    if others := [p for p in catalogue.native().kernels_on_this_machine() if str(p) not in known]:
        print_note(f"on this machine, for `kernels add`: {', '.join(map(str, others))}")
    if not kernels and not unusable:
        print_note("the cache has no kernels yet: `schedlab kernels fetch` gets some")
    return bool(unusable)


@click.command("fetch")
@click.argument("series", nargs=-1, metavar="[SERIES]...")
@click.option("--refresh", is_flag=True, help="Fetch again what the cache has already.")
@options.json_option
def fetch_verb(series, refresh, as_json) -> bool:
    """Get kernels from Debian's packages, without root.

    SERIES is as in 6.12, or "newest". Without any: a CFS kernel, an EEVDF kernel without sched_ext,
    and two with it. The system's sources of packages are read and left alone; apt checks what it
    downloads. Once fetched, a kernel works offline.
    """
    native = catalogue.native()
    wanted = list(series) or native.kernels_default_series()
    for name in wanted:
        if name != NEWEST and not SERIES.fullmatch(name):
            raise BadValue("kernels fetch", name, f"is no series such as 6.12, and not {NEWEST}")
    to_fetch = wanted if refresh else missing(wanted, present())
    directory = str(catalogue.kernels_directory())
    outcomes = native.kernels_fetch(directory, to_fetch, print_note) if to_fetch else []
    errors = [error for _, error in outcomes if error]
    for error in errors:
        print_note(f"error: {error}")
    _print([record for record, error in outcomes if not error] if series else present(), as_json)
    return bool(errors)


@click.command("add")
@click.argument("path", type=options.PATH)
@click.option("--name", help="What to call it.  [default: its release]")
@click.option("--replace", is_flag=True, help="Put it in the place of another of this name.")
@options.json_option
def add_verb(path, name, replace, as_json) -> bool:
    """Take in a kernel of your own.

    It is a vmlinuz, as in /boot, or an uncompressed vmlinux. It is examined, not booted. If it has
    sched_ext and yet no policy could be loaded into it, that is said, with exit code 1; it can
    still be compared by its own scheduler.
    """
    user_file.refuse_unfit(f"kernel {path}", path, user_file.MADE_BYTES_MAX, is_empty_unfit=True)
    cache = str(catalogue.kernels_directory())
    added = catalogue.native().kernels_add(cache, str(path.resolve()), name, replace)
    _print([added], as_json)
    if why := why_broken(added):
        print_note(f"warning: no policy can be loaded into {added['name']}: {why}")
    return bool(why)


def _print(kernels: Sequence[Mapping], as_json: bool, unusable: Iterable[str] = ()) -> None:
    rows = []
    for kernel in kernels:
        sched_ext = "broken" if why_broken(kernel) else SCHED_EXT[kernel["sched_ext"]]
        rows.append({**kernel, "sched_ext": sched_ext, "hz": kernel["hz"] or ""})
    rows += [dict.fromkeys(COLUMNS, "") | {"name": name, "release": "damaged"} for name in unusable]
    if as_json or rows:
        tables.print_rows(kernels if as_json else rows, as_json, COLUMNS)
