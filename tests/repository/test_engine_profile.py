"""Goal: the record of what the engine executes belongs to the engine that was built, and is used.

The compiler finds functions in the record by their names. A name has a number that changes with a
crate's dependencies: then none is found, nothing is said, and the simulator is a quarter slower.
Method: names in the record beside those in the module; what the Makefile says.
"""

import platform
import re
import subprocess
from pathlib import Path

import pytest
import schedlab._native

ROOT = Path(__file__).parents[2]
FUNCTION = re.compile(rb"_ZN9simulator\w[\w.$]*17h[0-9a-f]{16}E")


def functions(path: Path) -> set[bytes]:
    return set(FUNCTION.findall(path.read_bytes()))


def the_record() -> Path:
    records = list((ROOT / "crates/simulator/profile").glob("*.profdata"))
    assert len(records) == 1, f"{records}: one is used; `make profile` makes it and removes others"
    return records[0]


def test_the_compiler_is_given_the_record() -> None:
    command = ["make", "--no-print-directory", "--eval", "told: ; @echo '$(PROFILED)'", "told"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.strip() == f'CARGO_ENCODED_RUSTFLAGS="-Cprofile-use={the_record()}"'
    # A line of the Makefile that is shown by --dry-run would be run where it begins with "+".
    builds = re.findall(r"^\t\+(.*maturin .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(builds) == 2
    assert all(build.startswith("$(PROFILED) ") for build in builds)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it was recorded on x86_64")
def test_the_record_names_the_engine_that_was_built() -> None:
    record = the_record()
    recorded, built = functions(record), functions(Path(schedlab._native.__file__))
    assert len(recorded) > 100
    known = len(recorded & built) / len(built)
    assert known > 0.25, f"{record.name} knows {known:.0%} of the engine: `make profile`"
