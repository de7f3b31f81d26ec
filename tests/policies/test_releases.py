"""Goal: a simulated kernel that is to be like one of a release has what that release has, and lacks
what it lacks. Method: a policy asks for every call that is known here, and ends where the types
that the real kernel tells of itself say otherwise; others need what one release has.
"""

import re
import struct
from pathlib import Path

import cached_kernels
import pytest
from elftools.elf.elffile import ELFFile
from schedlab import catalogue
from schedlab.experiment import definition
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

ROOT = Path(__file__).resolve().parents[2]
# Bytes behind each type of BTF, and behind each of its members. Source: Linux,
# include/uapi/linux/btf.h.
BEHIND = {1: 4, 3: 12, 14: 4, 17: 4}
BEHIND_MEMBER = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
ENUM, FUNC, DECL_TAG, ENUM64 = 6, 12, 17, 19


def types_of(kernel):
    """The calls that a kernel offers to policies, and its enumerators that begin with SCX_."""
    with (catalogue.kernels_directory() / kernel / "vmlinux").open("rb") as file:
        data = ELFFile(file).get_section_by_name(".BTF").data()
    header, at, length, names = struct.unpack_from("<IIII", data, 4)

    def name(offset):
        begin = header + names + offset
        return data[begin : data.index(b"\0", begin)].decode()

    place, number, functions, tagged, values = header + at, 1, {}, [], {}
    while place < header + at + length:
        name_at, info, of = struct.unpack_from("<III", data, place)
        kind, count, place = info >> 24 & 31, info & 0xFFFF, place + 12
        if kind == FUNC:
            functions[number] = name(name_at)
        elif kind == DECL_TAG and name(name_at) == "bpf_kfunc":
            tagged.append(of)
        elif kind in (ENUM, ENUM64):
            form = "<II" if kind == ENUM else "<IQ"
            for one in range(count):
                behind = place + one * BEHIND_MEMBER[kind]
                member, value = struct.unpack_from(form, data, behind)
                if (enumerator := name(member)).startswith("SCX_"):
                    values[enumerator] = value
        place += BEHIND.get(kind, BEHIND_MEMBER.get(kind, 0) * count)
        number += 1
    return {functions[one] for one in tagged}, values


def error_of(policy, release):
    """What a run ends with, or why there is none; empty if all is well."""
    asked = {"policies": [str(policy)], "workload": "hackbench", "machine": ["osdl-4"]}
    asked |= {"with": {"groups": "1", "loops": "2"}, "kernel": release}
    [cell] = expand(definition.build(asked))
    outcome = simulate_cell(cell)
    return outcome.fault or (outcome.result["error"] or {}).get("message", "")


def asking(calls, values, version):
    """A policy that ends by the name of the first thing that is not as it is said to be."""
    declared, asked = [], []
    for call, is_there in calls.items():
        declared.append(f"extern void {call}___asked(void) __ksym __weak;")
        asked.append(f'EXPECT_THAT(!!{call}___asked == {int(is_there)}, "{call}");')
    for enumerator, value in values.items():
        asked.append(f'EXPECT_THAT({enumerator} == {value}ULL, "{enumerator}");')
    asked.append(f'EXPECT_THAT(LINUX_KERNEL_VERSION == {version}, "the version");')
    lines = "\n\t".join(asked)
    return f"""
#include <scx/common.bpf.h>
#define EXPECT_THAT(holds, what) if (!(holds)) {{ scx_bpf_error(what); return -EINVAL; }}
char _license[] SEC("license") = "GPL";
extern int LINUX_KERNEL_VERSION __kconfig;
{chr(10).join(declared)}
s32 BPF_STRUCT_OPS_SLEEPABLE(asking_init)
{{
	{lines}
	return 0;
}}
SCX_OPS_DEFINE(asking_ops, .init = (void *)asking_init, .name = "asking");
"""


@pytest.mark.parametrize("release", ["6.18", "7.3"])
def test_a_release_has_the_calls_and_the_numbers_of_its_real_kernel(release, tmp_path):
    page = (ROOT / "docs/reference/interface.md").read_text()
    [listed] = re.findall(r"^## Calls\n(.*?)\nLeft out", page, re.MULTILINE | re.DOTALL)
    there, values = types_of(cached_kernels.named(release))
    others = [types_of(cached_kernels.named(one))[0] for one in ("6.18", "7.3")]
    # Names that no kernel here has as a call are BPF's helpers, which all have, but for those that
    # went before Linux 6.18.
    known = set().union(*others)
    calls = {
        call: call in there
        for call in re.findall(r"`(\w+)`", listed)
        if call in known or call.startswith("scx_bpf_")
    }
    assert len(calls) > 100
    major, minor = map(int, release.split("."))
    numbers = {name: values[name] for name in ("SCX_ENQ_HEAD", "SCX_ENQ_CPU_SELECTED")}
    policy = tmp_path / "asking.bpf.c"
    policy.write_text(asking(calls, numbers, major << 16 | minor << 8))
    assert error_of(policy, release) == ""
    # Another release does not have the same, so the policy can tell, by a call that it lacks.
    assert re.search(r"scx_bpf_error \(.*?(scx_bpf_|bpf_)\w+\)", error_of(policy, "6.12"))


POLICY = """
#include <scx/cgroups.bpf.h>
char _license[] SEC("license") = "GPL";
{before}
SCX_OPS_DEFINE(some_ops, {what}, .name = "some");
"""
SELECTS = """
void BPF_STRUCT_OPS(some_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool is_idle;
	scx_bpf_select_cpu_dfl(p, 0, 0, &is_idle);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}"""
BANDWIDTH = """
void BPF_STRUCT_OPS(some_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
}"""
PEEKS = """
extern struct task_struct *scx_bpf_dsq_peek___real(u64 dsq_id) __ksym;
void BPF_STRUCT_OPS(some_dispatch, s32 cpu, struct task_struct *prev)
{
	if (cpu < 0)
		scx_bpf_dsq_peek___real(7);
}"""


@pytest.mark.parametrize(
    ("before", "what", "refusals"),
    [
        ("", ".flags = 1 << 8", {"6.12": "flag SCX_OPS_TID_TO_TASK", "6.18": "flag"}),
        ("", ".flags = 1 << 5", {"6.12": "flag SCX_OPS_ALLOW_QUEUED_WAKEUP"}),
        ("", ".flags = 1 << 16", {"7.3": "flag SCX_OPS_HAS_CGROUP_WEIGHT"}),
        (BANDWIDTH, ".cgroup_set_bandwidth = (void *)some_bandwidth", {"6.12": "cgroup_set_band"}),
        (SELECTS, ".enqueue = (void *)some_enqueue", {"6.12": "called in enqueue"}),
        (PEEKS, ".dispatch = (void *)some_dispatch", {"6.12": "dsq_peek", "6.18": "dsq_peek"}),
    ],
)
def test_a_release_refuses_what_only_others_have(before, what, refusals, tmp_path):
    policy = tmp_path / "some.bpf.c"
    policy.write_text(POLICY.format(before=before, what=what))
    for release in (None, "6.12", "6.18", "7.3"):
        said = error_of(policy, release)
        assert refusals[release] in said if release in refusals else said == ""
