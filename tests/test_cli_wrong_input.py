"""Goal: wrong input, and a world that goes wrong, end in a message that helps and the right code.

Method: run the real command with the real core, in an empty directory, and look at what it says.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
        (("compare", "fifo", *SCENARIO, "--report", "x" * 300), ["cannot be written", "too long"]),
        (("compare", "a=cfs", "a=bfs", *SCENARIO), ["'a' is given to both", "a=cfs a_2=bfs"]),
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
        (("run", "fifo", "--workload", "mine.c", "--machine", "laptop"), "workload", ".toml"),
        (("run", "fifo", "--workload", "ping_pong", "--machine", "mine.c"), "machine", ".toml"),
        (("compare", "--experiment", "mine.c"), "experiment", ".toml"),
    ],
)
def test_a_file_of_another_suffix_is_refused_with_the_right_one(
    command, tmp_path, words, kind, suffix
):
    (tmp_path / "mine.c").write_text("")
    message = refused(command(*words))
    assert f"error: {kind} file 'mine.c' does not end in {suffix}\n" in message
    assert f"rename it to mine{suffix}" in message


def test_a_report_never_takes_the_place_of_a_device(command, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a file" in refused(command("compare", "fifo", *SCENARIO, "--report", "pipe"))
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
    assert (process.wait(timeout=60), message) == (141, "")


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
