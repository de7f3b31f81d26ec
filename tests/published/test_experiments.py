"""Goal: the experiments that schedlab ships can be run, and stand beside what others published.

Method: read every file; check names, labels and figures against the catalogue and the tables; run
a part of each with the real command and look at the report and at the JSON.
"""

import csv
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from schedlab import catalogue
from schedlab.errors import SchedlabError, UnknownName
from schedlab.experiment import cells, definition

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = sorted(path.stem for path in (ROOT / "experiments").glob("*.toml"))

# Experiment: options that make it small, and the cells that remain of it.
SMALLER = {
    "counter_2009": (["--vary", "n=2,3", "--repeat", "2"], 3 * 2),
    "counter_2009_mechanisms": (["--vary", "n=3", "--repeat", "2"], 7),
    "compile_2009": (["--vary", "jobs=2", "--repeat", "1"], 3),
    "nice_2007": (["--repeat", "3"], 4),
    "lat_ctx_2007": (["--repeat", "1"], 3),
    "study_2012_make": (["--machine", "e5200", "--repeat", "1"], 2),
    "study_2012_compress": (["--machine", "x3360", "--repeat", "1"], 2),
    "study_2012_video": (["--machine", "atom-330", "--repeat", "1"], 2),
    "hackbench_2003": (["--vary", "groups=50", "--machine", "stp1", "--repeat", "1"], 2),
    "scale_cpus": (["--vary", "cpus=2", "--repeat", "1"], 7),
    "scale_tasks": (["--vary", "pairs=5", "--repeat", "1"], 7),
    "demo": (["--vary", "groups=5", "--machine", "osdl-2", "--repeat", "1"], 4),
}

# Questions of our own, and a claim that stands in a sentence.
WITHOUT_TABLE = {"demo", "nice_2007", "scale_cpus", "scale_tasks"}


def shipped(name):
    return definition.build(definition.read_options(catalogue.find(catalogue.EXPERIMENTS, name)))


def published(name):
    """The published times of an experiment by policy, machine and varied values."""
    found = shipped(name).published
    return {
        (time.policy, time.machine, *time.varied.values()): time.makespan_ns
        for time in (found.times if found else ())
    }


def table(name):
    with (ROOT / "published" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(command, name, *options):
    done = command("compare", "--experiment", name, "--store", "runs.db", *options)
    assert done.returncode == 0, done.stderr
    return done


# ---- files --------------------------------------------------------------------------------------


def test_every_experiment_is_known_here():
    assert set(EXPERIMENTS) == set(SMALLER)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_names_what_there_is(name):
    asked = shipped(name)
    grid = cells.expand(asked)
    assert {cell.policy.label for cell in grid} == {choice.label for choice in asked.policies}
    assert asked.title and asked.description
    assert asked.repeats >= 3, "intervals need three repetitions"


@pytest.mark.parametrize("name", sorted({*EXPERIMENTS} - WITHOUT_TABLE))
def test_every_cell_of_a_published_study_has_a_published_time(name):
    grid = cells.expand(shipped(name))
    simulated = {
        (cell.policy.label, cell.machine.name, *cell.workload.varied.values()) for cell in grid
    }
    assert simulated <= published(name).keys()


def test_hackbench_times_are_those_of_the_table_by_cpus_kernel_and_groups():
    policies = {"2.4.18": "linux_2_4", "2.6.0-test9": "o1@2.6.0"}
    expected = {
        (policies[row["kernel"]], f"stp{row['n_cpus']}", int(row["groups"])): int(
            Decimal(row["elapsed_s"]) * 10**9
        )
        for row in table("seed002_hackbench_times.csv")
    }
    assert len(expected) == 2 * 4 * 4
    assert published("hackbench_2003") == expected
    for cpus in (1, 2, 4, 8):
        assert catalogue.load_machine(ROOT / f"machines/stp{cpus}.toml").nr_cpus == cpus


def test_counter_times_are_those_of_the_table_by_kernel_and_processes():
    kernels = {"cfs@2.6.31": "2.6.31", "bfs@304": "2.6.31-bfs", "cfs@2.6.32": "2.6.32-rc5"}
    times = {
        (row["kernel"], int(row["n_procs"])): int(Decimal(row["total_s"]) * 5 * 10**9)
        for row in table("seed000_counter.csv")
    }
    assert published("counter_2009") == {
        (policy, "core2-t5600", n): times[kernel, n]
        for policy, kernel in kernels.items()
        for n in range(1, 33)
    }


def test_compile_times_are_those_of_the_table_by_kernel_and_jobs():
    kernels = {"2.6.31": "cfs@2.6.31", "2.6.31-bfs": "bfs@304", "2.6.32-rc5": "cfs@2.6.32"}
    assert published("compile_2009") == {
        (kernels[row["kernel"]], "core2-t5600", int(row["n_jobs"])): int(
            Decimal(row["elapsed_s"]) * 10**9
        )
        for row in table("seed000_compile_e2fsprogs.csv")
    }


def test_the_study_of_2012_has_every_mean_of_its_table():
    machines = {
        "AMD Athlon XP": "athlon-xp-3200",
        "Intel E5200": "e5200",
        "Intel Atom 330": "atom-330",
        "Intel i7-2620M": "i7-2620m",
        "Intel X3360": "x3360",
        "Intel i7-3770K": "i7-3770k",
        "Dual Intel E5620": "dual-e5620",
    }
    policies = {"3.6.2-vanilla": "cfs@3.6", "3.6.2-ck": "bfs@425"}
    rows = table("seed004_means.csv")
    assert len(rows) == 3 * 7 * 2
    for benchmark in ("make", "compress", "video"):
        assert published(f"study_2012_{benchmark}") == {
            (policies[row["kernel"]], machines[row["machine"]]): int(Decimal(row["mean_s"]) * 10**9)
            for row in rows
            if row["benchmark"] == benchmark
        }


@pytest.mark.parametrize(
    ("benchmark", "parameter", "of_cpus"),
    [
        ("make", "jobs", lambda cpus: cpus + 1),
        ("compress", "threads", lambda cpus: cpus),
        ("video", "threads", lambda cpus: cpus * 3 // 2),
    ],
)
def test_jobs_of_2012_are_as_wide_as_their_machines(benchmark, parameter, of_cpus):
    for cell in cells.expand(shipped(f"study_2012_{benchmark}")):
        cpus = catalogue.load_machine(Path(cell.machine.path)).nr_cpus
        assert cell.workload.resolved[parameter] == str(of_cpus(cpus))
        assert f"{parameter}={of_cpus(cpus)}" in cell.replay()


def test_a_published_switch_stands_for_the_20_000_of_a_run():
    assert published("lat_ctx_2007")["o1@2.6.22", "duron-600"] == 640 * 20_000
    [workload] = {cell.workload.digest for cell in cells.expand(shipped("lat_ctx_2007"))}
    resolved = cells.expand(shipped("lat_ctx_2007"))[0].workload.resolved
    assert (resolved["rounds"], resolved["n"]) == ("10000", "2"), workload
    assert resolved["less_pipes"] == "true"


def test_each_mechanism_changes_cfs_and_no_two_are_alike():
    grid = cells.expand(shipped("counter_2009_mechanisms"))
    tunables = {cell.policy.label: tuple(cell.policy.tunables.items()) for cell in grid}
    assert len(set(tunables.values())) == len(tunables) == 7


# ---- runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_part_of_an_experiment_runs_and_reports_published_beside_simulated(
    command, tmp_path, name
):
    smaller, nr_cells = SMALLER[name]
    done = compare(command, name, *smaller, "--report", "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    title = shipped(name).title
    assert title in html and title in done.stdout
    claims = shipped(name).claims
    assert ("what others claimed" in done.stdout) == bool(claims)
    assert ('data-table="claims"' in html) == bool(claims)
    if name in WITHOUT_TABLE:
        assert "Published beside simulated" not in html
        assert "what others measured" not in done.stdout
        return
    rows = done.stdout.split("what others measured")[1].split("what others claimed")[0]
    row = r"^ +(\S+), (\S+?)(?:, \w+ = (\d+))? +\S+ +\S+ +m?s +[+-]\d+\.\d %"
    shown = re.findall(row, rows, re.M)
    times = published(name)
    assert len(shown) == nr_cells
    found = {(policy, machine, *([int(n)] if n else [])) for policy, machine, n in shown}
    assert found <= times.keys()
    assert "Kendall's τ" in rows
    tables = html.split('data-table="published"')[1].split("</table>")[0]
    assert tables.count('<th scope="row">') == nr_cells
    assert shipped(name).published.source in tables


def test_the_error_is_simulated_over_published(command):
    done = compare(command, "counter_2009", "--vary", "n=3", "--repeat", "2", "--json")
    data = json.loads(done.stdout)
    assert [row["what"] for row in data["published"]] == [
        f"{policy}, core2-t5600, n = 3" for policy in ("cfs@2.6.31", "bfs@304", "cfs@2.6.32")
    ]
    for row, cell in zip(data["published"], data["cells"], strict=True):
        assert row["simulated"] == cell["makespan"]["mean"]
        assert row["published"] == pytest.approx(
            published("counter_2009")[cell["policy"], "core2-t5600", 3] / 1e9
        )


def test_times_over_ideal_stand_beside_those_of_the_study(command, tmp_path):
    told = {2: (1.40,), 3: (1.33, 1.32), 5: (1.15,), 7: (1.13,)}
    options = ("--vary", "n=1,2,3,5,7", "--repeat", "1")
    data = json.loads(compare(command, "counter_2009", *options, "--json").stdout)
    means = {
        (cell["policy"], cell["varied"]["n"]): cell["makespan"]["mean"] for cell in data["cells"]
    }
    found = {}
    for row in data["published"]:
        policy, _, n = row["what"].split(", ")
        found[policy, int(n.removeprefix("n = "))] = row["over_ideal"]
    assert found.keys() == means.keys()
    for (policy, n), over in found.items():
        assert over["simulated"] == pytest.approx(
            means[policy, n] / means[policy, 1] / max(n / 2, 1)
        )
    for n, ratios in told.items():
        assert round(found["cfs@2.6.31", n]["published"], 2) in ratios
    done = compare(command, "counter_2009", *options, "--report", "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    for text in (done.stdout, html):
        assert "published/ideal" in text and "simulated/ideal" in text
    [line] = [
        line for line in done.stdout.splitlines() if " cfs@2.6.31, core2-t5600, n = 3 " in line
    ]
    assert line.split()[-2:] == ["1.325", f"{found['cfs@2.6.31', 3]['simulated']:.3f}"]
    rows = re.findall(r"<tr><th scope=\"row\">cfs@2.6.31, core2-t5600, n = 3</th>.*", html)
    assert any("<td>1.325</td>" in row for row in rows)


def test_a_time_over_ideal_needs_the_time_of_one_part(command):
    done = compare(command, "counter_2009", "--vary", "n=3", "--repeat", "1")
    [line] = [line for line in done.stdout.splitlines() if "bfs@304, core2-t5600, n = 3" in line]
    assert line.split()[-2:] == ["1.018", "–"]
    assert "– where n = 1 is missing" in done.stdout


def test_how_policies_stand_to_each_other_and_the_order_of_all_are_shown(command):
    options = ("--machine", "e5200", "--machine", "x3360", "--repeat", "1")
    data = json.loads(compare(command, "study_2012_make", *options, "--json").stdout)
    times = {row["what"]: (row["published"], row["simulated"]) for row in data["published"]}
    out = compare(command, "study_2012_make", *options).stdout
    for machine in ("e5200", "x3360"):
        first, second = (times[f"{policy}, {machine}"] for policy in ("cfs@3.6", "bfs@425"))
        [line] = [line for line in out.splitlines() if f" bfs@425, {machine} " in line]
        assert line.split()[-2:] == [f"{second[side] / first[side]:.3f}" for side in (0, 1)]
    pairs = [
        (one[side] < other[side])
        for place, one in enumerate(times.values())
        for other in [*times.values()][place + 1 :]
        for side in (0, 1)
    ]
    # No ties: tau is the concordant pairs less the others, over all.
    same = sum(a == b for a, b in zip(pairs[::2], pairs[1::2], strict=True))
    tau = (2 * same - len(pairs) // 2) / (len(pairs) // 2)
    agreement = data["rank_agreement"]
    assert agreement["tau"] == pytest.approx(tau)
    assert (agreement["n"], agreement["nr_pairs"]) == (4, 2)
    assert f"order of all 4 times: Kendall's τ = {tau:.2f}" in out


def test_the_claim_of_the_rfs_thread_is_reproduced_with_an_interval(command):
    data = json.loads(compare(command, "nice_2007", "--json").stdout)
    starved, *fair = data["claims"]
    assert {claim["verdict"] for claim in data["claims"]} == {"reproduced"}
    [found] = starved["places"]
    assert (found["published"], starved["unit"]) == (0.7, "%")
    assert 0.65 < found["low"] < found["simulated"] < found["high"] < 0.75
    for claim in fair:
        assert claim["places"][0]["simulated"] == pytest.approx(100 * 36 / 1060, rel=0.01)


def test_a_claim_is_judged_anew_with_other_tunables_and_left_out_of_other_workloads(command):
    changed = ("--set", "cfs_2007.runtime_limit_ns=90ms")
    data = json.loads(compare(command, "nice_2007", *changed, "--json").stdout)
    assert data["claims"][0]["verdict"] == "not reproduced"
    done = compare(command, "nice_2007", "--with", "other=10", "--repeat", "1")
    assert "what others claimed" not in done.stdout
    assert "note: published times" in done.stderr


def test_an_option_wins_over_what_a_file_says_of_one_machine(command):
    options = ("--machine", "e5200", "--repeat", "1", "--with", "jobs=1", "--json")
    data = json.loads(compare(command, "study_2012_make", *options).stdout)
    assert {run["manifest"]["parameters"]["jobs"] for run in data["runs"]} == {"1"}
    assert data["published"] == []


def test_requests_of_a_workload_that_goes_on_are_shown(command):
    done = command(
        *("compare", "fifo", "cfs", "--workload", "desktop", "--machine", "core2-t5600"),
        *("--repeat", "2", "--store", "desktop.db", "--with", "length=2s"),
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if "audio: deadlines missed, %" in line]
    fifo, cfs = (float(text.split(" ± ")[0]) for text in re.split(" {2,}", line.strip())[-2:])
    assert fifo > cfs
    assert "audio: response p99" in done.stdout
    done = command(
        *("run", "fifo", "--workload", "desktop", "--machine", "core2-t5600"),
        *("--with", "length=2s"),
    )
    assert re.search(r"deadlines +[\d,]+ of [\d,]+ missed \([\d.]+ %\): audio \d", done.stdout)


def test_published_times_are_left_out_of_another_workload(command):
    smaller = ("--vary", "groups=50", "--machine", "stp1", "--repeat", "1")
    done = compare(command, "hackbench_2003", *smaller, "--with", "loops=1")
    assert "note: published times are left out" in done.stderr
    assert "what others measured" not in done.stdout


def test_a_report_made_again_from_the_store_has_the_published_times(command, tmp_path):
    compare(command, "counter_2009", "--vary", "n=2", "--repeat", "2", "--report", "first.html")
    again = command("report", "runs.db", "--output", "again.html")
    assert again.returncode == 0, again.stderr
    first, second = ((tmp_path / f"{name}.html").read_text() for name in ("first", "again"))
    assert "Published beside simulated" in first and 'data-table="claims"' in first
    assert first == second


# ---- wrong files --------------------------------------------------------------------------------

TABLE = "n_cpus,kernel,time_ms\n1,old,2.5\n2,old,1.5\n"
FILE = """
policies = ["fifo"]
workload = "ping_pong"
machine = "laptop"
[published]
table = "./t.csv"
source = "somebody"
makespan = "time_ms"
vary.rounds = "n_cpus"
policies.fifo.kernel = "old"
machines.laptop = {}
"""


def read(tmp_path, text, table=TABLE):
    (tmp_path / "t.csv").write_text(table)
    (tmp_path / "e.toml").write_text(text)
    return definition.read_options(tmp_path / "e.toml")


def test_a_table_of_ones_own_is_read_with_its_unit(tmp_path):
    found = read(tmp_path, FILE)["published"]
    assert [(time.varied, time.makespan_ns) for time in found.times] == [
        ({"rounds": 1}, 2_500_000),
        ({"rounds": 2}, 1_500_000),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source", "sources", "unknown key 'sources'.*did you mean source"),
        ('source = "somebody"', "", "does not say its source"),
        ("policies.fifo", "policies.fifp", "unknown policy 'fifp'.*did you mean fifo"),
        ("machines.laptop", "machines.laptob", "unknown machine 'laptob'.*did you mean laptop"),
        ('"old"', '"new"', "no row of .*t.csv has {'kernel': 'new'}, for fifo on laptop"),
        ("fifo.kernel", "fifo.kernels", "unknown column 'kernels'.*did you mean kernel"),
        ('"time_ms"', '"time"', "unknown column 'time'.*did you mean time_ms"),
        ('"time_ms"', '"kernel"', "'kernel' does not end in a unit"),
        ("./t.csv", "./u.csv", "published table file .* does not exist"),
        ("./t.csv", "seed002_hackbench_time", "did you mean seed002_hackbench_times"),
        ("machines.laptop = {}", "machines.laptop = 3", "is not a table"),
        ("machines.laptop = {}", "machines = 3", "is not a table"),
        ('source = "', 'ideal = "pairs"\nsource = "', "'pairs' is not a parameter that has a col"),
        ('source = "', 'ideal = []\nsource = "', "is not a number, a text"),
        ('source = "', 'parts = 0\nsource = "', "0 is not a whole number from 1 to"),
        ("[published]", "[with_machine]\nlaptob.pairs = 2\n[published]", "did you mean laptop"),
        ("[published]", "[with_machine]\nlaptop = 2\n[published]", "is not a table"),
        (
            'vary.rounds = "n_cpus"',
            'ideal = "r"\nvary.r = "kernel"',
            "kernel: 'old' counts no parts",
        ),
    ],
)
def test_what_a_file_says_wrongly_of_a_published_table_is_refused(tmp_path, old, new, message):
    assert old in FILE
    with pytest.raises(SchedlabError, match=message):
        read(tmp_path, FILE.replace(old, new))


def test_a_parameter_of_a_machine_and_of_all_is_refused(tmp_path):
    text = FILE.replace(
        "[published]", "[with]\npairs = 1\n[with_machine]\nlaptop.pairs = 2\n[published]"
    )
    with pytest.raises(SchedlabError, match="'pairs' is given for machine laptop and for all"):
        definition.build(read(tmp_path, text))


def test_a_parameter_of_a_machine_that_the_workload_lacks_is_refused(tmp_path):
    text = FILE.replace("[published]", "[with_machine]\nlaptop.pair = 2\n[published]")
    with pytest.raises(UnknownName, match="did you mean pairs"):
        cells.expand(definition.build(read(tmp_path, text)))


def test_a_published_time_that_is_none_is_refused(tmp_path):
    with pytest.raises(SchedlabError, match=r"t\.csv: time_ms: 'fastms' is not a time"):
        read(tmp_path, FILE, TABLE.replace("1.5", "fast"))


def test_a_misspelt_experiment_is_suggested():
    with pytest.raises(UnknownName, match="did you mean hackbench_2003"):
        catalogue.find(catalogue.EXPERIMENTS, "hackbench_2004")
