"""Goal: seeds are added where a comparison is not clear, and nowhere else, and it is told.

Method: cells of made-up policies whose runs are made up by their seeds; then the real command.
"""

import json
from dataclasses import dataclass, field, replace

import pytest
from schedlab.errors import SchedlabError
from schedlab.experiment import definition, until_clear
from schedlab.experiment.cells import Cell, ChosenMachine, ChosenPolicy, ChosenWorkload
from schedlab.experiment.study import rule_of, study_of
from schedlab.statistics import stopping
from schedlab.statistics.estimates import ratio
from schedlab.store.runs import Store

REPEATS, MOST = 5, 30
MACHINE = ChosenMachine("m", "m", "", "m1", 1)
WORKLOAD = ChosenWorkload("w", "w", "", "w1", {}, {}, {})


def asked(*labels, **changes):
    given = {"policies": list(labels), "workload": "w", "machine": ["m"], "repeat": REPEATS}
    given |= {"until_ci": "1%", "repeat_max": MOST}
    return definition.build(given | changes)


def cells_of(experiment, xs=(1,)):
    return [
        Cell(ChosenPolicy(one.label, one.label, one.label, "", "p", {}, {}), MACHINE, WORKLOAD,
             seed, None, "1", {"x": x})
        for x in xs
        for one in experiment.policies
        for seed in range(experiment.seed, experiment.seed + experiment.repeats_most)
    ]  # fmt: skip


@dataclass
class Made:
    """Stands for a `Making` whose runs take what a function of the cell says, and fail for None."""

    asked: definition.Experiment
    cells: list
    makespan_ns: object
    make_record: object
    digest: object
    asked_for: list = field(default_factory=list)
    """The number of cells at each call."""

    @property
    def records(self):
        return list(map(self._record, self.cells))

    def make_runs(self, jobs, quiet):
        self.asked_for.append(len(self.cells))

    def drop_others(self):
        pass

    def _record(self, cell):
        record = self.make_record(
            policy=cell.policy.label, machine="m", workload="w", varied=dict(cell.varied),
            seed=cell.seed, digest=self.digest(cell),
        )  # fmt: skip
        makespan_ns = self.makespan_ns(cell)
        if makespan_ns is None:
            return replace(record, status="failed")
        return replace(record, result=record.result | {"makespan_ns": makespan_ns})


@pytest.fixture
def made(make_record):
    def make(makespan_ns, *labels, xs=(1,), digest=lambda cell: "same", **changes):
        experiment = asked(*labels, **changes)
        making = Made(experiment, cells_of(experiment, xs), makespan_ns, make_record, digest)
        until_clear.make_runs(making, 1, True)
        return making

    return make


def counts(making):
    found = {}
    for cell in making.cells:
        place = (cell.policy.label, cell.varied["x"])
        found[place] = found.get(place, 0) + 1
    return found


def study(making):
    return study_of(making.records, rule_of(making.asked.definition))


def told(making):
    return until_clear.clearing_of(making.asked.definition, study(making))


def times(**means):
    """Runs that take a time by their policy, and vary by their seed, each policy's differently."""

    def makespan_ns(cell):
        mean, spread = means[cell.policy.label]
        noise = (cell.seed * 7919 + 31 * len(cell.policy.label)) % 101 / 50 - 1
        return int(mean * (1 + spread * noise))

    return makespan_ns


def test_no_seed_is_added_where_all_is_clear(made):
    making = made(times(a=(10**9, 0.001), bb=(2 * 10**9, 0.001), ccc=(10**9, 0.001)),
                  "a", "bb", "ccc")  # fmt: skip
    assert counts(making) == {("a", 1): REPEATS, ("bb", 1): REPEATS, ("ccc", 1): REPEATS}
    clearing = told(making)
    assert (clearing.nr_runs, clearing.nr_runs_most, clearing.open) == (15, 90, [])
    assert "15 runs, 75 saved of 90 (83 %)" in clearing.text
    assert "Every comparison is clear" in clearing.text


def test_seeds_are_added_to_what_is_not_clear_and_to_the_first_policy_alone(made):
    noisy = times(a=(10**9, 0.001), bb=(2 * 10**9, 0.001), ccc=(10**9, 0.5))
    making = made(lambda cell: noisy(cell) if cell.varied["x"] == 2 else 10**9, "a", "bb", "ccc",
                  xs=(1, 2))  # fmt: skip
    assert counts(making) == {
        ("a", 1): REPEATS, ("bb", 1): REPEATS, ("ccc", 1): REPEATS,
        ("a", 2): MOST, ("bb", 2): REPEATS, ("ccc", 2): MOST,
    }  # fmt: skip
    clearing = told(making)
    assert clearing.open == ["ccc on m at x = 2"]
    assert "Not clear: ccc on m at x = 2" in clearing.text
    assert making.cells == [cell for cell in cells_of(making.asked, (1, 2)) if cell in making.cells]


def test_what_was_clear_stays_so_whatever_is_added_for_others(made):
    """Of the first policy only the runs that were there are compared with it."""

    def makespan_ns(cell):
        if cell.policy.label == "a":
            return 10**9 + cell.seed if cell.seed <= REPEATS else 3 * 10**9
        return times(bb=(2 * 10**9, 0.001), ccc=(10**9, 0.5))(cell)

    making = made(makespan_ns, "a", "bb", "ccc")
    assert counts(making)["a", 1] > REPEATS == counts(making)["bb", 1]
    [cell] = study(making).cells
    contrast = cell.comparisons["bb"]
    assert (contrast.ratio.n_a, contrast.ratio.n_b) == (REPEATS, REPEATS)
    assert contrast.verdict == "slower"
    firsts, own = (
        [record.result["makespan_ns"] for record in making.records
         if record.policy == label and record.seed <= REPEATS] for label in ("a", "bb")
    )  # fmt: skip
    shares = 2 * len(stopping.looks_until_clear(REPEATS, MOST))
    assert contrast.ratio.high == pytest.approx(ratio(own, firsts, shares).high)


def test_a_seed_that_is_slow_under_both_hides_nothing(made):
    """By independent samples it would not be clear."""

    def makespan_ns(cell):
        slow = 1 + cell.seed * 7919 % 101 / 100
        return int(slow * times(a=(10**9, 0.001), bb=(103 * 10**7, 0.001))(cell))

    making = made(makespan_ns, "a", "bb")
    assert counts(making) == {("a", 1): REPEATS, ("bb", 1): REPEATS}
    [cell] = study(making).cells
    assert cell.comparisons["bb"].verdict == "slower"
    assert cell.comparisons["bb"].ratio.low > 1.02
    assert cell.makespan["bb"].low < cell.makespan["a"].high


@pytest.mark.parametrize("is_random", [False, True])
def test_equal_times_are_exact_at_once_only_where_chance_plays_no_part(made, is_random):
    making = made(lambda cell: 10**9, "a", "bb", digest=lambda cell: f"{cell.seed * is_random}")
    assert counts(making)["bb", 1] == (MOST if is_random else REPEATS)
    assert told(making).open == ["bb on m, x = 1"] * is_random


def test_looks_go_on_until_it_is_clear(made):
    making = made(times(a=(10**9, 0.02), bb=(1015 * 10**6, 0.02)), "a", "bb", repeat_max=1000)
    assert REPEATS < counts(making)["a", 1] == counts(making)["bb", 1] < 1000
    assert told(making).open == []
    numbers = [2 * n for n in (5, 8, 12, 18, 27, 41, 62, 93, 140, 210, 315, 473, 710, 1000)]
    assert making.asked_for == numbers[: len(making.asked_for)]


def test_who_always_fails_gets_no_more_seeds_and_is_not_clear(made):
    for fails in ("a", "bb"):
        making = made(lambda cell, of=fails: None if cell.policy.label == of else 10**9, "a", "bb")
        assert counts(making) == {("a", 1): REPEATS, ("bb", 1): REPEATS}
        assert told(making).open == ["bb on m, x = 1"]


def test_an_experiment_without_it_is_what_it_was():
    plain = definition.build({"policies": ["a"], "workload": "w", "machine": ["m"]})
    assert not {"until_ci", "repeat_max"} & plain.definition.keys()
    assert plain.repeats_most == plain.repeats == 1
    assert definition.of_definition(asked("a", "b").definition) == asked("a", "b")
    assert asked("a", "b", repeat_max=None).repeat_max == definition.REPEATS_UNTIL
    assert asked("a", "b", repeat=200, repeat_max=None).repeat_max == 200


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": ["a"]}, "--until-ci"),
        ({"until_ci": None}, "--repeat-max"),
        ({"until_ci": "0"}, "--until-ci"),
        ({"until_ci": 0.01}, "--until-ci"),
        ({"until_ci": "60%"}, "--until-ci"),
        ({"repeat_max": REPEATS - 1}, "--repeat-max"),
    ],
)
def test_what_cannot_be_asked_is_refused(changes, said):
    with pytest.raises(SchedlabError, match=f"^{said}") as raised:
        asked("a", "b", **changes)
    assert raised.value.hint


def test_the_command_asks_nothing_twice_and_ends_the_same(command, tmp_path):
    words = ("compare", "fifo", "cfs", "--workload", "hackbench", "--with", "loops=1", "--with",
             "groups=1", "--machine", "osdl-2", "--repeat", "3", "--until-ci", "1%",
             "--repeat-max", "8")  # fmt: skip
    first = command(*words)
    again = command(*words, "--report", "out.html")
    assert first.returncode == again.returncode == 0, first.stderr
    assert "0 runs made" in again.stderr and "Seeds were added until" in first.stdout
    assert first.stdout == again.stdout
    assert "Seeds were added until" in (tmp_path / "out.html").read_text()
    found = json.loads(command(*words, "--json").stdout)
    assert found["until_ci"]["nr_runs"] == len(found["runs"])
    # As of an older source, which took more seeds.
    with Store(tmp_path / "schedlab.db") as store:
        [experiment] = store.experiments()
        before = store.runs(experiment.id)
        store.add(replace(before[0], seed=99))
    assert command(*words).stdout == first.stdout
    with Store(tmp_path / "schedlab.db") as store:
        assert store.runs(experiment.id) == before
    reported = command("report", "schedlab.db", "-o", "stored.html")
    assert reported.returncode == 0, reported.stderr
    assert "Seeds were added until" in (tmp_path / "stored.html").read_text()
