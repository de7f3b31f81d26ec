"""Who may use whom: the table of ARCHITECTURE.md, as test_layout.py holds the sources to it."""

import re

# Crate: the schedlab crates it may use, the libraries it may use.
CRATES = {
    "child": (set(), {"nix", "thiserror"}),
    "bytecode": (set(), {"dynasmrt", "memmap2", "object", "thiserror"}),
    "runqueue": (set(), {"bytemuck"}),
    "runqueue_c": ({"runqueue"}, set()),
    "scenario": (set(), {"libm", "serde", "sha2", "thiserror", "toml"}),
    "policy": (
        {"bytecode", "child"},
        {"sha2", "thiserror", "toml"},
    ),
    "simulator": (
        {"bytecode", "policy", "runqueue", "scenario"},
        {"hdrhistogram", "serde", "serde_json", "tempfile", "thiserror"},
    ),
    "conformance": ({"policy", "scenario", "simulator"}, {"serde", "thiserror", "toml"}),
    "benchmarks": (
        {"scenario"},
        {"clap", "libc", "nix", "serde", "serde_json", "thiserror"},
    ),
    "kernel": (
        {"benchmarks", "bytecode", "child", "policy", "scenario"},
        {
            "flate2",
            "libbpf-rs",
            "libc",
            "lz4_flex",
            "lzma-rust2",
            "nix",
            "object",
            "ruzstd",
            "serde",
            "serde_json",
            "sha2",
            "tar",
            "tempfile",
            "thiserror",
        },
    ),
    "race": (
        {"child", "runqueue"},
        {"libc", "libloading", "nix", "serde", "serde_json", "sha2", "thiserror"},
    ),
    "python": (
        {
            "child",
            "benchmarks",
            "conformance",
            "kernel",
            "policy",
            "race",
            "runqueue",
            "scenario",
            "simulator",
        },
        {"pyo3", "serde", "serde_json"},
    ),
}

# What a simulation must not depend on, or two runs would differ.
NOT_IN_SIMULATOR = re.compile(
    r"\bstd::(thread|time|fs|env|net|process|os)\b|\b(HashMap|HashSet|RandomState|SystemTime)\b"
    r"|\btempfile\b"
)
# What keeps a long record in a file, which decides nothing.
KEEPS_A_FILE = "crates/simulator/src/record/spool.rs"

# Where Rust and C meet, and where a structure is built by hand. Nowhere else is `unsafe` needed.
UNSAFE_FILES = (
    # Instructions of this machine are made, and called.
    "crates/bytecode/src/run/translation.rs",
    # Pages that go back to the kernel, to be 0 again.
    "crates/bytecode/src/mapping.rs",
    # Between fork and exec, and a handler of a signal.
    "crates/child/src/lib.rs",
    "crates/child/src/group.rs",
    # One instruction that reads a counter.
    "crates/kernel/src/vm/clock.rs",
    # System calls, and the memory that processes share.
    "crates/benchmarks/src/system.rs",
    "crates/benchmarks/src/player/stage.rs",
    "crates/benchmarks/src/player/channel.rs",
    # One pointer that every thread of a play starts from; one kill in a signal handler.
    "crates/benchmarks/src/player/task.rs",
    "crates/benchmarks/src/player/conductor.rs",
    # The computing loop, two instructions a turn.
    "crates/benchmarks/src/player/pace.rs",
    # One system call, for which nix has no function.
    "crates/kernel/src/loader/inside.rs",
    # Two calls of libbpf that libbpf-rs lacks: options of opening, counting runs of programs.
    "crates/kernel/src/loader/open.rs",
    "crates/kernel/src/loader/run_counts.rs",
    # Four instructions by which a guest stops its machine and reads its job.
    "crates/kernel/src/guest/machine.rs",
    # What a child does between fork and exec.
    "crates/kernel/src/guest/command.rs",
    # The rate of the kernel's clock, which no library sets.
    "crates/kernel/src/guest/clocks.rs",
    # Loading queues in C and C++, asking for large pages, reading a counter.
    "crates/race/src/plugin.rs",
    "crates/race/src/memory.rs",
    "crates/race/src/clock.rs",
    # Calls of functions for processors that were asked for them, and asking for a cache line.
    "crates/runqueue/src/exact_time_ring/lanes.rs",
    # The functions that C calls, and nothing else.
    "crates/runqueue_c/src/lib.rs",
    "crates/simulator/src/object_calls.rs",
    "crates/simulator/src/object_calls/*.rs",
    "crates/simulator/src/visible.rs",
)

# Python module outside the packages: what it may import of schedlab.
LEAVES = {
    "errors": set(),
    "shown": set(),
    "user_file": {"errors"},
    "digests": set(),
    "nice": set(),
    "values": {"errors"},
    "whole_file": {"errors"},
    "catalogue": {"errors", "shown", "user_file", "whole_file", "_native"},
    "programs": {"catalogue", "errors", "user_file"},
    "workers": {"catalogue", "shown"},
    "published": {"catalogue", "errors", "user_file"},
}
TOP = LEAVES | {
    "__init__": {"errors", "notebook"},
    "__main__": {"cli"},
    "cli": {"commands", "errors", "shown"},
}
# What those who ask questions may use.
BELOW_ASKING = {
    "statistics",
    "store",
    "report",
    "kernel",
    "experiment",
    "bench",
    "race",
    "sweeping",
    "tuning",
}
# Python package: the leaves and packages it may import, besides itself.
PACKAGES = {
    "statistics": {"errors"},
    "store": {"digests", "errors", "shown", "user_file"},
    "report": {*LEAVES, "statistics"},
    "kernel": {*LEAVES},
    "experiment": {*LEAVES, "statistics", "store", "report", "kernel"},
    "bench": {*LEAVES, "statistics", "store", "report", "kernel"},
    "race": {*LEAVES, "statistics", "store", "report"},
    "sweeping": {*LEAVES, "store", "report", "experiment"},
    "tuning": {*LEAVES, "statistics", "store", "report", "experiment"},
    "notebook": {*LEAVES, *BELOW_ASKING},
    "commands": {*LEAVES, *BELOW_ASKING},
}
KNOWS_CLICK = ("python/schedlab/cli.py", "python/schedlab/commands/")
# How many modules may stand on each other.
FLOORS_MAX = 12
# What works on values alone, by a pattern of its path: it opens no file, and only figures draw.
OPENS_NO_FILE = r"python/schedlab/(statistics/.*|.*/(.*_)?figures?|race/answers)\.py"
NOT_OF_VALUES = {"io", "os", "pathlib", "shutil", "sqlite3", "subprocess", "tempfile"}
