"""Goal: `schedlab check` tells good policies from bad ones, and what it finds can be seen again.

Method: run the real command on shipped policies and on copies of round_robin that do wrong, and run
the commands that it prints.
"""

import json
import os
import shlex
import shutil
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from running import PATIENCE_S, begin, wait_until_at_work
from schedlab.experiment import conformance_table
from schedlab.experiment.conformance import VERIFIER

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--seeds", "60", "--orders", "100")
QUEUED = "	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);\n"
# Nice tasks that wake up are lost; a use of NULL is of the same rare kind.
LOST = "	if (p->static_prio > 130 && (enq_flags & SCX_ENQ_WAKEUP))\n		return;\n"
LOOP = "	for (;;)\n		;\n"
CRASH = "	if (p->static_prio > 136)\n		*(volatile int *)0 = 1;\n"


@pytest.fixture
def spoilt(tmp_path):
    """Writes a copy of round_robin with a line in its `enqueue`; gives its path."""

    def write(name, line):
        text = (ROOT / "policies" / "round_robin.bpf.c").read_text()
        assert text.count(QUEUED) == 1
        (tmp_path / f"{name}.bpf.c").write_text(text.replace(QUEUED, line + QUEUED))
        return f"./{name}.bpf.c"

    return write


def commands(said, kind):
    """What follows `again: schedlab` or `replay: schedlab`, as words."""
    lines = [line for line in said.splitlines() if line.startswith(f"{kind}: schedlab ")]
    return [shlex.split(line)[2:] for line in lines]


def test_a_good_policy_keeps_what_it_promises(command):
    done = command("check", "round_robin", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "VIOLATED" not in done.stdout
    assert "60 random scenarios, 0 failed" in done.stdout
    assert "not promised" in done.stdout


def test_json_has_every_row_and_every_small_scenario(command):
    done = command("check", "fifo", *QUICK, "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["random"]["tried"] == 60
    assert found["violations"] == []
    assert {row["verdict"] for row in found["rows"]} == {"holds", "not_promised"}
    # fifo promises no end of a wait, and has none where tasks compute for ever.
    crowd = {row["property"]: row for row in found["rows"] if row["check"] == "crowd"}
    assert crowd["wait_ms_max"]["measured"] > 30_000
    assert crowd["sound"]["verdict"] == "not_promised"
    assert [scope["is_exhaustive"] for scope in found["small"]].count(True) >= 2


def test_a_lost_task_is_found_made_small_and_seen_again(command, spoilt, tmp_path):
    policy = spoilt("loser", LOST)
    done = command("check", policy, *QUICK)
    assert done.returncode == 1
    assert "the policy took it in `enqueue`" in done.stderr
    assert "made smaller: 2 tasks on 1 CPU," in done.stderr
    assert (tmp_path / "schedlab-check").is_dir()
    told = "the replays read the machines and workloads in schedlab-check, which nothing else needs"
    assert done.stderr.splitlines()[-1] == told
    for words in commands(done.stderr, "replay"):
        again = command(*words)
        assert again.returncode == 1
        assert "runnable task stall" in again.stderr
    [words] = [words for words in commands(done.stderr, "again") if "random" in words]
    again = command(*words)
    assert again.returncode == 1
    assert "1 random scenario, 1 failed" in again.stdout


NULL = "round_robin_enqueue: it writes 4 bytes at 0x0, next to NULL"


def test_a_policy_that_uses_null_is_told_with_the_scenario(command, spoilt):
    done = command("check", spoilt("crasher", CRASH), "--only", "random", "--seeds", "100")
    assert done.returncode == 1
    assert f"crasher.bpf.c:42: {NULL}" in done.stderr
    assert done.stderr.count("violated:") == 1, "what is the same is told once"
    assert "made smaller: 2 tasks on 1 CPU," in done.stderr
    [words] = commands(done.stderr, "replay")
    again = command(*words)
    assert (again.returncode, NULL in again.stderr) == (1, True)


def test_what_goes_wrong_in_every_scenario_is_told_once_with_how_often(command, spoilt):
    scenarios = ("--only", "crowd", "--only", "shares", "--only", "extreme")
    done = command("check", spoilt("crasher", "	*(volatile int *)0 = 1;\n"), *scenarios)
    assert done.returncode == 1
    assert done.stderr.count("violated:") == 1
    assert NULL in done.stderr
    assert "the same in: shares, extreme; 3 times in all" in done.stderr


def violation(check, what, hint=None):
    """As `check` tells one, with nothing to type."""
    return {"check": check, "what": what, "hint": hint, "seed": None, "again": "", "replay": None}


def test_what_a_run_and_a_verifier_say_of_one_mistake_is_told_once():
    null, loop = "compare it with NULL", "every loop ends"
    found = [
        violation(VERIFIER, "Linux 7.3: the verifier refused mine_enqueue: R0 may be NULL", null),
        violation("crowd", "mine.bpf.c:9: mine_enqueue: it reads 8 bytes at 0x0", null),
        violation("crowd", "mine.bpf.c:3: mine_dispatch: it reads 8 bytes at 0x0", null),
        violation("idle", "mine.bpf.c:8: mine_enqueue: it has not returned", loop),
        violation("a", "mine.bpf.c:5: mine_enqueue: non-existent DSQ 0x1 for x[3]"),
        violation("b", "mine.bpf.c:6: mine_dispatch: invalid DSQ ID 0x0000000000000001"),
        violation("c", "mine.bpf.c:6: mine_dispatch: invalid DSQ ID 0x0000000000000002"),
    ]
    lines = list(conformance_table.violation_lines(None, found))
    told = [line.removeprefix("\nviolated: ") for line in lines if "violated: " in line]
    # The run's words come first: they have a scenario.
    assert [line.split(": ")[0] for line in told] == ["crowd", "crowd", "idle", "a", "c"]
    assert "the same in: verifier; 2 times in all" in lines
    assert lines.count(f"hint: {null}") == 2


def test_a_division_by_zero_is_found_though_a_kernel_goes_on(command, spoilt):
    divide = "	p->scx.dsq_vtime = enq_flags / (u32)(p->static_prio - 120);\n"
    done = command("check", spoilt("divider", divide), "--only", "crowd", "--quiet")
    assert done.returncode == 1
    assert "divider.bpf.c:41: round_robin_enqueue: it divides by 0" in done.stderr
    assert "\nhint: compare the divisor with 0 before" in done.stderr


def test_who_does_not_begin_in_the_simulator_is_told_how_to_ask_a_kernel(command, tmp_path):
    text = (ROOT / "policies" / "fifo.bpf.c").read_text()
    rare = 'struct { __uint(type, 30); __uint(max_entries, 1); } rare SEC(".maps");\n'
    use = "	bpf_map_delete_elem(&rare, &enq_flags);\n	scx_bpf_dsq_insert("
    before, _, after = text.rpartition("	scx_bpf_dsq_insert(")
    head, include, rest = before.partition("#include <scx/common.bpf.h>\n")
    (tmp_path / "rare.bpf.c").write_text(head + include + rare + rest + use + after)
    done = command("check", "./rare.bpf.c", "--only", "crowd", "--quiet")
    assert done.returncode == 2
    assert "policy rare does not begin: map rare has type" in done.stderr
    assert "`schedlab check ./rare.bpf.c --only verifier` asks a kernel" in done.stderr


def test_a_policy_that_loops_is_told_with_its_line_and_not_tried_for_long(command, spoilt):
    done = command("check", spoilt("looper", LOOP), "--jobs", "1", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    names = [violation["check"] for violation in found["violations"]]
    assert names == ["crowd", "shares", "shares_smp"]
    assert all("looper.bpf.c:41: round_robin_enqueue: it has not" in v["what"]
               for v in found["violations"])  # fmt: skip
    assert "extreme" in found["untried"] and "small_turns" in found["untried"]
    assert found["random"]["tried"] == 0


def test_a_loop_in_one_random_scenario_is_found_among_many(command, spoilt):
    policy = spoilt("looper", "	while (p->static_prio > 136)\n		;\n")
    done = command("check", policy, "--only", "random", "--seeds", "50", "--quiet")
    assert done.returncode == 1
    [words] = commands(done.stderr, "again")
    assert command(*words).returncode == 1, "it is this scenario"
    [*_, seed] = words
    if int(seed) > 1:
        before = ("--only", "random", "--seeds", int(seed) - 1)
        assert command("check", policy, *before).returncode == 0, "and no scenario before it"


ENDLESS = """
struct pacer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pacer);
} pacers SEC(".maps");

static int again(void *map, int *key, struct pacer *pacer)
{
	bpf_timer_start(&pacer->timer, 1, 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(endless_init)
{
	u32 key = 0;
	struct pacer *pacer = bpf_map_lookup_elem(&pacers, &key);

	if (!pacer)
		return -EINVAL;
	bpf_timer_init(&pacer->timer, &pacers, 1);
	bpf_timer_set_callback(&pacer->timer, again);
	return bpf_timer_start(&pacer->timer, 1, 0);
}

SCX_OPS_DEFINE(endless_ops, .init = (void *)endless_init, .name = "endless");
"""


def test_a_policy_that_always_does_something_is_ended(command, tmp_path):
    head = '#include <scx/common.bpf.h>\nchar _license[] SEC("license") = "GPL";\n'
    (tmp_path / "endless.bpf.c").write_text(head + ENDLESS)
    only = ("--only", "shares", "--only", "random", "--seeds", "200", "--jobs", "1")
    done = command("check", "./endless.bpf.c", *only)
    assert done.returncode == 1
    assert "violated: shares: more than 10000000 events" in done.stderr
    assert "left out" in done.stderr


def test_a_policy_that_refuses_to_begin_is_one_error(command):
    done = command("check", "timering", "--set", "slots=63", "--seeds", "100")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: policy timering does not begin: ")
    assert "slots is 63" in done.stderr and done.stderr.count("slots") == 1


def test_one_that_lacks_something_is_told_so_once_with_what_can_be_done(command, spoilt):
    policy = spoilt("brews", "	extern void scx_bpf_brew(void) __ksym; scx_bpf_brew();\n")
    done = command("check", policy, "--seeds", "10")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: policy brews does not begin: brews.bpf.c:41: round_robin")
    assert (
        "hint: a real kernel may have what the simulator lacks: `schedlab run` has" in done.stderr
    )
    assert done.stderr.count("hint: ") == 1


WRONG_QUEUE = "	if (p->pid > 2) { scx_bpf_dsq_insert(p, 77, 1, 0); return; }\n"


def test_one_mistake_is_told_once_whatever_task_it_meets(command, spoilt):
    done = command("check", spoilt("astray", WRONG_QUEUE), *QUICK)
    assert done.returncode == 1
    assert done.stderr.count("violated:") == 1, done.stderr
    assert "non-existent DSQ 0x4d for " in done.stderr


def test_a_promise_is_asked_and_without_one_the_figure_is_shown(command, spoilt, tmp_path):
    policy = spoilt("mine", "")
    only = ("--only", "crowd")
    done = command("check", policy, *only)
    assert (done.returncode, done.stderr) == (0, "")
    promises = tmp_path / "mine.promises.toml"
    promises.write_text("[crowd]\nwait_ms_max = 10\nshare_error_percent_max = 1\n")
    done = command("check", policy, *only)
    assert done.returncode == 1
    assert "violated: crowd: longest wait: 76.000 ms, at most 10 ms" in done.stderr
    # What is promised of the defaults says nothing of other values.
    assert command("check", policy, *only, "--set", "slice_ns=5ms").returncode == 0


def test_a_promise_is_asked_even_where_another_is_not(command, tmp_path):
    shutil.copy(ROOT / "policies" / "fifo.bpf.c", tmp_path)
    promises = "[crowd]\nwait_ms_max = false\nshare_error_percent_max = 5\n"
    (tmp_path / "fifo.promises.toml").write_text(promises)
    done = command("check", "./fifo.bpf.c", "--only", "crowd")
    assert done.returncode == 1
    assert "violated: crowd: largest error of a share of CPU time: 1,900.000 %" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[crowds]\nwait_ms_max = 1", "unknown section [crowds]\nhint: did you mean [crowd]?"),
        ("[crowd]\nwaits = 1", "valid here: wait_ms_max, share_error_percent_max"),
        ("[crowd]\nwait_ms_max = -1", "write a number of 0 or more"),
    ],
)
def test_a_wrong_file_of_promises_is_refused(command, spoilt, tmp_path, text, said):
    policy = spoilt("mine", "")
    (tmp_path / "mine.promises.toml").write_text(text)
    done = command("check", policy)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mine.promises.toml has" in done.stderr
    assert said in done.stderr


def test_an_unknown_scenario_or_tunable_is_refused(command):
    done = command("check", "fifo", "--only", "crowds")
    assert done.returncode == 2
    assert "did you mean crowd" in done.stderr
    done = command("check", "round_robin", "--set", "slices=3")
    assert done.returncode == 2
    assert "did you mean slice_ns" in done.stderr


def test_ctrl_c_ends_it_at_once(tmp_path, environment):
    process = begin(environment, tmp_path, "check", "eevdf", "--seeds", "1000000")
    wait_until_at_work(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "interrupted")


def test_every_shipped_policy_says_what_it_promises():
    policies = ROOT / "policies"
    names = [path.name.removesuffix(".bpf.c") for path in policies.glob("*.bpf.c")]
    missing = [name for name in names if not (policies / f"{name}.promises.toml").is_file()]
    assert not missing, "write what they promise: docs/guides/check.md"


def test_promises_of_another_directory_are_not_those_of_a_copy(command, tmp_path):
    shutil.copy(ROOT / "policies" / "fifo.bpf.c", tmp_path)
    done = command("check", "./fifo.bpf.c", "--only", "crowd")
    assert done.returncode == 1, "a policy that says nothing promises that waits end"
    assert "at most 30,000 ms" in done.stderr or "runnable task stall" in done.stderr


def test_another_file_holds_a_policy_to_other_promises_whatever_its_tunables(command, tmp_path):
    (tmp_path / "mine.toml").write_text("[light]\nwait_ms_max = 0\n")
    words = ("check", "fifo", "--promises", "mine.toml", "--only", "light", "--quiet")
    done = command(*words)
    assert done.returncode == 1
    [again] = commands(done.stderr, "again")
    assert again == ["check", "fifo", "--promises", "mine.toml", "--only", "light"]
    assert command(*again).returncode == 1
    slices = ("check", "round_robin", "--set", "slice_ns=1ms", "--only", "light", "--quiet")
    assert command(*slices).returncode == 0
    assert command(*slices, "--promises", "mine.toml").returncode == 1
    for path, wrong in (
        ("none.toml", "does not exist"),
        ("/dev/zero", "is a device"),
    ):
        refused = command("check", "fifo", "--promises", path, "--only", "light")
        assert refused.returncode == 2
        assert f"error: file of promises '{path}' {wrong}" in refused.stderr


def test_what_is_to_be_typed_again_says_what_was_asked(command, tmp_path):
    """A violation that another seed, or a greater number of orders, has shown comes back."""
    (tmp_path / "strict.bpf.c").write_text((ROOT / "policies" / "fifo.bpf.c").read_text())
    (tmp_path / "strict.promises.toml").write_text("[light]\nwait_ms_max = 0\n")
    done = command("check", "./strict.bpf.c", "--only", "light", "--seed", "7", "--quiet")
    assert done.returncode == 1, done.stderr
    [again], [replay] = commands(done.stderr, "again"), commands(done.stderr, "replay")
    assert again == ["check", "./strict.bpf.c", "--only", "light", "--seed", "7"]
    assert replay[-2:] == ["--seed", "7"]
    assert "strict: 1 violated; " in done.stdout


def test_a_check_of_nothing_is_refused(command):
    done = command("check", "fifo", "--only", "random", "--seeds", "0")
    assert done.returncode == 2
    assert "error: nothing to check" in done.stderr


def test_a_file_for_continuous_integration_tells_each_test(spoilt, command, tmp_path):
    policy = spoilt("lost", LOST)
    done = command("check", policy, *QUICK, "--only", "light", "--only", "random",
                   "--only", "small_turns", "--junit", "found.xml", "--quiet")  # fmt: skip
    assert done.returncode == 1
    whole = ElementTree.parse(tmp_path / "found.xml").getroot()
    [suite] = whole
    assert suite.get("name") == f"schedlab check {policy}"
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert whole.get("tests") == suite.get("tests") == str(len(cases))
    assert "light: ends, breaks no rule, keeps to CPUs" in cases
    assert not any("longest wait" in name for name in cases), "it is not promised"
    failed = {name: case.find("failure") for name, case in cases.items() if len(case)}
    assert suite.get("failures") == str(len(failed))
    failure = failed["random: random scenarios"]
    assert failure.get("message").startswith("runnable task stall")
    [again, *_] = commands(failure.text, "again")
    assert command(*again).returncode == 1, "as the text says"
    assert [case for case in cases if case.startswith("small_turns")]


def test_a_file_that_cannot_be_written_is_told_before_anything_is_tried(command):
    done = command("check", "fifo", "--junit", "nowhere/found.xml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: file nowhere/found.xml: there is no directory" in done.stderr
