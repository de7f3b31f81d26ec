"""Goal: a calibrated machine takes apart what was measured, and puts it together again.

Method: made costs, so that what must come out is known; the file is read and simulated. The native
program of `validate` is a made one that says always the same.
"""

import json
import tomllib

import pytest
from schedlab import catalogue
from schedlab.bench import calibration, validation
from schedlab.commands import validate
from schedlab.report import tables

HOP_NS = 2500.0
COLD_HOP_NS = 4000.0


def cost(name, median, of=""):
    quartiles = {"low": median * 0.9, "median": median, "high": median * 1.2}
    return {"cost": name, "of": of, **quartiles, "count": 100, "how": "made"}


MADE = [
    cost("syscall_ns", 100.4),
    cost("message_ns", 150.0),
    cost("copy_ns_per_kib", 12.0),
    cost("timer_ns", 220.0),
    cost("tick_ns", 1500.0),
    cost("fork_ns", 50_000.0),
    cost("fork_exit_wait_ns", 120_000.0),
    cost("hop_ns", HOP_NS, "processes on one CPU"),
    cost("hop_ns", HOP_NS - 200, "threads on one CPU"),
    cost("hop_ns", COLD_HOP_NS, "eight processes on one CPU"),
    cost("hop_ns", 9000.0, "processes on two CPUs"),
    cost("wakeup_ns", 600.0),
    cost("ipi_send_ns", 1000.0),
    cost("lock_ns", 9.0),
    cost("scan_step_ns", 6.0),
    cost("scan_miss_ns", 90.0),
    cost("line_transfer_ns", 60.0),
    *(cost("refill_ns_per_kib", 20.0, f"same {kib} KiB") for kib in (64, 256, 1024)),
    *(cost("refill_ns_per_kib", 45.0, f"other {kib} KiB") for kib in (64, 256, 1024)),
]


@pytest.fixture
def costs_file(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text("\n".join(json.dumps(line) for line in MADE))
    return path


def calibrated(command, costs_file, *words):
    output = costs_file.parent
    done = command("calibrate", "mine", "--output", output, "--costs", costs_file, *words)
    return done, output / "mine.toml"


@pytest.mark.parametrize(("tasks", "hop_ns"), [(2, HOP_NS), (8, COLD_HOP_NS)])
def test_a_hop_on_the_calibrated_machine_takes_what_it_took(command, costs_file, tasks, hop_ns):
    done, path = calibrated(command, costs_file)
    assert done.returncode == 0, done.stderr
    policy = catalogue.load_policy(catalogue.find(catalogue.POLICIES, "eevdf"))
    ring = catalogue.find(catalogue.WORKLOADS, "lat_ctx")
    rounds = 40_000 // tasks
    workload = catalogue.load_workload(ring, {"n": str(tasks), "rounds": str(rounds)})
    machine = calibration.Machines.of_file(path).one_cpu
    result = catalogue.native().simulate(policy, machine, workload, 7, {})
    # Which hops are preempted depends on where ticks fall.
    assert result["makespan_ns"] / 40_000 == pytest.approx(hop_ns, rel=0.04)


def test_costs_that_cannot_all_be_right_are_told_and_the_file_is_there(command, costs_file):
    busy = [
        cost("hop_ns", HOP_NS + 800, line["of"]) if line["of"] == "threads on one CPU" else line
        for line in MADE
    ]
    costs_file.write_text("\n".join(json.dumps(line) for line in busy))
    done, path = calibrated(command, costs_file)
    assert done.returncode == 1
    assert "doubtful: a switch between processes costs" in done.stderr
    assert path.exists()


def test_costs_that_cannot_all_be_right_are_measured_again(command, costs_file, tmp_path):
    """A program whose threads switch more dearly than its processes, but only the first time."""
    right = costs_file.read_text()
    wrong = right.replace(f": {HOP_NS - 200}", f": {HOP_NS + 800}")
    assert wrong != right
    (tmp_path / "wrong").write_text(wrong)
    path = tmp_path / "program"
    path.write_text(
        f"#!/bin/sh\ncat {tmp_path}/wrong 2>&- || cat {costs_file}\nrm -f {tmp_path}/wrong\n"
    )
    path.chmod(0o755)
    done = command("calibrate", "mine", "--output", tmp_path, "--program", path)
    assert (done.returncode, done.stderr) == (0, "")
    again, measured = (tmp_path / "mine.toml").read_text(), calibrated(command, costs_file)[0]
    assert measured.returncode == 2 and "--force" in measured.stderr
    assert f"median {HOP_NS - 200:.4g}" in again


def test_every_cost_is_measured_or_says_that_it_is_assumed(command, costs_file):
    _, path = calibrated(command, costs_file)
    said = tomllib.loads(path.read_text())["costs"]
    laptop = catalogue.find(catalogue.MACHINES, "laptop")
    assert list(said)[:3] == ["context_switch_ns", "thread_switch_ns", "cold_switch_ns"]
    assert set(said) == {"cold_switch_ns", *tomllib.loads(laptop.read_text())["costs"]}
    assumed = {name for name, of in said.items() if of["source"].startswith("assumed:")}
    assert assumed == set(calibration.TAKEN_OVER) | {"scan_cached_tasks"}
    assert all(of["source"].startswith(("own:", "assumed:")) for of in said.values())
    assert said["syscall_ns"]["value"] == 100
    assert said["refill_ns_per_kib"]["value"]["same"] == 20
    # The parts of a life are the whole again.
    parts = said["fork_ns"]["value"] + said["exit_ns"]["value"] + said["wakeup_ns"]["value"]
    parts += 2 * said["context_switch_ns"]["value"]
    assert parts == pytest.approx(120_000, abs=5)
    assert "# median 100.4, quartiles 90.36 to 120.5 of 100: made" in path.read_text()


def test_a_file_that_is_there_is_replaced_only_by_force(command, costs_file):
    _, path = calibrated(command, costs_file)
    before = path.read_text()
    again, _ = calibrated(command, costs_file)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert path.read_text() == before
    assert calibrated(command, costs_file, "--force")[0].returncode == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no JSON", "no JSON"),
        ('{"cost": "syscall_ns"}', "is no cost"),
        (json.dumps(MADE[0]), "was measured"),
        (json.dumps(MADE[0] | {"median": None}), "median of syscall_ns: None is no number"),
        (json.dumps(MADE[0] | {"low": "few"}), "low of syscall_ns: 'few' is no number"),
        (json.dumps(MADE[0] | {"high": True}), "high of syscall_ns: True is no number"),
        (json.dumps(MADE[0] | {"median": 10**400}), "is not within 0 and 1e+14"),
        (json.dumps(MADE[0] | {"low": -1}), "low of syscall_ns: -1 is not within"),
        (json.dumps(MADE[0] | {"cost": ["syscall_ns"]}), "cost of a cost: ['syscall_ns'] is no"),
        (json.dumps(MADE[0] | {"of": {}}), "of of a cost: {} is no line of text"),
        (json.dumps(MADE[0] | {"how": "two\nlines"}), "is no line of text"),
        (json.dumps(MADE[0] | {"count": "many"}), "count of syscall_ns: 'many' is no number"),
        ("5", "is no cost"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_what_is_no_list_of_costs_is_told(command, costs_file, text, why):
    costs_file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done, path = calibrated(command, costs_file)
    assert done.returncode == 2
    assert why in done.stderr
    assert not path.exists()


def made_cpus(root, caches, packages):
    """A /sys with a CPU for each entry, its cache and its package."""
    for cpu, (cache, package) in enumerate(zip(caches, packages, strict=True)):
        place = root / f"cpu{cpu}"
        (place / "topology").mkdir(parents=True)
        (place / "topology/core_id").write_text(f"{cpu}\n")
        (place / "topology/physical_package_id").write_text(f"{package}\n")
        for index, level, size, shared in ((2, 2, "1280K", cpu), (3, 3, "32768K", cache)):
            of = place / f"cache/index{index}"
            of.mkdir(parents=True)
            (of / "level").write_text(f"{level}\n")
            (of / "size").write_text(f"{size}\n")
            (of / "shared_cpu_list").write_text(f"{shared}\n")
    return root


def test_cpus_are_read_as_linux_tells_of_them(tmp_path):
    cpus = calibration.read_cpus(made_cpus(tmp_path, [0, 0, 2, 2], [0, 0, 1, 1]))
    assert cpus.topology == {
        "numa_nodes": 1,
        "sockets": 2,
        "caches_per_socket": 1,
        "cores_per_cache": 2,
        "threads_per_core": 1,
    }
    assert cpus.nearest == "cache"
    assert cpus.cache_kib == 1280


def test_the_ticks_are_those_of_the_kernels_configuration_or_of_its_coarse_clock(monkeypatch):
    monkeypatch.setattr(calibration.environment, "kernel_config", lambda: "CONFIG_HZ=300\n")
    assert calibration.ticks_a_second() == (300, "HZ: configuration")
    monkeypatch.setattr(calibration.environment, "kernel_config", lambda: None)
    hz, source = calibration.ticks_a_second()
    assert hz == calibration.environment.hz(None)[0]
    assert source == "HZ: resolution of the coarse clock"


@pytest.fixture
def made_program(tmp_path):
    """Says of all benchmarks that they took a second, and two of CPU time."""
    path = tmp_path / "made-bench"
    line = '{"wall_ns": 1000000000, "user_ns": 1500000000, "system_ns": 500000000}'
    path.write_text(f"#!/bin/sh\necho '{line}'\n")
    path.chmod(0o755)
    return path


def test_validate_tells_how_far_the_simulator_is_off(command, costs_file, made_program):
    _, machine = calibrated(command, costs_file)
    words = ("--machine", machine, "--repeat", 6, "--program", made_program, "--json")
    done = command("validate", *words)
    assert done.returncode == 1, done.stderr
    rows = json.loads(done.stdout)["benchmarks"]
    assert len(rows) == len(validation.DUELS)
    for row in rows:
        assert (row["measured_s"], row["measured_cpu_s"]) == (1, 2)
        assert row["error_percent"] == pytest.approx(100 * (row["simulated_s"] - 1))
        assert row["cpu_error_percent"] == pytest.approx(100 * (row["simulated_cpu_s"] / 2 - 1))
    counter = next(row for row in rows if row["benchmark"].startswith("counter"))
    # Four tasks of the 2 s that one takes alone, on as many CPUs as this machine has.
    nr_cpus = min(catalogue.load_machine(machine).nr_cpus, 4)
    assert counter["simulated_s"] == pytest.approx(-(-4 // nr_cpus) * 2, rel=0.02)


def test_what_validate_prints_fits_a_terminal(monkeypatch, capsys):
    real = [validation.Run(0.186 + at / 300, 0.31) for at in range(6)]
    ours = [validation.Run(run.wall_s * (0.9 + at / 50), 0.31) for at, run in enumerate(real)]
    found = [validation.DuelTimes(duel.name, real, ours) for duel in validation.DUELS]
    monkeypatch.setattr(tables, "PIPED_COLUMNS", 80)
    validate._print(found, "mine")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    [wall, errors, cpu] = [line for line in lines if line.startswith("  make -j2")]
    assert wall.split()[2:] == ["0.194", "[0.186,", "0.203]", "0.185"]
    assert errors.split()[2:] == ["-5.0", "[-10.0,", "+0.0]", "+0.0", "[+0.0,", "+0.0]"]
    assert cpu.split()[2:] == ["0.310", "0.310"]


def test_the_error_is_that_of_the_turns_however_the_machines_speed_changes():
    speeds = [1.0, 1.1, 3.0, 0.5, 1.2, 2.0, 1.0]
    real = [validation.Run(0.2 * speed, 0.3 * speed) for speed in speeds]
    ours = [validation.Run(1.1 * run.wall_s, 0.8 * run.cpu_s) for run in real]
    times = validation.DuelTimes("made", real, ours)
    for what, is_percent in (("wall_s", 10), ("cpu_s", -20)):
        error = times.of(what)[2]
        assert [error.low, error.median, error.high] == pytest.approx([is_percent] * 3)


def test_without_a_file_each_turn_is_simulated_at_its_own_costs(command, tmp_path):
    """The made machine is ten times as slow from the fourth calibration on."""
    calls = tmp_path / "calls"
    slow = [cost | {"median": 10 * cost["median"]} for cost in MADE]
    for name, lines in (("fast", MADE), ("slow", slow)):
        (tmp_path / name).write_text("\n".join(json.dumps(line) for line in lines))
    path = tmp_path / "made-bench"
    path.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = costs ]; then echo >>{calls}\n'
        f"  [ $(wc -l <{calls}) -gt 4 ] && cat {tmp_path}/slow || cat {tmp_path}/fast\n"
        """else echo '{"wall_ns": 1000000, "user_ns": 1000000, "system_ns": 0}'; fi\n"""
    )
    path.chmod(0o755)
    done = command("validate", "--repeat", 6, "--program", path, "--json")
    assert done.returncode == 1, done.stderr
    rows = {row["benchmark"]: row for row in json.loads(done.stdout)["benchmarks"]}
    took_s = rows["lat_ctx, 8 processes, 1 CPU"]["simulated_repetitions_s"]
    # The first of seven turns warms up.
    fast_s, slow_s = took_s[:3], took_s[3:]
    assert min(slow_s) > 5 * max(fast_s)
    assert calls.read_text().count("\n") == 7


@pytest.mark.parametrize("said", ["", "{}", "7", '{"wall_ns": "1", "user_ns": 1, "system_ns": 1}'])
def test_a_program_that_is_another_one_is_told(command, costs_file, tmp_path, said):
    _, machine = calibrated(command, costs_file)
    path = tmp_path / "other-program"
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    done = command("validate", "--machine", machine, "--program", path)
    assert done.returncode == 2
    assert "did not tell its times" in done.stderr
    assert "make schedlab-bench" in done.stderr


def test_a_folder_that_is_not_there_is_told_before_anything_is_measured(command, tmp_path):
    marked = tmp_path / "ran"
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\ntouch {marked}\n")
    path.chmod(0o755)
    done = command("calibrate", "mine", "--output", tmp_path / "none", "--program", path)
    assert done.returncode == 2
    assert "none" in done.stderr and "hint: " in done.stderr
    assert not marked.exists()


def test_a_program_that_fails_is_told_with_its_words(command, costs_file, tmp_path):
    _, machine = calibrated(command, costs_file)
    path = tmp_path / "broken-bench"
    path.write_text("#!/bin/sh\necho 'error: no memory' >&2\nexit 2\n")
    path.chmod(0o755)
    done = command("validate", "--machine", machine, "--program", path)
    assert done.returncode == 2
    assert "no memory" in done.stderr
    missing = command("validate", "--machine", machine, "--program", tmp_path / "none")
    assert missing.returncode == 2
    assert "make schedlab-bench" in missing.stderr
