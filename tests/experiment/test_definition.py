"""Goal: options and experiment files mean what docs/reference/cli.md says, and nothing else.

Method: properties over random ranges and times, closed forms elsewhere; expansion into cells with
a stand-in for the compiled core, because it only finds, digests and settles values.
"""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedlab import catalogue
from schedlab import values as schedlab_values
from schedlab.errors import BadValue, SchedlabError, UnknownName
from schedlab.experiment import cells, definition

SCENARIO = {"policies": ["fifo"], "workload": "hackbench", "machine": ["osdl-1"]}


# ---- texts --------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(0, 900), st.integers(1, 50))
def test_a_range_is_that_of_python_with_its_end_included(first, length, step):
    text = f"{first}..{first + length}:{step}"
    assert schedlab_values.parse_values("", text) == tuple(range(first, first + length + 1, step))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..3", (1, 2, 3)),
        ("5", (5,)),
        ("25, 50,100", (25, 50, 100)),
        ("0.1..0.5:0.2", (0.1, 0.3, 0.5)),
        ("1ms..3ms", ("1ms", "2ms", "3ms")),
        ("1ms..2ms:0.5ms", ("1ms", "1.5ms", "2ms")),
        ("true,false", ("true", "false")),
        ("-2..0", (-2, -1, 0)),
    ],
)
def test_vary_reads(text, values):
    assert schedlab_values.parse_vary([f"x={text}"]) == {"x": values}


@pytest.mark.parametrize(
    "text",
    ["", "x", "x=", "=1", "x=3..1", "x=1..3:0", "x=1..3:-1", "x=1..b", "x=1..3ms", "x=1,,2",
     "x=1,1", "x=1..9999", "x=1..", "x=..3", "x=1..3:"],
)  # fmt: skip
def test_vary_refuses(text):
    with pytest.raises(BadValue):
        schedlab_values.parse_vary([text])


def test_a_tunable_is_not_set_with_and_without_its_policy():
    with pytest.raises(BadValue) as raised:
        schedlab_values.parse_set(["slice_ns=1", "fifo.slice_ns=2"])
    for part in ("'fifo.slice_ns=2'", "'slice_ns=1'"):
        assert part in str(raised.value)
    assert schedlab_values.parse_set(["a=1", "fifo.b=2"]) == {"": {"a": "1"}, "fifo": {"b": "2"}}


def test_a_name_is_not_set_twice():
    with pytest.raises(BadValue, match="second time"):
        schedlab_values.parse_assignments("--with", ["groups=1", "groups=2"])


@given(st.integers(1, 2**62))
def test_every_duration_is_read_as_it_is_written(duration_ns):
    text = cells.duration_text(duration_ns)
    assert schedlab_values.parse_duration_ns("--until", text) == duration_ns


@pytest.mark.parametrize(
    ("text", "ns"), [("9.3s", 9_300_000_000), ("250us", 250_000), ("2min", 120 * 10**9)]
)
def test_a_duration_has_a_unit(text, ns):
    assert schedlab_values.parse_duration_ns("--until", text) == ns


@pytest.mark.parametrize("text", ["9", "0s", "-1s", "1.5ns", "1h", "s", "", "1e9s", "9999999999s"])
def test_what_is_not_a_duration_is_refused(text):
    with pytest.raises(BadValue):
        schedlab_values.parse_duration_ns("--until", text)


@pytest.mark.parametrize(
    ("name", "kind", "text", "value"),
    [
        ("slice_ns", "u64", "6ms", 6_000_000),
        ("slice_us", "u64", "6ms", 6_000),
        ("slice_ms", "u32", "1s", 1_000),
        ("slice", "u64", "250us", 250_000),
        ("slice_ns", "u64", "1.5us", 1_500),
        ("slice_ns", "u64", "18446744073709551615", 2**64 - 1),
        ("bias", "s32", "-5", -5),
        ("greedy", "bool", "true", 1),
        ("greedy", "bool", "False", 0),
        ("cores", "u32", "1024", 1024),
    ],
)
def test_a_tunable_takes(name, kind, text, value):
    assert schedlab_values.parse_tunable("--set", name, kind, text) == value


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("slice_ns", "u64", "-1"),
        ("slice_ns", "u64", "18446744073709551616"),
        ("slice_us", "u64", "1ns"),
        ("slice_ns", "u32", "5s"),
        ("greedy", "bool", "2"),
        ("bias", "s8", "128"),
        ("bias", "s8", "1.5"),
        ("slice_ns", "u64", "6 parsecs"),
        ("slice_ns", "u64", "0x10"),
    ],
)
def test_a_tunable_refuses(name, kind, text):
    with pytest.raises(BadValue):
        schedlab_values.parse_tunable("--set", name, kind, text)


def test_numeric_brings_times_to_nanoseconds():
    assert schedlab_values.numeric("10ms") == 10e6
    assert schedlab_values.numeric(7) == 7.0
    assert schedlab_values.numeric("true") is None
    assert schedlab_values.numeric("5kg") is None


# ---- experiments --------------------------------------------------------------------------------


def test_a_bare_tunable_belongs_to_the_only_policy():
    settings = schedlab_values.parse_set(["slice_ns=6ms"])
    built = definition.build({**SCENARIO, "set": settings})
    assert built.tunables == {"fifo": {"slice_ns": "6ms"}}


def test_a_bare_tunable_of_several_policies_is_refused():
    settings = schedlab_values.parse_set(["slice_ns=6ms"])
    with pytest.raises(BadValue, match="which policy"):
        definition.build({**SCENARIO, "policies": ["fifo", "bfs"], "set": settings})


def test_a_tunable_of_a_policy_that_is_not_compared_is_refused_with_a_suggestion():
    settings = schedlab_values.parse_set(["fifp.slice_ns=6ms"])
    with pytest.raises(UnknownName, match="did you mean fifo"):
        definition.build({**SCENARIO, "set": settings})


def test_labels_come_from_names_paths_and_the_user():
    texts = ["cfs", "./mine/new.bpf.c", "fast=cfs", "b=./x=y.bpf.c"]
    built = definition.build({**SCENARIO, "policies": texts})
    found = [(choice.label, choice.policy) for choice in built.policies]
    assert found == [
        ("cfs", "cfs@6.1"),
        ("new", "./mine/new.bpf.c"),
        ("fast", "cfs@6.1"),
        ("b", "./x=y.bpf.c"),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": []}, "no policy"),
        ({"workload": None}, "no workload"),
        ({"machine": []}, "no machine"),
        ({"policies": ["rfs", "./rfs.bpf.c"]}, "'rfs' is given to both 'rfs' and './rfs.bpf.c'"),
        ({"policies": ["a=cfs", "a=bfs"]}, "'a' is given to both 'cfs@6.1' and 'bfs@425'"),
        ({"policies": ["cfs", "cfs"]}, "'cfs' is given twice"),
        ({"vary": {"x": (1, 2)}, "with": {"x": "1"}}, "both varied"),
        ({"repeat": 0}, "--repeat: 0 is outside"),
        ({"seed": -1}, "--seed: -1 is outside"),
        ({"seed": 2**63}, "is outside"),
    ],
)
def test_a_contradictory_experiment_is_refused(changes, message):
    with pytest.raises(SchedlabError, match=message):
        definition.build({**SCENARIO, **changes})


def test_equal_experiments_have_equal_ids_and_others_have_not():
    one = definition.build({**SCENARIO, "with": {"a": "1", "b": "2"}})
    two = definition.build({**SCENARIO, "with": {"b": "2", "a": "1"}})
    assert one.id == two.id
    others = [{"seed": 2}, {"repeat": 2}, {"machine": ["osdl-2"]}, {"vary": {"c": (1,)}}]
    assert len({definition.build({**SCENARIO, **o}).id for o in others} | {one.id}) == 5


# ---- files --------------------------------------------------------------------------------------


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_says_what_options_say(tmp_path):
    path = write(
        tmp_path,
        """
        title = "An example"
        description = "an example"
        policies = ["fifo", "near=./near.bpf.c"]
        workload = "hackbench"
        machine = "osdl-1"
        repeat = 3
        seed = 7
        [vary]
        groups = "1..3"
        loops = [10, 20]
        [with]
        pipe = true
        [set]
        fifo.slice_ns = "6ms"
        near.greedy = true
        """,
    )
    from_file = definition.build(definition.read_options(path))
    from_options = definition.build(
        {
            "name": "mine",
            "title": "An example",
            "description": "an example",
            "policies": ["fifo", f"near={tmp_path}/near.bpf.c"],
            "workload": "hackbench",
            "machine": ["osdl-1"],
            "repeat": 3,
            "seed": 7,
            "vary": schedlab_values.parse_vary(["groups=1..3", "loops=10,20"]),
            "with": schedlab_values.parse_assignments("--with", ["pipe=true"]),
            "set": schedlab_values.parse_set(["fifo.slice_ns=6ms", "near.greedy=true"]),
        }
    )
    assert from_file == from_options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy = 'x'", "unknown key 'policy'.*did you mean policies"),
        ("policies = 3", "is not a list"),
        ("policies = [3]", "is not a text"),
        ("workload = 3", "is not text"),
        ("repeat = 'x'", "not a whole number"),
        ("repeat = true", "not a whole number"),
        ("seed = -1", "is not a whole number from 0 to"),
        ("vary = 3", "is not a table"),
        ("[vary]\nx = []", "is empty"),
        ('[vary]\nx = [1, "1"]', "holds a value twice"),
        ("[vary]\nx = {}", "is empty"),
        ("[vary]\nx = {y = {}}", "not a number, a text"),
        ("[set]\nfifo = 3", "is not a table"),
        ("[with]\nx = [1]", "not a number, a text"),
        ("nonsense", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_path(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(SchedlabError, match=message) as raised:
        definition.read_options(path)
    assert str(path) in str(raised.value)


def test_paths_with_equals_signs_lie_beside_the_file_that_names_them(tmp_path):
    text = """policies = ["b=./x=y.bpf.c", "./x=y.bpf.c", "o=fifo"]
workload = "./n=1/w.toml"
machine = "./m=2.toml"
"""
    options = definition.read_options(write(tmp_path, text))
    path = str(tmp_path / "x=y.bpf.c")
    assert options["policies"] == [f"b={path}", path, "o=fifo"]
    assert options["workload"] == str(tmp_path / "n=1/w.toml")
    assert options["machine"] == [str(tmp_path / "m=2.toml")]


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchedlabError, match="cannot be read: it is not UTF-8"):
        definition.read_options(path)


PUBLISHED = """
policies = ["fifo", "old=bfs"]
workload = "hackbench"
machine = "osdl-1"
[published]
table = "./times.csv"
source = "somebody"
makespan = "elapsed_s"
vary.groups = "groups"
policies.old.kernel = "2.4"
machines.osdl-1.cpus = 1
"""
TIMES = "kernel,cpus,groups,elapsed_s\n2.4,1,25,1.5\n2.4,1,50,3\n2.6,1,25,9\n2.4,2,25,8\n"


def test_published_times_are_the_rows_that_match(tmp_path):
    (tmp_path / "times.csv").write_text(TIMES)
    published = definition.read_options(write(tmp_path, PUBLISHED))["published"]
    assert published.source == "somebody"
    assert [(t.policy, t.machine, t.varied, t.makespan_ns) for t in published.times] == [
        ("old", "osdl-1", {"groups": 25}, 1_500_000_000),
        ("old", "osdl-1", {"groups": 50}, 3_000_000_000),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kernel = "2.4"', 'kernel = "2.2"', "no row of .*times.csv has"),
        ('kernel = "2.4"', 'kernal = "2.4"', "unknown column 'kernal'.*did you mean kernel"),
        ('"elapsed_s"', '"groups"', "does not end in a unit"),
        ('"./times.csv"', '"./none.csv"', "none.csv' does not exist"),
        ("policies.old", "policies.bfs", "unknown policy 'bfs'"),
        ("machines.osdl-1", "machines.osdl-2", "unknown machine 'osdl-2'"),
        ('source = "somebody"', "", "does not say its source"),
        ("source =", "sauce =", "unknown key 'sauce'.*did you mean source"),
    ],
)
def test_a_wrong_published_table_is_refused(tmp_path, old, new, message):
    (tmp_path / "times.csv").write_text(TIMES)
    assert old in PUBLISHED
    with pytest.raises(SchedlabError, match=message):
        definition.read_options(write(tmp_path, PUBLISHED.replace(old, new)))


# ---- cells --------------------------------------------------------------------------------------


@pytest.mark.stand_in
def test_the_cells_are_the_grid_and_policies_share_seeds(core):
    asked = definition.build(
        {
            "policies": ["fifo", "bfs"],
            "workload": "hackbench",
            "machine": ["osdl-1", "osdl-2"],
            "vary": {"groups": (1, 2, 3)},
            "repeat": 2,
            "seed": 40,
        }
    )
    found = cells.expand(asked)
    places = [(c.policy.label, c.machine.name, c.workload.varied["groups"], c.seed) for c in found]
    assert len(places) == len(set(places)) == 2 * 2 * 3 * 2
    for policy in ("fifo", "bfs"):
        assert {seed for label, _, _, seed in places if label == policy} == {40, 41}


@pytest.mark.stand_in
def test_setting_a_tunable_to_its_default_is_the_same_run(core):
    plain = definition.build(SCENARIO)
    default = definition.build({**SCENARIO, "set": {"fifo": {"slice_ns": "3ms"}}})
    other = definition.build({**SCENARIO, "set": {"fifo": {"slice_ns": "4ms"}}})
    keys = [cells.expand(asked)[0].key for asked in (plain, default, other)]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.stand_in
def test_stopping_early_is_another_run(core):
    whole, part = definition.build(SCENARIO), definition.build({**SCENARIO, "until_ns": 5})
    assert cells.expand(whole)[0].key != cells.expand(part)[0].key


@pytest.mark.stand_in
def test_a_core_built_anew_in_a_checkout_reuses_no_run(core, tmp_path):
    core.__file__ = str(tmp_path / "core.so")
    (tmp_path / "core.so").write_text("one build")
    before = cells.expand(definition.build(SCENARIO))[0].key
    assert before == cells.expand(definition.build(SCENARIO))[0].key
    (tmp_path / "core.so").write_text("another build")
    assert before != cells.expand(definition.build(SCENARIO))[0].key


@pytest.mark.stand_in
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ["fifp"]}, "unknown policy 'fifp': did you mean fifo"),
        ({"machine": ["osdl1"]}, "unknown machine 'osdl1': did you mean osdl-1"),
        ({"workload": "hackbenhc"}, "unknown workload .* did you mean hackbench"),
        ({"with": {"group": "1"}}, "unknown parameter 'group' of workload hackbench: did you"),
        ({"vary": {"group": (1, 2)}}, "unknown parameter 'group'"),
        ({"set": {"fifo": {"slice": "1"}}}, "unknown tunable 'slice' of policy fifo: did you"),
        ({"set": {"fifo": {"slice_ns": "-1"}}}, r"--set fifo\.slice_ns: '-1' does not fit"),
        ({"policies": ["./fifp.bpf.c"]}, "policy file './fifp.bpf.c' does not exist"),
        ({"repeat": 99_999, "vary": {"groups": (1, 2)}}, "199998 runs, more than"),
    ],
)
def test_what_the_files_do_not_have_is_refused(core, changes, message):
    with pytest.raises(SchedlabError, match=message):
        cells.expand(definition.build({**SCENARIO, **changes}))


@pytest.mark.stand_in
def test_a_path_is_taken_as_it_is_and_a_name_from_the_catalogue(core, tmp_path):
    own = tmp_path / "my policy.bpf.c"
    own.write_text("a stand-in")
    asked = definition.build({**SCENARIO, "policies": ["fifo", str(own)], "seed": 3})
    shipped, mine = cells.expand(asked)
    assert shipped.policy.path == str(catalogue.names(catalogue.POLICIES)["fifo"])
    assert mine.policy.path == str(own)
    assert shlex.split(mine.replay())[:3] == ["schedlab", "run", str(own)]


@pytest.mark.stand_in
def test_a_replay_asks_for_the_same_cell(core):
    asked = definition.build(
        {
            **SCENARIO,
            "with": {"loops": "7"},
            "vary": {"groups": (3,)},
            "set": {"fifo": {"slice_ns": "6ms", "greedy": "true"}},
            "seed": 9,
        }
    )
    [cell] = cells.expand(asked)
    words = shlex.split(cell.replay())
    options = list(zip(words[3::2], words[4::2], strict=True))
    again = definition.build(
        {
            "policies": [words[2]],
            "workload": dict(options)["--workload"],
            "machine": [dict(options)["--machine"]],
            "seed": int(dict(options)["--seed"]),
            "with": schedlab_values.parse_assignments("", [v for o, v in options if o == "--with"]),
            "set": schedlab_values.parse_set(v for o, v in options if o == "--set"),
        }
    )
    assert cells.expand(again)[0].key == cell.key
