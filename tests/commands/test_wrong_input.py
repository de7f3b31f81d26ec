"""Goal: wrong input, and a world that goes wrong, end in a message that helps and the right code.

Method: run the real command with the real core, in an empty directory, and look at what it says.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from running import PATIENCE_S
from schedlab import catalogue, cli, user_file, whole_file
from schedlab.errors import SchedlabError

SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")
RUN = ("run", "fifo", *SCENARIO)


def refused(done):
    """What a command said of wrong input: nothing on stdout, an error, no traceback."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("rum",), ["unknown verb 'rum'", "did you mean run"]),
        (("list", "polices"), ["did you mean policies"]),
        (("run",), ["missing argument", "schedlab run --help"]),
        (("run", "fifo"), ["--workload"]),
        ((*RUN, "extra"), ["extra"]),
        ((*RUN, "--bogus"), ["--bogus"]),
        (("run", "fifp", *SCENARIO), ["unknown policy 'fifp'", "did you mean fifo", "valid: "]),
        (("run", "./x.bpf.c", *SCENARIO), ["'./x.bpf.c' does not exist"]),
        (("run", ".", *SCENARIO), ["unknown policy '.'"]),
        (("run", "./", *SCENARIO), ["is a directory"]),
        (("run", "fifo", "--workload", "ping", "--machine", "laptop"), ["did you mean ping_pong"]),
        (("run", "fifo", "--workload", "ping_pong", "--machine", "lapto"), ["did you mean laptop"]),
        ((*RUN, "--with", "pair=1"), ["unknown parameter 'pair'", "did you mean pairs"]),
        ((*RUN, "--with", "pairs"), ["'pairs' is not NAME=VALUE"]),
        ((*RUN, "--with", "pairs=many"), ["many", "ping_pong.toml"]),
        ((*RUN, "--set", "x=1"), ["tunable 'x'", "fifo"]),
        ((*RUN, "--set", "bfs.x=1"), ["unknown policy 'bfs' in --set"]),
        ((*RUN, "--seed", "-1"), ["--seed: -1"]),
        ((*RUN, "--seed", "one"), ["one"]),
        ((*RUN, "--until", "soon"), ["--until: 'soon' is not a time"]),
        ((*RUN, "--store", "no/such.db"), ["no/such.db", "no directory"]),
        (("compare",), ["no policy is given"]),
        (("compare", "fifo"), ["no workload is given", "list workloads"]),
        (("compare", "fifo", "fifo", *SCENARIO), ["given twice", "LABEL=POLICY"]),
        (("compare", "fifo", *SCENARIO, "--vary", "pairs=3..1"), ["--vary pairs: '3..1'"]),
        (("compare", "fifo", *SCENARIO, "--jobs", "0"), ["--jobs"]),
        (("compare", "fifo", *SCENARIO, "--repeat", "0"), ["--repeat: 0"]),
        (("compare", "fifo", *SCENARIO, "--report", "no/x.html"), ["no/x.html", "no directory"]),
        (("compare", "fifo", *SCENARIO, "--report", "/proc/x.html"), ["/proc/x.html cannot"]),
        (("compare", "fifo", *SCENARIO, "--report", "x" * 300), ["cannot be reached", "too long"]),
        (("compare", "a=cfs", "a=bfs", *SCENARIO), ["given to both", "a=cfs@6.1 a_2=bfs@425"]),
        ((*RUN, "--with", "pairs=-2"), ["--with pairs=-2: ", "ping_pong.toml", "hint: write"]),
        ((*RUN, "--with", f"pairs={9**30}"), [f"--with pairs: '{9**30}' is larger than any"]),
        (("compare", "fifo", *SCENARIO, "--vary", "pairs=-2..1"), ["--vary pairs=-2: "]),
        ((*RUN, "--set", "x=1", "--set", "fifo.x=2"), ["'fifo.x=2'", "'x=1'", "leave out one"]),
        (("compare", "fifo", *SCENARIO, "--store", "."), ["store . is a directory"]),
        (("compare", "--experiment", "./no.toml"), ["experiment file './no.toml' does not exist"]),
        (("report", "no.db", "-o", "x.html"), ["store no.db does not exist"]),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_its_value_and_a_way_out(command, words, parts):
    message = refused(command(*words))
    for part in parts:
        assert part in message
    assert message.splitlines()[-1].startswith("hint: ")


FREE = 'description = "d"\nsource = "own"\n[[tasks]]\nname = "a"\nprogram = ["exit"]\n'
STEP = 'description = "d"\nsource = "own"\n[[tasks]]\nname = "a"\nprogram = [{ affinity = [] }]\n'
BUILTIN = 'description = "d"\nsource = "own"\nbuiltin = "counter"\n'
GONE = '[[hotplug]]\nat = "{at}"\ncpu = {cpu}\nstate = "offline"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            FREE + GONE.format(at="1ms", cpu=1).replace("[[hotplug]]", "[hotplug]"),
            "`hotplug` is a table of {at, cpu, state}: one table where a list of them is needed",
        ),
        (
            FREE + '[[affinity]]\nat = "1ms"\ntask = "a"\ncpus = "every"\n',
            '`affinity[0].cpus` is "every": not a set of CPUs',
        ),
        (STEP, "`tasks[0].program[0].affinity` is []: the task may run nowhere"),
        (
            FREE + GONE.format(at="1ms", cpu=0),
            "`hotplug[0].cpu` is 0: it has to stay up, somebody must run the tasks",
        ),
        (
            FREE + GONE.format(at="5 parsecs", cpu=1),
            '`hotplug[0].at` is "5 parsecs": `parsecs` is no unit of time here',
        ),
        (
            BUILTIN + GONE.format(at="1ms", cpu=1),
            '`hotplug` is [{ at = "1ms", cpu = 1, state = "offline" }]: a workload with builtin ='
            ' "counter" brings its own tasks and all else',
        ),
        (
            FREE + GONE.format(at="1ms", cpu=8),
            "`hotplug[0].cpu` is 8: CPU 8 goes offline at 1ms, and machine laptop has only"
            " CPUs 0 to 7",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_workload_is_one_sentence_and_a_way_out(command, tmp_path, text, says):
    (tmp_path / "mine.toml").write_text(text)
    message = refused(command("run", "fifo", "--workload", "mine.toml", "--machine", "laptop"))
    first, second = message.splitlines()
    assert first == f"error: {tmp_path / 'mine.toml'}: {says}"
    assert second.startswith("hint: ")


def test_a_task_that_goes_round_in_no_time_is_told_with_a_way_out(command, tmp_path):
    (tmp_path / "mine.toml").write_text(
        FREE.replace('"exit"', '{ repeat = 9999999, do = ["mark"] }')
    )
    done = command("run", "fifo", "--workload", "mine.toml", "--machine", "laptop")
    assert done.returncode == 1
    assert "passed 65536 operations in no time\n" in done.stderr
    assert "\nhint: the workload's task goes round a loop whose steps take no time" in done.stderr


def test_a_workload_that_one_of_many_machines_is_too_small_for_begins_nowhere(command, tmp_path):
    (tmp_path / "mine.toml").write_text(FREE + GONE.format(at="1ms", cpu=3))
    machines = ("--machine", "server-96", "--machine", "laptop", "--machine", "osdl-2")
    message = refused(command("compare", "fifo", "bfs", "--workload", "mine.toml", *machines))
    assert message == (
        f"error: {tmp_path / 'mine.toml'}: `hotplug[0].cpu` is 3: CPU 3 goes offline at 1ms, and"
        " machine osdl-2 has only CPUs 0 and 1\n"
        "hint: name CPUs 0 and 1 only, or use a machine with more\n"
    )
    assert not (tmp_path / "schedlab.db").exists()


def test_a_varied_value_that_the_machine_is_too_small_for_is_named_with_its_option(
    command, tmp_path
):
    text = FREE + GONE.format(at="1ms", cpu='"$gone"')
    text += '[parameters.gone]\ndefault = 1\ndoc = "d"\n'
    (tmp_path / "mine.toml").write_text(text)
    words = ("--workload", "mine.toml", "--machine", "osdl-2", "--vary", "gone=1..2")
    message = refused(command("compare", "fifo", *words))
    assert message.startswith("error: --vary gone=2: ")
    assert "`hotplug[0].cpu (from parameter gone)` is 2: CPU 2 goes offline" in message


@pytest.mark.parametrize(
    ("words", "kind", "suffix"),
    [
        (("run", "mine.c", *SCENARIO), "policy", ".bpf.c"),
        (("run", "fifo", "--workload", "mine.txt", "--machine", "laptop"), "workload", ".toml"),
        (("run", "fifo", "--workload", "ping_pong", "--machine", "mine.txt"), "machine", ".toml"),
        (("compare", "--experiment", "mine.txt"), "experiment", ".toml"),
    ],
)
def test_a_file_of_another_suffix_is_refused_with_the_right_one(
    command, tmp_path, words, kind, suffix
):
    mine = "mine.c" if kind == "policy" else "mine.txt"
    (tmp_path / mine).write_text("")
    message = refused(command(*words))
    assert f"error: {kind} file '{mine}' does not end in {suffix}\n" in message
    assert f"rename it to mine{suffix}" in message


def test_a_files_hint_says_the_name_that_it_should_have(command, tmp_path):
    (tmp_path / "elf.o").write_bytes(b"\x7fELF of some policy")
    (tmp_path / "two.bpf.c").write_text("int two;\n")
    message = command("run", "elf.o", "--workload", "hackbench", "--machine", "laptop").stderr
    assert "hint: rename it to elf.bpf.o, or give a name: " in message
    message = command("run", "fifo", "--workload", "two.bpf.c", "--machine", "laptop").stderr
    assert "hint: give a *.toml file, or a name: " in message
    message = command("run", "two", "--workload", "hackbench", "--machine", "laptop").stderr
    assert "error: unknown policy 'two': did you mean the file two.bpf.c?\n" in message


def test_a_report_never_takes_the_place_of_a_device(command, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "report pipe is a pipe" in refused(
        command("compare", "fifo", *SCENARIO, "--report", "pipe")
    )
    assert pipe.is_fifo()


def test_a_report_never_takes_the_place_of_the_store(command, tmp_path):
    assert command("compare", "fifo", *SCENARIO, "--repeat", "1").returncode == 0
    before = (tmp_path / "schedlab.db").read_bytes()
    message = refused(command("report", "schedlab.db", "-o", "./schedlab.db"))
    assert "would take the place of the store" in message
    assert (tmp_path / "schedlab.db").read_bytes() == before


def test_a_report_never_takes_the_place_of_a_store_that_is_yet_to_be_made(command, tmp_path):
    words = ("compare", "fifo", *SCENARIO, "--store", "new.db", "--report", "./new.db")
    assert "would take the place of the store" in refused(command(*words))
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "fifo", *SCENARIO, "--report", "mine.bpf.c"),
        ("compare", "fifo", *SCENARIO, "--report", "mine.toml"),
        ("run", "fifo", *SCENARIO, "--queue-trace", "mine.bpf.c"),
        ("check", "fifo", "--only", "crowd", "--junit", "mine.bpf.c"),
    ],
)
def test_nothing_that_is_written_takes_the_place_of_a_source(command, tmp_path, words):
    source = tmp_path / words[-1]
    source.write_text("mine")
    message = refused(command(*words))
    assert f"{words[-1]} would take the place of a source file that is there" in message
    assert source.read_text() == "mine"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[with]\ngroups = -3", "with.groups=-3: "),
        ("[with]\ngroup = 3", "unknown parameter 'group'"),
        ("[set]\ncfs.latency_ns = -3", "set.cfs.latency_ns: '-3' does not fit"),
        ('[vary]\ngroups = ["a"]', "vary.groups=a: "),
        ("[vary]\ngroups = 1979-05-27", "vary.groups: 1979-05-27 is not"),
        ('until_ci = "0%"', "until_ci: '0%' is not a percentage"),
    ],
)
@pytest.mark.parametrize("verb", [("compare", "--experiment"), ("sweep",)])
def test_what_an_experiment_file_says_wrongly_is_named_with_the_file(
    command, tmp_path, verb, said, told
):
    head = 'policies = ["cfs", "fifo"]\nmachine = "osdl-1"\nworkload = "hackbench"'
    (tmp_path / "e.toml").write_text(f"{head}\n{said}\n")
    message = refused(command(*verb, "e.toml", "--store", "new.db"))
    assert f"e.toml: {told}" in message
    assert not (tmp_path / "new.db").exists()


def test_an_option_that_was_typed_is_named_and_not_the_file(command, tmp_path):
    head = 'policies = ["cfs"]\nmachine = "osdl-1"\nworkload = "hackbench"\n'
    (tmp_path / "e.toml").write_text(head)
    for option, given in [
        ("--with", "groups=-3"),
        ("--vary", "groups=-3,5"),
        ("--set", "cfs.latency_ns=-3"),
        ("--vary", "cfs.latency_ns=-3,5"),
    ]:
        message = refused(command("compare", "--experiment", "e.toml", option, given))
        assert message.startswith(f"error: {option} {given.split('=')[0]}")


def test_a_way_out_of_a_merge_names_no_option_that_it_has_not(command, tmp_path):
    (tmp_path / "no.db").write_text("no store, but long enough to be looked at")
    message = refused(command("merge", "no.db", "new.db"))
    assert "name another file" in message
    assert "--store" not in message


@pytest.mark.parametrize("policy", ["x y=cfs", "=cfs", "x="])
def test_what_is_no_label_is_told_as_one(command, policy):
    message = refused(command("compare", policy, *SCENARIO))
    assert f"{policy!r} is no policy with a label" in message


def test_one_run_has_no_label(command):
    assert "has a label" in refused(command("run", "x=fifo", *SCENARIO))


def test_a_report_of_no_experiment_is_refused(command):
    assert command("run", "fifo", *SCENARIO, "--store", "runs.db").returncode == 0
    assert "holds no experiment" in refused(command("report", "runs.db", "-o", "x.html"))


def test_a_cache_that_cannot_be_made_is_refused(tmp_path, environment):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "schedlab", *RUN],
        env=environment | {"XDG_CACHE_HOME": str(tmp_path / "file")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "XDG_CACHE_HOME" in refused(done)


def test_a_reader_that_goes_away_is_no_error(tmp_path, environment):
    process = subprocess.Popen(
        [sys.executable, "-m", "schedlab", "list", "workloads", "--json"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    message = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=PATIENCE_S), message) == (141, "")


def test_a_full_disk_under_stdout_is_an_error(environment):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "schedlab", "list", "machines"],
            # Whether Python buffers decides when the disk is found full.
            env={k: v for k, v in environment.items() if k != "PYTHONUNBUFFERED"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


# ---- names that are no UTF-8 --------------------------------------------------------------------

FOREIGN = os.fsdecode(b"bad\xff")


@pytest.mark.parametrize(
    "words",
    [
        ("run", FOREIGN, *SCENARIO),
        ("run", f"./{FOREIGN}.bpf.c", *SCENARIO),
        ("run", "fifo", "--workload", f"w/{FOREIGN}.toml", "--machine", "laptop"),
        ("run", "fifo", "--workload", "ping_pong", "--machine", f"{FOREIGN}.toml"),
        (*RUN, "--store", f"{FOREIGN}.db"),
        (*RUN, "--with", f"x={FOREIGN}"),
        (*RUN, "--with", f"{FOREIGN}=1"),
        (*RUN, "--set", f"{FOREIGN}=1"),
        (*RUN, "--until", FOREIGN),
        (*RUN, f"--{FOREIGN}"),
        (*RUN, "--queue-trace", FOREIGN),
        ("compare", f"{FOREIGN}=fifo", *SCENARIO),
        ("compare", "fifo", *SCENARIO, "--vary", f"pairs={FOREIGN}"),
        ("compare", "fifo", *SCENARIO, "--report", f"{FOREIGN}.html"),
        ("compare", "--experiment", f"./{FOREIGN}.toml"),
        ("compare", "fifo", "--workload", "ping_pong", "--on", "vm", "--kernel", FOREIGN),
        ("report", f"{FOREIGN}.db", "-o", "x.html"),
        ("report", "x.db", "-o", f"{FOREIGN}.html"),
        ("export", "x.db", "-o", f"{FOREIGN}.csv"),
        ("export", "x.db", "-o", "x.csv", "--suite", FOREIGN),
        ("merge", "x.db", f"{FOREIGN}.db"),
        ("race", "--with", f"{FOREIGN}.so"),
        ("race", "--trace", FOREIGN),
        ("race", "--report", f"{FOREIGN}.html"),
        ("bench", f"./{FOREIGN}.toml"),
        ("bench", "kernel", "--label", FOREIGN),
        ("kernels", "add", FOREIGN),
        ("kernels", "add", "x", "--name", FOREIGN),
        ("kernels", "fetch", FOREIGN),
        ("calibrate", "here", "--costs", FOREIGN),
        ("calibrate", "here", "--output", FOREIGN),
        ("validate", "--machine", f"{FOREIGN}.toml"),
        ("check", f"./{FOREIGN}.bpf.c"),
        ("agree", f"./{FOREIGN}.bpf.c"),
        ("size", FOREIGN),
        ("load", f"./{FOREIGN}.bpf.c"),
        ("reproduce", FOREIGN),
        ("list", FOREIGN),
        (FOREIGN,),
    ],
)
def test_an_argument_that_is_not_utf_8_is_refused_with_its_byte(command, words):
    message = refused(command(*words))
    assert message.startswith("error: argument '")
    assert "bad\\xff" in message.splitlines()[0]
    assert message.splitlines()[0].endswith(" is not UTF-8")


def test_a_folder_that_is_not_utf_8_does_no_harm_until_it_is_kept(command, tmp_path):
    folder = tmp_path / FOREIGN
    folder.mkdir()
    (folder / "mine.toml").write_text(FREE)
    (folder / "asked.toml").write_text(
        'policies = ["fifo"]\nworkload = "./mine.toml"\nmachine = "laptop"\nrepeat = 1\n'
    )
    words = ("--workload", "./mine.toml", "--machine", "laptop")
    assert command("run", "fifo", *words, "--store", "x.db", cwd=folder).returncode == 0
    message = refused(command("compare", "--experiment", "./asked.toml", cwd=folder))
    assert r"bad\xff/mine.toml" in message and "is not UTF-8" in message


def test_a_link_that_leads_to_what_is_not_utf_8_does_no_harm(command, tmp_path):
    (tmp_path / f"{FOREIGN}.toml").write_text(FREE)
    (tmp_path / "mine.toml").symlink_to(f"{FOREIGN}.toml")
    words = ("--workload", "mine.toml", "--machine", "laptop")
    assert command("compare", "fifo", *words, "--repeat", "1").returncode == 0


def test_a_cache_that_is_not_utf_8_does_no_harm(tmp_path, environment):
    done = subprocess.run(
        [sys.executable, "-m", "schedlab", *RUN],
        env=environment | {"XDG_CACHE_HOME": str(tmp_path / FOREIGN)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- what the shell and the system keep from us -------------------------------------------------


def in_shell(environment, tmp_path, command, **kwargs):
    """What a shell's line comes to; `schedlab` in it is the real one."""
    line = command.replace("schedlab", f"{shlex.quote(sys.executable)} -m schedlab", 1)
    return subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **kwargs,
    )


def test_a_closed_standard_output_is_told(environment, tmp_path):
    message = refused(in_shell(environment, tmp_path, "schedlab list machines >&-"))
    assert "standard output is closed" in message and ">/dev/null" in message


def test_without_standard_error_all_else_is_as_ever(environment, tmp_path):
    with_it = in_shell(environment, tmp_path, "schedlab run fifo --workload ping_pong --machine"
                       " laptop --store x.db")  # fmt: skip
    without = in_shell(environment, tmp_path, "schedlab run fifo --workload ping_pong --machine"
                       " laptop --store x.db 2>&- <&-")  # fmt: skip
    assert (without.returncode, without.stdout) == (0, with_it.stdout)
    assert in_shell(environment, tmp_path, "schedlab list machine 2>&-").returncode == 2
    # Nothing was written into what got the number of standard error.
    assert in_shell(environment, tmp_path, "schedlab export x.db -o x.csv").returncode == 0


def test_an_error_that_cannot_be_written_is_still_in_the_exit_code(environment, tmp_path):
    assert in_shell(environment, tmp_path, "schedlab list machine 2>/dev/full").returncode == 2


def test_a_full_standard_output_is_named_with_its_reason(environment, tmp_path):
    done = in_shell(environment, tmp_path, "schedlab list machines >/dev/full")
    assert refused(done) == (
        "error: standard output: no space left on device\n"
        "hint: make room there, or name another place\n"
    )


@pytest.mark.parametrize("most", [5, 8, 10, 12, 14, 16])
def test_too_few_open_files_are_told_with_their_number(environment, tmp_path, most):
    words = "schedlab compare fifo --workload ping_pong --machine laptop --repeat 1"
    done = in_shell(environment, tmp_path, f"ulimit -n {most}; {words}")
    if done.returncode:
        message = refused(done)
        assert "oo many open files" in message and "Errno" not in message
        assert f"no more than {most} may" in message or "cannot run clang-19" in message


def test_a_file_that_there_is_no_room_for_is_named(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match=r"No space left on device: .*page\.html"):
        whole_file.write(tmp_path / "page.html", "text")


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_written_to_a_link_is_written_where_it_leads(tmp_path, is_there):
    kept, link = tmp_path / "kept" / "page.html", tmp_path / "page.html"
    kept.parent.mkdir()
    if is_there:
        kept.write_text("before")
    link.symlink_to("kept/page.html")
    user_file.refuse_unwritable(link, tmp_path / "s.db")
    whole_file.write(link, "text")
    assert link.is_symlink()
    assert kept.read_text() == link.read_text() == "text"
    assert list(kept.parent.iterdir()) == [kept]


def test_a_link_into_a_folder_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "page.html").symlink_to("none/page.html")
    with pytest.raises(SchedlabError, match=r"there is no directory .*/none"):
        user_file.refuse_unwritable(tmp_path / "page.html", tmp_path / "s.db")


LONG = "x" * 10**6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{LONG} = 1\n", ("compare", "--experiment", "./long.toml")),
        (f"repeat = '{LONG}'\n", ("compare", "--experiment", "./long.toml")),
        (f"policies = ['{LONG}']\nworkload = 'counter'\nmachine = 'laptop'\n",
         ("compare", "--experiment", "./long.toml")),
        (f"[with]\n'{LONG}' = 1\n", ("compare", "fifo", *SCENARIO, "--experiment", "./long.toml")),
        (f"title = {LONG}\n", ("compare", "--experiment", "./long.toml")),
        (f"{LONG} = 1\n", ("run", "fifo", "--workload", "./long.toml", "--machine", "laptop")),
        (f"hz = '{LONG}'\n", ("run", "fifo", "--workload", "counter", "--machine", "./long.toml")),
        (f"title = '{LONG}'\n'{LONG}' = 1\n", ("bench", "./long.toml")),
        (f"{LONG} = 1\n", ("race", "--trace", "./long.toml")),
        (f"{LONG}\n", ("calibrate", "here", "--costs", "long.toml")),
        ("push 0 1\n" + "é\n" * 300_000, ("run", "./long.bpf.c", *SCENARIO)),
        ("", ("run", "fifo", *SCENARIO, "--until", LONG[:100_000])),
        ("", ("run", "fifo", *SCENARIO, "--seed", LONG[:100_000])),
        ("", ("run", "fifo", *SCENARIO, LONG[:100_000])),
        ("", ("run", LONG[:100_000], *SCENARIO)),
    ],
)  # fmt: skip
def test_what_is_long_is_told_in_short(command, tmp_path, text, words):
    for name in ("long.toml", "long.bpf.c"):
        (tmp_path / name).write_text(text)
    message = refused(command(*words))
    assert len(message) < 20_000


def test_a_message_keeps_its_ends_and_counts_what_it_leaves_out():
    lines = cli._bounded("\n".join(["first", "a" * 3_000, *map(str, range(1_000)), "last"]))
    first, long, *_, last = lines.split("\n")
    assert (first, last) == ("first", "last")
    assert long.startswith("aaa") and long.endswith("aaa") and "[… 1,001 characters …]" in long
    assert "[… 803 lines left out …]" in lines
    assert cli._bounded("one\ntwo") == "one\ntwo"


# ---- names that nothing has ---------------------------------------------------------------------


SINGLED_OUT = {
    "hz_by_policy": "[hz_by_policy]\neevfd = 100\n",
    "sync_wakeups_by_policy": "[sync_wakeups_by_policy]\neevfd = true\n",
    "costs_by_policy": '[costs_by_policy.eevfd]\ntick_ns = { value = 9, source = "own" }\n',
}


@pytest.mark.parametrize("key", [*SINGLED_OUT, "one_lock"])
def test_a_machine_that_singles_out_no_policy_is_refused(command, tmp_path, key):
    shipped = (catalogue.data_directory() / "machines" / "laptop.toml").read_text()
    before = f"[{key}]\n" if f"[{key}]\n" in shipped else "[topology]\n"
    if key == "one_lock":
        mine = shipped.replace("\nhz = ", '\none_lock = ["eevfd"]\nhz = ', 1)
    else:
        after = "" if before.startswith(f"[{key}]") else before
        mine = shipped.replace(before, SINGLED_OUT[key] + after)
    (tmp_path / "mine.toml").write_text(mine)
    (tmp_path / "asked.toml").write_text(
        'policies = ["fifo"]\nworkload = "ping_pong"\nmachine = "./mine.toml"\nrepeat = 1\n'
    )
    message = refused(command("compare", "--experiment", "./asked.toml"))
    assert "unknown policy 'eevfd' in what" in message
    assert (
        "mine.toml says by policy: did you mean eevdf" in message
        and "lies here or beside" in message
    )
    run = ("run", "fifo", "--workload", "ping_pong", "--machine", "./mine.toml")
    assert "unknown policy 'eevfd'" in refused(command(*run))
    # It need not take part, if there is one.
    (tmp_path / "eevfd.bpf.c").write_text("")
    assert command(*run).returncode == 0


def test_the_policies_of_an_experiment_may_be_one_text(command, tmp_path):
    (tmp_path / "asked.toml").write_text(
        'policies = "fifo"\nworkload = "ping_pong"\nmachine = "laptop"\nrepeat = 1\n'
    )
    told = json.loads(command("compare", "--experiment", "./asked.toml", "--json").stdout)
    assert [run["policy"] for run in told["runs"]] == ["fifo"]
    (tmp_path / "asked.toml").write_text('policies = "fifo, cfs"\n')
    words = ("compare", "--experiment", "./asked.toml", *SCENARIO)
    assert 'write policies = ["fifo", "cfs"]' in refused(command(*words))


# ---- compilers without room ---------------------------------------------------------------------


@pytest.mark.parametrize("words", [RUN, ("race", "-n", "1", "--with", "mine.c")])
def test_a_disk_that_is_full_while_a_compiler_writes_is_told_as_such(environment, tmp_path, words):
    script = """#!/bin/sh
    case $1 in --version) echo "a clang version 19.1.7"; exit ;; esac
    echo mine.s: No space left on device >&2
    exit 1
    """
    (tmp_path / "cc").write_text(script)
    (tmp_path / "cc").chmod(0o755)
    (tmp_path / "mine.c").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "schedlab", *words],
        cwd=tmp_path,
        env=environment
        | dict.fromkeys(("CC", "CLANG"), str(tmp_path / "cc"))
        | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    message = refused(done)
    assert "could not be compiled, because the disk is full" in message
    assert "does not compile" not in message and "mine.s: No space left" in message
