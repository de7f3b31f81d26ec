"""Goal: what the documents show is what happens.

Method: run every `console` block of every document, in order, in an empty directory, and compare
what it prints with what the document says. `make docs` (DOCS=write) writes it there instead.

In a document
- a `console` block holds commands (`$ ...`) and their whole output, standard error included; a
  command that fails ends with the line `[exit status N]`;
- a comment `<!-- file: NAME -->` before a block makes the reader's file NAME of that block;
- a `sh` block is for people only (it installs something, or takes minutes): just its `make`
  targets are checked.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITE = os.environ.get("DOCS") == "write"
COMMAND_TIMEOUT_S = 600
NOT_FOUND = 127  # the shell's exit status for a command it does not know

FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)(?P<path>[^)#\s]+)(?:#[^)]*)?\)")


def documents() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / path for path in sorted(set(listed.split("\0"))) if path)
    return [path for path in paths if path.is_file()]


@dataclass(frozen=True)
class Block:
    """A fenced block of a document; `file` is the name the reader saves it under, or None."""

    language: str
    body: str
    file: str | None
    span: tuple[int, int]


def blocks(text: str) -> list[Block]:
    return [
        Block(found["language"], found["body"], found["file"], found.span("body"))
        for found in FENCE.finditer(text)
    ]


ASKED_AT = re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d UTC")
SLOW = re.compile(r"note: policy .* is still running after ")


def commands(body: str) -> list[str]:
    """The commands of a console block as shown: a trailing backslash goes on in the next line."""
    return re.findall(r"^(\$ (?:.*\\\n)*.*)$", body, re.MULTILINE)


def printed(command: str, directory: Path) -> str:
    """What `command` prints in `directory`, without that directory's own name."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(directory / ".cache"),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    crashed = done.returncode == NOT_FOUND or "Traceback (most recent" in done.stdout
    assert not crashed, f"{command}\n{done.stdout}"  # never something to write down
    # How long a run may take before it is told of is no matter of the document.
    lines = [line.rstrip() for line in done.stdout.splitlines() if not SLOW.match(line)]
    if done.returncode != 0:
        lines.append(f"[exit status {done.returncode}]")
    text = "".join(f"{line}\n" for line in lines)
    # Nor is when a question was asked.
    text = ASKED_AT.sub("2026-11-22 10:00 UTC", text)
    return text.replace(f"{directory}/", "").replace(f"{ROOT}/", "")


def rewritten(text: str, directory: Path) -> str:
    """The document with every console block's output as it is today."""
    parts, end = [], 0
    for block in blocks(text):
        if block.file:
            (directory / block.file).write_text(block.body)
        if block.language != "console":
            continue
        shown = commands(block.body)
        body = "".join(f"{line}\n{printed(line.removeprefix('$ '), directory)}" for line in shown)
        parts += [text[end : block.span[0]], body]
        end = block.span[1]
    return "".join(parts) + text[end:]


def has_commands(path: Path) -> bool:
    return any(block.language == "console" for block in blocks(path.read_text()))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in documents() if has_commands(p)], ids=name)
def test_every_command_prints_what_the_document_shows(path, tmp_path):
    text = path.read_text()
    today = rewritten(text, tmp_path)
    if WRITE:
        path.write_text(today)
    else:
        assert text == today, f"{name(path)} is out of date: `make docs`, then read the diff"


@pytest.mark.parametrize("path", documents(), ids=name)
def test_every_link_leads_to_a_file(path):
    links = [found["path"] for found in LINK.finditer(path.read_text())]
    broken = [link for link in links if not (path.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("path", documents(), ids=name)
def test_every_make_target_exists(path):
    known = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shell = "\n".join(block.body for block in blocks(path.read_text()) if block.language == "sh")
    named = re.findall(r"^make ((?:[a-z0-9-]+ ?)+)", shell, re.MULTILINE)
    assert {target for targets in named for target in targets.split()} <= known


def test_the_reference_names_every_key_of_a_result(tmp_path):
    page = (ROOT / "docs" / "reference" / "result.md").read_text()
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*)\|", page, re.MULTILINE)))
    # `cfs_gavl` is loaded again when a CPU goes, and only then is there something to say of it.
    # Only few machines say what interrupts them, and what a policy's instructions take.
    went = shlex.quote(str(ROOT / "workloads/check/hotplug.toml"))
    network = '[[interrupts]]\nname = "network"\nsource = "own"\nevery = "1ms"\ntakes_ns = 5\n'
    laptop = (ROOT / "machines/laptop.toml").read_text()
    costs = '[costs.instruction_ps]\nvalue = 300\nsource = "own"\n'
    (tmp_path / "busy.toml").write_text(laptop + costs + network)
    command = f"schedlab run cfs_gavl --workload {went} --machine busy.toml --timeline --profile"
    command += " --watch tick_ns --dump-at end --json"
    keys = set(json.loads(printed(command, tmp_path))["result"])
    command = "schedlab run fifo --workload lat_ctx --with less_pipes=true --machine laptop --json"
    keys |= set(json.loads(printed(command, tmp_path))["result"])
    assert sorted(named) == sorted(keys)
    command = "schedlab run fifo --workload ping_pong --machine laptop --timeline --json"
    always = json.loads(printed(command, tmp_path))["result"]
    only_some = {"restarts", "background_interrupts", "profile", "watched", "dumps"}
    only_some |= {"policy_executed", "tare_ns"}
    assert sorted({*named} - only_some) == sorted(always)


def listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in names), 120) + "\n"


def rows(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"| `{name}` | {said} |\n" for name, said in pairs)


def between(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


def fields_of(world: str) -> list[str]:
    found = [
        # Where a field has another name in Linux, that stands behind it.
        f"{structure}.{field.split()[-1].strip(chr(34))}"
        for structure, of in re.findall(
            r'"(\w+)":([^;]*);', between(world, "\nstructures! {", "\n}")
        )
        for field in of.split(",")
        if field.strip()
    ]
    # As wide as the masks of the machine, so they are no fields of one structure.
    wide = {"task_struct.cpus_mask": '"cpus_mask", TASK_MASK_AT', "cpumask.bits": '"bits", offset'}
    assert all(text in world.replace("name: ", "") for text in wide.values())
    scattered = re.findall(r'\("(\w+)", "(\w+)", (?:0|offset_of!)', world)
    return [*found, *(".".join(names) for names in scattered), *wide]


def kinds_of_maps(maps: str) -> list[tuple[str, str]]:
    """Each kind with what is said of it where it is defined."""
    found = re.findall(
        r"((?: *///.*\n)+) *pub const (\w+): u32", between(maps, "pub mod kind", "\n}")
    )
    texts = (" ".join(re.findall(r"/// (.*)", comment)) for comment, _ in found)
    return [(f"BPF_MAP_TYPE_{name}", text) for (_, name), text in zip(found, texts, strict=True)]


def never_called(operations: str) -> list[str]:
    text = between(operations, "pub fn is_never_called", "\n}")
    prefixes = re.findall(r'starts_with\("(\w+)"\)', text)
    return [f"{prefix}*" for prefix in prefixes] + re.findall(
        r'"(\w+)"', between(text, "matches!", ")")
    )


def interface_parts() -> dict[str, str]:
    """What the simulator offers to policies, as its sources say it, by heading of the page."""
    crates = ROOT / "crates"
    calls, operations, world = (
        (crates / "simulator/src" / f"{name}.rs").read_text()
        for name in ("object_calls", "operations", "world")
    )
    maps = (crates / "bytecode/src/maps.rs").read_text()
    calls = between(calls, "pub const CALLS", "\n];")
    table = (crates / "policy/src/table.rs").read_text()
    flags = re.findall(r'\("(\w+)", .*\), +// (.*)', between(table, "FLAGS: ", "\n];"))
    called = re.findall(r'"(\w+)", \d;', between(operations, "\noperations! {", "\n}"))
    return {
        "Operations": listed(called),
        "Never called": listed(never_called(operations)),
        "Flags": rows(flags),
        "Calls": listed(re.findall(r'^    (?:    )?\(?"(\w+)"', calls, re.MULTILINE)),
        "Maps": rows(kinds_of_maps(maps)),
        "Configuration": listed(re.findall(r'"(\w+)"', between(world, "VARIABLES: ", "\n];"))),
        "Fields": listed(fields_of(world)),
        "Constants": listed(re.findall(r'"(SCX_\w+)"', world)),
    }


def test_the_reference_names_all_that_a_policy_may_use():
    path = ROOT / "docs" / "reference" / "interface.md"
    page = path.read_text()
    for heading, part in interface_parts().items():
        assert part.count("`") >= 8, heading
        # A paragraph of its own, or the rows of a table: prose may have lines that begin alike.
        before = rf"#+ {heading}\n(?:(?!#).*\n)*?(?:\n|\| ---.*\n)"
        section = rf"^({before})((?:(?:`|\| `).*\n)+)"
        found = re.search(section, page, re.MULTILINE)
        assert found, f"{heading}: the page lacks its part"
        assert WRITE or found[2] == part, f"{heading}: `make docs` writes it"
        page = page[: found.start(2)] + part + page[found.end(2) :]
    if WRITE:
        path.write_text(page)


def test_what_the_reference_says_of_calls_is_said_of_calls_that_are_there():
    page = (ROOT / "docs" / "reference" / "interface.md").read_text()
    [said] = re.findall(r"^### Approximated\n(.*?)^#", page, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^(\| `[^|]*\|)", said, re.MULTILINE)))
    assert len(named) > 10
    assert set(named) <= set(re.findall(r"`(\w+)`", interface_parts()["Calls"]))


def test_an_output_that_changed_is_seen_and_written(tmp_path):
    text = "Say:\n\n```console\n$ echo a \\\n    b\nold\n$ false\n```\n\nDone.\n"
    new = "Say:\n\n```console\n$ echo a \\\n    b\na b\n$ false\n[exit status 1]\n```\n\nDone.\n"
    assert rewritten(text, tmp_path) == new
    assert rewritten(new, tmp_path) == new


def test_a_file_of_the_reader_is_there_for_the_commands(tmp_path):
    text = "<!-- file: a.txt -->\n```c\nint x;\n```\n\n```console\n$ cat a.txt\nint x;\n```\n"
    assert rewritten(text, tmp_path) == text


def test_the_readme_says_its_words_before_its_first_command():
    first, _, rest = (ROOT / "README.md").read_text().partition("```console")
    for word in ("sched_ext is ", "hackbench, a ", "makespan is ", "about 11 s"):
        assert word in " ".join(first.split()), word
    assert re.search(r"make demo +# about 3 minutes", rest)


def test_what_the_race_lost_stands_in_one_place():
    row = "| lost or short of the aim |"
    holders = [
        path.name
        for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
        if row in path.read_text()
    ]
    assert holders == ["race_results.md"]
    assert "docs/race_results.md#lost-or-short-of-the-aim" in (ROOT / "README.md").read_text()
