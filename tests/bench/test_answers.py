"""Goal: `schedlab bench` claims the differences that are there, no others, and says on what ground.

Method: made-up repetitions with a known factor in a real store, asked with the real verb.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from made_measurements import FACTS, SEED, MadeStore, around
from schedlab.bench import answers as bench_answers
from schedlab.bench import table
from schedlab.bench.answers import Setup
from schedlab.bench.limits import limits, share_later
from schedlab.bench.overall import together
from schedlab.commands.bench import bench_verb
from schedlab.report import tables
from schedlab.statistics.digits import p_number
from schedlab.statistics.estimates import holm
from schedlab.statistics.evidence import Method, compare_groups
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store
from scipy import stats

NR_RUNS = 12
# Of equal samples drawn from it, more than usual seem to differ.
SEED_OF_FALSE_ALARMS = SEED + 2
SUITE = 'title = "Made"\n[[benchmark]]\nname = "make"\ncommand = "true"\n'


@pytest.fixture
def made(tmp_path):
    return MadeStore(tmp_path / "s.db")


@pytest.fixture
def show(tmp_path):
    """What `schedlab bench --show` prints of s.db."""
    (tmp_path / "made.toml").write_text(SUITE)

    def run(*options):
        arguments = ["--show", "--store", str(tmp_path / "s.db"), *options]
        done = CliRunner().invoke(bench_verb, [str(tmp_path / "made.toml"), *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def two_kernels(made, factors, noise=0.01, nr_runs=NR_RUNS, **more):
    """6.1.0 and 6.18.0, which takes `factors[name]` times as long."""
    generator = np.random.default_rng(SEED)
    for release, of in (("6.1.0", dict.fromkeys(factors, 1.0)), ("6.18.0", factors)):
        cases = {
            (name, ()): around(nr_runs, 2.0, factor, noise, generator)
            for name, factor in of.items()
        }
        made.add(release, cases, **more)


def answers_of(path):
    with Store(path, read_only=True) as store:
        kept = Measurements(store)
        rows = bench_answers.rows(kept, kept.campaigns())
    return {answer.row.name: answer for answer in bench_answers.answers(rows)}, rows


def test_what_is_faster_slower_and_neither_is_called_so(made, show):
    two_kernels(made, {"make": 0.9, "lrzip": 1.2, "equal": 1.0})
    told = {row["benchmark"]: row["against_first"] for row in json.loads(show("--json"))[1::2]}
    assert told["make"]["verdict"] == "faster"
    assert told["lrzip"]["verdict"] == "slower"
    assert told["equal"]["verdict"] in ("same", "no difference shown")
    # The factors were put in exactly, on geometric means.
    for name, factor in (("make", 0.9), ("lrzip", 1.2), ("equal", 1.0)):
        found = told[name]
        assert found["ratio"] == pytest.approx(factor)
        assert found["low"] < factor < found["high"]
        assert found["against"] == "6.1.0"
        assert found["why"].startswith("Welch's t test on logarithms")
    assert told["make"]["p_table"] >= told["make"]["p_adjusted"] >= told["make"]["p_value"]


def policies_in_turn(made, factor, nr_runs=NR_RUNS, **more):
    """bfs, which takes `factor` times as long as the kernel's own; both are disturbed alike."""
    generator = np.random.default_rng(SEED)
    disturbed = np.exp(generator.normal(0, 0.2, nr_runs))
    values = [disturbed * around(nr_runs, 2.0, of, 0.01, generator) for of in (1.0, factor)]
    made.add("6.18.0", {("make", ()): values[0]}, under={"bfs": {("make", ()): values[1]}}, **more)
    return values


def test_the_reference_has_every_field_and_no_other(made, show):
    two_kernels(made, {"make": 0.9})
    record = json.loads(show("--json"))[1]
    reference = Path(__file__).parents[2].joinpath("docs/reference/cli.md").read_text("utf-8")
    described = reference.split("## schedlab bench\n")[1].split("\n## ")[0]
    text, table = described[described.index("`--json` is a list") :].split("\n\n", 1)
    intervals = {f"ratio_of_medians_{end}" for end in ("low", "high")}
    rows = "".join(line.split("|")[1] for line in table.splitlines()[2:] if line.startswith("| `"))
    told = set(re.findall(r"`(\w+)`", rows)) - {"_low", "_high"} | intervals
    assert told == set(record["against_first"]) - {"log_error"}
    assert set(re.findall(r"`(\w+)`", text)) == set(record)


def test_policies_that_took_turns_are_compared_within_blocks(made, show):
    own, bfs = policies_in_turn(made, 0.95)
    [_, told] = json.loads(show("--json"))
    found = told["against_first"]
    assert (found["method"], found["verdict"]) == ("blocks", "faster")
    # The closed form of a t interval of the logarithms within blocks.
    logs = np.log(bfs) - np.log(own)
    half = stats.t.ppf(0.975, NR_RUNS - 1) * np.std(logs, ddof=1) / np.sqrt(NR_RUNS)
    bounds = np.exp([np.mean(logs) - half, np.mean(logs) + half])
    assert (found["low"], found["high"]) == pytest.approx(tuple(bounds))
    assert found["exchange_p"] == 2 / 2**NR_RUNS
    text = show()
    assert "test of make: Student's t test on the logarithms of ratios within blocks, as" in text
    # As if they had not taken turns, nothing could be said.
    apart = compare_groups({"bfs": bfs, "own": own}, baseline="own")
    assert apart.pairs[0].word == "no difference shown"


def test_a_block_that_a_reboot_cut_in_two_is_none(made):
    policies_in_turn(made, 0.95, boots=["x"] * 6 + ["y"] * 6)
    _, [row] = answers_of(made.path)
    boots = [sample.boots for sample in row.samples.values()]
    assert boots == [["x"] * 6 + ["y"] * 6] * 2
    assert row.comparison.pairs[0].ratio.n_a == NR_RUNS
    # The seventh block of bfs was made before the reboot, and the kernel's own after it.
    row.samples[list(row.samples)[1]].blocks[6] = ("campaign-1", "x", "7")
    del row.__dict__["comparison"]
    assert row.comparison.pairs[0].ratio.n_a == NR_RUNS - 1
    assert any("2 runs have no partner" in note for note in row.comparison.notes)


def test_labels_and_kernels_share_no_blocks(made):
    two_kernels(made, {"make": 0.9})
    answers, _ = answers_of(made.path)
    assert answers["make"].pair.method is Method.WELCH
    assert answers["make"].pair.exchange_p is None


def test_of_many_equal_benchmarks_hardly_one_is_called_different(made):
    generator = np.random.default_rng(SEED_OF_FALSE_ALARMS)
    for release in ("a", "b"):
        made.add(
            release,
            {(f"b{n}", ()): 2 * np.exp(generator.normal(0, 0.02, NR_RUNS)) for n in range(40)},
        )
    answers, _ = answers_of(made.path)
    claims = [name for name, answer in answers.items() if answer.word in ("faster", "slower")]
    assert len(answers) == 40
    # Uncorrected, four of them have a p value below 5 %.
    uncorrected = [name for name, one in answers.items() if one.pair.ratio.p_value < 0.05]
    assert len(uncorrected) == 4
    assert not claims


def test_a_rate_that_grows_is_faster(made):
    two_kernels(made, {"rate": 1.25}, rates=["rate"])
    answers, _ = answers_of(made.path)
    assert answers["rate"].word == "faster"
    assert answers["rate"].pair.ratio.ratio == pytest.approx(1 / 1.25)


def test_the_table_says_test_power_and_what_is_odd(made, show):
    generator = np.random.default_rng(SEED)
    drifting = 2 * np.linspace(1, 1.3, NR_RUNS) * np.exp(generator.normal(0, 0.05, NR_RUNS))
    made.add("6.1.0", {("make", ()): around(NR_RUNS, 2, 1, 0.03, generator)})
    made.add("6.18.0", {("make", ()): drifting})
    text = show()
    assert "compared with 6.1.0" in text
    answer = answers_of(made.path)[0]["make"]
    [row] = [line for line in text.splitlines() if answer.pair.change in line]
    assert row.split()[-1] == f"{answer.pair.runs_needed:,}"
    assert f"{100 * answer.pair.detectable:.2g} %" in row
    after = row[row.index("]") + 1 :].split("  ")
    ps = [text.strip() for text in after if text.strip()][1:3]
    of = (answer.p_table, answer.pair.ratio.p_value)
    assert ps == [p_number(one) for one in of]
    assert "test of make: Welch's t test on logarithms" in text
    assert "note: make, 6.18.0: runs became longer with time" in text
    assert "as a kernel has, was measured in 1 boot" in text


def test_boots_that_differ_are_told_and_like_boots_are_not(made):
    generator = np.random.default_rng(SEED)
    boots = ["x"] * 6 + ["y"] * 6
    apart = np.concatenate([around(6, 2, 1, 0.01, generator), around(6, 2, 1.3, 0.01, generator)])
    made.add("a", {("make", ()): apart, ("like", ()): around(12, 2, 1, 0.01, generator)},
             boots=boots)  # fmt: skip
    made.add("b", {("make", ()): around(12, 2, 1, 0.01, generator),
                   ("like", ()): around(12, 2, 1, 0.01, generator)}, boots=boots)  # fmt: skip
    said = [one for one in limits(answers_of(made.path)[1]) if "its boots" in one]
    assert [one.split(":")[0] for one in said] == ["make, a"]


def of_boots(medians, stray=10.0):
    """Three repetitions a boot whose median is known, one of them far off; and their boots."""
    return [value for m in medians for value in (m, stray * m, 0.99 * m)]


def test_kernels_are_compared_by_one_number_a_boot(made, show):
    for release, medians in (("a", (1.0, 2.0, 4.0)), ("b", (2.0, 4.0, 8.0))):
        boots = [f"{release} {n}" for n in range(3) for _ in range(3)]
        made.add(release, {("make", ()): of_boots(medians)}, boots=boots)
    found = answers_of(made.path)[0]["make"]
    # By hand: logarithms ln 2 apart in each sample, so their SD is ln 2 and the standard error of
    # the difference ln 2 √(2/3). t = √1.5 with four degrees of freedom, of which 97.5 % is
    # 2.776445; the tail of that distribution is 1/2 - s (3 - s²) / 4 with s = t / √(t² + 4).
    t = np.sqrt(1.5)
    s = t / np.sqrt(t**2 + 4)
    error = np.log(2) * np.sqrt(2 / 3)
    ratio = found.pair.ratio
    assert ratio.ratio == pytest.approx(2)
    assert ratio.low == pytest.approx(2 * np.exp(-2.776445 * error), rel=1e-5)
    assert ratio.high == pytest.approx(2 * np.exp(2.776445 * error), rel=1e-5)
    assert ratio.p_value == pytest.approx(1 - s * (3 - s**2) / 2, rel=1e-6)
    text = show()
    assert "test of make: Each boot is one run, the median of its repetitions: Welch's t" in text
    assert "as a kernel has, was measured in" not in text


@pytest.mark.parametrize("nr_boots", [1, 2])
def test_too_few_boots_are_pooled_and_told(made, nr_boots):
    for release in ("a", "b"):
        boots = [f"{release} {n % nr_boots}" for n in range(6)]
        made.add(release, {("make", ()): around(6, 2, 1, 0.01, np.random.default_rng(SEED))},
                 boots=boots)  # fmt: skip
    answers, rows = answers_of(made.path)
    assert not rows[0].is_by_boot(rows[0].others[0])
    assert not answers["make"].row.comparison.why.test.startswith("Each boot")
    assert any("in three or more boots" in one for one in limits(rows))


def in_boots(made, release, nr_boots, factor=1.0, **more):
    """Three repetitions in each of so many boots."""
    generator = np.random.default_rng(SEED)
    values = around(3 * nr_boots, 2, factor, 0.01, generator)
    boots = [f"{release} {n}" for n in range(nr_boots) for _ in range(3)]
    made.add(release, {("make", ()): values}, boots=boots, **more)
    return values, boots


def test_each_pair_decides_by_itself_whether_boots_are_its_runs(made, show):
    """A third kernel with too few boots changes nothing of what is known of the first two."""
    in_boots(made, "a", 4)
    in_boots(made, "b", 4, 1.1)
    alone, _ = answers_of(made.path)
    in_boots(made, "c", 2, 1.1)
    [row] = answers_of(made.path)[1]
    first, second = row.comparison.pairs
    assert (first.ratio.n_a, second.ratio.n_a) == (4, 6)
    assert first.ratio == alone["make"].pair.ratio
    # One family: Holm over both p values, whatever a run is.
    raw = [pair.ratio.p_value for pair in (first, second)]
    assert [first.p_adjusted, second.p_adjusted] == pytest.approx(list(holm(raw)))
    text = show()
    assert "c: Welch's t test on logarithms" in text
    assert "b: Each boot is one run, the median of its repetitions: Welch's t" in text
    assert row.comparison.omnibus is None


def test_policies_in_turn_stay_within_blocks_beside_another_kernel(made):
    own, bfs = (around(9, 2, of, 0.01, np.random.default_rng(SEED)) for of in (1.0, 0.95))
    boots = [f"x {n}" for n in range(3) for _ in range(3)]
    made.add("x", {("make", ()): own}, under={"bfs": {("make", ()): bfs}}, boots=boots)
    in_boots(made, "y", 3)
    [row] = answers_of(made.path)[1]
    pairs = {pair.a: pair for pair in row.comparison.pairs}
    assert (pairs["bfs on x"].method, pairs["bfs on x"].ratio.n_a) == (Method.BLOCKS, 9)
    assert (pairs["y"].method, pairs["y"].ratio.n_a) == (Method.WELCH, 3)


def test_what_shares_its_boots_is_compared_by_repetitions(made):
    generator = np.random.default_rng(SEED)
    for label in ("", "other"):
        values = around(12, 2, 1, 0.01, generator)
        made.add("a", {("make", ()): values}, label=label, boots=["x", "y", "z"] * 4)
    answers, rows = answers_of(made.path)
    assert not rows[0].is_by_boot(rows[0].others[0])
    assert answers["make"].row.comparison.why.test.startswith("Welch")


def test_a_rate_of_boots_is_a_time_too(made):
    for release, medians in (("a", (1.0, 1.01, 1.02)), ("b", (2.0, 2.02, 2.04))):
        boots = [f"{release} {n}" for n in range(3) for _ in range(3)]
        cases = {("rate", ()): of_boots(medians)}
        made.add(release, cases, boots=boots, rates=["rate"])
    found = answers_of(made.path)[0]["rate"]
    assert found.word == "faster"
    assert found.pair.ratio.ratio == pytest.approx(0.5)


def test_the_page_comes_with_the_answer_and_takes_no_place_of_the_store(made, show, tmp_path):
    two_kernels(made, {"make": 0.9}, nr_runs=6)
    show("--report", str(tmp_path / "page.html"))
    assert "1 faster, 0 slower" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(AssertionError):
        show("--report", str(made.path))


def test_what_was_not_measured_in_turn_is_told_and_what_was_is_not(made):
    values = around(6, 2, 1, 0.01, np.random.default_rng(SEED))

    def is_told():
        said = limits(answers_of(made.path)[1])
        return any("one after the other" in one for one in said)

    made.add("a", {("make", ()): values}, day=1)
    made.add("b", {("make", ()): values}, day=2)
    assert is_told()
    assert any("(--again under each in turn; a is next)" in one
               for one in limits(answers_of(made.path)[1]))  # fmt: skip
    made.add("a", {("make", ()): values}, day=3)
    assert not is_told()


@pytest.mark.parametrize(
    ("order", "is_told"), [("aaabbb", True), ("aababb", True), ("abbaab", False), ("bababa", False)]
)
def test_mostly_one_after_the_other_is_told_too(made, order, is_told):
    for day, release in enumerate(order, 1):
        made.add(release, {("make", ()): around(3, 2, 1, 0.01, np.random.default_rng(SEED))},
                 day=day, boots=[f"boot {day}"] * 3)  # fmt: skip
    [row] = answers_of(made.path)[1]
    [other] = row.others
    times = [row.samples[one].started_at for one in (other, row.first)]
    # A second implementation: Mann and Whitney's U over the places in time.
    places = stats.rankdata(np.concatenate(times))
    u = stats.mannwhitneyu(places[: len(times[0])], places[len(times[0]) :]).statistic
    assert share_later(row, other) == pytest.approx(u / 81)
    said = limits([row])
    assert any("one after the other" in one for one in said) == is_told


@pytest.mark.parametrize(("nr_noisy", "is_told"), [(0, False), (1, True)])
def test_disturbed_repetitions_are_a_limit(made, nr_noisy, is_told):
    two_kernels(made, {"make": 1.0}, nr_runs=6, noisy=nr_noisy)
    said = limits(answers_of(made.path)[1])
    assert any("were disturbed" in one for one in said) == is_told


def test_what_a_setup_differs_from_itself_by_is_told_and_heeded(made, show, tmp_path):
    """Two labels, each measured twice in one boot: 3 % apart, and 5 % from the other hour."""
    generator = np.random.default_rng(SEED)
    for day, label, factor in ((1, "a", 1.0), (2, "b", 1.08), (3, "a", 1.05), (4, "b", 1.03)):
        made.add(
            "6.1", {("make", ()): around(6, 2, factor, 0.002, generator)}, label=label, day=day
        )
    found = answers_of(made.path)[0]["make"]
    squares = (np.log(1.05) ** 2 + np.log(1.08 / 1.03) ** 2) / 2
    floor = np.expm1(stats.t.ppf(0.975, 2) * np.sqrt(squares / 2))
    assert found.pair.floor.change == pytest.approx(floor, rel=1e-3)
    assert (found.word, found.pair.runs_needed) == ("no difference shown", None)
    text = show("--report", str(tmp_path / "page.html"))
    said = f"noise floor: make {100 * floor:.2g} %: by so much do two measurements of one setup"
    assert said in text and said in (tmp_path / "page.html").read_text(encoding="utf-8")
    [_, told] = json.loads(show("--json"))
    assert told["against_first"]["noise_floor"] == found.pair.floor.change
    assert told["against_first"]["noise_floor_of"] == "occasions"


def test_what_was_measured_once_has_the_floor_of_its_halves_and_says_so(made, show):
    two_kernels(made, {"make": 0.9})
    assert answers_of(made.path)[0]["make"].word == "faster"
    assert "halves of its repetitions tell. Nothing was measured twice" in show()


# ---- together ------------------------------------------------------------------------------------


def lines_of(path):
    """What is said together of the whole store, by what it is said over."""
    found = bench_answers.answers(answers_of(path)[1])
    return {line.over: line for line in together(found)}


def test_benchmarks_of_a_machine_have_one_vote_each_and_cases_share_it(made, show):
    generator = np.random.default_rng(SEED)
    factors = {("make", ()): 0.9, ("lrzip", ()): 1.2}
    factors |= {("hb", (("n", n),)): 0.5 for n in range(4)}
    for release, of in (("6.1.0", dict.fromkeys(factors, 1.0)), ("6.18.0", factors)):
        made.add(release, {c: around(8, 2.0, f, 0.01, generator) for c, f in of.items()})
    [line] = lines_of(made.path).values()
    assert line.over == "3 benchmarks"
    # Four cases of one benchmark do not outvote the others.
    assert line.result.ratio.ratio == pytest.approx((0.9 * 1.2 * 0.5) ** (1 / 3))
    assert line.result.degrees_of_freedom == 2
    assert line.word == "no difference shown"
    assert (line.range, line.signs) == ("-50.00 % (hb) … +20.0 % (lrzip)", "2 : 1")
    assert line.result.i_squared > 0.99
    text = show()
    [shown] = [row for row in text.splitlines() if "3 benchmarks" in row]
    assert line.change in shown and shown.split()[-6:] == [">", "99", "%", "2", ":", "1"]
    assert "one vote a benchmark" in text and "runs are never pooled" in text


def machines(made, factors, reverse=()):
    """Two benchmarks on each machine; those of `reverse` measured the newer kernel first."""
    generator = np.random.default_rng(SEED)
    for machine, (make, lrzip) in factors.items():
        for release in ("6.18.0", "6.1.0") if machine in reverse else ("6.1.0", "6.18.0"):
            of = (make, lrzip) if release == "6.18.0" else (1.0, 1.0)
            cases = {
                (name, ()): around(8, 2.0, factor, 0.01, generator)
                for name, factor in zip(("make", "lrzip"), of, strict=True)
            }
            made.add(release, cases, machine=machine)


def test_machines_vote_case_by_case_and_all_at_once(made, show):
    factors = {"m1": (0.8, 0.9), "m2": (0.9, 1.1), "m3": (0.85, 1.0)}
    machines(made, factors, reverse=("m2",))
    lines = lines_of(made.path)
    assert list(lines) == [
        "2 benchmarks on m1", "2 benchmarks on m2", "2 benchmarks on m3", "3 machines, make",
        "3 machines, lrzip", "3 machines, 2 benchmarks each",
    ]  # fmt: skip
    assert {(line.name, line.against) for line in lines.values()} == {("6.18.0", "6.1.0")}
    for case, place in (("make", 0), ("lrzip", 1)):
        found = lines[f"3 machines, {case}"].result
        logs = np.log([of[place] for of in factors.values()])
        test = stats.ttest_1samp(logs, 0)
        low, high = np.exp(test.confidence_interval())
        assert found.ratio.ratio == pytest.approx(np.exp(np.mean(logs)))
        assert (found.ratio.low, found.ratio.high) == pytest.approx((low, high))
        assert found.ratio.p_value == pytest.approx(test.pvalue)
    every = lines["3 machines, 2 benchmarks each"].result
    assert every.ratio.ratio == pytest.approx(np.prod([*factors.values()]) ** (1 / 6))
    assert every.degrees_of_freedom == 2
    # Adjusted over all lines that have a p value, by Benjamini and Hochberg.
    known = [line for line in lines.values() if line.p_table is not None]
    assert len(known) == 3
    expected = stats.false_discovery_control([line.result.ratio.p_value for line in known])
    assert [line.p_table for line in known] == pytest.approx(list(expected))
    assert "make on m2" in show()


def test_a_build_of_a_kernel_meets_itself_on_another_machine(made):
    """Where one machine has two builds of a kernel, all machines tell them apart."""
    generator = np.random.default_rng(SEED)
    builds = {"m1": ["#1", "#2"], "m2": ["#2"], "m3": ["#2"]}
    for machine, versions in builds.items():
        for release, version, factor in (("5.4", "#0", 1.0), *(("6.1", v, 0.9) for v in versions)):
            values = {("make", ()): around(8, 2.0, factor, 0.01, generator)}
            kernel = {**FACTS["kernel"], "version": version}
            made.add(release, values, machine=machine, facts={"kernel": kernel})
    found = bench_answers.answers(answers_of(made.path)[1])
    assert [one.pair.a for one in found] == ["6.1 (#1)", "6.1 (#2)", "6.1 (#2)", "6.1 (#2)"]
    [line] = together(found)
    assert (line.name, line.against, line.over) == ("6.1 (#2)", "5.4", "3 machines, make")


def test_machines_with_a_build_of_their_own_are_those_of_one_kernel(made):
    generator = np.random.default_rng(SEED)
    for machine in ("m1", "m2"):
        for release, factor in (("5.4", 1.0), ("6.1", 0.9)):
            values = {("make", ()): around(8, 2.0, factor, 0.01, generator)}
            kernel = {**FACTS["kernel"], "version": f"#1 on {machine}"}
            made.add(release, values, machine=machine, facts={"kernel": kernel})
    [line] = together(bench_answers.answers(answers_of(made.path)[1]))
    assert (line.name, line.over) == ("6.1", "2 machines, make")


def test_machines_with_other_inputs_do_not_vote_on_one_case(made):
    generator = np.random.default_rng(SEED)
    for machine, name in (("m1", "make"), ("m2", "lrzip")):
        for release in ("6.1.0", "6.18.0"):
            cases = {(name, ()): around(8, 2.0, 1.0, 0.01, generator)}
            made.add(release, cases, machine=machine)
    assert lines_of(made.path) == {}


def test_one_benchmark_alone_says_nothing_together(made, show):
    two_kernels(made, {"make": 0.9})
    assert lines_of(made.path) == {}
    assert "together" not in show()


def test_too_few_runs_make_no_claim(made, show):
    two_kernels(made, {"make": 2.0}, nr_runs=2)
    [_, told] = json.loads(show("--json"))
    assert told["against_first"]["verdict"] == "no difference shown"
    assert told["against_first"]["low"] is None
    assert "(no interval)" in show()


def test_boots_of_their_own_are_what_counts_and_not_that_kernels_differ(made):
    """Two labels on one kernel, measured in two boots each: apart, or in the same ones."""
    for case, boots in (("apart", ("w", "x", "y", "z")), ("shared", ("w", "x", "w", "x"))):
        for label, of_label in (("a", boots[:2]), ("b", boots[2:])):
            values = around(6, 2, 1, 0.01, np.random.default_rng(SEED))
            made.add("6.18", {(case, ()): values}, label=label, boots=[*of_label] * 3)
    _, found = answers_of(made.path)
    told = {row.name: row.has_boots_apart(row.others[0]) for row in found}
    assert told == {"apart": True, "shared": False}
    for row in found:
        said = any("boots of its own" in one for one in limits([row]))
        assert said == told[row.name]


def test_two_builds_of_one_kernel_have_two_names():
    old, new = (Setup("6.1", version, "kernel", "") for version in ("#1", "#2"))
    other = Setup("6.2", "#1", "kernel", "")
    assert list(bench_answers.names_of([old, new, other]).values()) == [
        "6.1 (#1)", "6.1 (#2)", "6.2",
    ]  # fmt: skip
    mine, edited = (Setup("6.2", "#1", "mine", "", policy) for policy in ("0a", "1b"))
    assert list(bench_answers.names_of([other, mine, edited]).values()) == [
        "6.2", "mine on 6.2 (policy 0a)", "mine on 6.2 (policy 1b)",
    ]  # fmt: skip


def test_of_an_edited_case_the_last_form_is_shown_and_the_others_are_counted(made, show):
    two_kernels(made, {"make": 0.9, "lrzip": 1.0})
    two_kernels(made, {"make": 0.5}, form="edited")
    rows = json.loads(show("--json"))
    assert {row["benchmark"]: row["earlier"] for row in rows} == {"make": 2 * NR_RUNS, "lrzip": 0}
    [make] = [row for row in rows if row["benchmark"] == "make" and row["against_first"]]
    assert make["against_first"]["ratio"] == pytest.approx(0.5)
    assert f"limit: {2 * NR_RUNS} repetitions of make are not shown" in show()


def test_other_sizes_of_a_case_are_told_apart_by_their_values(made, show):
    two_kernels(made, {"make": 0.9, "lrzip": 1.0}, values={"files": 10, "level": 7})
    two_kernels(made, {"make": 0.8}, values={"files": 500, "level": 7})
    rows = json.loads(show("--json"))
    names = [row["benchmark"] for row in rows[::2]]
    assert sorted(names) == ["lrzip", "make files=10", "make files=500"]
    assert not any(row["earlier"] for row in rows)


def test_cases_of_a_sweep_say_their_size_if_one_of_them_is_there_at_two(made, show):
    for to, ns in ((100, (1, 2, 3)), (900, (1,))):
        for n in ns:
            two_kernels(made, {f"counter n={n}": 0.9}, values={"n": n, "to": to})
    names = [row["benchmark"] for row in json.loads(show("--json"))[::2]]
    quick = [f"counter n={n} to=100" for n in (1, 2, 3)]
    assert sorted(names) == sorted([*quick, "counter n=1 to=900"])


def test_on_a_narrow_terminal_the_tables_fit_and_say_the_same(made, show, monkeypatch):
    generator = np.random.default_rng(SEED)
    releases = ("6.1.0-37-cloud-amd64", "6.18.44-cloud-amd64")
    names = ("hackbench", "wakeup_latency", "compile")
    for release, factors in zip(releases, ((1.0, 1.0, 1.0), (0.9, 1.21, 1.03)), strict=True):
        of = zip(names, factors, strict=True)
        cases = {(name, ()): around(NR_RUNS, 2.0, factor, 0.03, generator) for name, factor in of}
        made.add(release, cases, unit="us", noisy=2, failed=1)
    monkeypatch.setattr(tables, "PIPED_COLUMNS", 400)
    wide = show()
    monkeypatch.setattr(tables, "PIPED_COLUMNS", 80)
    narrow = show()

    rows = [line for line in wide.splitlines() if line.startswith("  ")]
    assert len(rows) > 10
    for cell in (cell for row in rows for cell in re.split(r"\s{2,}", row.strip())):
        assert cell in narrow
    of_tables = [line for line in narrow.splitlines() if line.startswith((" ", "─"))]
    assert max(map(len, of_tables)) <= 80
    assert not any("…" in line.replace(" … ", "") for line in of_tables)


def test_location_and_spread_of_a_cell_are_of_logarithms_and_of_medians(made, show):
    values = [1.0, 1.1, 1.21, 1.331, 100.0]
    made.add("6.1", {("make", ()): values})
    [told] = json.loads(show("--json"))
    logs = np.log(values)
    assert told["geometric_mean"] == pytest.approx(stats.gmean(values))
    assert told["sd_log"] == pytest.approx(np.std(logs, ddof=1))
    # By hand: distances ln 1.1 times 2, 1, 0, 1 and one far off have the median ln 1.1, and half of
    # normal values lie within 0.6744898 deviations.
    assert told["mad_log"] == pytest.approx(np.log(1.1) / 0.6744898, rel=1e-6)
    assert told["values_by_boot"] == [values]
    [row] = [line for line in show().splitlines() if line.strip().startswith("make")]
    assert row.split()[-4:] == ["%", "14", "%", "5"]


@pytest.mark.parametrize(
    ("detectable", "told"),
    [(None, "–"), (0.00849, "0.85 %"), (0.32, "32 %"), (1.0849, "110 %"), (12.3, "1,200 %")],
)
def test_the_smallest_change_has_two_digits_however_large(detectable, told):
    answer = SimpleNamespace(pair=SimpleNamespace(detectable=detectable))
    assert table.detectable_text(answer) == told
