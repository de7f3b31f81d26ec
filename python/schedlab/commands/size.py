"""`schedlab size`: how much code and data policies and kernels are, beside what was announced.

Maps that a kernel makes when it loads a policy's object take no place in the file, and none here.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import click

from schedlab import catalogue, published
from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.kernel import platform
from schedlab.report import tables

# Every BPF instruction has this size, but loading 64 bits at once is two of them.
INSTRUCTION_BYTES = 8
POLICIES_NOTE = """\
Bytes, but for instructions, which are a part of text; maps are in none of these. 33,936
bytes of data are the record in which a kernel says why it let the policy go.
"""
ANNOUNCED_NOTE = """\
Bytes of sched.o, which held more than a policy does: the core that sched_ext leaves in
the kernel was in it too. So the two tables are not to be subtracted."""
KERNELS_NOTE = """\
Bytes of images as they boot, of one configuration without and with BFS.
"""
AT_HAND_NOTE = """\
Bytes of kernels that are not compressed and were configured by others: compare them with
each other, and not with those of 2009."""


def sections_of(path: Path) -> dict[str, int]:
    """What an ELF file asks of memory, in bytes, divided as `size` of GNU binutils does.

    `text` is code and what is only read, `data` what is written and has a first value, `bss` what
    starts as zero, `code` the part of `text` that is instructions, `total` the sum that `size`
    calls dec. Raises SchedlabError where it is no such file or cannot be read.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    sizes = dict.fromkeys(("text", "data", "bss", "code"), 0)
    try:
        with path.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                flags, size = section["sh_flags"], section["sh_size"]
                if not flags & SH_FLAGS.SHF_ALLOC:
                    continue
                is_code = bool(flags & SH_FLAGS.SHF_EXECINSTR)
                is_written = not is_code and flags & SH_FLAGS.SHF_WRITE
                starts = "bss" if section["sh_type"] == "SHT_NOBITS" else "data"
                sizes[starts if is_written else "text"] += size
                sizes["code"] += size * is_code
    except (OSError, ELFError) as error:
        hint = "give an object file of the format ELF"
        raise SchedlabError(f"{path} cannot be measured: {error}", hint) from error
    return sizes | {"total": sizes["text"] + sizes["data"] + sizes["bss"]}


@click.command("size")
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
@click.option("--kernels", is_flag=True, help="Of whole kernels instead: those in the cache.")
@options.json_option
def size_verb(policies, kernels, as_json) -> None:
    """Tell how many bytes of code and data policies are.

    All of them if none is named, beside the sizes of sched.o that were announced with CFS-devel in
    2007. With --kernels, the kernels in the cache beside those that were published in 2009.
    """
    if kernels and policies:
        raise SchedlabError("--kernels is not about policies", "leave out one of them")
    if kernels:
        _tell_kernels(as_json)
    else:
        _tell_policies(policies or catalogue.names(catalogue.POLICIES), as_json)


def _tell_policies(policies: Iterable[str], as_json: bool) -> None:
    sizes_of = {}
    for text in policies:
        # A set changes values, never sizes.
        source, _ = catalogue.find_policy(text)
        label = catalogue.label_of(catalogue.split_set(text)[0])
        sizes_of[label] = sections_of(Path(catalogue.load_policy(source).object_path))
    columns = {"text": "text_bytes", "data": "data_bytes", "bss": "bss_bytes", "total": "dec_bytes"}
    announced = _published("seed003_code_size", "object", columns)
    if as_json:
        rows = [{"policy": policy} | sizes for policy, sizes in sizes_of.items()]
        tables.print_json({"policies": rows, "announced_2007": announced})
        return
    of_each = itemgetter("text", "data", "bss")
    rows = [
        (policy, sizes["code"] // INSTRUCTION_BYTES, *of_each(sizes))
        for policy, sizes in sizes_of.items()
    ]
    _print(("policy", "instructions", "text", "data", "bss"), rows)
    click.echo(POLICIES_NOTE)
    _print(("announced in 2007", *columns), (row.values() for row in announced))
    click.echo(ANNOUNCED_NOTE)


def _tell_kernels(as_json: bool) -> None:
    rows = []
    for kernel in platform.present():
        image = Path(kernel["image"])
        row = {"kernel": kernel["release"], "scheduler": kernel["scheduler"]}
        rows.append(row | {"size": image.stat().st_size} | sections_of(image))
    before = _published("seed000_kernel_size", "kernel", {"size": "size_bytes"})
    if as_json:
        tables.print_json({"kernels": rows, "published_2009": before})
        return
    _print(("published in 2009", "image"), (row.values() for row in before))
    click.echo(KERNELS_NOTE)
    columns = ("text", "data", "bss", "code")
    sizes = itemgetter("size", *columns)
    cells = [(f"{row['kernel']} ({row['scheduler']})", *sizes(row)) for row in rows]
    _print(("kernel in the cache", "image", *columns), cells)
    click.echo(AT_HAND_NOTE if rows else "The cache has none: `schedlab kernels fetch` gets some.")


def _published(table: str, name: str, columns: Mapping[str, str]) -> list[dict]:
    """The rows of a published table: what each is called, and whole numbers under our names."""
    try:
        return [
            {name: row[name]} | {ours: int(row[theirs]) for ours, theirs in columns.items()}
            for row in published.rows(table)
        ]
    except (KeyError, ValueError) as error:
        why = f"{table} is not the published table any more: {error}"
        raise SchedlabError(why, "install schedlab again") from error


def _print(headings: Sequence[str], rows: Iterable[Iterable[str | int]]) -> None:
    """A name, and numbers that stand below each other, in each row."""
    table = tables.headed(headings, left=headings[:1], is_lined=True)
    for name, *numbers in rows:
        table.add_row(name, *map("{:,}".format, numbers))
    tables.print_table(table)
