"""Goal: `POLICY@SET` means the values of a set wherever a policy is named, and nothing else.

Method: the real command with the real core; a user's own policy with a file of sets beside it; the
run under a set against the run with the same values said one by one.
"""

import json
from types import SimpleNamespace

import pytest
from schedlab import catalogue
from schedlab.commands import load
from schedlab.errors import SchedlabError, UnknownName
from schedlab.experiment import cells, definition, vm
from schedlab.kernel import loading, referee

SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")
SET = {"latency_ns": 5_000_000, "min_granularity_ns": 1_000_000}
SETS = """
[[set]]
name = "fast"
description = "turns that are short"
source = "a dream"

[set.tunables]
slice_ns = "250us"

[[set]]
name = "2.0-rc1"
description = "turns that are long"
source = "another"

[set.tunables]
slice_ns = "50ms"
"""


@pytest.fixture
def mine(tmp_path):
    """A user's own policy with two sets, in the directory where commands run."""
    source = catalogue.names(catalogue.POLICIES)["round_robin"].read_text()
    (tmp_path / "mine.bpf.c").write_text(source)
    (tmp_path / "mine.sets.toml").write_text(SETS)
    return tmp_path / "mine.bpf.c"


def data(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done):
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def chosen(*policies, **options):
    """The policies of an experiment, found and settled."""
    asked = {"policies": policies, "workload": "ping_pong", "machine": ["laptop"], **options}
    return [cell.policy for cell in cells.expand(definition.build(asked))]


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts", "label"),
    [
        ("cfs", ("cfs", None), "cfs"),
        ("cfs@2.6.31", ("cfs", "2.6.31"), "cfs@2.6.31"),
        ("cfs@", ("cfs", ""), "cfs@"),
        ("./a@b/mine.bpf.c", ("./a@b/mine.bpf.c", None), "mine"),
        ("./mine@2.bpf.c", ("./mine@2.bpf.c", None), "mine@2"),
        ("./a@b/mine.c", ("./a@b/mine.c", None), "mine.c"),
        ("./a@b/mine.bpf.c@fast", ("./a@b/mine.bpf.c", "fast"), "mine@fast"),
        ("mine.bpf.c@fast", ("mine.bpf.c", "fast"), "mine@fast"),
        ("cfs@kernel:6.1", ("cfs", "kernel:6.1"), "cfs@kernel:6.1"),
    ],
)
def test_a_text_is_a_policy_its_set_and_a_label(text, parts, label):
    assert catalogue.split_set(text) == parts
    assert catalogue.label_of(text) == label


def test_an_at_in_the_path_of_a_machine_names_no_set():
    assert catalogue.is_path(catalogue.MACHINES, "a@b.toml")


def test_a_set_settles_its_values_and_set_options_come_on_top():
    [plain] = chosen("cfs")
    [of_set] = chosen("cfs@2.6.32")
    assert (of_set.label, of_set.name) == ("cfs@2.6.32", "cfs")
    assert SET.items() <= of_set.tunables.items() and SET.items() <= of_set.changed.items()
    assert of_set.settings == {}
    assert {**plain.tunables, **of_set.set_values} == of_set.tunables
    [over] = chosen("cfs@2.6.32", set={"cfs@2.6.32": {"latency_ns": "6ms"}})
    assert over.settings == {"latency_ns": 6_000_000}
    assert over.tunables == {**of_set.tunables, "latency_ns": 6_000_000}
    assert over.changed == {**of_set.changed, "latency_ns": 6_000_000}


def test_a_run_is_kept_under_its_values_and_not_under_the_name_of_its_set():
    def key(*policies, **options):
        asked = {"policies": policies, "workload": "ping_pong", "machine": ["laptop"], **options}
        return cells.expand(definition.build(asked))[0].key

    spelt = {name: str(value) for name, value in chosen("cfs@2.6.32")[0].set_values.items()}
    assert key("cfs@6.1") == key("cfs") != key("cfs@2.6.32")
    assert key("cfs@2.6.32") == key("x=cfs", set={"x": spelt})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cfs", "cfs@6.1"),
        ("cfs_gavl", "cfs_gavl@6.1"),
        ("cfs_2007", "cfs_2007@2.6.23"),
        ("o1", "o1@2.6.22"),
        ("bfs", "bfs@425"),
        ("eevdf", "eevdf@6.12"),
        ("timering", "timering"),
        ("fifo", "fifo"),
        ("cfs@2.6.31", "cfs@2.6.31"),
    ],
)
def test_a_name_alone_means_the_latest_set(name, meant):
    assert catalogue.with_set(name) == meant
    [plain], [spelt] = chosen(name), chosen(meant)
    assert (plain.label, plain.given) == (name, meant)
    assert plain.tunables == spelt.tunables
    # What is set in a kernel's object.
    assert plain.changed == spelt.changed
    assert catalogue.find_policy(name) == catalogue.find_policy(meant)


def test_ones_own_file_says_what_its_name_alone_means(mine, command):
    def slice_ns(*policy):
        found = data(command("run", *policy, *SCENARIO, "--json"))["manifest"]
        return found["tunables"]["slice_ns"], found["replay"].split()[2]

    own = str(mine)
    assert slice_ns(own)[0] == 3_000_000
    sets = mine.with_name("mine.sets.toml")
    sets.write_text(f'plain = "fast"\n{sets.read_text()}')
    assert slice_ns(own) == (250_000, f"{own}@fast")
    assert slice_ns(f"{own}@2.0-rc1") == (50_000_000, f"{own}@2.0-rc1")
    sets.write_text(sets.read_text().replace('plain = "fast"', 'plain = "slow"'))
    assert "there is no set" in (said := refused(command("run", own, *SCENARIO))) or "slow" in said


def test_tables_reports_and_runs_say_which_set_a_name_alone_was(command, tmp_path):
    done = command("compare", "cfs", "o1", "fifo", "x=cfs", *SCENARIO, "--repeat", "1")
    assert "\ncfs is cfs@6.1, o1 is o1@2.6.22\n" in done.stdout
    command("report", "schedlab.db", "-o", "out.html")
    assert "Here cfs is cfs@6.1, o1 is o1@2.6.22." in (tmp_path / "out.html").read_text()
    assert command("run", "cfs", *SCENARIO).stdout.startswith("cfs@6.1 with ping_pong ")
    alone = command("compare", "fifo", "cfs@6.1", *SCENARIO, "--repeat", "1").stdout
    assert " is cfs@6.1" not in alone


def test_the_list_says_what_a_name_alone_means_and_its_values(command):
    text = command("list", "policies").stdout
    assert "CFS of Linux 6.1, the last long-term release with it: what cfs alone means\n" in text
    assert text.count(" alone means\n") == 6
    [cfs] = [one for one in data(command("list", "policies", "--json")) if one["name"] == "cfs"]
    assert {"latency_ns": 6_000_000}.items() <= {
        one["name"]: one["default"] for one in cfs["tunables"]
    }.items()


def test_a_name_alone_in_an_older_store_meant_what_the_file_says():
    asked = definition.build({"policies": ["cfs"], "workload": "ping_pong", "machine": ["laptop"]})
    older = asked.definition | {"policies": [{"label": "cfs", "policy": "cfs"}]}
    [cell] = cells.expand(definition.of_definition(older))
    differs = {"idle_waits_as_busy": 0}  # the one value in which file and set differ
    assert cell.policy.tunables == chosen("cfs@2.6.31")[0].tunables | differs


def test_an_experiment_file_names_sets_of_files_beside_it(mine, monkeypatch, tmp_path):
    (tmp_path / "question.toml").write_text(
        'policies = ["./mine.bpf.c@fast", "slow=mine.bpf.c@2.0-rc1", "cfs@6.1"]\n'
        'workload = "ping_pong"\nmachine = "laptop"\n'
        '[set]\n"cfs@6.1".latency_ns = "7ms"\n"mine@fast".slice_ns = 9\n'
    )
    monkeypatch.chdir("/")
    options = definition.read_options(tmp_path / "question.toml")
    found = {one.policy.label: one.policy for one in cells.expand(definition.build(options))}
    assert list(found) == ["mine@fast", "slow", "cfs@6.1"]
    assert found["mine@fast"].tunables == {"slice_ns": 9}
    assert found["slow"].tunables == {"slice_ns": 50_000_000}
    assert found["cfs@6.1"].tunables["latency_ns"] == 7_000_000


# ---- the command --------------------------------------------------------------------------------


def test_a_run_under_a_set_is_the_run_with_its_values(command):
    record = data(command("run", "cfs@3.6", *SCENARIO, "--json"))
    [policy] = chosen("cfs@3.6")
    spelt = [f"--set={name}={value}" for name, value in policy.set_values.items()]
    same = data(command("run", "cfs", *SCENARIO, *spelt, "--json"))
    assert record["policy"] == "cfs@3.6"
    assert record["result"]["digest"] == same["result"]["digest"]
    assert record["manifest"]["tunables"] == same["manifest"]["tunables"] == policy.tunables
    assert (
        record["result"]["digest"]
        != data(command("run", "cfs@2.6.24", *SCENARIO, "--json"))["result"]["digest"]
    )


def test_the_replay_of_a_run_names_its_set_and_what_was_set_on_top(command, mine):
    words = ("run", "./mine.bpf.c@fast", *SCENARIO, "--set", "mine@fast.slice_ns=7us")
    record = data(command(*words, "--json"))
    assert record["manifest"]["tunables"] == {"slice_ns": 7_000}
    replay = record["manifest"]["replay"]
    assert replay.startswith("schedlab run ./mine.bpf.c@fast --workload ping_pong ")
    assert replay.endswith(" --set slice_ns=7000")
    again = data(command(*replay.split()[1:], "--json"))
    assert again["result"]["digest"] == record["result"]["digest"]


def test_compare_has_a_column_for_each_set(command):
    words = ("compare", "cfs@2.6.31", "cfs@2.6.32", "new=cfs@6.1", *SCENARIO, "--repeat", "1")
    done = command(*words)
    assert done.returncode == 0, done.stderr
    for label in ("cfs@2.6.31", "cfs@2.6.32", "new"):
        assert f" {label} " in done.stdout.replace("\n", " \n")
    runs = data(command(*words, "--json"))["runs"]
    assert [run["policy"] for run in runs] == ["cfs@2.6.31", "cfs@2.6.32", "new"]
    # The name alone means 6.1, whose run is in the store already.
    done = command("compare", "cfs", *SCENARIO, "--repeat", "1")
    assert "0 runs made, 1 reused" in done.stderr


def test_list_policies_shows_every_set(command):
    listed = {row["name"]: row["sets"] for row in data(command("list", "policies", "--json"))}
    assert [found["name"] for found in listed["cfs"]] == [
        "cfs-devel", "2.6.24", "2.6.31", "2.6.32", "3.6", "6.1",
    ]  # fmt: skip
    assert listed["cfs_gavl"] == listed["cfs"]
    assert [found["name"] for found in listed["cfs_2007"]] == ["announced", "2.6.23-rc1", "2.6.23"]
    assert [found["name"] for found in listed["timering"]] == ["64-slots", "256-slots"]
    assert [found["name"] for found in listed["o1"]] == ["2.6.0", "2.6.22"]
    assert [found["name"] for found in listed["bfs"]] == ["304", "425"]
    assert [found["name"] for found in listed["eevdf"]] == ["6.6", "6.12"]
    assert listed["fifo"] == []
    text = command("list", "policies").stdout
    for name, sets in listed.items():
        for found in sets:
            assert found["source"] and found["tunables"]
            assert f"\n  {name}@{found['name']} " in text
            assert found["description"] in text


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("run", "cfs@2.6.33", *SCENARIO),
         ["unknown tunable set '2.6.33' of policy cfs", "did you mean 2.6.32", "valid: 2.6.24, "]),
        (("run", "cfs@", *SCENARIO), ["unknown tunable set '' of policy cfs", "valid: 2.6.24, "]),
        (("run", "cfs_gavl@6.2", *SCENARIO), ["'6.2' of policy cfs_gavl", "did you mean 6.1"]),
        (("run", "fifo@1", *SCENARIO), ["fifo has no tunable sets", "hint: write fifo\n"]),
        (("run", "rfs@6.1", *SCENARIO), ["no rfs@6.1", "hint: write rfs; there is cfs@6.1"]),
        (("run", "cfx@2.6.32", *SCENARIO), ["unknown policy 'cfx'", "did you mean cfs"]),
        (("run", "./no.bpf.c@x", *SCENARIO), ["policy file './no.bpf.c' does not exist"]),
        (("run", "cfs@kernel", *SCENARIO), ["is a real kernel's own scheduler, which is not sim"]),
        (("run", "cfs@kernels", *SCENARIO), ["unknown tunable set 'kernels' of policy cfs"]),
        (("compare", "cfs@2.6.31", "cfs@2.6.3", *SCENARIO),
         ["set '2.6.3'", "did you mean 2.6.32 or 2.6.31"]),
        (("run", "cfs@3.6", *SCENARIO, "--set", "cfs.latency_ns=1"),
         ["unknown policy 'cfs' in --set", "valid: cfs@3.6"]),
        (("agree", "cfs@2.6.33"), ["unknown tunable set '2.6.33' of policy cfs"]),
        (("agree", "eevdf@kernel:6.12"), ["'eevdf@kernel:6.12' is a real kernel's own scheduler"]),
    ],
)  # fmt: skip
def test_a_set_that_is_not_there_is_refused_with_those_that_are(command, words, parts):
    message = refused(command(*words))
    for part in parts:
        assert part in message


def test_a_file_of_sets_that_is_wrong_is_refused_with_its_place(command, mine):
    sets = mine.with_name("mine.sets.toml")
    sets.write_text(SETS.replace("slice_ns", "slice_us", 1))
    message = refused(command("run", "./mine.bpf.c", *SCENARIO))
    assert f"{sets}: set fast: policy mine has no tunable slice_us" in message
    assert "did you mean slice_ns?" in message


def test_a_policy_may_have_the_sets_of_another_one_beside_it(command, mine):
    twin = mine.with_name("twin.bpf.c")
    twin.write_text(mine.read_text())
    twin.with_name("twin.sets.toml").write_text('same_as = "mine"\n')
    record = data(command("run", "./twin.bpf.c@fast", *SCENARIO, "--json"))
    assert record["manifest"]["tunables"] == {"slice_ns": 250_000}
    mine.with_name("mine.sets.toml").unlink()
    message = refused(command("run", "./twin.bpf.c@fast", *SCENARIO))
    assert 'twin.sets.toml: same_as = "mine", and there is no mine.sets.toml beside it' in message


# ---- real kernels -------------------------------------------------------------------------------


def test_a_kernel_is_told_the_values_of_a_set_and_what_was_set_on_top(monkeypatch):
    told = {}
    monkeypatch.setattr(
        vm, "run_on_kernel", lambda cell, tell, **_: (told.update(cell.policy.changed), "")
    )
    asked = {"policies": ["cfs@2.6.32"], "workload": "ping_pong", "machine": ["laptop"],
             "set": {"": {"latency_ns": "6ms"}}}  # fmt: skip
    [cell] = cells.expand(definition.build(asked))
    assert vm.measure_cell(cell, is_alone=True).fault is None
    assert told == {**cell.policy.set_values, "latency_ns": 6_000_000}
    assert told["min_granularity_ns"] == 1_000_000


def test_load_passes_the_values_of_a_set(monkeypatch, mine):
    name, built, values = loading.object_of(f"{mine}@fast")
    assert (name, values) == ("mine@fast", {"slice_ns": 250_000})
    assert built.read_bytes()[:4] == b"\x7fELF"
    assert loading.object_of("fifo")[2] == {}
    assert loading.object_of("cfs") == loading.object_of("cfs@6.1")
    with pytest.raises(UnknownName, match="unknown tunable set 'slow' of policy mine"):
        loading.object_of(f"{mine}@slow")
    with pytest.raises(SchedlabError, match="is a real kernel's own scheduler"):
        loading.object_of("cfs@kernel")


def test_load_refuses_a_set_of_an_object(tmp_path):
    built = tmp_path / "mine.bpf.o"
    built.write_bytes(b"")
    with pytest.raises(SchedlabError, match="is a BPF object, which has no tunable sets"):
        loading.object_of(f"{built}@fast")
    built = built.rename(tmp_path / "mine@2.o")
    assert loading.object_of(str(built)) == ("mine@2", built, {})


def test_agree_simulates_and_plays_with_the_values_of_a_set(monkeypatch, mine):
    told = []
    monkeypatch.setattr(
        referee, "simulated", lambda policy, path, tunables: told.append(tunables) or {}
    )
    monkeypatch.setattr(
        referee, "played", lambda source, paths, kernel, tunables: told.append(tunables) or []
    )
    # No kernel is booted, and none need be there.
    monkeypatch.setattr(referee.platform, "find_kernel", lambda _name: None)
    monkeypatch.setattr(referee.platform, "refuse_kernel_without_sched_ext", lambda *_: None)
    scenario = next(iter(catalogue.names(referee.SCENARIOS).values()))
    with pytest.raises(ValueError, match="shorter"):  # nothing was played
        list(referee.judge(mine, [scenario], set_name="fast"))
    assert told == [{"slice_ns": 250_000}] * 2


def test_agree_simulates_under_the_values_that_it_is_given():
    policy = catalogue.load_policy(catalogue.names(catalogue.POLICIES)["round_robin"])
    path = catalogue.find(referee.SCENARIOS, "two_hogs")
    usual = referee.simulated(policy, path, {})
    long = referee.simulated(policy, path, {"slice_ns": 20_000_000})
    assert len(long["timeline"]) < len(usual["timeline"])


@pytest.mark.parametrize(("settings", "value"), [([], "250000"), (["slice_ns=7us"], "7000")])
def test_load_tells_the_guest_of_a_set_and_of_what_was_set_on_top(
    monkeypatch, mine, settings, value
):
    def started(command):
        raise SchedlabError(" ".join(command[-2:]))

    monkeypatch.setattr(load, "require_kernel", lambda **_: None)
    monkeypatch.setattr(load.programs, "GUEST", SimpleNamespace(find=lambda: "schedlab-guest"))
    monkeypatch.setattr(load, "_started", started)
    with pytest.raises(SchedlabError, match=f"^--set slice_ns={value}$"):
        load.load_verb.callback(f"{mine}@fast", settings, False)
