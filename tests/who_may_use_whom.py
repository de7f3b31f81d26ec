"""Who may use whom: the table of ARCHITECTURE.md, as test_layout.py holds the sources to it."""

import re

# Crate: the schedlab crates it may use, the libraries it may use.
CRATES = {
    "runqueue": (set(), set()),
    "runqueue_c": ({"runqueue"}, set()),
    "scenario": (set(), {"libm", "serde", "sha2", "thiserror", "toml"}),
    "policy": (set(), {"gimli", "libc", "libloading", "object", "sha2", "thiserror", "toml"}),
    "simulator": (
        {"policy", "runqueue", "scenario"},
        {"hdrhistogram", "serde", "serde_json", "thiserror"},
    ),
    "conformance": ({"policy", "scenario", "simulator"}, {"serde", "thiserror", "toml"}),
    "benchmarks": (
        {"scenario"},
        {"clap", "libc", "nix", "serde", "serde_json", "thiserror"},
    ),
    "kernel": (
        {"benchmarks", "policy", "scenario"},
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
        {"runqueue"},
        {"libc", "libloading", "nix", "serde", "serde_json", "sha2", "thiserror"},
    ),
    "python": (
        {"conformance", "kernel", "policy", "race", "runqueue", "scenario", "simulator"},
        {"pyo3", "serde", "serde_json"},
    ),
}

# What a simulation must not depend on, or two runs would differ.
NOT_IN_SIMULATOR = re.compile(
    r"\bstd::(thread|time|fs|env|net|process|os)\b|\b(HashMap|HashSet|RandomState|SystemTime)\b"
)

# Where Rust and C meet, and where a structure is built by hand. Nowhere else is `unsafe` needed.
UNSAFE_FILES = (
    "crates/kernel/src/child.rs",
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
    # Two calls of libbpf that libbpf-rs lacks: options of opening, counting runs of programs.
    "crates/kernel/src/loader/open.rs",
    "crates/kernel/src/loader/run_counts.rs",
    # What a child does between fork and exec.
    "crates/kernel/src/guest/command.rs",
    # The rate of the kernel's clock, which no library sets.
    "crates/kernel/src/guest/clocks.rs",
    "crates/policy/src/*.rs",
    # Loading queues in C and C++, asking for large pages, reading a counter.
    "crates/race/src/plugin.rs",
    "crates/race/src/memory.rs",
    "crates/race/src/clock.rs",
    "crates/runqueue/src/*.rs",
    # The vector forms of the exact time ring.
    "crates/runqueue/src/exact_time_ring/lanes.rs",
    "crates/runqueue/src/exact_time_ring/lanes/avx2.rs",
    "crates/runqueue/src/exact_time_ring/lanes/avx512.rs",
    # The functions that C calls, and nothing else.
    "crates/runqueue_c/src/lib.rs",
    "crates/simulator/src/engine.rs",
    "crates/simulator/src/hooks.rs",
    "crates/simulator/src/kernel_calls.rs",
    "crates/simulator/src/kernel_calls/*.rs",
    "crates/simulator/src/kernel_calls/*.rs",
    "crates/simulator/src/task.rs",
    "crates/simulator/src/policy_maps.rs",
    "crates/simulator/src/task.rs",
)

# Python module: the schedlab modules it may import.
MODULES = {
    "__init__": set(),
    "__main__": {"cli"},
    "cli": {"errors", "verbs"},
    "errors": set(),
    "catalogue": {"errors", "_native"},
    "statistics": set(),
    "store": {"errors"},
    "claimed": {"errors"},
    "experiment": {"catalogue", "claimed", "errors", "store"},
    "platforms": {"bpf", "catalogue", "errors", "store"},
    "cells": {"bpf", "catalogue", "errors", "experiment", "platforms", "store"},
    "workers": {"catalogue"},
    "sweep": {"catalogue", "cells", "errors", "store", "workers"},
    "claims": {"errors", "store"},
    "comparison": {"cells", "claims", "experiment", "store", "sweep"},
    "study": {"statistics", "store"},
    "weights": set(),
    "interactivity": {"statistics", "store", "study"},
    "fairness": {"interactivity", "statistics", "study", "weights"},
    "headline": {"fairness", "interactivity", "statistics", "study", "terminal"},
    "verdicts": {"fairness", "statistics", "study"},
    "plots": {"statistics"},
    "interactivity_plots": {"plots"},
    "timeline_plot": {"plots"},
    "report_figures": {
        "fairness",
        "interactivity",
        "interactivity_plots",
        "plots",
        "study",
        "timeline_plot",
    },
    "report": {
        "errors",
        "fairness",
        "headline",
        "interactivity",
        "plots",
        "report_figures",
        "statistics",
        "store",
        "study",
        "timeline_plot",
        "verdicts",
    },
    "timelines": {
        "cells",
        "errors",
        "interactivity",
        "statistics",
        "store",
        "study",
        "sweep",
        "timeline_plot",
    },
    "verdicts_table": {"tables", "verdicts"},
    "interactivity_table": {
        "fairness",
        "interactivity",
        "statistics",
        "study",
        "tables",
        "terminal",
    },
    "tables": set(),
    "report_verb": {
        "catalogue",
        "cells",
        "errors",
        "experiment",
        "report",
        "store",
        "study",
        "terminal",
        "timeline_plot",
        "timelines",
        "verdicts",
    },
    "terminal": {
        "cells",
        "errors",
        "experiment",
        "statistics",
        "store",
        "study",
        "tables",
    },
    "race": {"catalogue", "errors", "store"},
    "heats": {"store"},
    "race_answers": {"race", "statistics"},
    "race_published": {"catalogue", "errors", "race_answers", "statistics"},
    "race_plot": {"plots"},
    "race_table": {
        "race",
        "race_answers",
        "race_published",
        "statistics",
        "tables",
        "terminal",
    },
    "race_report": {
        "errors",
        "plots",
        "race",
        "race_answers",
        "race_plot",
        "race_published",
        "race_table",
    },
    "race_verb": {
        "catalogue",
        "errors",
        "heats",
        "race",
        "race_answers",
        "race_published",
        "race_report",
        "race_table",
        "report_verb",
        "store",
        "terminal",
    },
    "check": {"catalogue", "errors", "experiment", "sweep", "terminal"},
    "kernels": {"catalogue", "errors", "terminal"},
    "listing": {"catalogue", "errors", "terminal"},
    "bpf": {"catalogue", "errors"},
    "vm": {"catalogue", "kernels"},
    "agreement": set(),
    "referee": {"agreement", "bpf", "catalogue", "errors", "kernel_result", "platforms", "vm"},
    "kernel_result": {"store", "weights"},
    "on_vm": {
        "bpf",
        "catalogue",
        "cells",
        "errors",
        "experiment",
        "kernel_result",
        "platforms",
        "store",
        "sweep",
        "vm",
    },
    "doctor": {"bpf", "catalogue", "errors", "kernels", "terminal"},
    "load": {"bpf", "catalogue", "doctor", "errors", "experiment", "kernel_result"},
}
NOT_IN_STATISTICS = {"io", "os", "pathlib", "plotly", "shutil", "sqlite3", "subprocess", "tempfile"}
NOT_IN_PLOTS = NOT_IN_STATISTICS - {"plotly"}
IMPORTS_REFUSED = {
    "statistics": NOT_IN_STATISTICS,
    "plots": NOT_IN_PLOTS,
    "interactivity_plots": NOT_IN_PLOTS,
    "timeline_plot": NOT_IN_PLOTS,
    "race_plot": NOT_IN_PLOTS,
    "race_answers": NOT_IN_PLOTS,
}
