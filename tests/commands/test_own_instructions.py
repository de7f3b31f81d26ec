"""Goal: `run` tells where a policy's own instructions go, and watches them if asked to.

Method: the real command; sums that must agree, and a policy that writes beyond an array.
"""

import json
import re
import shlex

SCENARIO = ("--workload", "counter", "--machine", "core2-t5600", "--with", "work=5ms")
BEYOND = """\
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
u64 one[1];
void BPF_STRUCT_OPS(beyond_enqueue, struct task_struct *p, u64 enq_flags)
{
	volatile u64 n = 1;

	one[n]++;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(beyond_ops, .enqueue = (void *)beyond_enqueue, .name = "beyond");
"""


def result_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]


def test_a_profile_says_where_the_policys_instructions_go(command):
    run = ("run", "cfs", *SCENARIO)
    plain, result = (
        result_of(command(*run, "--json")),
        result_of(command(*run, "--profile", "--json")),
    )
    profile = result.pop("profile")
    assert result == plain
    operations, lines = profile["operations"], profile["lines"]
    every = sum(one["instructions"] for one in operations)
    assert sum(line["instructions"] for line in lines) == every > 0
    told = command(*run, "--profile").stdout
    most = operations[0]
    assert re.search(
        rf"^{most['operation']} +{most['calls']:,} +{most['instructions']:,} ", told, re.M
    )
    place = re.escape(f"{lines[0]['file'].rpartition('/')[2]}:{lines[0]['line']}")
    assert re.search(rf"^ *{lines[0]['instructions']:,} .* %  {place} ", told, re.M)


def test_a_strict_run_ends_where_a_plain_one_goes_on(command, tmp_path):
    (tmp_path / "beyond.bpf.c").write_text(BEYOND)
    run = ("run", "./beyond.bpf.c", *SCENARIO)
    assert command(*run).returncode == 0
    done = command(*run, "--strict")
    assert done.returncode == 1
    assert "beyond.bpf.c:8: beyond_enqueue: it reads 8 bytes right behind the end of" in done.stderr
    assert "variable one, which has 8 bytes" in done.stderr
    # Its replay ends as it did.
    [replay] = re.findall("^replay: schedlab (.*)$", done.stderr, re.M)
    again = command(*shlex.split(replay))
    assert (again.returncode, again.stderr) == (1, done.stderr)
    for more in (("--profile",), ("--store", "s.db")):
        done = command(*run, "--strict", *more)
        assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "s.db").exists()
    done = command("run", "fifo", "--workload", "counter", "--on", "vm", "--profile")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2, "error: --profile is for simulations"
    )  # fmt: skip
