"""Finds what schedlab ships, by name: policies, machines, workloads, and the other shelves.

An installed package has them in `schedlab/data`, a source checkout at its root. A text with a "/"
or the file's ending is a path, so that a user's own file works wherever a name does. After either,
`@SET` names one of the policy's tunable sets.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlab import shown, user_file, whole_file
from schedlab.errors import BadValue, NativeMissing, SchedlabError, UnknownName

PACKAGE = Path(__file__).resolve().parent
# What an installed package has of its policies, so that they need no compiler.
SHIPPED_OBJECTS = PACKAGE / "data" / "objects"


@dataclass(frozen=True)
class Shelf:
    """One kind of file in the catalogue: where it lies and how its name ends."""

    kind: str
    directory: str
    suffix: str


POLICIES = Shelf("policy", "policies", ".bpf.c")
MACHINES = Shelf("machine", "machines", ".toml")
WORKLOADS = Shelf("workload", "workloads", ".toml")
EXPERIMENTS = Shelf("experiment", "experiments", ".toml")
SUITES = Shelf("suite", "suites", ".toml")
PUBLISHED = Shelf("published table", "published", ".csv")

CACHE_HINT = "set XDG_CACHE_HOME to a directory that can be written"

# What clang makes of a policy: what a kernel loads, and the simulator runs.
BUILT_SUFFIX = ".bpf.o"
# What is done to one before it is attached, in the place of a front end of its own.
LOADER_SUFFIX = ".loader.toml"

# What the core reads of a policy beside its C file, if it is there.
READ_BESIDE = (".sets.toml", ".promises.toml", LOADER_SUFFIX)
BESIDE_HINT = "mend it, or take it away"

# What loads policies into kernels, and joins the objects of one. Cargo's triple is named when it is
# built, because only then may it be linked statically.
GUEST, GUEST_VARIABLE = "schedlab-guest", "SCHEDLAB_GUEST"
IN_CHECKOUT = Path("target/x86_64-unknown-linux-gnu/release")

# How an object begins.
ELF = b"\x7fELF"
# Of what is surely no file of another shelf than policies.
FOREIGN_SUFFIXES = (".c", ".o", ".h")

# `eevdf@kernel` and `cfs@kernel:6.1` are kernels' own schedulers; no set can have such a name.
OWN_SCHEDULER = re.compile(r"(.*)@kernel(?::([^/]*))?")


def data_directory() -> Path:
    """The directory that holds policies/, machines/, workloads/, and what else is shipped. Raises
    SchedlabError if neither the package nor its source checkout has them."""
    # In a checkout the files at its root are the ones people edit; a build may leave copies.
    candidates = (PACKAGE.parents[1], PACKAGE / "data")
    for candidate in candidates:
        if (candidate / POLICIES.directory / "include").is_dir():
            return candidate
    raise SchedlabError(
        f"no policies directory in {' or '.join(map(str, candidates))}",
        "schedlab is installed incompletely: install it again with `pip install .`",
    )


def include_directory() -> Path:
    """The headers that policies are compiled against."""
    return data_directory() / POLICIES.directory / "include"


def cache_directory() -> Path:
    """Where compiled policies are kept: $XDG_CACHE_HOME/schedlab, else ~/.cache/schedlab."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says to ignore a relative path.
    return (base if base.is_absolute() else Path.home() / ".cache") / "schedlab"


def kernels_directory() -> Path:
    """Where kernels for virtual machines are kept: `kernels` in the user's cache."""
    return cache_directory() / "kernels"


def machines_directory() -> Path:
    """Where virtual machines that have booted are kept: `machines` in the user's cache."""
    return cache_directory() / "machines"


def names(shelf: Shelf) -> dict[str, Path]:
    """Everything on one shelf, name to path, in the order of the names."""
    paths = sorted((data_directory() / shelf.directory).glob(f"*{shelf.suffix}"))
    return {path.name.removesuffix(shelf.suffix): path for path in paths}


def is_path(shelf: Shelf, text: str) -> bool:
    """Whether `text` names a file rather than an entry of the catalogue."""
    if shelf is POLICIES:
        text, _ = split_set(text)
    return "/" in text or text.endswith(_suffixes(shelf))


def _suffixes(shelf: Shelf) -> tuple[str, ...]:
    """How the names of files end that a user may give."""
    others = (BUILT_SUFFIX, LOADER_SUFFIX) if shelf is POLICIES else ()
    return (shelf.suffix, *others)


def find(shelf: Shelf, text: str) -> Path:
    """The absolute path that a name or a path stands for. Raises UnknownName if no such name is on
    the shelf; SchedlabError if the file is none, too large, or its name ends otherwise."""
    known = names(shelf)
    what, a_name = f"{shelf.kind} file {text!r}", f"a name: {', '.join(known)}"
    if is_path(shelf, text):
        # Of a user that there is not, Path raises what nobody expects.
        path = Path(os.path.expanduser(text))  # noqa: PTH111
        kinds = " or ".join(f"*{suffix}" for suffix in _suffixes(shelf))
        hint = f"give the path of a {kinds} file, or {a_name}"
        user_file.refuse_unfit(what, path, user_file.WRITTEN_BYTES_MAX, hint, is_empty_unfit=True)
        return path.resolve()
    if text in known:
        return known[text]
    if Path(text).is_file():
        raise SchedlabError(
            f"{what} does not end in {shelf.suffix}", f"{_rename(shelf, text)}{a_name}"
        )
    unknown = UnknownName(shelf.kind, text, known)
    if Path(f"{text}{shelf.suffix}").is_file():
        unknown.args = (f"{unknown}: did you mean the file {text}{shelf.suffix}?",)
    raise unknown


def _rename(shelf: Shelf, text: str) -> str:
    """What to do with a file whose name ends wrongly; "give " if it is of another kind."""
    suffix = shelf.suffix
    if shelf is POLICIES:
        with contextlib.suppress(OSError), Path(text).open("rb") as file:
            suffix = BUILT_SUFFIX if file.read(len(ELF)) == ELF else suffix
    elif Path(text).suffix in FOREIGN_SUFFIXES:
        return f"give a *{suffix} file, or "
    return f"rename it to {text.partition('.')[0]}{suffix}, or give "


def split_set(text: str) -> tuple[str, str | None]:
    """A policy's name or path, and the set that is named after an "@", None if there is none. A
    path may have an "@" of its own: what follows is a set only if none of it belongs to a path."""
    policy, at, name = text.rpartition("@")
    if not at or "/" in name or name.endswith(_suffixes(POLICIES)):
        return text, None
    return policy, name


def label_of(text: str) -> str:
    """What a policy is called in tables and options: its name or file's name, with its set."""
    policy, _ = split_set(text)
    if not is_path(POLICIES, policy):
        return text
    return stem_of(Path(policy)) + text.removeprefix(policy)


def stem_of(path: Path) -> str:
    """What the file of a policy is called without its ending."""
    ending = next((one for one in _suffixes(POLICIES) if path.name.endswith(one)), "")
    return path.name.removesuffix(ending)


def is_built(path: str | Path) -> bool:
    """Whether a policy's file is the object that clang makes for a kernel, and not C."""
    return str(path).endswith(BUILT_SUFFIX)


def has_loader(path: Path) -> bool:
    """Whether a file says what is done to a policy before it is attached: this, or one beside."""
    return path.with_name(stem_of(path) + LOADER_SUFFIX).is_file()


def own_scheduler(text: str) -> tuple[str, str | None] | None:
    """`eevdf@kernel:6.12` as ("eevdf", "6.12"), `eevdf@kernel` as ("eevdf", None); else None.
    Raises BadValue if there is a colon and no kernel after it."""
    if (found := OWN_SCHEDULER.fullmatch(text)) is None:
        return None
    scheduler, kernel = found.groups()
    if kernel == "":
        hint = (
            f"write {scheduler}@kernel:NAME with a name of `schedlab kernels list`, or"
            f" {scheduler}@kernel for the scheduler of whatever kernel is booted"
        )
        raise BadValue("policy", text, "names no kernel after the colon", hint)
    return scheduler, kernel


def with_set(text: str) -> str:
    """A policy with the set that it means: `cfs` is `cfs@6.1`, whose file of sets says so. What
    names a set is as it is, and so is what has no such file, or none that says one."""
    policy, name = split_set(text)
    if name is not None:
        return text
    with contextlib.suppress(SchedlabError):
        path = find(POLICIES, policy)
        sets = _sets(path, stem_of(path))
        if isinstance(other := sets.get("same_as"), str):
            sets = _sets(path, other)
        if (plain := sets.get("plain")) and isinstance(plain, str):
            return f"{text}@{plain}"
    return text


def _sets(policy: Path, name: str) -> dict[str, Any]:
    """A file of sets beside a policy's; nothing if it cannot be read: who needs it says why."""
    with contextlib.suppress(OSError, SchedlabError):
        return user_file.toml("sets", policy.with_name(f"{name}.sets.toml"))
    return {}


def find_policy(text: str, literally: bool = False) -> tuple[Path, str | None]:
    """The C file that a name or a path stands for, and the set that it means: `literally`, a name
    alone means none. Raises as `find`, and BadValue for a kernel's own scheduler."""
    if own_scheduler(text) is not None:
        why = "is a real kernel's own scheduler, and not a policy"
        hint = "it is for `run` and `compare` with --on vm; `schedlab list policies` names policies"
        raise BadValue("policy", text, why, hint)
    policy, name = split_set(text if literally else with_set(text))
    return find(POLICIES, policy), name


def values_of_set(policy, name: str | None) -> dict[str, int]:
    """Tunables, and their values, that a set of a compiled policy settles; none for no set. Raises
    SchedlabError if the policy has no such set, which is UnknownName where it has others."""
    if name is None:
        return {}
    known = {found["name"]: found["tunables"] for found in policy.sets}
    if name in known:
        return known[name]
    if known:
        raise UnknownName("tunable set", name, known, f"of policy {policy.name}")
    sets = {other: _sets(path, other).get("set", ()) for other, path in names(POLICIES).items()}
    having = [other for other, of in sets.items() if name in (one.get("name") for one in of)]
    there_is = f"; there is {', '.join(f'{other}@{name}' for other in having)}" if having else ""
    raise SchedlabError(
        f"policy {policy.name} has no tunable sets, so there is no {policy.name}@{name}",
        f"write {policy.name}{there_is}",
    )


def native() -> ModuleType:
    """The compiled core, imported on demand, so that `--help` works without it. Raises
    NativeMissing if it was not built, or does not load on this system."""
    try:
        from schedlab import _native
    except ImportError as error:
        raise NativeMissing(
            f"schedlab's compiled core does not load: {error}",
            "build it with `make setup` in the checkout, or `pip install .`",
        ) from error
    return _native


def core_version() -> str:
    """What results depend on beside the inputs: equal versions simulate equally."""
    # In a source checkout a core changes under the same number, so that results of an older build
    # would be taken for its own.
    core = native()
    if data_directory() == PACKAGE / "data":
        return core.version()
    build = hashlib.sha256(Path(core.__file__).read_bytes()).hexdigest()
    return f"{core.version()}+{build[:12]}"


def load_policy(path: str | Path, tell: Callable[[str], None] = shown.print_note):
    """Compiles a policy, or takes its object from where it is kept, or reads an object, with what
    its loader's file says; raises `_native.PolicyError`. `tell` is given the compiler's warnings,
    each time that the file has changed."""
    for suffix in READ_BESIDE:
        beside = Path(path).with_name(stem_of(Path(path)) + suffix)
        if os.path.lexists(beside):
            user_file.refuse_unfit(str(beside), beside, user_file.WRITTEN_BYTES_MAX, BESIDE_HINT)
    if is_built(path) and not has_loader(Path(path)):
        return native().read_policy(str(path))
    cache = cache_directory()
    with whole_file.named_errors(f"cache directory {cache}", CACHE_HINT):
        cache.mkdir(parents=True, exist_ok=True)
    folders = (str(cache), str(SHIPPED_OBJECTS))
    include = [str(include_directory())]
    linker = built_program(GUEST_VARIABLE, GUEST)
    policy = native().compile_policy(str(path), include, *folders, _zig(), linker)
    # Our tests find what a compiler warns of in a policy of ours.
    if policy.warnings and Path(path).resolve() not in names(POLICIES).values():
        tell(policy.warnings)
    return policy


def built_program(variable: str, name: str) -> str | None:
    """A program of ours: the one that a variable of the environment names, else the checkout's,
    else the one on PATH; None if there is none."""
    if named := os.environ.get(variable):
        return named
    return shutil.which(data_directory() / IN_CHECKOUT / name) or shutil.which(name)


def policy_compiler() -> tuple[str, str]:
    """What builds policies: its command, and the version that it tells; raises
    `_native.PolicyError` if there is none."""
    return native().policy_compiler(_zig())


def _zig() -> str | None:
    """The program of the wheel `ziglang`, which builds policies where there is no clang."""
    found = importlib.util.find_spec("ziglang")
    return found and str(Path(found.origin).with_name("zig"))


def load_machine(path: str | Path, cpus: int | None = None, kernel: str | None = None):
    """Reads a machine, with `cpus` instead of its CPUs and the sched_ext of the release `kernel`;
    raises `_native.ScenarioError`."""
    return native().load_machine(str(path), cpus, kernel)


def load_workload(path: str | Path, parameters: dict[str, str]):
    """Reads a workload and fills in its parameters; raises `_native.ScenarioError`."""
    return native().load_workload(str(path), parameters)


def policy_rows(broken: Callable[[Exception], None]) -> Iterator[dict]:
    """Every shipped policy: name, idea, source, tunables with what its name alone means, sets. One
    that cannot be compiled is left out, and `broken` is told why."""
    for name, path in names(POLICIES).items():
        try:
            policy = load_policy(path)
        except native().PolicyError as error:
            broken(error)
            continue
        row = {"name": name, "idea": policy.description, "source": str(path)}
        plain = next((one["tunables"] for one in policy.sets if one["is_plain"]), {})
        row["tunables"] = [
            one | {"default": plain.get(one["name"], one["default"])} for one in policy.tunables
        ]
        yield row | {"sets": policy.sets}


def machine_rows() -> Iterator[dict]:
    """Every machine: name, cpus, hz (clock ticks a second), description, source."""
    for name, path in names(MACHINES).items():
        machine = load_machine(path)
        size = {"cpus": machine.nr_cpus, "hz": machine.hz}
        yield {"name": name, **size, "description": machine.description, "source": str(path)}


def workload_rows() -> Iterator[dict]:
    """Every workload: name, description, source, parameters with default and meaning."""
    for name, path in names(WORKLOADS).items():
        of = {"description": load_workload(path, {}).description, "source": str(path)}
        yield {"name": name, **of, "parameters": native().workload_parameters(path)}
