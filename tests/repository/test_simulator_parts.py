"""Goal: the simulated kernel stays in parts. Who changes a part is what ARCHITECTURE.md says, the
state of a part is its own, and calls between modules go one way. Method: the text of the sources
without their tests, and of sources that break the rules."""

import re
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from rust_modules import without_tests

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "crates/simulator/src"
RECEIVER = r"(?:\w+\.)*"
INDEX = r"(?:[^][]|\[[^]]*\])*"
ASSIGNMENT = r"(?:[-+&|]?=(?!=))"
METHOD = re.compile(r"fn (\w+)(?:<[^>]*>)?\(\s*(&mut self|&self|mut self|self)\b")


@cache
def sources() -> dict[str, str]:
    """The text of each module of the simulator, by its path without the ending."""
    names = {str(f.relative_to(SOURCES).with_suffix("")): f for f in SOURCES.rglob("*.rs")}
    return {name: without_tests(names[name].read_text()) for name in sorted(names)}


def blocks(text: str, head: str) -> list[str]:
    """What is between the braces behind each match of `head` at the beginning of a line."""
    found = re.finditer(rf"^{head}[^{{;]*\{{\n(.*?)^\}}", text, re.M | re.S)
    return [match[1] for match in found]


def parts(modules: Mapping[str, str]) -> dict[str, str]:
    """The type of each part of `Core`, by the part's name."""
    [fields] = blocks(modules["core"], r"pub struct Core")
    return dict(re.findall(r"pub (\w+): (\w+)", fields))


def changes(modules: Mapping[str, str], kind: str) -> set[str]:
    """Names of what changes a part of this type."""
    head = rf"impl[^\n]*\b{kind}\b"
    methods = (METHOD.findall(b) for text in modules.values() for b in blocks(text, head))
    return {name for found in methods for name, takes in found if "mut" in takes}


def who_changes(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that change each part, beside its own."""
    found = {}
    for part, kind in parts(modules).items():
        verbs = "|".join(sorted(changes(modules, kind))) or "(?!)"
        ways = [
            rf"\.{part}\.(?:{verbs})\(",
            rf"&mut {RECEIVER}{part}\b",
            rf"\.{part}\.\w+(?:\.\w+)* {ASSIGNMENT}",
            rf"\.{part}\[{INDEX}\](?:\.\w+)*(?: {ASSIGNMENT}|\.(?:spend|account|set_when)\()",
        ]
        own = {"cpus", "queues"} & {
            part
        }  # There the part is `self`, and what it keeps has its name.
        others = modules.keys() - own
        found[part] = {m for m in others if re.search("|".join(ways), modules[m])}
    return found


def table() -> dict[str, set[str]]:
    """The modules that may change each part, by ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", text, re.M)
    return {part: set(re.findall(r"`([\w/]+)`", who)) for part, who in rows}


def calls(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules whose methods of `Core` or `Kernel` each module calls, one with its folder."""
    home = {}
    for module, text in modules.items():
        for block in blocks(text, r"impl(?:<[^>]*>)? (?:Core|Kernel)<"):
            for name, _ in METHOD.findall(block):
                assert home.setdefault(name, module) == module, f"{name} is two methods"
    call = re.compile(rf"\b(?:self|core|kernel|host)\.({'|'.join(home)})\(")
    called = {}
    for module, text in modules.items():
        folder = module.partition("/")[0]
        used = {home[name].partition("/")[0] for name in call.findall(text)}
        called[folder] = called.get(folder, set()) | used - {folder}
    return called


def test_who_changes_a_part_is_what_the_architecture_says():
    assert who_changes(sources()) == {part: table()[part] for part in parts(sources())}


def test_the_state_of_a_part_is_its_own():
    modules = sources()
    kinds = set(parts(modules).values()) | {"Programs"}
    for text in modules.values():
        for kind in kinds:
            for fields in blocks(text, rf"pub struct {kind}\b"):
                public = set(re.findall(r"^    pub (\w+):", fields, re.M))
                assert public <= OPEN_FIELDS.get(kind, set()), f"{kind} has public fields"


# Each has a way of its own to be changed.
OPEN_FIELDS = {
    "PolicyState": {"maps", "given", "prints", "time"},
    "Visible": {"room", "facts", "walks", "locks"},
}


def test_calls_between_modules_go_one_way():
    list(TopologicalSorter(calls(sources())).static_order())


MODULES = {
    "core": "pub struct Core<'a> {\n    pub time: Time,\n    pub cpus: Cpus<'a>,\n}\n",
    "time": "impl Time {\n    pub fn pass(&mut self) {}\n    pub fn here(&self) {}\n}\n",
    "reads": "impl Core<'_> {\n    fn f(&self) { self.time.here(); self.cpus[0].clock == 1 }\n}\n",
}


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("time", "self.time.pass();"),
        ("time", "f(&mut self.core.time);"),
        ("cpus", "self.core.cpus[cpu].tick = 3;"),
        ("cpus", "self.cpus[self.order[0]].spent += 3;"),
    ],
)
def test_a_change_is_seen(part, body):
    modules = MODULES | {"writes": f"impl Core<'_> {{\n    fn writes(&mut self) {{ {body} }}\n}}\n"}
    nobody = {"time": set(), "cpus": set()}
    assert who_changes(modules) == nobody | {part: {"writes"}}


def test_a_circle_of_calls_is_seen():
    method = "impl Core<'_> {{\n    fn {}(&self) {{ self.{}(); }}\n}}\n"
    modules = {"a": method.format("one", "two"), "b": method.format("two", "one")}
    with pytest.raises(CycleError):
        list(TopologicalSorter(calls(modules)).static_order())
