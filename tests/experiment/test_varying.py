"""Goal: what is varied reaches what it belongs to, nothing else. Method: cells of small grids."""

import shlex

import pytest
from schedlab.errors import SchedlabError
from schedlab.experiment import cells, definition
from schedlab.experiment.sweep import simulate_cell


def expand(*policies, **given):
    asked = {"policies": policies, "workload": "hackbench", "machine": ["osdl-8"]}
    return cells.expand(definition.build(asked | {"with": {"groups": "1", "loops": "1"}} | given))


def test_a_tunable_is_varied_for_its_policy_alone():
    found = expand("fifo", "slow=round_robin", vary={"slow.slice_ns": ("1ms", "20us")})
    of_fifo, of_slow = [[c for c in found if c.policy.label == name] for name in ("fifo", "slow")]
    assert [cell.varied for cell in of_slow] == [
        {"slow.slice_ns": "1ms"},
        {"slow.slice_ns": "20us"},
    ]
    assert [cell.policy.tunables["slice_ns"] for cell in of_slow] == [1_000_000, 20_000]
    assert len({cell.key for cell in of_slow}) == 2
    assert len({cell.key for cell in of_fifo}) == 1, "one run, which stands beside both"
    assert [cell.varied for cell in of_fifo] == [cell.varied for cell in of_slow]
    assert "--set slice_ns=20000" in of_slow[1].replay()
    assert of_slow[1].say().startswith("policy slow with hackbench, slow.slice_ns = 20us on osdl-8")


def test_a_machine_of_another_size_is_the_machine_of_that_size():
    """osdl-1 to osdl-8 differ in nothing but their CPUs."""
    found = expand("fifo", vary={"cpus": (1, 4, 8, 16)})
    assert [cell.machine.nr_cpus for cell in found] == [1, 4, 8, 16]
    assert {cell.machine.name for cell in found} == {"osdl-8"}
    for cpus, cell in zip((1, 4, 8), found, strict=False):
        [twin] = expand("fifo", machine=[f"osdl-{cpus}"])
        assert cell.key == twin.key
    outcome = simulate_cell(found[3])
    assert outcome.result["nr_cpus"] == 16
    assert "--cpus 16" in found[3].replay()


def test_a_number_may_be_said_by_the_cpus_of_the_machine():
    said = {"groups": "cpus", "loops": "2*cpus+1"}
    found = expand("fifo", vary={"cpus": (1, 4)}, **{"with": said})
    values = [[cell.workload.resolved[name] for name in said] for cell in found]
    assert values == [["1", "3"], ["4", "9"]]
    [twin] = expand("fifo", cpus=4, **{"with": {"groups": "4", "loops": "9"}})
    assert found[1].key == twin.key
    assert "--with loops=9" in found[1].replay()
    with pytest.raises(SchedlabError, match=r"--with groups=cpus-11: .* is -3"):
        expand("fifo", **{"with": {"groups": "cpus-11"}})


def test_a_size_for_all_is_a_part_of_the_machines_name():
    [cell] = expand("fifo", cpus=3)
    assert cell.machine.name == "osdl-8 with 3 CPUs"
    assert cell.varied == {}
    words = shlex.split(cell.replay())
    assert words[words.index("--cpus") + 1] == "3"


def test_parameters_tunables_and_sizes_are_varied_together():
    vary = {"groups": (1, 2), "rr.slice_ns": ("1ms", "2ms"), "cpus": (1, 2)}
    found = expand("rr=round_robin", vary=vary, **{"with": {"loops": "1"}})
    assert len(found) == len({cell.key for cell in found}) == 8
    assert list(found[1].varied) == list(vary)
    last = found[-1]
    facts = (last.workload.resolved["groups"], last.policy.settings, last.machine.nr_cpus)
    assert facts == ("2", {"slice_ns": 2_000_000}, 2)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"slice_ns": (1, 2)}, "if it is a policy's tunable, write rr.slice_ns or cfs.slice_ns"),
        ({"eevdf.slice_ns": (1, 2)}, "unknown policy 'eevdf' in --vary"),
        ({"rr.": (1, 2)}, "'rr.' names no tunable\nhint: write rr.TUNABLE"),
        ({".slice_ns": (1, 2)}, "does not say of which policy\nhint: write rr.slice_ns"),
        ({"rr.slice": (1, 2)}, "unknown tunable 'slice' of policy rr"),
        ({"rr.slice_ns": ("1ms", "1000us")}, "'1000us' is the same as '1ms'"),
        ({"rr.slice_ns": ("1ms", "a")}, "--vary rr.slice_ns: 'a' is not a value"),
        ({"cpus": (0, 1)}, "--vary cpus: 0 is not a whole number of CPUs from 1 to 4,096"),
        ({"cpus": (1, 4097)}, "--vary cpus: 4097 is not a whole number"),
        ({"cpus": (1, "many")}, "--vary cpus: 'many' is not a whole number"),
    ],
)
def test_what_cannot_be_varied_is_refused_with_a_way_out(vary, message):
    with pytest.raises(SchedlabError) as caught:
        expand("rr=round_robin", "cfs", vary=vary)
    assert message in f"{caught.value}\nhint: {caught.value.hint}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vary": {"cpus": (1, 2)}, "cpus": 2}, "both varied (--vary cpus) and fixed (--cpus)"),
        (
            {"vary": {"rr.slice_ns": (1, 2)}, "set": {"rr": {"slice_ns": "1"}}},
            "rr.slice_ns is both varied (--vary) and fixed (--set)",
        ),
        ({"cpus": 5000}, "cpus: 5000 is not a whole number of CPUs"),
    ],
)
def test_what_is_varied_is_not_fixed_too(given, message):
    with pytest.raises(SchedlabError) as caught:
        expand("rr=round_robin", **given)
    assert message in str(caught.value)


def test_a_file_says_the_same(tmp_path):
    path = tmp_path / "sizes.toml"
    path.write_text(
        'policies = ["rr=round_robin", "cfs@2.6.31"]\nworkload = "hackbench"\nmachine = "osdl-8"\n'
        '[vary]\ncpus = [1, 2]\nrr.slice_ns = ["1ms", "2ms"]\n'
        '"cfs@2.6.31.latency_ns" = "1ms..3ms:2ms"\n'
    )
    asked = definition.build(definition.read_options(path))
    assert asked.varied == {
        "cpus": (1, 2),
        "rr.slice_ns": ("1ms", "2ms"),
        "cfs@2.6.31.latency_ns": ("1ms", "3ms"),
    }
    assert definition.of_definition(asked.definition) == asked
    last = cells.expand(asked)[-1]
    assert last.policy.settings == {"latency_ns": 3_000_000}
    assert last.machine.nr_cpus == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[vary]\n"rr.slice_ns" = ["1ms"]\nrr.slice_ns = ["2ms"]', "is varied twice"),
        ("cpus = 2\n[[claims]]\nsays = 'x'\ncannot_tell = 'y'", "goes with neither published"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, text, message):
    path = tmp_path / "wrong.toml"
    path.write_text(f'policies = ["rr=round_robin"]\nworkload = "hackbench"\n{text}\n')
    with pytest.raises(SchedlabError, match=message):
        definition.read_options(path)


def test_runs_that_are_not_reached_by_what_is_varied_are_made_once(command):
    done = command("compare", "fifo", "rr=round_robin", "--workload", "counter", "--machine",
                   "osdl-2", "--vary", "rr.slice_ns=1ms,2ms,3ms", "--repeat", "2", "--jobs", "2",
                   "--with", "work=1ms", "--store", "one.db", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "8 runs made, 4 reused from one.db\n" in done.stderr
