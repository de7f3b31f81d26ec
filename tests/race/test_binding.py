"""Goal: Python races run queues as Rust does, and can stop it. Method: short heats."""

import json
import os
import signal
import threading

import pytest
from schedlab import _native
from schedlab.race.plan import TIMED_ALONE, WORKLOADS

PLUGIN = """
#include <stdint.h>
const uint32_t schedlab_race_abi = 1;
const void *const schedlab_race_queues[] = {0};
"""

HEAT = {
    *("spec", "per", "ticks_per_s", "clock", "cpu", "counters", "large_page_bytes", "rows"),
}
ROW = {
    *("structure", "exact", "source", "ticks_per_loop", "instructions_per_loop"),
    *("cache_misses_per_loop", "bytes_per_item", "single", "order_hash", "left_out"),
    *("disturbed", "paces"),
}


def race(**spec) -> dict:
    return _native.race_heat(json.dumps(spec))


def test_a_heat_has_a_row_for_every_entrant():
    heat = race(workload="hold", n=10, rounds=3, loops=500)
    entrants = _native.race_entrants()
    names = {entrant["structure"] for entrant in entrants}
    assert {row["structure"] for row in heat["rows"]} == names
    assert heat.keys() == HEAT
    assert all(row.keys() == ROW for row in heat["rows"])
    assert heat["per"] == "loop"
    assert heat["spec"]["seed"] == 1
    raced = [row for row in heat["rows"] if not row["left_out"]]
    assert all(len(row["ticks_per_loop"]) == 3 for row in raced)
    assert len({row["order_hash"] for row in raced if row["exact"]}) == 1


def test_python_knows_the_workloads_that_the_core_has():
    with pytest.raises(_native.RaceError) as error:
        race(workload="sprint")
    assert error.value.hint == f"`workload` is one of {', '.join(WORKLOADS)}"


def test_operations_timed_alone_have_percentiles():
    for workload, operations in TIMED_ALONE.items():
        heat = race(workload=workload, n=10, rounds=1, loops=500, structures=["red_black_tree"])
        single = heat["rows"][0]["single"]
        assert 0 < single["p50"] <= single["p99"] <= single["p999"] <= single["max"]
        for name in operations:
            assert single[name].keys() == {"p50", "p99", "p999", "max"}
        assert (single["remove"] is None) == ("remove" not in operations)


def test_what_cannot_be_raced_is_an_error_with_a_way_out():
    with pytest.raises(_native.RaceError, match=r"splay_tree(.|\n)*hint: there are fifo"):
        race(workload="hold", structures=["splay_tree"])
    with pytest.raises(_native.NativeError, match=r"`sprint`(.|\n)*is one of hold, hold_remove"):
        race(workload="sprint")


def test_an_error_of_the_core_has_a_message_and_a_way_out_apart():
    with pytest.raises(_native.NativeError) as caught:
        race(workload="hold", structures=["splay_tree"])
    error = caught.value
    assert "splay_tree" in error.message
    assert error.hint.startswith("there are fifo")
    assert str(error) == f"{error.message}\nhint: {error.hint}"
    assert _native.PolicyError("no way out").hint is None


def test_a_plugin_is_compiled_and_one_without_queues_is_refused(tmp_path):
    source = tmp_path / "empty.c"
    source.write_text(PLUGIN)
    plugin = _native.race_compile(str(source), str(tmp_path), str(tmp_path / "cache"))
    assert plugin.parent == tmp_path / "cache"
    with pytest.raises(_native.RaceError, match="its list has 0 queues"):
        _native.race_entrants([str(plugin)])
    source.write_text("int f(void) { return nothing_of_this_name; }")
    with pytest.raises(_native.RaceError, match="nothing_of_this_name"):
        _native.race_compile(str(source), str(tmp_path), str(tmp_path / "cache"))


def test_ctrl_c_ends_a_heat_between_rounds():
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        race(workload="hold", n=100, rounds=10_000)  # Minutes, if nobody stops it.
    interrupt.join()
