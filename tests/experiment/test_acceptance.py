"""Goal: the acceptance tables name tests that exist, or say why there is none.

Method: read docs/reference/acceptance.md row by row and look for each test in its file; the reader
is itself shown rows that are wrong.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/acceptance.md"
TESTS = ROOT / "crates/simulator/tests"

COLUMNS = ["behaviour", "expected", "tolerance", "shown by"]
REASON = "cannot be shown: "
NAME = re.compile(r"`(?P<file>\w+)::(?P<test>\w+)`")


def sections(text: str) -> dict[str, list[list[str]]]:
    """The cells of each row below each heading of the second level, without the table's head."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in body.splitlines()
            if line.startswith("|")
        ]
        assert rows[0] == COLUMNS, f"{name}: {rows[0]}"
        found[name] = rows[2:]
    return found


def is_test(file: str, test: str) -> bool:
    """Whether crates/simulator/tests/FILE.rs has a test function of this name."""
    path = TESTS / f"{file}.rs"
    source = path.read_text() if path.is_file() else ""
    # Attributes of proptest's functions stand inside its macro, indented.
    return re.search(rf"^ *#\[test\]\n *fn {test}\(", source, re.MULTILINE) is not None


def faults(row: list[str]) -> list[str]:
    """What is wrong with a row."""
    if len(row) != len(COLUMNS):
        return [f"{len(row)} cells in {row}"]
    behaviour, expected, tolerance, shown_by = row
    names = [found.group("file", "test") for found in NAME.finditer(shown_by)]
    wrong = [f"{file}::{test} is no test" for file, test in names if not is_test(file, test)]
    if shown_by.startswith(REASON):
        return wrong
    if not names:
        wrong.append(f"{behaviour!r} has neither a test nor a reason")
    if not expected or not tolerance:
        wrong.append(f"{behaviour!r} has no number or no tolerance")
    return wrong


def test_what_cannot_be_shown_stands_beside_the_policies():
    readme = (ROOT / "policies/README.md").read_text()
    unshown = [
        (name, row[0])
        for name, rows in sections(PAGE.read_text()).items()
        for row in rows
        if row[3].startswith(REASON)
    ]
    assert unshown
    for name, behaviour in unshown:
        assert f"| `{name}` | {behaviour} |" in readme, f"{name}: {behaviour}"


def test_every_row_has_tests_that_exist_or_a_reason():
    wrong = {
        name: found
        for name, rows in sections(PAGE.read_text()).items()
        if (found := [fault for row in rows for fault in faults(row)])
    }
    assert not wrong


def test_every_policy_has_a_section_with_rows_and_a_golden_timeline():
    policies = {path.name.removesuffix(".bpf.c") for path in ROOT.glob("policies/*.bpf.c")}
    found = sections(PAGE.read_text())
    assert set(found) == policies
    assert all(found.values())
    timelines = {path.stem for path in (TESTS / "golden").glob("*.txt")}
    assert policies <= timelines


@pytest.mark.parametrize(
    "row",
    [
        ["a", "1", "1 %", "`o1::there_is_no_such_test`"],
        ["a", "1", "1 %", "`o1::slice_ms`"],
        ["a", "1", "1 %", "`no_such_file::bonuses_span_ten_levels`"],
        ["a", "1", "1 %", "by reading"],
        ["a", "1", "", "`o1::bonuses_span_ten_levels`"],
        ["a", "", "", "cannot be shown: but see `o1::there_is_no_such_test`"],
        ["a", "1", "`o1::bonuses_span_ten_levels`"],
    ],
)
def test_a_wrong_row_is_found(row):
    assert faults(row)
