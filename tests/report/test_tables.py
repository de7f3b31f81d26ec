"""Goal: tables of many policies are read as easily as those of few, and lose nothing.

Method: made-up runs of up to eleven policies, printed at several widths; what stands in the widest
table must stand in every other one.
"""

import re

import pytest
from made_answers import made_answer
from schedlab.experiment import table
from schedlab.report import tables

MAKESPAN = re.compile(r"[\d.]+ ± [\d.]+")
RATIO = re.compile(r"× [\d.]+ \[[\d.]+, [\d.]+\]")
POLICIES = [f"policy_{number}" for number in range(11)]


@pytest.fixture
def study(make_record):
    """Makes a study of policies on two machines at the given values of n, if any."""

    def make(policies, xs=(), runs=3):
        records = []
        for machine in ("osdl-1", "osdl-2"):
            for x in xs or [None]:
                for at, policy in enumerate(policies):
                    for seed in range(runs):
                        slow_ns = (1 + at) * 10**6 + seed
                        delays = dict.fromkeys(("mean", "p50", "p90", "p99", "max"), slow_ns)
                        result = {
                            "status": "completed", "error": None, "nr_cpus": 1, "nr_tasks": 2,
                            "makespan_ns": int((10 + at + 3 * (x or 0) + seed / 7) * 1e8),
                            "elapsed_ns": 10**9, "wakeups": 9, "switches": None,
                            "wakeup_latency_ns": delays | {"count": 9, "histogram": []},
                            "task_groups": [], "requests": [],
                        }  # fmt: skip
                        varied = {} if x is None else {"n": x}
                        records.append(
                            make_record(
                                policy=policy, machine=machine, seed=seed, varied=varied,
                                result=result,
                            )
                        )  # fmt: skip
        return made_answer(records, title="")

    return make


@pytest.fixture
def printed(monkeypatch, capsys):
    """The lines of the tables of a study at a width, without what is said above them."""

    def show(study, width):
        monkeypatch.setattr(tables, "PIPED_COLUMNS", width)
        table.print_study(study)
        times = capsys.readouterr().out.splitlines()
        table.print_interactivity(study.study, study.metrics)
        return times, capsys.readouterr().out.splitlines()

    return show


def test_few_policies_are_columns_and_too_many_are_rows(study, printed):
    for nr, width, are_columns in (
        (2, 80, True),
        (11, 80, False),
        (11, 240, False),
        (11, 400, True),
    ):
        times, _ = printed(study(POLICIES[:nr]), width)
        rows = [line for line in times if line.split()[:1] == ["policy_1"]]
        heads = [line for line in times if line.split()[:2] == ["machine", "policy_0"]]
        assert (len(heads), len(rows) > 0) == (int(are_columns), not are_columns), (nr, width)
        where = "below" if are_columns else "beside"
        assert f"{where} it: × the makespan of policy_0 [95 % interval]" in times


@pytest.mark.parametrize("xs", [(), (1, 2, 4)])
@pytest.mark.parametrize("width", [50, 80, 100, 240])
def test_every_number_is_there_whatever_the_width(study, printed, xs, width):
    of_all = study(POLICIES, xs)
    wide_times, wide_delays = ("\n".join(lines) for lines in printed(of_all, 400))
    times, delays = printed(of_all, width)
    assert max(map(len, (*times[4:], *delays[2:]))) <= width
    for form, nr in ((MAKESPAN, 22), (RATIO, 20)):
        found = form.findall("\n".join(times))
        assert sorted(found) == sorted(form.findall(wide_times))
        assert len(found) == nr * max(len(xs), 1)
    assert sorted(re.findall(r"[\d.]+ ms", "\n".join(delays))) == sorted(
        re.findall(r"[\d.]+ ms", wide_delays)
    )


def test_each_machine_heads_its_own_rows_and_a_ratio_stays_beside_its_makespan(study, printed):
    times, delays = printed(study(POLICIES, (1, 2)), 80)
    heads = [line.split() for line in times if line.split()[:1] in (["osdl-1"], ["osdl-2"])]
    one = ["n", "=", "1", "×", "policy_0"]
    two = ["n", "=", "2", "×", "policy_0", "growth"]
    assert heads == [[name, *group] for name in ("osdl-1", "osdl-2") for group in (one, two)]
    heads = [line.split() for line in delays if "osdl-" in line]
    assert heads == [[name, "n", "=", "1", "n", "=", "2"] for name in ("osdl-1", "osdl-2")]
    assert delays.count("wake-up latency p99") == 1, "of the percentiles what says most"
    names = [line.split()[0] for line in times if line.strip().startswith("policy_")]
    assert names == POLICIES * 4


def test_without_a_varied_parameter_machines_are_the_columns(study, printed):
    times, _ = printed(study(POLICIES), 100)
    [head] = [line.split() for line in times if "osdl-1" in line]
    assert head == ["osdl-1", "×", "policy_0", "osdl-2", "×", "policy_0"]


def test_a_heading_is_broken_between_words_only():
    texts = {"a": "1.5 ms", "b": "–"}
    assert tables._broken("wake-up latency p50", texts) == "wake-up\nlatency\np50"
    assert tables._broken("growth", {"a": "1"}) == "growth"
