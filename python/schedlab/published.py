"""What others published, as it was printed, and what is known to be wrong with it: nothing here
corrects a figure, `errata.csv` says what contradicts its own table, and what follows instead.
"""

from dataclasses import dataclass, fields

from schedlab import catalogue, user_file
from schedlab.errors import UnknownName

# The kind of a figure that contradicts the table it stands in.
ARITHMETIC = "arithmetic"
# Verbs that answer an original in place of `compare`.
RACE, SIZE = "race", "size"


@dataclass(frozen=True, slots=True)
class Erratum:
    """A row of `errata.csv`: what is wrong with, or to know of, something that was printed in the
    `originals` of these names, which have blanks between them."""

    originals: str
    where: str
    item: str
    printed: str
    what_follows: str
    kind: str
    comment: str


@dataclass(frozen=True, slots=True)
class Original:
    """A row of `originals.csv`: a published table, or several: their names with blanks between.

    `experiment` simulates it; `verb` is another that answers it, `RACE` or `SIZE`. `suite` and
    `benchmark` measure it on a machine. `not_simulated` is why nothing simulates it. What there is
    not is empty.
    """

    name: str
    what: str
    tables: str
    experiment: str
    verb: str
    suite: str
    benchmark: str
    not_simulated: str

    @property
    def simulated_by(self) -> str:
        """A command that gives our figures."""
        verb = f"compare --experiment {self.experiment}" if self.experiment else self.verb
        return f"schedlab {verb}" if verb else ""

    @property
    def measured_by(self) -> str:
        """A command that measures the same on this machine."""
        return f"schedlab bench {self.suite} --only {self.benchmark}" if self.suite else ""

    def errata(self) -> list[Erratum]:
        """What is known to be wrong with it, or worth knowing."""
        return [erratum for erratum in errata() if self.name in erratum.originals.split()]


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a published table by its name, such as `seed004_means`. Raises UnknownName if
    there is no such table, SchedlabError if it cannot be read."""
    path = catalogue.find(catalogue.PUBLISHED, table)
    return user_file.csv_rows(f"published table {path}", path)


def errata() -> list[Erratum]:
    """All that is known to be wrong with the published figures, or worth knowing."""
    names = [field.name for field in fields(Erratum)]
    return [Erratum(*(row[name] for name in names)) for row in rows("errata")]


def originals() -> list[Original]:
    """All that can be reproduced, in the order in which it was published."""
    return [Original(**row) for row in rows("originals")]


def original(name: str) -> Original:
    """The original with this name, or that one of the published tables of this name belongs to;
    raises UnknownName if it is neither."""
    every = originals()
    for one in every:
        if name == one.name or name in one.tables.split():
            return one
    raise UnknownName("published table", name, [one.name for one in every])
