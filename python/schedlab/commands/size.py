"""`schedlab size`: how much code and data each policy is, as the announcement of CFS-devel told it
of sched.o in September 2007.

Both of a policy's objects are measured: the one that a kernel loads and the one that the simulator
loads. Maps that a kernel makes when it loads an object take no place in the file, and none here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich import box
from rich.table import Table

from schedlab import catalogue, published
from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.kernel import bpf
from schedlab.report import tables

TABLE_2007 = "seed003_code_size"
# Every BPF instruction has this size, but loading 64 bits at once is two of them.
INSTRUCTION_BYTES = 8


@dataclass(frozen=True, slots=True)
class Sections:
    """What an object file asks of memory, in bytes, divided as `size` of GNU binutils does.

    `text` is code and what is only read, `data` what is written and has a first value, `bss` what
    starts as zero. `code` is the part of `text` that is instructions.
    """

    text: int
    data: int
    bss: int
    code: int

    @property
    def total(self) -> int:
        """The sum that `size` calls dec."""
        return self.text + self.data + self.bss


def sections_of(path: Path) -> Sections:
    """Sizes of an ELF file's sections.

    Raises
    ------
    SchedlabError
        If the file cannot be read or is none of the format ELF.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    sizes = {"text": 0, "data": 0, "bss": 0, "code": 0}
    try:
        with path.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                flags, size = section["sh_flags"], section["sh_size"]
                if not flags & SH_FLAGS.SHF_ALLOC:
                    continue
                if flags & SH_FLAGS.SHF_EXECINSTR:
                    sizes["code"] += size
                if flags & SH_FLAGS.SHF_EXECINSTR or not flags & SH_FLAGS.SHF_WRITE:
                    sizes["text"] += size
                else:
                    sizes["bss" if section["sh_type"] == "SHT_NOBITS" else "data"] += size
    except (OSError, ELFError) as error:
        raise SchedlabError(
            f"{path} cannot be measured: {error}", "give an object file of the format ELF"
        ) from error
    return Sections(**sizes)


@click.command("size")
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
@options.json_option
def size_verb(policies: Sequence[str], as_json: bool) -> int:
    """Tell how many bytes of code and data policies are.

    All of them if none is named. For the kernel (built by clang as BPF) and for the simulator
    (built for this processor), beside the sizes of sched.o that were announced with CFS-devel in
    2007.
    """
    found = {}
    for text in policies or catalogue.names(catalogue.POLICIES):
        # A set changes values, never sizes.
        source, _ = catalogue.find_policy(text)
        native = Path(catalogue.load_policy(source).object_path)
        label = catalogue.label_of(catalogue.split_set(text)[0])
        found[label] = {
            "bpf": sections_of(bpf.object_of(source)),
            "native": sections_of(native),
        }
    announced = _announced()
    if as_json:
        tables.print_json(
            {
                "policies": [
                    {"policy": policy, **{side: _told(of) for side, of in sides.items()}}
                    for policy, sides in found.items()
                ],
                "announced_2007": announced,
            }
        )
        return 0
    tables.print_table(_policies_table(found))
    click.echo(
        "Bytes, but for instructions. Code is a part of text; maps are in none of these. 33,936"
        "\nbytes of data are the record in which a kernel says why it let the policy go.\n"
    )
    tables.print_table(_announced_table(announced))
    click.echo(
        "Bytes of sched.o, which held more than a policy does: the core that sched_ext leaves in"
        "\nthe kernel was in it too. So the two tables are not to be subtracted."
    )
    return 0


def _told(sections: Sections) -> dict[str, int]:
    return {**asdict(sections), "total": sections.total}


def _policies_table(found: Mapping[str, Mapping[str, Sections]]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("policy", no_wrap=True)
    kernel = ("kernel:\ninstructions", "\ntext", "\ndata", "\nbss")
    for heading in (*kernel, "simulator:\ncode", "\ndata", "\nbss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for policy, sides in found.items():
        there, here = sides["bpf"], sides["native"]
        numbers = (
            there.code // INSTRUCTION_BYTES,
            there.text,
            there.data,
            there.bss,
            here.code,
            here.data,
            here.bss,
        )
        table.add_row(policy, *(f"{number:,}" for number in numbers))
    return table


def _announced() -> list[dict]:
    """The rows of 2007: object, text, data, bss and total in bytes."""
    try:
        return [
            {
                "object": row["object"],
                "text": int(row["text_bytes"]),
                "data": int(row["data_bytes"]),
                "bss": int(row["bss_bytes"]),
                "total": int(row["dec_bytes"]),
            }
            for row in published.rows(TABLE_2007)
        ]
    except (KeyError, ValueError) as error:
        raise SchedlabError(
            f"{TABLE_2007} is not the table of 2007 any more: {error}", "install schedlab again"
        ) from error


def _announced_table(rows: Sequence[Mapping]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("announced in 2007", no_wrap=True)
    columns = ("text", "data", "bss", "total")
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["object"], *(f"{row[column]:,}" for column in columns))
    return table
