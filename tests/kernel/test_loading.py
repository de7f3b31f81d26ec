"""Goal: `schedlab load` lets a policy schedule a real kernel, tells what happens, and however it
ends, the kernel is back on its own scheduler.

Method: boot Linux 6.18 with Python and the real command in its initramfs, and do there what users
do: interrupt, kill, load twice, load what cannot work. One boot for all; skipped, with the reason,
without QEMU, a kernel or a guest program. What needs no such kernel is tested without a machine.
"""

import json
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from booted_kernels import object_of
from schedlab import catalogue, programs
from schedlab.commands import load
from schedlab.errors import SchedlabError
from schedlab.kernel import loading, obstacles, vm
from schedlab.kernel import sched_ext as kernel_sched_ext
from schedlab.kernel.platform import present

pytestmark = pytest.mark.qemu

in_a_machine = pytest.mark.xdist_group("load")

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "6.18"
OBJECTS = ("policies/fifo", "policies/round_robin")
MISTAKES = ("stalls", "endless", "without_record")

COMMAND = """
import os, sys
sys.path[:0] = {path}
sys.argv[0] = "/bin/schedlab"
from schedlab.cli import main
main()
"""

# Knows nothing of schedlab and its headers, keeps no record of its end.
FOREIGN = """
typedef unsigned long long u64;
struct task_struct { int pid; };
struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	char name[128];
};
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
	__attribute__((section(".ksyms"), weak));

__attribute__((section("struct_ops/foreign_enqueue"), used))
int foreign_enqueue(u64 *arguments)
{
	struct task_struct *p = (struct task_struct *)arguments[0];

	scx_bpf_dsq_insert(p, 1ULL << 63 | 1, 5000000, arguments[1]);
	return 0;
}

__attribute__((section(".struct_ops.link"), used))
struct sched_ext_ops foreign_ops = { .enqueue = (void *)foreign_enqueue, .name = "foreign_1.0" };
__attribute__((section("license"), used)) char licence[] = "GPL";
"""

# What runs in the machine. It prints one JSON object: what came of each case, by its name.
DRIVER = """
import contextlib, json, os, signal, subprocess, sys, time

STATE = "/sys/kernel/sched_ext/state"
told = {}
os.environ.update(SCHEDLAB_GUEST="/init", HOME="/tmp")


def state():
    with open(STATE) as file:
        return file.read().strip()


def wait_for(what, limit_s=600.0):
    end = time.monotonic() + limit_s
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def guests():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
            words = file.read().split("\\0")
            if words[0] == "/init" and "load" in words:
                found.append(int(pid))
    return found


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-S", "/schedlab.py", "load", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )


def finish(name, process, first="", limit_s=600.0):
    began_ns = time.monotonic_ns()
    out, err = process.communicate(timeout=600)
    alone = wait_for(lambda: state() == "disabled" and not guests(), limit_s)
    told[name] = {
        "code": process.returncode, "out": first + (out or ""), "err": err, "state": state(),
        "guests": [] if alone else guests(), "back_ns": time.monotonic_ns() - began_ns,
    }


def enabled(*arguments):
    # A group of its own, as a shell gives every command.
    process = start(*arguments, process_group=0)
    assert wait_for(lambda: state() == "enabled"), process.communicate()
    return process


def attached(*arguments, lines):
    process = enabled(*arguments)
    return process, "".join(process.stdout.readline() for _ in range(lines))


process, read = attached("/fifo.o", lines=3)
second = start("/round_robin.o")
finish("a second one", second, limit_s=0.0)
os.killpg(process.pid, signal.SIGINT)
finish("interrupted", process, read)

process, read = attached("/round_robin.o", "--set", "slice_ns=5ms", "--json", lines=4)
process.send_signal(signal.SIGTERM)
finish("terminated", process, read)

process, read = attached("/fifo.o", lines=3)
process.stdout.close()
process.stdout = None
finish("reader gone", process, read)

process = enabled("/scheduler.bpf.o")
process.send_signal(signal.SIGTERM)
finish("foreign", process)

process = enabled("/fifo.o")
process.kill()
finish("killed", process)

process = enabled("/fifo.o")
os.kill(guests()[0], signal.SIGKILL)
finish("guest killed", process)

for name in ("stalls", "endless", "without_record"):
    finish(name, start(f"/{name}.o"))
finish("no such tunable", start("/round_robin.o", "--set", "turn_ns=1"))
finish("not root", start("/fifo.o", "--set", "x=1", user=65534))
print(json.dumps(told))
"""


# Imports what the command does, by running it on an object that does not exist.
MODULES = """
import contextlib, json, sys
sys.path[:0] = {path}
sys.argv = ["schedlab", "load", "/no/such.o", "--set", "x=1ms"]
from schedlab.cli import main
with contextlib.suppress(SystemExit):
    main()
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(json.dumps([file for file in files if file]))
"""


def python_files():
    """What Python and the command `schedlab load` need, at the same paths as here."""
    command = [sys.executable, "-S", "-c", MODULES.format(path=sys.path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    files = {Path(path) for path in json.loads(said.stdout)}
    encodings = Path(json.__file__).parents[1] / "encodings"
    files |= {*encodings.glob("__init__.py"), *encodings.glob("utf_8.py")}
    return files | {Path(os.path.realpath(sys.executable))}


def shared_libraries(files):
    """The libraries that these programs and modules load, the loader itself included."""
    loaded = [path for path in files if path.suffix == ".so" or path.parent.name == "bin"]
    said = subprocess.run(["ldd", *loaded], capture_output=True, text=True, check=False).stdout
    words = (word for line in said.splitlines() for word in line.split())
    paths = (word for word in words if word.startswith("/") and not word.endswith(":"))
    return {Path(os.path.normpath(path)) for path in paths}


def python_of_the_guest(files):
    """The initramfs with Python and the command: sources, compiled once here and not there."""
    executables, plain = {}, {}
    for path in files | shared_libraries(files):
        to = executables if os.access(path, os.X_OK) else plain
        to[str(path)] = path.read_bytes()
    for path in (p for p in files if p.suffix == ".py"):
        cached = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
        plain[str(cached)] = compiled(path)
    return executables, plain


def compiled(path):
    """Byte code that Python takes without asking how old the source is."""
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "made.pyc"
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(
            str(path), str(made), dfile=str(path), doraise=True, invalidation_mode=mode
        )
        return made.read_bytes()


def foreign_object():
    command = ["clang-19", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c"]
    command += ["-x", "c", "-", "-o", "-"]
    return subprocess.run(command, input=FOREIGN.encode(), stdout=-1, check=True).stdout


def needed():
    """The guest program; skips where it, QEMU or the kernel is not there."""
    native = catalogue.native()
    try:
        native.find_qemu()
        guest = programs.GUEST.find()
    except (native.VmError, SchedlabError) as error:
        pytest.skip(str(error).splitlines()[0])
    if KERNEL not in {kernel["name"] for kernel in present()}:
        pytest.skip(f"no kernel {KERNEL} in the cache: schedlab kernels fetch")
    return guest


@pytest.fixture(scope="module")
def told():
    """What came of every case in the machine, by its name."""
    needed()
    executables, plain = python_of_the_guest(python_files())
    sources = [*OBJECTS, *(f"crates/kernel/tests/policies/{name}" for name in MISTAKES)]
    for source in sources:
        path = ROOT / f"{source}.bpf.c"
        plain[f"/{Path(source).name}.o"] = object_of(path).read_bytes()
    plain["/scheduler.bpf.o"] = foreign_object()
    plain["/driver.py"] = DRIVER.encode()
    plain["/schedlab.py"] = COMMAND.format(path=sys.path).encode()
    argv = [os.path.realpath(sys.executable), "-S", "/driver.py"]
    # A minute and a half on an idle machine.
    limits = vm.Limits(wall_s=3000.0)
    job = {"work": [{"kind": "command", "argv": argv}], "time_limit_ns": 2_500_000_000_000}
    started = time.monotonic()
    # Nobody else has such a machine, so it is not kept.
    everything = plain | executables
    ran = vm.start(
        KERNEL, job, {}, executables=everything, keep=False, cpus="2", accelerator="tcg",
        limits=limits,
    ).run()  # fmt: skip
    records = [json.loads(line) for line in ran.lines]
    print(f"{time.monotonic() - started:.1f} s in the machine")
    [finished] = [r for r in records if r["record"] == "finished"] or pytest.fail(ran.console)
    assert finished["status"] == 0, finished["output"] + ran.console
    return json.loads(finished["output"])


# ---- in the machine -----------------------------------------------------------------------------

SCHEDULER_BACK = "The kernel's own scheduler is in charge"


def ended(told, name, code):
    """What the command said in a case, after the checks that hold for every end."""
    case = told[name]
    assert case["code"] == code, case
    assert "Traceback" not in case["err"], case["err"]
    return case


@in_a_machine
def test_every_end_leaves_the_kernel_on_its_own_scheduler_and_no_process(told):
    left = {name: (case["state"], case["guests"]) for name, case in told.items()}
    left.pop("a second one")  # it ends while the first one is there
    assert left == dict.fromkeys(left, ("disabled", []))


@in_a_machine
def test_a_line_a_second_tells_what_the_policy_does_until_it_is_interrupted(told):
    case = ended(told, "interrupted", 0)
    header, *lines = case["out"].splitlines()
    assert header.split() == [*load.COLUMNS, "events"]
    assert len(lines) >= 2
    for line in lines:
        at_s, unit, switches, enqueues, dispatches, *levels = line.replace(",", "").split()[:9]
        assert unit == "s"
        assert float(at_s) > 0
        assert int(switches) > 0
        assert int(dispatches) > 0
        assert int(enqueues) >= 0
        waiting, runnable, tasks, rejected = map(int, levels)
        assert waiting <= runnable <= tasks
        assert rejected == 0
    assert "fifo schedules Linux 6.18" in case["err"]
    assert "unregistered from user space. " + SCHEDULER_BACK in case["err"]


@in_a_machine
def test_as_json_every_record_is_a_line_and_sigterm_detaches(told):
    case = ended(told, "terminated", 0)
    records = [json.loads(line) for line in case["out"].splitlines()]
    kinds = [record["record"] for record in records]
    assert kinds[:3] == ["booted", "attached", "started"]
    assert set(kinds[3:-1]) == {"counters"}
    assert kinds[-1] == "detached"
    assert records[-1]["kind"] == 64
    assert SCHEDULER_BACK in case["err"]


@in_a_machine
def test_a_reader_that_has_enough_ends_it_cleanly_and_without_an_error(told):
    case = ended(told, "reader gone", 141)
    [attached] = case["err"].splitlines()
    assert attached.startswith("fifo schedules Linux 6.18")


@in_a_machine
def test_a_second_policy_is_refused_with_the_name_of_the_first(told):
    case = ended(told, "a second one", 2)
    assert case["err"].startswith("error: the scheduler fifo is attached already")


@in_a_machine
def test_an_object_of_another_project_is_loaded_as_it_is(told):
    case = ended(told, "foreign", 0)
    assert "foreign_1.0 schedules Linux 6.18" in case["err"]
    assert "unregistered from user space. " + SCHEDULER_BACK in case["err"]


@in_a_machine
def test_killing_the_command_takes_the_policy_with_it(told):
    case = ended(told, "killed", -9)
    print(f"back {case['back_ns'] / 1e9:.2f} s after the kill")
    assert case["state"] == "disabled"


@in_a_machine
def test_a_loader_that_dies_is_told(told):
    case = ended(told, "guest killed", 2)
    assert "schedlab-guest ended with SIGKILL" in case["err"]
    assert SCHEDULER_BACK in case["err"]


@in_a_machine
@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("stalls", "failed to run for", "enqueue"),
        ("endless", "nfinite loop", "bpf_for"),
        ("without_record", "non-existent DSQ", "scx_bpf_create_dsq"),
    ],
)
def test_a_mistake_ends_with_the_kernels_reason_and_a_way_out(told, name, reason, hint):
    errors = ended(told, name, 1)["err"].splitlines()
    print("\n".join(errors))
    [error] = [line for line in errors if line.startswith("error: ")]
    [advice] = [line for line in errors if line.startswith("hint: ")]
    assert reason in error
    assert hint in advice


@in_a_machine
def test_a_tunable_that_the_policy_lacks_is_refused(told):
    case = ended(told, "no such tunable", 2)
    assert "turn_ns" in case["err"]
    assert "hint: it has slice_ns" in case["err"]


@in_a_machine
def test_who_is_not_root_is_told_the_command_that_works(told):
    case = ended(told, "not root", 2)
    assert "hint: sudo /bin/schedlab load /fifo.o --set x=1" in case["err"]


# ---- without a machine --------------------------------------------------------------------------


@pytest.mark.skipif(kernel_sched_ext.sched_ext() is not None, reason="this kernel has sched_ext")
def test_a_kernel_without_sched_ext_is_refused_before_anything_is_built(command, environment):
    environment |= {"PATH": "", "SCHEDLAB_GUEST": "/nowhere"}
    done = command("load", "fifo")
    assert (done.returncode, done.stdout) == (2, "")
    release = platform.release()
    assert done.stderr.startswith(f"error: the running kernel, Linux {release}, has no sched_ext\n")
    assert "hint: it needs Linux 6.12 or later" in done.stderr


@pytest.fixture
def sched_ext(tmp_path, monkeypatch):
    """A /sys of a kernel with sched_ext in this state, and whether we are root."""

    def make(state, ops="", user=0):
        directory = tmp_path / "kernel" / "sched_ext"
        (directory / "root").mkdir(parents=True)
        (directory / "state").write_text(f"{state}\n")
        (directory / "root" / "ops").write_text(f"{ops}\n")
        monkeypatch.setattr(os, "geteuid", lambda: user)
        return tmp_path

    return make


def test_a_kernel_that_can_take_a_policy_is_not_refused(sched_ext):
    loading.require_kernel(sched_ext("disabled"))


def test_an_attached_scheduler_is_named(sched_ext):
    with pytest.raises(SchedlabError, match=r"the scheduler other_1\.2 is attached already"):
        loading.require_kernel(sched_ext("enabled", "other_1.2"))


def test_who_is_not_root_is_not_told_of_schedulers_first(sched_ext):
    with pytest.raises(SchedlabError, match="not root"):
        loading.require_kernel(sched_ext("enabled", "other_1.2", user=1000))


def test_a_line_has_rates_of_what_grew_levels_as_they_are_and_events():
    counters = {
        "wall_ns": 2_000_000_000,
        "switches": 5000,
        "calls": {"mine_enqueue": 2000, "mine_dequeue": 10, "mine_dispatch": 3000},
        "nr_waiting": 3,
        "nr_runnable": 5,
        "nr_tasks": 1234,
        "nr_rejected": 7,
        "events": {"SCX_EV_REFILL_SLICE_DFL": 8, "SCX_EV_BYPASS_DISPATCH": 0},
    }
    fields = " ".join(load.counters_line(counters, 2.04).split())
    assert fields == "2.0 s 2,500 1,000 1,500 3 5 1,234 7 refill_slice_dfl 8"
    # What a policy leaves to the kernel is no zero.
    assert load.counters_line(counters | {"calls": {}}, 0.0).split()[3:5] == ["-", "-"]


def ended_with(end, status=0):
    policy, told = load.show([json.dumps(end)] if end else [], "mine", as_json=False)
    return load.judge(policy, told, status, as_json=False)


def test_only_an_end_that_was_asked_for_is_no_finding(capsys):
    end = {"record": "detached", "kind": 64, "reason": "unregistered", "message": "", "hint": ""}
    assert not ended_with(end)
    # It may break a rule while we detach it.
    assert ended_with(end | {"kind": 1024})
    assert ended_with(end | {"record": "ejected", "kind": 66})
    capsys.readouterr()
    ended_with(end | {"record": "ejected", "reason": ""})
    assert "it gave no reason" in capsys.readouterr().err


def test_a_guest_that_dies_without_a_word_is_an_error():
    with pytest.raises(SchedlabError, match="exit code 3"):
        ended_with(None, 3)


# ---- building -----------------------------------------------------------------------------------


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache for one test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "schedlab"


def test_an_object_is_the_same_wherever_its_source_lies(own_cache, tmp_path, monkeypatch):
    found = {}
    for folder in ("a", "a/longer/folder", 'a b/schedläb "\\'):
        (tmp_path / folder).mkdir(parents=True)
        source = tmp_path / folder / "fifo.bpf.c"
        shutil.copy(ROOT / "policies" / "fifo.bpf.c", source)
        found |= {source: built_anew(source)}
    monkeypatch.chdir(tmp_path / "a")
    found |= {path: built_anew(path) for path in (Path("fifo.bpf.c"), Path("../a/fifo.bpf.c"))}
    found |= {"shipped": built_anew(ROOT / "policies" / "fifo.bpf.c")}
    assert len(set(found.values())) == 1, found
    [(_, content)] = set(found.values())
    assert b"fifo.bpf.c" in content and str(tmp_path).encode() not in content
    assert str(ROOT).encode() not in content


def built_anew(source):
    """The name and the bytes of an object that the cache did not have."""
    path = object_of(source)
    content = path.read_bytes()
    path.unlink()
    return path.name, content


def test_clangs_warnings_of_ones_own_policy_are_shown_when_it_is_built(
    own_cache, tmp_path, monkeypatch, capfd
):
    source = tmp_path / "mine.bpf.c"
    text = (ROOT / "policies" / "fifo.bpf.c").read_text()
    source.write_text(text + "\nstatic int forgotten;\n")
    object_of(source)
    [warning] = [line for line in capfd.readouterr().err.splitlines() if "warning:" in line]
    assert f"{source}:" in warning and "forgotten" in warning
    object_of(source)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(catalogue, "names", lambda _shelf: {"mine": source})
    source.write_text(text + "\nstatic int forgotten_too;\n")
    object_of(source)
    assert capfd.readouterr().err == ""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Makes a program in a folder that is all of PATH."""
    monkeypatch.delenv("CLANG", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name, version):
        (tmp_path / name).write_text(f"#!/bin/sh\necho Debian clang version {version}\n")
        (tmp_path / name).chmod(0o755)

    return make


def test_the_oldest_clang_that_is_new_enough_is_taken(path):
    for name, version in (("clang-18", "18.1.8"), ("clang-21", "21.0.0"), ("clang", "31.0.0")):
        path(name, version)
    told = ("clang-21", "Debian clang version 21.0.0")
    assert catalogue.native().policy_compiler() == told


@pytest.mark.usefixtures("own_cache")
def test_without_a_clang_it_is_said_how_to_get_one_and_zig_is_taken(path, tmp_path):
    path("clang", "14.0.6")
    native = catalogue.native()
    with pytest.raises(native.PolicyError, match="no clang of version 19") as refused:
        native.policy_compiler()
    assert "apt-get install clang-19" in refused.value.hint
    assert "pip install ziglang" in refused.value.hint
    path("zig", "20.1.2")
    zig = str(tmp_path / "zig")
    command, version = native.policy_compiler(zig)
    assert command == f"{zig} cc -target bpfel-freestanding-none"
    assert version == "Debian clang version 20.1.2"


def test_a_guest_program_that_is_not_there_is_told_with_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setenv(programs.GUEST.variable, str(tmp_path / "none"))
    with pytest.raises(SchedlabError, match="is not a program"):
        programs.GUEST.find()
    monkeypatch.delenv(programs.GUEST.variable)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(catalogue, "IN_CHECKOUT", Path("target/none"))
    with pytest.raises(SchedlabError, match="not built") as refused:
        programs.GUEST.find()
    assert "make guest" in refused.value.hint


def test_doctor_wants_libelf_only_where_the_guest_is_not_built(tmp_path):
    assert obstacles.libelf(is_needed=True, roots=[tmp_path]).to_do == "apt-get install libelf-dev"
    assert obstacles.libelf(is_needed=False, roots=[tmp_path]).state == "note"
    (tmp_path / "x86_64-linux-gnu").mkdir()
    (tmp_path / "x86_64-linux-gnu" / "libelf.a").touch()
    assert obstacles.libelf(is_needed=True, roots=[tmp_path]).state == "ok"
