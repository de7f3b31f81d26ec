"""The modules of a crate and which of them use which, for test_layout.py.

A module is a file. Declarations of `use` and paths in the code count, tests do not. What a module
shows by `pub use` belongs to the module that defines it. To its neighbours a module is one with
those in its folder: these may use what is private in their parent, and it calls them.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

RUST = Language(tree_sitter_rust.language())

Names = tuple[str, ...]


def nodes(node: Node, *types: str) -> Iterator[Node]:
    """Every node below `node`, itself included, of one of these types."""
    left = [node]
    while left:
        node = left.pop()
        if node.type in types:
            yield node
        left.extend(reversed(node.children))


def without_tests(text: str) -> str:
    """The source with its `#[cfg(test)]` modules and its comments blanked, lines kept."""
    source = bytearray(text.encode())
    root = Parser(RUST).parse(bytes(source)).root_node
    dropped = list(nodes(root, "line_comment", "block_comment"))
    for attribute in nodes(root, "attribute_item"):
        follower = attribute.next_named_sibling
        if b"cfg(test)" in attribute.text and follower is not None:
            dropped.append(follower)
    for node in dropped:
        _blank(source, node)
    return source.decode()


def _blank(source: bytearray, node: Node):
    kept = re.sub(rb"[^\n]", b" ", bytes(source[node.start_byte : node.end_byte]))
    source[node.start_byte : node.end_byte] = kept


@dataclass(frozen=True)
class Path:
    """A path of Rust as it is written: where, by which segments, what it is called here."""

    line: int
    names: Names
    alias: str
    is_shown: bool = False


@dataclass(frozen=True)
class Use:
    """One module uses another, at this place: as `file:line: path`."""

    user: Names
    used: Names
    place: str


class Module:
    """A file of a crate: its path, its name from the crate's root on, the paths that it writes."""

    def __init__(self, file: str, name: Names, text: str):
        self.file, self.name = file, name
        source = without_tests(text).encode()
        root = Parser(RUST).parse(source).root_node
        items = list(nodes(root, "mod_item"))
        self.children = [_name(item) for item in items if item.child_by_field_name("body") is None]
        self._inner = [item for item in items if item.child_by_field_name("body") is not None]
        self.paths = []
        code = bytearray(source)
        for node in nodes(root, "use_declaration"):
            is_shown = any(child.type == "visibility_modifier" for child in node.children)
            for names, alias in _spread(node.child_by_field_name("argument")):
                self._note(node.start_byte, node.start_point.row, names, alias, is_shown)
            _blank(code, node)
        for match in re.finditer(rb"\b(?:crate|self|super)(?:\s*::\s*\w+)+", bytes(code)):
            names = tuple(re.findall(r"\w+", match[0].decode()))
            self._note(match.start(), source.count(b"\n", 0, match.start()), names, names[-1])

    def _note(self, at: int, row: int, names: Names, alias: str, is_shown: bool = False):
        """Keeps a path, from the crate's root on if that is where it leads."""
        inner = [item for item in self._inner if item.start_byte <= at < item.end_byte]
        here = [*self.name, *map(_name, inner)]
        rest = list(names)
        if rest[0] == "crate":
            here, rest = [], rest[1:]
        elif rest[0] == "self":
            rest = rest[1:]
        elif rest[0] != "super" and not (rest[0] in self.children and not inner):
            return  # Another crate's, or what is imported already.
        while rest and rest[0] == "super":
            here, rest = here[:-1], rest[1:]
        self.paths.append(Path(row + 1, (*here, *rest), alias, is_shown))


def _name(item: Node) -> str:
    return item.child_by_field_name("name").text.decode()


def _spread(node: Node, before: Names = ()) -> Iterator[tuple[Names, str]]:
    """Each path of a tree of `use`, and what it is called from then on."""
    path = node.child_by_field_name("path")
    if node.type == "use_as_clause":
        for names, _ in _spread(path, before):
            yield names, node.child_by_field_name("alias").text.decode()
    elif node.type == "scoped_use_list":
        inside = (*before, *re.findall(r"\w+", path.text.decode())) if path else before
        yield from _spread(node.child_by_field_name("list"), inside)
    elif node.type == "use_list":
        for child in node.named_children:
            yield from _spread(child, before)
    else:
        names = (*before, *re.findall(r"\w+", node.text.decode()))
        if names[-1] == "self" and before:
            names = names[:-1]
        yield names, names[-1]


def modules(crate: str, sources: Mapping[str, str]) -> dict[Names, Module]:
    """The modules of the library in the folder `crate`, from its lib.rs on."""
    found: dict[Names, Module] = {}
    left: list[Names] = [()]
    while left:
        name = left.pop()
        stem = "/".join(name or ("lib",))
        files = [f"{crate}/src/{stem}.rs", f"{crate}/src/{stem}/mod.rs"]
        file = next(file for file in files if file in sources)
        found[name] = Module(file, name, sources[file])
        left += [(*name, child) for child in found[name].children]
    return found


def uses(crate: str, sources: Mapping[str, str]) -> list[Use]:
    """Every place where a module of the crate uses another."""
    known = modules(crate, sources)
    shown = {
        (*name, path.alias): path.names
        for name, module in known.items()
        for path in module.paths
        if path.is_shown
    }

    def owner(names: Names) -> Names:
        end = next(end for end in range(len(names), -1, -1) if names[:end] in known)
        target = shown.get(names[: end + 1])
        if end == len(names) or target is None or target == names[: end + 1]:
            return names[:end]
        return owner((*target, *names[end + 1 :]))

    return [
        Use(name, owner(path.names), f"{module.file}:{path.line}: {'::'.join(path.names)}")
        for name, module in known.items()
        for path in module.paths
    ]


def circles(crate: str, sources: Mapping[str, str]) -> list[str]:
    """A circle of modules in each folder that has one, with the lines that make it."""
    folders: dict[Names, dict[tuple[Names, Names], list[str]]] = {}
    for use in uses(crate, sources):
        pairs = zip(use.user, use.used, strict=False)
        depth = next((i for i, (user, used) in enumerate(pairs) if user != used), None)
        if depth is not None:  # Else one is in the other's folder.
            edge = (use.user[: depth + 1], use.used[: depth + 1])
            folders.setdefault(use.user[:depth], {}).setdefault(edge, []).append(use.place)
    return [circle for edges in folders.values() if (circle := _circle(edges))]


def _circle(edges: Mapping[tuple[Names, Names], list[str]]) -> str:
    sorter: TopologicalSorter = TopologicalSorter()
    for user, used in edges:
        sorter.add(user, used)
    try:
        sorter.prepare()
    except CycleError as error:
        around = error.args[1][::-1]
        lines = [edges[pair][0] for pair in itertools.pairwise(around)]
        return "\n    ".join([" -> ".join("::".join(name) for name in around), *lines])
    return ""
