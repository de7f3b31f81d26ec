"""Goal: the record of what the engine executes belongs to the engine that was built.

The compiler finds functions in the record by their names. A name has a number that changes with a
crate's dependencies: then none is found, nothing is said, and the simulator is a quarter slower.
Method: names in the record beside those in the module.
"""

import re
from pathlib import Path

import schedlab._native

ROOT = Path(__file__).parents[2]
FUNCTION = re.compile(rb"_ZN9simulator\w[\w.$]*17h[0-9a-f]{16}E")


def functions(path: Path) -> set[bytes]:
    return set(FUNCTION.findall(path.read_bytes()))


def test_the_record_names_the_engine_that_was_built() -> None:
    (record,) = (ROOT / "crates/simulator/profile").glob("*.profdata")
    recorded, built = functions(record), functions(Path(schedlab._native.__file__))
    assert len(recorded) > 100
    known = len(recorded & built) / len(built)
    assert known > 0.25, f"{record.name} knows {known:.0%} of the engine: `make profile`"
