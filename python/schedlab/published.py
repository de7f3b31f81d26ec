"""What others published, as it was printed, and what is known to be wrong with it.

Nothing here corrects a figure: `errata.csv` says what contradicts its own table, and what follows
instead.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    path = catalogue.find(catalogue.PUBLISHED, table)
    return user_file.csv_rows(f"published table {path}", path)


def errata() -> list[Erratum]:
    """All that is known to be wrong with the published figures, or worth knowing.

    Raises
    ------
    SchedlabError
        If the list cannot be read.
    """
    try:
        return [Erratum(**{name: row[name] for name in Erratum.__slots__}) for row in rows(ERRATA)]
    except KeyError as error:
        raise SchedlabError(f"published table {ERRATA}: has no column {error}") from None
