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
STRUCT, ENUM, FUNC, DECL_TAG, ENUM64 = 4, 6, 12, 17, 19
# What lies in a policy's own memory, and what a kernel gives it, with fields that some lack.
OWN = ("sched_ext_ops", "bpf_iter_scx_dsq", "scx_sub_attach_args", "scx_cpu_release_args")
GIVEN = {
    "sched_ext_entity": ["slice", "tid", "selected_cpu"],
    "scx_cgroup_init_args": ["weight", "bw_period_us", "sched_idle"],
    "scx_enable_args": ["cmask_arena_addr"],
    "task_struct": ["pid", "migration_disabled"],
}


def types_of(kernel):
    """The calls that a kernel offers to policies; its enumerators that begin with SCX_, by their
    enumerations; and members of its structures, by the structures."""
    with (catalogue.kernels_directory() / kernel / "vmlinux").open("rb") as file:
        data = ELFFile(file).get_section_by_name(".BTF").data()
    header, at, length, names = struct.unpack_from("<IIII", data, 4)

    def name(offset):
        begin = header + names + offset
        return data[begin : data.index(b"\0", begin)].decode()

    place, number, functions, tagged, values, members = header + at, 1, {}, [], {}, {}
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
                    values.setdefault(name(name_at), {})[enumerator] = value
        elif kind == STRUCT and name(name_at) in (*OWN, *GIVEN):
            at_members = range(place, place + count * BEHIND_MEMBER[kind], BEHIND_MEMBER[kind])
            names_at = (struct.unpack_from("<I", data, one)[0] for one in at_members)
            members[name(name_at)] = {name(one) for one in names_at}
        place += BEHIND.get(kind, BEHIND_MEMBER.get(kind, 0) * count)
        number += 1
    return {functions[one] for one in tagged}, values, members


def error_of(policy, release):
    """What a run ends with, or why there is none; empty if all is well."""
    asked = {"policies": [str(policy)], "workload": "hackbench", "machine": ["osdl-4"]}
    asked |= {"with": {"groups": "1", "loops": "2"}, "kernel": release}
    [cell] = expand(definition.build(asked))
    outcome = simulate_cell(cell)
    return outcome.fault or (outcome.result["error"] or {}).get("message", "")


def asking(calls, values, version, declared=(), asked=()):
    """A policy that ends by the name of the first thing that is not as it is said to be."""
    declared, asked = list(declared), list(asked)
    for call, is_there in calls.items():
        declared.append(f"extern void {call}___asked(void) __ksym __weak;")
        asked.append(f'EXPECT_THAT(!!{call}___asked == {int(is_there)}, "{call}");')
    for enumerator, value in values.items():
        asked.append(f'EXPECT_THAT({enumerator} == {value}ULL, "{enumerator}");')
    if version:
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
    [listed] = re.findall(r"^## Calls\n\n.*?\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    there, values, _ = types_of(cached_kernels.named(release))
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
    flags = values["scx_enq_flags"]
    numbers = {name: flags[name] for name in ("SCX_ENQ_HEAD", "SCX_ENQ_CPU_SELECTED")}
    policy = tmp_path / "asking.bpf.c"
    policy.write_text(asking(calls, numbers, major << 16 | minor << 8))
    assert error_of(policy, release) == ""
    # Another release does not have the same, so the policy can tell, by a call that it lacks.
    assert re.search(r"scx_bpf_error \(.*?(scx_bpf_|bpf_)\w+\)", error_of(policy, "6.12"))


# Source: libbpf, bpf_core_read.h.
BUILTINS = (
    "#define ENUMERATOR_EXISTS(of, name) __builtin_preserve_enum_value(*(of *)name, 0)",
    "#define TYPE_EXISTS(of) __builtin_preserve_type_info(*(of *)0, 0)",
    "#define FIELD_EXISTS(of, name) __builtin_preserve_field_info(((of *)0)->name, 2)",
)


def asking_types(ours, others):
    """The same of what programs ask by `bpf_core_*`, of types as any kernel has them."""
    (_, values, members), declared, asked = ours, [*BUILTINS], []
    for of in sorted({one for _, known, _ in others for one in known}):
        names = sorted({name for _, known, _ in others for name in known.get(of, ())})
        listed = ", ".join(f"{name}___{of} = {number}" for number, name in enumerate(names))
        declared.append(f"enum {of}___asked {{ {listed} }};")
        for name in names:
            number = values.get(of, {}).get(name)
            asked.append(
                f"EXPECT_THAT(ENUMERATOR_EXISTS(enum {of}___asked, {name}___{of})"
                f' == {int(number is not None)}, "{name}");'
            )
    for of in (*OWN, *GIVEN):
        known = {name for _, _, known in others for name in known.get(of, ()) if name}
        names = GIVEN.get(of, sorted(known))
        fields = " ".join(f"{'u16' if 'migr' in name else 'u64'} {name};" for name in names)
        declared.append(f"struct {of}___asked {{ {fields} }};")
        is_there = int(of in members)
        asked.append(f'EXPECT_THAT(TYPE_EXISTS(struct {of}___asked) == {is_there}, "{of}");')
        for name in names:
            asked.append(
                f"EXPECT_THAT(FIELD_EXISTS(struct {of}___asked, {name})"
                f' == {int(name in members.get(of, ()))}, "{of}.{name}");'
            )
    return asking({}, {}, 0, declared, asked)


@pytest.mark.parametrize("release", ["6.18", "7.3"])
def test_a_release_has_the_types_of_its_real_kernel(release, tmp_path):
    kernels = {one: types_of(cached_kernels.named(one)) for one in ("6.18", "7.3")}
    policy = tmp_path / "asking.bpf.c"
    text = asking_types(kernels[release], kernels.values())
    assert text.count("EXPECT_THAT") > 200
    policy.write_text(text)
    assert error_of(policy, release) == ""
    # Another release does not have the same.
    assert re.search(r"scx_bpf_error \(.*?\w+\)", error_of(policy, "6.12"))


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
