"""Goal: a suite says exactly what is measured, and what it says wrongly is an error that helps.

Method: read suites that are right, and each way of being wrong; read what is shipped.
"""

import copy
import tomllib

import pytest
from schedlab import catalogue
from schedlab.bench import suite
from schedlab.errors import SchedlabError

PLAIN = {
    "title": "A suite",
    "benchmark": [
        {
            "name": "sleep",
            "command": ["sleep", "{time}"],
            "sizes": {"quick": {"time": 1}, "full": {"time": 9}},
            "sweep": {"jobs": "1..3"},
        }
    ],
}


def parsed(**changes):
    table = copy.deepcopy(PLAIN)
    table["benchmark"][0] |= changes
    return suite.parse("mine", table, "mine.toml")


def test_a_sweep_makes_a_case_of_each_value_and_sizes_fill_the_rest():
    made = suite.cases(parsed(), "full")
    assert [case.name for case in made] == ["sleep jobs=1", "sleep jobs=2", "sleep jobs=3"]
    assert suite.fill(made[0].benchmark.command, made[0].values) == ("sleep", "9")


def test_the_shell_keeps_its_own_braces():
    text = "echo ${HOME} {jobs} $((1 + {jobs}))"
    assert suite.fill(text, {"jobs": 3}) == "echo ${HOME} 3 $((1 + 3))"


def test_what_is_measured_has_a_digest_and_words_for_people_do_not_change_it():
    def digest(**changes):
        return suite.cases(parsed(**changes), "quick")[0].digest({})

    assert digest() == digest(description="Other words.", repetitions=99, timeout_s=5)
    different = {
        digest(),
        digest(command="sleep {time}"),
        digest(prepare="true"),
        digest(cleanup="true"),
        digest(unit="min"),
        digest(sizes={"quick": {"time": 2}, "full": {"time": 2}}),
    }
    assert len(different) == 6


def test_an_input_of_other_files_is_another_benchmark():
    table = copy.deepcopy(PLAIN)
    table["input"] = [{"name": "clip", "command": "true", "files": ["clip"]}]
    table["benchmark"][0]["inputs"] = ["clip"]
    case = suite.cases(suite.parse("mine", table, "mine.toml"), "quick")[0]
    assert case.digest({"clip": {"clip": "1"}}) != case.digest({"clip": {"clip": "2"}})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"comand": "true"}, "unknown key 'comand' in mine.toml: benchmark 'sleep'"),
        ({"command": ""}, "'' is an empty command"),
        ({"command": []}, "[] is an empty command"),
        ({"command": [" "]}, "is an empty command"),
        ({"command": ["sleep", 1]}, "is not made of texts"),
        ({"command": 7}, "7 is not a command"),
        ({"command": "sleep {tiem}"}, "unknown placeholder 'tiem' in command"),
        ({"sizes": {"quick": {"time": 1}}}, "unknown placeholder 'time' in command"),
        ({"sizes": {"tiny": {}}}, "unknown size 'tiny'"),
        ({"sizes": {"quick": 3}}, "sizes.quick: 3 is not a table"),
        ({"repetitions": 0}, "repetitions: 0 is not a whole number from 1"),
        ({"repetitions": 1.5}, "repetitions: 1.5 is not a whole number"),
        ({"repetitions": True}, "repetitions: True is not a whole number"),
        ({"timeout_s": "1"}, "timeout_s: '1' is not a number"),
        ({"timeout_s": -1}, "timeout_s: -1 is not a number from 0.01"),
        ({"warm_up": -1}, "warm_up: -1 is not a whole number from 0"),
        ({"record": "wall"}, "'wall' is nothing that can be recorded"),
        ({"record": {"json": "a"}}, "'unit' is missing"),
        ({"record": {"json": "a", "regex": "b"}, "unit": "s"}, "is nothing that can be recorded"),
        ({"record": {"regex": "("}, "unit": "s"}, "is no regular expression"),
        ({"record": {"regex": "(a)(b)"}, "unit": "s"}, "has 2 groups, not one"),
        ({"inputs": ["clip"]}, "unknown input 'clip'"),
        ({"needs": "lrzip"}, "needs: 'lrzip' is not a list of texts"),
        ({"needs": [3]}, "needs: 3 is not a text"),
        ({"sweep": {"jobs": []}}, "sweep.jobs: [] is empty"),
        ({"sweep": {"jobs": [1, 1]}}, "holds a value twice"),
        ({"sweep": {"jobs": "5..1"}}, "is empty"),
        ({"sweep": {"work": [1]}}, "'work' cannot name a parameter"),
        ({"sweep": {"jobs": list(range(1001))}}, "makes 1001 cases"),
        ({"name": "Über"}, "'Über' cannot be a name"),
        ({"higher_is_better": 1}, "1 is not true or false"),
        ({"ended_by": "why"}, "'why' is of no JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_value(changes, said):
    with pytest.raises(SchedlabError) as caught:
        parsed(**changes)
    text = str(caught.value)
    assert said in text
    assert "mine.toml" in text
    assert caught.value.hint


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"title": "x"}, "'benchmark' is missing"),
        ({"title": " ", "benchmark": []}, "title: ' ' is empty"),
        ({"benchmark": PLAIN["benchmark"]}, "'title' is missing"),
        ({**PLAIN, "colour": 1}, "unknown key 'colour' in mine.toml"),
        ({**PLAIN, "benchmark": "sleep"}, "is not an array of tables"),
        ({**PLAIN, "benchmark": [3]}, "3 is not a table"),
        ({**PLAIN, "benchmark": PLAIN["benchmark"] * 2}, "'sleep' names two benchmarks"),
        ({**PLAIN, "input": [{"name": "a", "command": "true"}]}, "'files' is missing"),
    ],
)
def test_a_suite_that_is_no_suite_is_refused(table, said):
    with pytest.raises(SchedlabError) as caught:
        suite.parse("mine", copy.deepcopy(table), "mine.toml")
    assert said in str(caught.value)


def test_a_file_that_is_no_toml_is_told_with_its_line(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "a\n')
    with pytest.raises(SchedlabError, match=r"mine\.toml is not TOML.*line 1"):
        suite.read(path)


@pytest.mark.parametrize("name", catalogue.names(catalogue.SUITES))
@pytest.mark.parametrize("size", suite.SIZES)
def test_what_is_shipped_can_be_read_and_says_what_it_is(name, size):
    read = suite.read(catalogue.find(catalogue.SUITES, name))
    assert suite.cases(read, size)
    assert read.description
    assert all(benchmark.description for benchmark in read.benchmarks)
    text = catalogue.find(catalogue.SUITES, name).read_text(encoding="utf-8")
    assert len(tomllib.loads(text)["benchmark"]) == len(read.benchmarks)


def shipped(name):
    return suite.read(catalogue.find(catalogue.SUITES, name))


@pytest.mark.parametrize("name", catalogue.names(catalogue.SUITES))
def test_sizes_of_what_is_shipped_differ_in_values_and_so_are_told_apart(name):
    read = shipped(name)
    sized = {made.name for made in read.inputs if made.sizes}
    for benchmark in read.benchmarks:
        if benchmark.sizes or sized & set(benchmark.inputs):
            assert benchmark.sizes.get("quick") != benchmark.sizes.get("full"), benchmark.name


def test_the_source_package_is_prepared_once_for_all_studies_and_sizes():
    [one] = [made for made in shipped("study-2009").inputs if made.name == "e2fsprogs"]
    [other] = [made for made in shipped("study-2012").inputs if made.name == "e2fsprogs"]
    assert one == other
    assert not one.sizes
