"""What others published, as it was printed, and what is known to be wrong with it.

Nothing here corrects a figure: `errata.csv` says what contradicts its own table, and what follows
instead.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from schedlab import catalogue, user_file
from schedlab.errors import SchedlabError

ERRATA = "errata"
# The kind of a figure that contradicts the table it stands in.
ARITHMETIC = "arithmetic"


@dataclass(frozen=True, slots=True)
class Erratum:
    """A row of `errata.csv`: what is wrong with, or to know of, something that was printed.

    `originals` are the names in `schedlab reproduce` that it belongs to, with blanks between them.
    """

    originals: str
    where: str
    item: str
    printed: str
    what_follows: str
    kind: str
    comment: str


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a published table by its name, such as `seed004_means`.

    Raises
    ------
    UnknownName
        If there is no such table.
    SchedlabError
        If it cannot be read.
    """
    return read_rows(catalogue.find(catalogue.PUBLISHED, table))


def read_rows(path: Path) -> list[dict[str, str]]:
    """As `rows`, from a file."""
    what = f"published table {path}"
    try:
        rows = list(csv.DictReader(io.StringIO(user_file.text(what, path)), strict=True))
    except csv.Error as error:
        raise SchedlabError(f"cannot read {what}: {error}", "write it as CSV") from error
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise SchedlabError(
                f"{what}: line {number} has not as many fields as the first",
                "give each line a field for each column",
            )
    return rows


def errata() -> list[Erratum]:
    """All that is known to be wrong with the published figures, or worth knowing.

    Raises
    ------
    SchedlabError
        If the list cannot be read.
    """
    return [Erratum(**{name: row[name] for name in Erratum.__slots__}) for row in rows(ERRATA)]
