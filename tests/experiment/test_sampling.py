"""Goal: a sample's points are where its file says, and each meets the whole grid.

Method: closed forms and properties over random ranges; cells of small experiments.
"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedlab.errors import SchedlabError
from schedlab.experiment import cells, definition, sampling
from schedlab.experiment.sampling import Range, Sample
from schedlab.values import Table, numeric

SHARES = st.floats(0, 1)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 1000), st.booleans(), SHARES)
def test_whole_numbers_are_steps_from_low_and_at_most_high(low, length, step, log, share):
    of = Range(low, low + length, min(step, length), log)
    value = of.value(share)
    assert isinstance(value, int)
    assert low <= value <= low + length
    assert (value - low) % min(step, length) == 0
    assert of.ends[0] == low


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.booleans(), SHARES)
def test_other_numbers_are_between_the_ends(low, length, log, share):
    value = Range(low, low + length, None, log).value(share)
    assert low <= value <= low + length


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("low", "high", "step", "number"),
    [(0.1, 1.0, 0.1, 10), (0.0, 0.3, 0.1, 4), (1, 2, 0.25, 5), (0.1, 0.95, 0.1, 9)],
)
def test_decimal_steps_are_all_met_as_they_are_written(low, high, step, number, log):
    if log and not low:
        return
    of = Range(low, high, step, log)
    found = {of.value(share / 1000) for share in range(1001)}
    assert found == {round(low + at * step, 9) for at in range(number)}


def test_a_narrow_range_far_from_zero_has_many_values_all_inside():
    found = {Range(1234567.0, 1234569.0).value(share / 100) for share in range(101)}
    assert len(found) == 101
    assert all(1234567 <= value <= 1234569 for value in found)
    assert Range(0.0, 1.0).value(1 / 3) == 0.333333


def test_each_whole_number_is_as_likely_as_the_next():
    n = 60_000
    found = [Range(1, 6).value(i / n) for i in range(n)]
    assert {value: found.count(value) for value in set(found)} == dict.fromkeys(range(1, 7), n // 6)


def test_with_log_each_doubling_is_as_likely_as_the_next():
    n = 10_000
    found = [Range(1.0, 1024.0, log=True).value(i / n) for i in range(n)]
    for power in range(10):
        inside = [value for value in found if 2**power <= value < 2 ** (power + 1)]
        assert len(inside) == pytest.approx(n / 10, abs=2)


def test_times_are_whole_nanoseconds_or_whole_steps():
    assert Range("1ms", "100ms").ends == ("1000000ns", "100000000ns")
    value = Range("1ms", "100ms", "1us", True).value(0.5)
    assert numeric(value) % 1000 == 0
    assert 9e6 < numeric(value) < 11e6


@settings(deadline=None)  # SciPy is loaded first.
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_a_latin_hypercube_meets_each_part_of_a_range_once(points, seed):
    sample = Sample("latin-hypercube", points, seed, {"a": Range(1, 2), "b": Range(1, 2)})
    for column in sample.drawn().T:
        assert sorted(math.floor(share * points) for share in column) == list(range(points))


@pytest.mark.parametrize("kind", sampling.KINDS)
def test_a_seed_gives_the_same_points_and_another_seed_others(kind):
    drawn = [Sample(kind, 5, seed, {"a": Range(1, 2)}).drawn().tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


FILE = """\
policies = ["fifo", "rr=round_robin"]
workload = "hackbench"
machine = ["osdl-1", "osdl-8"]
repeat = 2
vary = { loops = [1, 2] }
[sample]
points = 3
[sample.ranges]
groups = { low = 1, high = 4 }
"rr.slice_ns" = { low = "1ms", high = "2ms", step = "1us" }
cpus = { values = [1, 2] }
"""


@pytest.fixture
def asked(tmp_path):
    (tmp_path / "asked.toml").write_text(FILE)
    return definition.build(definition.read_options(tmp_path / "asked.toml"))


def test_every_point_meets_the_whole_grid(asked):
    grid = cells.Grid(asked)
    found = list(grid)
    assert len(grid) == len(found) == 2 * 2 * 3 * 2 * 2
    assert list(found[0].varied) == ["loops", "groups", "rr.slice_ns", "cpus"]
    points = {tuple(list(cell.varied.values())[1:]) for cell in found}
    assert len(points) == 3
    for cell in found:
        assert str(cell.varied["groups"]) == cell.workload.resolved["groups"]
        assert cell.varied["cpus"] == cell.machine.nr_cpus
        if cell.policy.label == "rr":
            assert cell.policy.tunables["slice_ns"] == numeric(cell.varied["rr.slice_ns"])


def test_a_place_is_that_of_its_cell(asked):
    grid = cells.Grid(asked)
    for index, cell in enumerate(grid):
        place = grid.place(index)
        facts = (cell.policy.label, cell.machine.name, cell.varied, cell.seed)
        assert (place.policy, place.machine, place.varied, place.seed) == facts


def test_a_store_gives_back_the_experiment_that_it_was_given(asked):
    again = definition.of_definition(asked.definition)
    assert again == asked
    assert again.id == asked.id


def test_compare_says_that_a_sample_is_for_sweep(asked):
    with pytest.raises(SchedlabError, match="sample, which only `schedlab sweep` does"):
        cells.expand(asked)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("points = 0\n[ranges]\na = {low=1, high=2}", "points: 0 is not a whole number from 1"),
        ('points = 1\nkind = "sobol"', "kind: 'sobol' is no kind of sample"),
        ("points = 1", "ranges: {} is empty"),
        ("points = 1\n[ranges]\na = 3", "a: 3 is no range"),
        ("points = 1\n[ranges]\na = {low=1}", "ranges.a: 'high' is missing"),
        ("points = 1\n[ranges]\na = {low=2, high=1}", "a.high: 1 is not above low, 2"),
        ("points = 1\n[ranges]\na = {low=0, high=1, log=true}", "a.low: 0 is not above 0"),
        ("points = 1\n[ranges]\na = {low=1, high=2, step=3}", "a.step: 3 is not above 0 and"),
        ("points = 1\n[ranges]\na = {low=1, high=2, step=0}", "a.step: 0 is not above 0 and"),
        ('points = 1\n[ranges]\na = {low=1, high="2ms"}', "a: '2ms' is no number, or goes with"),
        ('points = 1\n[ranges]\na = {low="x", high="y"}', "a: 'x' is no number"),
        ("points = 1\n[ranges]\na = {low=1, high=inf}", "a: inf is no number"),
        ("points = 1\n[ranges]\na = {low=1, high=2, lag=1}", "unknown key 'lag'"),
        ("points = 1\n[ranges]\na = {values=[]}", "a.values: \\[\\] is empty"),
        (
            "points = 1\n[ranges]\na = {values=[[1], [2]]}",
            "a.values: \\[1\\] is no number, no text",
        ),
        ("points = 1\n[ranges]\na = {values=[true, true]}", "a.values: .* holds a value twice"),
        ("points = 1\nponts = 2\n[ranges]\na = {low=1, high=2}", "unknown key 'ponts'"),
    ],
)
def test_what_is_wrong_with_a_sample_is_said(text, told):
    import tomllib

    with pytest.raises(SchedlabError, match=told):
        sampling.read(Table(tomllib.loads(text), "f.toml: sample", "."))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("groups = {", "grups = {", "unknown parameter 'grups'"),
        ("groups = {", "loops = {", "'loops' is both varied and in \\[sample.ranges\\]"),
        ('"rr.slice_ns"', '"rr.slice"', "unknown tunable 'slice'"),
        ("high = 4 }", "high = 400000 }", r"\[sample.ranges\] groups=400000: "),
        ("low = 1, high = 4", "low = -1, high = 4", r"\[sample.ranges\] groups=-1: "),
        ("[1, 2] }\n", "[0, 2] }\n", r"\[sample.ranges\] cpus: 0 is not"),
        ("[1, 2] }\n", "[1, 2, 4, 0, 8, 6, 3] }\n", r"\[sample.ranges\] cpus: 0 is not"),
        ("low = 1, high = 4", 'values = [1, 2, "x", 3]', r"\[sample.ranges\] groups=x: "),
        ('low = "1ms"', 'low = "-1ms"', r"\[sample.ranges\] rr.slice_ns: "),
        ("[sample]", "with = { groups = 1 }\n[sample]", r"varied \(\[sample.ranges\]\) and fixed"),
        ("[sample]", 'with = { bytes = "0*cpus" }\n[sample]', r"--with bytes=0\*cpus: "),
        ("[sample]", 'with = { bytes = "2xcpus" }\n[sample]', r"as 8\*cpus or cpus\+1"),
    ],
)
def test_what_cannot_be_is_found_before_anything_runs(tmp_path, old, new, told):
    (tmp_path / "asked.toml").write_text(FILE.replace(old, new))
    with pytest.raises(Exception, match=told):
        cells.Grid(definition.build(definition.read_options(tmp_path / "asked.toml")))
