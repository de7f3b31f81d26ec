"""Goal: kernels are judged before they are booted, and what is said of them is true and helpful.

Method: the real command on images made by the compiler: each has what a kernel has (a banner, BTF,
an entry for QEMU) or lacks one of it. Fetching needs a mirror and is left to `make kernels`; how it
is interrupted is tried with an apt of our own that never ends.
"""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from running import PATIENCE_S, assert_it_goes, is_running, wait_for
from schedlab.kernel import obstacles, platform

KIND_POINTER, KIND_STRUCT, KIND_FUNC, KIND_PROTOTYPE = 2, 4, 12, 13
# What policies call, by the names of Linux 7.3.
CALLS = [
    "scx_bpf_create_dsq",
    "scx_bpf_dispatch_cancel",
    "scx_bpf_dsq_insert___v2",
    "__scx_bpf_dsq_insert_vtime",
    "scx_bpf_dsq_move_to_local___v2",
    "scx_bpf_dsq_move",
    "scx_bpf_dsq_move_vtime",
    "scx_bpf_dsq_move_set_slice",
    "scx_bpf_dsq_move_set_vtime",
    "scx_bpf_dsq_nr_queued",
    "scx_bpf_error_bstr",
    "scx_bpf_get_idle_cpumask",
    "scx_bpf_get_online_cpumask",
    "scx_bpf_put_cpumask",
    "scx_bpf_get_idle_smtmask",
    "scx_bpf_kick_cpu",
    "scx_bpf_nr_cpu_ids",
    "scx_bpf_pick_idle_cpu",
    "scx_bpf_put_idle_cpumask",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_cpu",
    "scx_bpf_test_and_clear_cpu_idle",
    "bpf_iter_scx_dsq_new",
    "bpf_iter_num_new",
    "bpf_cpumask_test_cpu",
    "bpf_task_from_pid",
    "bpf_rcu_read_lock",
]


def btf(functions, structures=("sched_ext_ops",), open_functions=()):
    """BTF that names these; the open ones take the argument that the verifier adds."""
    strings, types = b"\0", b""

    def add(name, kind, made_of=0, nr_members=0, more=()):
        nonlocal strings, types
        words = (len(strings), kind << 24 | nr_members, made_of, *more)
        types += struct.pack(f"<{len(words)}I", *words)
        strings += name.encode() + b"\0"

    # Types 1 to 3: the program that calls, a pointer to it, a function of that pointer.
    add("bpf_prog_aux", KIND_STRUCT)
    add("", KIND_POINTER, made_of=1)
    add("", KIND_PROTOTYPE, nr_members=1, more=(0, 2))
    for name in structures:
        add(name, KIND_STRUCT)
    for name in functions:
        add(name, KIND_FUNC)
    for name in open_functions:
        add(name, KIND_FUNC, made_of=3)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    return header + types + strings


@pytest.fixture
def make_image(tmp_path):
    """Makes an ELF file that looks like an uncompressed kernel to who does not boot it."""

    def make(release, btf_bytes, pvh=True):
        (tmp_path / "btf").write_bytes(btf_bytes)
        note = '.section .notes,"a"\n.long 4, 8, 18\n.asciz "Xen"\n.quad 0x1000000\n' if pvh else ""
        source = (
            f'.section .rodata\n.asciz "Linux version {release} (a test)"\n{note}'
            '.section .BTF,"a"\n.incbin "btf"\n.text\n.globl _start\n_start: ret\n'
        )
        (tmp_path / "image.s").write_text(source)
        command = ["cc", "-nostdlib", "-static", "-o", f"vmlinux-{release}", "image.s"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return tmp_path / f"vmlinux-{release}"

    return make


@pytest.fixture
def environment(environment, tmp_path):
    """A cache without kernels for each test."""
    return environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_sound_kernel_is_taken_in_under_its_release(command, make_image):
    image = make_image("7.3.1-x", btf([*CALLS, "virtcons_probe"]))
    added = command("kernels", "add", image, "--json")
    assert added.returncode == 0, added.stderr
    [record] = json.loads(added.stdout)
    assert (record["name"], record["sched_ext"], record["scheduler"]) == (
        "7.3.1-x",
        "sound",
        "eevdf",
    )
    image.unlink()
    [listed] = json.loads(command("kernels", "list", "--json").stdout)
    assert listed == record


def test_a_kernel_that_would_refuse_every_policy_is_named_before_it_is_booted(command, make_image):
    # The core's own tests do so for every call.
    for call in ("scx_bpf_create_dsq", "scx_bpf_kick_cpu"):
        others = [name for name in CALLS if name != call]
        image = make_image("7.1.13-x", btf(others, open_functions=[call]))
        added = command("kernels", "add", image, "--name", "mine", "--replace")
        assert added.returncode == 1
        assert f"no policy can be loaded into mine: its BTF lists {call} with" in added.stderr
        assert "broken" in added.stdout


def test_a_kernel_that_lacks_a_call_is_named_before_it_is_booted(command, make_image):
    added = command("kernels", "add", make_image("6.18.1-x", btf(CALLS[:-1])), "--name", "mine")
    assert added.returncode == 1
    assert f"its BTF does not list {CALLS[-1]}, which policies call" in added.stderr


@pytest.mark.parametrize(
    ("release", "functions", "structures", "scheduler"),
    [("6.1.5", [], [], "cfs"), ("6.12.1", [], ["task_struct"], "eevdf")],
)
def test_a_kernel_without_sched_ext_is_kept_for_its_own_scheduler(
    command, make_image, release, functions, structures, scheduler
):
    added = command("kernels", "add", make_image(release, btf(functions, structures)), "--json")
    [record] = json.loads(added.stdout)
    assert (record["scheduler"], record["sched_ext"]) == (scheduler, "absent")


def test_a_kernel_that_qemu_cannot_enter_is_refused(command, make_image):
    refused = command("kernels", "add", make_image("6.18.1", btf(CALLS), pvh=False))
    assert refused.returncode == 2
    assert "CONFIG_PVH" in refused.stderr
    assert "hint: give its vmlinuz" in refused.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", " is empty"),
        (b"#!/bin/sh\n", ": this is not a Linux kernel"),
        (bytes(100_000), ": this is not a Linux kernel"),
    ],
)
def test_what_is_no_kernel_is_refused_by_its_path(command, tmp_path, content, why):
    (tmp_path / "file").write_bytes(content)
    refused = command("kernels", "add", tmp_path / "file")
    assert refused.returncode == 2
    assert f"{tmp_path / 'file'}{why}" in refused.stderr


def test_a_name_that_would_leave_the_cache_is_refused(command, make_image):
    refused = command("kernels", "add", make_image("6.1.5", btf([])), "--name", "../up")
    assert refused.returncode == 2
    assert '"../up" cannot be a kernel\'s name' in refused.stderr


def test_another_kernel_of_the_same_name_stays_unless_it_is_to_be_replaced(command, make_image):
    def listed():
        kernels_there = json.loads(command("kernels", "list", "--json").stdout)
        return [kernel["release"] for kernel in kernels_there]

    first, second = (make_image(r, btf([], ["task_struct"])) for r in ("6.1.5", "6.1.6"))
    assert command("kernels", "add", first, "--name", "mine").returncode == 0
    assert command("kernels", "add", first, "--name", "mine").returncode == 0
    refused = command("kernels", "add", second, "--name", "mine")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        f"error: kernel mine is another one already: 6.1.5, from {first}"
    )
    assert "--replace" in refused.stderr.partition("hint:")[2]
    assert listed() == ["6.1.5"]
    assert command("kernels", "add", second, "--name", "mine", "--replace").returncode == 0
    assert listed() == ["6.1.6"]


def test_an_empty_cache_says_how_to_fill_it(command):
    listed = command("kernels", "list")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert "schedlab kernels fetch" in listed.stderr


def test_a_damaged_kernel_is_listed_as_such_and_keeps_no_other_away(
    command, make_image, environment
):
    for release in ("6.18.1", "6.19.1"):
        command("kernels", "add", make_image(release, btf([*CALLS, "virtcons_probe"])))
    place = Path(environment["XDG_CACHE_HOME"]) / "schedlab" / "kernels" / "6.19.1"
    (place / "kernel.json").write_text("{")
    listed = command("kernels", "list")
    assert listed.returncode == 1
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [
        ["6.18.1", "6.18.1"],
        ["6.19.1", "damaged"],
    ]
    assert "error: kernel 6.19.1 is damaged: kernel.json: EOF" in listed.stderr
    assert f"hint: remove {place} and fetch or add the kernel again" in listed.stderr
    [usable] = json.loads(command("kernels", "list", "--json").stdout)
    assert usable["name"] == "6.18.1"
    told = {finding["what"]: finding for finding in json.loads(command("doctor", "--json").stdout)}
    assert told["kernels"]["state"] == "ok"
    assert "damaged, see `schedlab kernels list`: 6.19.1" in told["kernels"]["found"]


def test_a_verb_that_is_misspelt_is_suggested(command):
    assert "did you mean fetch?" in command("kernels", "fetsch").stderr


def test_only_what_is_missing_is_fetched():
    wanted = ["6.1", "6.18", "newest"]
    old = {"name": "6.18", "release": "6.18.15+deb13", "sched_ext": "sound"}
    broken = {"name": "7.1", "release": "7.1.13", "sched_ext": {"broken": "why"}}
    new = {"name": "7.3", "release": "7.3.4+deb13", "sched_ext": "sound"}
    assert platform.missing(wanted, []) == wanted
    assert platform.missing(wanted, [old]) == ["6.1", "newest"]
    assert platform.missing(wanted, [old, broken]) == ["6.1", "newest"]
    assert platform.missing(wanted, [old, new]) == ["6.1"]
    candidate = {"name": "6.12-rc3", "release": "6.12-rc3", "sched_ext": "sound"}
    assert platform.missing(wanted, [candidate]) == wanted


@pytest.mark.parametrize("series", ["6", "newst", "6x.1", "../x"])
def test_a_series_that_cannot_be_is_refused(command, series):
    done = command("kernels", "fetch", series)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: kernels fetch: {series!r} is no series such as 6.12")


KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# Answers as apt does until it downloads, which takes for ever.
APT_GET = """#!/bin/sh
case "$*" in
*indextargets*) echo "Debian http://mirror.invalid/debian/" ;;
*update*) touch lists/mirror_Packages ;;
*download*) touch half-a-package.deb; echo $$ >"$PIDS"; sleep 1000 & echo $! >>"$PIDS"; wait ;;
esac
"""
APT_CACHE = "#!/bin/sh\necho linux-image-6.18.1-cloud-amd64\n"


@pytest.fixture
def endless_fetch(tmp_path, environment):
    """Starts a fetch whose download never ends; gives it, and what it started, once it waits."""
    if not (KEYRING.is_file() or KEYRING.with_suffix(".pgp").is_file()):
        pytest.skip("the keys of Debian's archive are not installed")
    for name, script in (("apt-get", APT_GET), ("apt-cache", APT_CACHE)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    pids = tmp_path / "pids"
    path = f"{tmp_path}:{environment['PATH']}"
    process = subprocess.Popen(
        [sys.executable, "-m", "schedlab", "kernels", "fetch", "6.18"],
        env=environment | {"PATH": path, "PIDS": str(pids)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: pids.is_file() and len(pids.read_text().split()) == 2)
    yield process, [int(pid) for pid in pids.read_text().split()]
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_fetch_ends_at_once_and_leaves_nothing(
    endless_fetch, environment, number, code
):
    process, started = endless_fetch
    # To us alone, as `kill` does: nobody else is told to end.
    os.kill(process.pid, number)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (code, "")
    assert stderr.splitlines()[-1] == "interrupted"
    assert "Traceback" not in stderr and "error" not in stderr
    assert list((Path(environment["XDG_CACHE_HOME"]) / "schedlab" / "kernels").iterdir()) == []
    wait_for(lambda: not any(map(is_running, started)), "the end of what it started")


def test_a_killed_fetch_takes_apt_with_it(endless_fetch):
    process, (apt, _) = endless_fetch
    process.kill()
    assert_it_goes(apt, "apt")


# ---- doctor -------------------------------------------------------------------------------------


def test_doctor_names_what_is_missing_and_what_to_install(command, environment):
    environment["SCHEDLAB_QEMU"] = "/nowhere/qemu"
    told = command("doctor", "--json")
    assert told.returncode == 0, told.stderr
    found = {finding["what"]: finding for finding in json.loads(told.stdout)}
    assert found["QEMU"]["state"] == "missing"
    assert "/nowhere/qemu" in found["QEMU"]["found"]
    assert found["QEMU"]["to_do"] == "apt-get install qemu-system-x86"
    assert found["kernels"]["to_do"] == "schedlab kernels fetch"
    assert found["clang"]["state"] == "ok"


def test_doctor_fails_where_no_policy_can_be_built(command, environment):
    environment["CLANG"] = "no-such-compiler"
    told = command("doctor")
    assert told.returncode == 1
    assert "`no-such-compiler` was not found" in told.stdout


def test_doctor_fails_where_the_compiler_cannot_be_run(command, environment, tmp_path):
    (tmp_path / "compiler").write_text("no program")
    (tmp_path / "compiler").chmod(0o755)
    environment["CLANG"] = str(tmp_path / "compiler")
    told = command("doctor", "--json")
    assert told.returncode == 1
    found = {finding["what"]: finding for finding in json.loads(told.stdout)}
    assert found["clang"]["state"] == "missing"
    assert "cannot run" in found["clang"]["found"]


@pytest.fixture
def sys_tree(tmp_path):
    """A /sys with what the kernel would tell there."""

    def make(**files):
        for name, text in files.items():
            path = tmp_path / "kernel" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return {finding.what: finding for finding in obstacles.running_kernel(tmp_path)}

    return make


def test_a_kernel_that_can_take_a_policy_is_recognised(sys_tree):
    found = sys_tree(btf__vmlinux="", sched_ext__state="disabled\n")
    assert {finding.state for finding in found.values()} == {"ok"}


def test_a_scheduler_that_is_attached_already_is_named(sys_tree):
    found = sys_tree(
        btf__vmlinux="", sched_ext__state="enabled\n", sched_ext__root__ops="other_1.2\n"
    )
    assert found["sched_ext"].state == "missing"
    assert "other_1.2 is attached" in found["sched_ext"].found


def test_a_kernel_without_sched_ext_and_btf_is_recognised(sys_tree):
    assert {finding.state for finding in sys_tree().values()} == {"missing"}
