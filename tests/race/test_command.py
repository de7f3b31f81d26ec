"""Goal: `schedlab race` races what it is asked, keeps every heat, and says what is wrong.

Method: the real command with the real core, at sizes and loops so small that no time means
anything; no test looks at one.
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from running import PATIENCE_S, wait_for, wait_until_at_work
from schedlab.race import meeting
from schedlab.race.plan import TIMED_ALONE

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "race.md"
TINY = ("-l", 200, "--rounds", 2)
TWO = ("--structure", "red_black_tree", "--structure", "exact_time_ring")
CHROMIUM = os.environ.get("SCHEDLAB_CHROMIUM") or shutil.which("chromium")


def raced(command, *words):
    """What a race says as JSON."""
    done = command("race", *words, "-q", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reused(done):
    found = re.search(r"(\d+) heats? raced, (\d+) reused", done.stderr)
    return int(found[1]), int(found[2])


def test_a_race_gives_each_structure_a_time_a_round_and_one_order(command):
    told = raced(command, "-n", "1,10", *TINY, *TWO)
    assert [heat["spec"]["n"] for heat in told["heats"]] == [1, 10]
    for heat in told["heats"]:
        assert heat["spec"]["loops"] == 200
        rows = {row["structure"]: row for row in heat["rows"]}
        assert list(rows) == ["red_black_tree", "exact_time_ring"]
        for row in rows.values():
            assert len(row["ticks_per_loop"]) == 2
            assert min(row["ticks_per_loop"]) == row["ticks"]["min"] > 0
            assert row["bytes_per_item"] > 0
            assert (row["left_out"], row["single"]) == ("", None)
        assert len({row["order_hash"] for row in rows.values()}) == 1
        ratio = heat["ratios"]["red_black_tree"]
        assert (ratio["against"], ratio["low"]) == ("red_black_tree", None)
        assert heat["ratios"]["gavl"] is None
        assert heat["best_exact_peer"] == "red_black_tree"
        assert heat["fastest"] in rows
    assert [row["n"] for row in told["published"]] == [1, 10]
    assert told["machine"]["cpu_model"]


def test_everybody_takes_part_unless_somebody_is_named(command):
    [heat] = raced(command, "-n", 10, *TINY)["heats"]
    names = {row["structure"] for row in heat["rows"] if not row["left_out"]}
    assert {"fifo", "gavl_tree", "gavl_tree_published", "pairing_heap", "calendar_queue"} <= names
    assert {"rust_btree_map", "rust_binary_heap", "time_ring", "exact_time_ring"} <= names


@pytest.mark.parametrize("workload", ["hold_remove", "cold", *TIMED_ALONE, "markov", "up_down"])
def test_workloads_of_many_kinds_end_in_rows(command, workload):
    told = raced(command, "--workload", workload, "-n", 4, *TINY, *TWO)
    [heat] = told["heats"]
    assert heat["spec"]["workload"] == workload
    assert (heat["spec"]["queues"] > 1) == (workload == "cold")
    assert all((row["single"] is not None) == (workload in TIMED_ALONE) for row in heat["rows"])
    done = command("race", "--workload", workload, "-n", 4, *TINY, *TWO)
    assert workload in done.stdout
    assert reused(done) == (0, 1)


@pytest.mark.parametrize("workload", ["storm", "mass_exit", "drain", "fork_burst"])
def test_workloads_of_bursts_end_in_rows(command, workload):
    [heat] = raced(command, "--workload", workload, "-n", 8, *TINY, *TWO)["heats"]
    assert heat["per"] == "operation"
    assert all(row["ticks_per_loop"] for row in heat["rows"])


def test_a_recorded_trace_is_raced(command, tmp_path):
    lines = [f"push {item} {100 - item}" for item in range(8)] + ["remove 3", "pop", "pop"]
    (tmp_path / "t.trace").write_text("# made by a test\n" + "\n".join(lines) + "\n")
    [heat] = raced(command, "--trace", "t.trace", *TINY, *TWO)["heats"]
    assert heat["spec"]["workload"] == "trace"
    done = command("race", "--trace", "t.trace", *TINY, *TWO, "--report", "r.html")
    assert done.returncode == 0, done.stderr
    assert reused(done) == (0, 1)
    (tmp_path / "t.trace").write_text("\n".join(lines[:9]) + "\n")
    assert reused(command("race", "--trace", "t.trace", *TINY, *TWO)) == (1, 0)


def test_a_race_is_one_call_too(tmp_path, capfd):
    options = meeting.Options(workloads=["hold"], sizes=[4, "8,16"], loops=200, rounds=2)
    told = []
    raced = meeting.race(options, tmp_path / "s.db", tell=told.append)
    assert [heat.spec.n for heat in raced.heats] == [4, 8, 16]
    assert (raced.nr_raced, raced.failed) == (3, [])
    assert told == [f"3 heats raced, 0 reused from {tmp_path / 's.db'}"]
    again = meeting.race(options, tmp_path / "s.db", quiet=True)
    assert [heat.result for heat in again.heats] == [heat.result for heat in raced.heats]
    assert again.nr_raced == 0
    assert capfd.readouterr() == ("", "")


def test_the_order_of_2007_can_be_had(command):
    [heat] = raced(command, "-n", 4, *TINY, *TWO, "--order", "abcba")["heats"]
    assert heat["spec"]["order"] == "abcba"


def test_the_cpu_is_chosen_before_the_store_is_asked(command):
    [heat] = raced(command, "-n", 4, *TINY, *TWO)["heats"]
    last = max(os.sched_getaffinity(0))
    assert heat["spec"]["cpu"] == heat["cpu"] == last
    assert reused(command("race", "-n", 4, *TINY, *TWO, "--cpu", last)) == (0, 1)


def test_one_loop_a_round_leaves_no_traceback_and_a_store_that_can_be_read(command):
    words = ("race", "-n", 1, "-l", 1, "--rounds", 9, "--report", "r.html")
    for _ in range(2):
        done = command(*words)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_heats_that_are_kept_are_not_raced_again_unless_asked(command):
    words = ("-n", "2,4", *TINY, *TWO)
    first = raced(command, *words)
    assert [heat["reused"] for heat in first["heats"]] == [False, False]
    assert reused(command("race", "-n", "2,4,8", *TINY, *TWO)) == (1, 2)
    assert reused(command("race", *words, "--keys", "ties")) == (2, 0)
    assert reused(command("race", *words, "--again")) == (2, 0)
    again = raced(command, *words)
    assert [heat["reused"] for heat in again["heats"]] == [True, True]
    assert again["heats"][0]["raced_at"] > first["heats"][0]["raced_at"]


def test_after_ctrl_c_the_same_command_goes_on(environment, command, tmp_path):
    words = ("race", "-n", "1,2,4,8", "-l", "300000", "--rounds", "40", *TWO)
    process = subprocess.Popen(
        [sys.executable, "-m", "schedlab", *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    store = tmp_path / "schedlab.db"
    wait_for(lambda: nr_kept(store) or process.poll() is not None, "a heat that is kept")
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    told = re.search(r"(\d) of 4 heats are kept in schedlab.db; the same command goes on", err)
    assert told, err
    kept = nr_kept(store)
    assert 1 <= kept < 4
    assert kept == int(told[1])
    done = command(*words)
    assert reused(done) == (4 - kept, kept)


def nr_kept(store):
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            return database.execute("SELECT count(*) FROM heats").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_a_heat_that_cannot_be_raced_does_not_keep_others_from_it(command):
    heap = ("--structure", "rust_binary_heap", "-n", "4,8", *TINY)
    done = command("race", "--workload", "hold", "--workload", "hold_remove", *heap)
    assert done.returncode == 1
    assert reused(done) == (2, 0)
    assert "error: hold_remove, uniform keys, n = 4" in done.stderr
    assert "cannot remove" in done.stderr
    assert "rust_binary_heap" in done.stdout
    nobody = command("race", "--workload", "hold_remove", *heap)
    assert (nobody.returncode, nobody.stdout) == (2, "")


# ---- plug-ins -----------------------------------------------------------------------------------


def guide_source():
    """The plug-in that the guide shows."""
    return re.search(r"```c\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)[1]


def test_a_queue_of_ones_own_races_beside_who_is_named(command, tmp_path):
    (tmp_path / "mine.c").write_text(guide_source())
    [heat] = raced(command, "--with", "mine.c", *TWO, "-n", 10, *TINY)["heats"]
    rows = {row["structure"]: row for row in heat["rows"]}
    assert list(rows) == ["red_black_tree", "exact_time_ring", "sorted_array"]
    assert rows["sorted_array"]["source"].startswith("plugin:")
    assert len({row["order_hash"] for row in rows.values()}) == 1
    # Another source is another queue, and its heats are other heats.
    (tmp_path / "mine.c").write_text(guide_source() + "/* changed */ int changed;\n")
    assert reused(command("race", "--with", "mine.c", *TWO, "-n", 10, *TINY)) == (1, 0)


def test_a_queue_of_ones_own_that_gives_another_order_is_told(command, tmp_path):
    wrong = guide_source().replace(".key) >= 0", ".key) > 0")
    (tmp_path / "wrong.c").write_text(wrong)
    done = command("race", "--with", "wrong.c", *TWO, "-n", 100, "--keys", "ties", *TINY)
    assert (done.returncode, done.stdout) == (2, "")
    assert "sorted_array" in done.stderr
    assert "red_black_tree" in done.stderr


def test_a_queue_that_does_not_compile_shows_the_compilers_words(command, tmp_path):
    (tmp_path / "broken.c").write_text('#include "schedlab_race.h"\nint broken(void) { return x; }')
    done = command("race", "--with", "broken.c", "-n", 1, *TINY)
    assert (done.returncode, done.stdout) == (2, "")
    assert "broken.c:2" in done.stderr
    assert "Traceback" not in done.stderr


# ---- figure and wrong input ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium: install Debian's `chromium`, or set SCHEDLAB_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, chromium_sandbox=False, args=quiet
        )
        yield opened
        opened.close()


@pytest.mark.browser
def test_the_page_draws_a_curve_for_each_and_asks_nothing_of_the_network(
    command, browser, tmp_path
):
    done = command("race", "-n", "1,10,100", *TINY, *TWO, "--report", "race.html")
    assert done.returncode == 0, done.stderr
    assert "report: race.html" in done.stderr
    page = browser.new_page(viewport={"width": 1148, "height": 900})
    page.set_default_timeout(240_000)
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "race.html").as_uri())
    curves = page.locator("[data-kind=race] .scatterlayer path.js-line")
    curves.nth(1).wait_for(state="attached")
    assert curves.count() == 2
    assert page.locator("[data-kind=race] .legend g.traces").count() == 2 + 5
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--workload", "hol"), ["unknown workload 'hol'", "did you mean hold", "valid: "]),
        (("--keys", "tie"), ["unknown distribution of keys 'tie'", "did you mean ties"]),
        (("--structure", "rbtree"), ["unknown structure 'rbtree'", "red_black_tree", "valid: "]),
        (("--order", "abc"), ["unknown order 'abc'", "abcba"]),
        (("-n", "0"), ["-n: '0' is not from 1 to 16,777,216"]),
        (("-n", "1,x"), ["-n: 'x' is not a whole number", "-n 1,10,1000"]),
        (("-n", "-5"), ["-n: '-5' is not from 1 to 16,777,216", "as in -n 10"]),
        (("-n", "1,000"), ["-n: '1,000' is several sizes", "write -n 1000 for one size"]),
        (("-l", "0"), ["--loops"]),
        (("-l", "x"), ["'x' is not a valid whole number"]),
        (("--rounds", "0"), ["--rounds"]),
        (("--cpu", "4095"), ["4095"]),
        (("--with", "mine.rs"), ["mine.rs", ".so, .c, .cpp"]),
        (("--with", "mine.c"), ["--with mine.c does not exist"]),
        (("--trace", "no.trace"), ["-n 1: a trace has items and keys of its own"]),
        (
            ("--trace", "no.trace", "--workload", "hold", "--workload", "trace"),
            ["--trace no.trace does not exist"],
        ),
        (("--workload", "trace"), ["no trace to play", "--trace"]),
        (("--store", "no/x.db"), ["no/x.db", "no directory"]),
        (("--report", "no/x.html"), ["no/x.html", "no directory"]),
        (("--bogus",), ["--bogus"]),
    ],
)
def test_wrong_input_names_the_value_the_place_and_a_way_out(command, words, parts):
    done = command("race", "-n", 1, *TINY, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_a_line_of_a_trace_that_is_none_is_named(command, tmp_path):
    (tmp_path / "t.trace").write_text("push 0 1\npopp\n")
    done = command("race", "--trace", "t.trace", *TINY, *TWO)
    assert (done.returncode, done.stdout) == (2, "")
    assert "t.trace:2" in done.stderr
    assert "popp" in done.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("-n", 4), "-n 4: a trace has items and keys of its own"),
        (("--keys", "ties"), "--keys ties: a trace has items and keys of its own"),
        (("--workload", "hold"), "--trace t.trace: --workload hold does not play it"),
    ],
)
def test_what_a_trace_does_not_heed_is_refused(command, tmp_path, words, part):
    (tmp_path / "t.trace").write_text("push 0 1\npop\n")
    done = command("race", "--trace", "t.trace", *words, *TINY, *TWO)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr
    assert "hint: leave out" in done.stderr


def test_a_trace_and_sizes_of_another_workload_go_together(command, tmp_path):
    (tmp_path / "t.trace").write_text("push 0 1\npop\n")
    words = ("--workload", "hold", "--workload", "trace", "-n", 4)
    told = raced(command, "--trace", "t.trace", *words, *TINY, *TWO)
    assert [heat["spec"]["workload"] for heat in told["heats"]] == ["hold", "trace"]


def test_text_is_no_wider_than_80_columns_and_says_how_rows_are_ordered(command):
    done = command("race", "-n", "4,1000", "-l", 2000, "--rounds", 6)
    assert done.returncode == 0, done.stderr
    assert "rows: who is fastest first, by the minimum at the largest n" in done.stdout
    # Piped tables have all the room they need; what is no table has none of their blanks.
    text = [line for line in done.stdout.splitlines() if "  " not in line.strip()]
    assert len(text) > 10
    assert max(map(len, text)) <= 80, max(text, key=len)
    assert "2 heats raced" in done.stderr
    assert "1 heat raced" in command("race", "-n", 2, *TINY, *TWO).stderr


# ---- the peers ----------------------------------------------------------------------------------


def test_peers_that_cannot_be_compiled_are_left_out_and_told(command, environment):
    environment["CXX"] = "/bin/false"
    done = command("race", "--peers", "-n", 4, *TINY, "--json")
    assert done.returncode == 0, done.stderr
    assert "peers of boost.cpp are left out" in done.stderr
    assert "libboost-dev" in done.stderr
    rows = json.loads(done.stdout)["heats"][0]["rows"]
    assert not [row for row in rows if row["source"].startswith("plugin:")]


POP = "static int64_t pop(void *that)\n{\n"


@pytest.mark.parametrize(
    ("does", "said"),
    [("*(volatile int *)0 = 1;", "SIGSEGV ended it"), ("exit(0);", "it called exit(0)")],
)
def test_a_plug_in_that_ends_its_process_ends_its_heat_with_a_word(command, tmp_path, does, said):
    (tmp_path / "bad.c").write_text(guide_source().replace(POP, POP + does, 1))
    done = command("race", "--with", "bad.c", "-n", 4, *TINY, "--structure", "red_black_tree")
    assert done.returncode == 2
    assert f"did not come to the end of its heat: {said}" in done.stderr
    assert "hint: --with one plug-in at a time" in done.stderr


def test_a_plug_in_that_never_returns_is_ended_by_ctrl_c(tmp_path):
    (tmp_path / "hangs.c").write_text(guide_source().replace(POP, POP + "for (;;);", 1))
    words = ("--with", "hangs.c", "-n", "4", "--structure", "red_black_tree")
    process = subprocess.Popen(
        [sys.executable, "-m", "schedlab", "race", *words, *map(str, TINY)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    # It hangs where nothing else computes for so long; wherever it is, it ends.
    wait_until_at_work(process.pid, seconds=3.0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "interrupted" in stderr
