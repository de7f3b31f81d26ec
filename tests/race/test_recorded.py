"""Goal: what a simulated run does to a queue can be raced, and every exact queue repeats it.

Method: the real command records runs of policies that order by virtual time, and races the file.
"""

import json
import re

import pytest

SCENARIO = ("--workload", "hackbench", "--with", "groups=2", "--with", "loops=5")
RUN = ("run", "cfs", *SCENARIO, "--machine", "osdl-2")
ON_VM = ("run", "cfs", *SCENARIO, "--on", "vm")
EXACT = ("red_black_tree", "gavl_tree", "pairing_heap", "rust_btree_map", "exact_time_ring")
STRUCTURES = tuple(word for name in EXACT for word in ("--structure", name))


def lines_of(path):
    """Operations of a trace, without its comments."""
    lines = path.read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("policy", ["cfs", "eevdf"])
def test_what_a_run_did_to_a_queue_is_raced_by_exact_queues(command, tmp_path, policy):
    words = ("run", policy, *SCENARIO, "--machine", "osdl-4")
    done = command(*words, "--queue-trace", "q.trace")
    assert done.returncode == 0, done.stderr
    operations = lines_of(tmp_path / "q.trace")
    kinds = [words[0] for words in operations]
    assert set(kinds) <= {"push", "pop", "remove"} and kinds.count("pop") > 100
    assert f"{len(operations):,} operations" in done.stderr
    keys = [int(words[2]) for words in operations if words[0] == "push"]
    assert len(set(keys)) > 100, "virtual times, not numbers of queues"

    raced = command(
        "race", "--trace", "q.trace", "-l", 200, "--rounds", 2, *STRUCTURES, "-q", "--json"
    )
    assert raced.returncode == 0, raced.stderr
    [heat] = json.loads(raced.stdout)["heats"]
    rows = {row["structure"]: row for row in heat["rows"]}
    assert list(rows) == list(EXACT)
    assert len({row["order_hash"] for row in rows.values()}) == 1
    assert all(row["order_hash"] and not row["left_out"] for row in rows.values())


def test_the_busiest_of_the_policys_own_queues_is_taken_or_the_one_that_is_named(command, tmp_path):
    done = command(*RUN, "--queue-trace", "q.trace")
    first, others = done.stderr.strip().splitlines()
    own, operations = re.fullmatch(
        r"q\.trace: queue (0x[01]), ([0-9,]+) operations", first
    ).groups()
    found = dict(re.findall(r"(\w+) ([0-9,]+)", others.partition(": ")[2]))
    counts = {name: int(count.replace(",", "")) for name, count in found.items()}
    [other] = {"0x0", "0x1"} - {own}
    assert int(operations.replace(",", "")) >= counts[other] > 0 and counts["local0"] > 0
    command(*RUN, "--queue-trace", "l.trace", "--queue", "local0")
    text = (tmp_path / "l.trace").read_text()
    assert "queue local0" in text and "# schedlab run cfs" in text
    # Positions in a list: each later one is larger, or in front of all.
    keys = [int(words[2]) for words in lines_of(tmp_path / "l.trace") if words[0] == "push"]
    behind = [key for key in keys if key < 2**63]
    assert behind == sorted(set(behind))


def test_a_run_is_the_same_whether_it_is_recorded_or_not(command, tmp_path):
    recorded = command(*RUN, "--queue-trace", "q.trace", "--json", "--store", "a.sqlite")
    plain = command(*RUN, "--json")
    results = [json.loads(done.stdout) for done in (recorded, plain)]
    assert "queue_traces" not in recorded.stdout
    assert results[0]["result"]["digest"] == results[1]["result"]["digest"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*RUN, "--queue", "0x0"), "--queue 0x0: nothing is written of it"),
        ((*RUN, "--queue-trace", "no/such/q.trace"), "there is no directory no/such"),
        ((*ON_VM, "--queue-trace", "q.trace"), "a real kernel does not tell"),
        ((*RUN, "--queue-trace", "q.trace", "--queue", "0xx"), "unknown queue '0xx' in this run"),
    ],
)
def test_a_record_that_cannot_be_had_is_refused(command, tmp_path, words, said):
    done = command(*words)
    assert (done.returncode, "hint: " in done.stderr) == (2, True), done.stderr
    assert said in done.stderr
    assert not list(tmp_path.glob("*q.trace*"))
