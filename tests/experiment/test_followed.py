"""Goal: a comparison shows what numbers inside its policies were, of runs that are its own.

Method: real reports of a policy that counts, under two labels, and of one that has no such number;
properties of thinned samples.
"""

import json
import re
from pathlib import Path
from random import Random

import cached_kernels
import pytest
import schedlab as sl
from hypothesis import given
from hypothesis import strategies as st
from schedlab.errors import SchedlabError
from schedlab.experiment import definition
from schedlab.experiment.followed import PIECES, thinned

POLICY = str(Path(__file__).resolve().parents[1] / "interface" / "dumps.bpf.c")
SCENARIO = ("--workload", "sleepers", "--machine", "core2-t5600", "--repeat", "1")


def figures(page: str) -> list[dict]:
    found = re.findall(r'data-figure="followed-\d+">(.*?)</script>', page, re.S)
    return [json.loads(text) for text in found]


def test_a_report_has_a_line_for_each_policy_that_has_the_number(command, tmp_path):
    page, store = tmp_path / "page.html", str(tmp_path / "runs.db")
    policies = (f"one={POLICY}", "fifo", f"two={POLICY}")
    watch = ("--watch", "all.enqueued", "--watch", "balance")
    asked = ("compare", *policies, *SCENARIO, "--set", "two.slice_ns=1ms", "--store", store)
    done = command(*asked, "--report", str(page), *watch)
    assert done.returncode == 0, done.stderr
    enqueued, balance = figures(page.read_text())
    assert [trace["name"].split()[-1] for trace in enqueued["data"]] == ["one", "two"]
    assert enqueued["layout"]["yaxis"]["title"]["text"] == "all.enqueued (u64)"
    assert re.fullmatch(r"simulated time \(m?s\)", enqueued["layout"]["xaxis"]["title"]["text"])
    assert all(trace["y"][-1] > 0 for trace in enqueued["data"])
    assert all(trace["y"] == [-3] * len(trace["y"]) for trace in balance["data"])
    # The last value holds to the end of its run, and the axis to the last of them.
    ends = [trace["x"][-1] for trace in balance["data"]]
    assert max(ends) <= balance["layout"]["xaxis"]["range"][1] < 1.2 * max(ends)
    again = tmp_path / "again.html"
    done = command("report", store, "-o", str(again), *watch)
    assert done.returncode == 0, done.stderr
    assert figures(again.read_text()) == [enqueued, balance]


def test_an_experiment_file_says_what_its_reports_follow(command, tmp_path):
    page, store = tmp_path / "page.html", str(tmp_path / "runs.db")
    file = tmp_path / "asked.toml"
    scenario = 'workload = "sleepers"\nmachine = "core2-t5600"\nrepeat = 1\n'
    file.write_text(f'policies = ["{POLICY}", "fifo"]\n{scenario}watch = "balance"\n')
    asked = ("compare", "--experiment", str(file), "--store", store)
    # Without a report there is nothing to draw, and no mistake either.
    assert command(*asked).returncode == 0
    assert command("report", store, "-o", str(page)).returncode == 0
    [balance] = figures(page.read_text())
    assert balance["layout"]["yaxis"]["title"]["text"] == "balance (s64)"
    done = command(*asked, "--report", str(page), "--watch", "all.enqueued")
    assert done.returncode == 0, done.stderr
    [enqueued] = figures(page.read_text())
    assert enqueued["layout"]["yaxis"]["title"]["text"] == "all.enqueued (u64)"
    file.write_text(file.read_text().replace("balance", "balanc"))
    done = command(*asked)
    assert (done.returncode, "did you mean balance?" in done.stderr) == (2, True)


def test_runs_that_are_gone_are_an_error_only_to_who_asks_for_numbers(command, tmp_path):
    page, store = tmp_path / "page.html", str(tmp_path / "runs.db")
    mine, file = tmp_path / "mine.bpf.c", tmp_path / "asked.toml"
    mine.write_text(Path(POLICY).read_text())
    scenario = 'workload = "sleepers"\nmachine = "core2-t5600"\nrepeat = 1\n'
    file.write_text(f'policies = ["./mine.bpf.c", "fifo"]\n{scenario}watch = ["balance"]\n')
    assert command("compare", "--experiment", str(file), "--store", store).returncode == 0
    mine.write_text(mine.read_text().replace("balance = -3", "balance = -4"))
    done = command("report", store, "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("made with other files") == 2 and page.exists()
    done = command("report", store, "-o", str(page), "--watch", "balance")
    assert done.returncode == 2 and "made with other files" in done.stderr


def test_an_experiment_without_numbers_is_what_it_was():
    options = {"policies": ["fifo"], "workload": "sleepers", "machine": ["laptop"]}
    plain, watching = definition.build(options), definition.build(options | {"watch": ["a", "b"]})
    assert "watch" not in plain.definition and plain.id != watching.id
    assert definition.of_definition(json.loads(json.dumps(watching.definition))) == watching
    assert definition.of_definition(json.loads(json.dumps(plain.definition))) == plain


@pytest.mark.qemu
def test_numbers_in_a_kernel_are_those_of_one_more_run(command, environment, tmp_path):
    where = ("--on", "vm", "--kernel", cached_kernels.named("newest"), "--deterministic")
    environment.pop("XDG_CACHE_HOME")
    page, store = tmp_path / "page.html", str(tmp_path / "runs.db")
    workload = ("--workload", "hackbench", "--with", "groups=1", "--with", "loops=2")
    asked = ("compare", "eevdf@kernel", POLICY, *workload, *where, "--repeat", "1")
    watch = ("--watch", "all.enqueued")
    done = command(*asked, "--store", store, "--report", str(page), *watch)
    assert done.returncode == 0, done.stderr
    assert "note: no timeline: runs on a real kernel are not repeated" in done.stderr
    [enqueued] = figures(page.read_text())
    [line] = enqueued["data"]
    assert line["name"].split()[-1] == "dumps" and line["y"][-1] > 40
    assert enqueued["layout"]["xaxis"]["title"]["text"] == "time (ms)"
    assert line["x"][-1] <= enqueued["layout"]["xaxis"]["range"][1]
    assert "it is none of those compared" in page.read_text()
    # Nothing of the look is kept.
    again = command(*asked, "--store", store)
    assert "0 runs made, 2 reused" in again.stderr
    alone = ("compare", "eevdf@kernel", *workload, *where, "--store", store, "--report", "x.html")
    done = command(*alone, *watch)
    assert done.returncode == 2
    assert "the kernel's own scheduler shows none of its numbers" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--watch", "balance"), "add --report FILE.html"),
        (("--watch", "balanc", "--report", "page.html"), "did you mean balance?"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_a_run(command, tmp_path, given, said):
    store = tmp_path / "runs.db"
    done = command("compare", POLICY, *SCENARIO, "--store", str(store), *given)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_notebook_has_a_frame_of_it(tmp_path):
    answer = sl.compare(
        [POLICY, "fifo"], "sleepers", ["core2-t5600"], repeat=1, store=tmp_path / "s.db",
        progress=False,
    )  # fmt: skip
    frame = answer.watched("all.enqueued")
    assert list(frame) == ["policy", "expression", "at_ns", "value"]
    assert set(frame["policy"]) == {"dumps"}
    assert frame["value"].is_monotonic_increasing and frame["value"].max() > 0
    with pytest.raises(SchedlabError, match="no number was named"):
        answer.watched()


samples = st.lists(
    st.tuples(st.integers(0, 10**9), st.none() | st.integers(-9, 9)), unique_by=lambda s: s[0]
).map(sorted)


@given(samples)
def test_few_samples_stay_as_they_are(few):
    assert thinned(few) == few


@given(st.integers(4 * PIECES + 1, 10 * PIECES), st.integers(0, 2**32))
def test_ends_and_extremes_stay(count, seed):
    chance = Random(seed)
    many = [(at, chance.choice([None, -5, 0, chance.randrange(99)])) for at in range(count)]
    few = thinned(many)
    assert len(few) <= 4 * PIECES
    assert few == sorted(few, key=lambda sample: sample[0])
    assert set(few) <= set(many)
    assert (few[0], few[-1]) == (many[0], many[-1])
    numbers = [number for _, number in many if number is not None]
    kept = [number for _, number in few if number is not None]
    assert (min(kept), max(kept)) == (min(numbers), max(numbers))
