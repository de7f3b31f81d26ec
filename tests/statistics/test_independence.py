"""Goal: repetitions that two states of a machine made are warned of, whatever is compared.

Method: stores of made measurements whose states are known, with and without boots that go with
them, in tables and on the page.
"""

import numpy as np
import pytest
from click.testing import CliRunner
from made_measurements import MadeStore, around
from schedlab.bench import answers, limits
from schedlab.commands.report import report_verb
from schedlab.statistics.independence import two_states
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store

SEED = 25
NR_RUNS = 20
APART = 1.2


@pytest.fixture
def made(tmp_path):
    return MadeStore(tmp_path / "s.db")


def with_states(is_high, noise=0.005):
    """Times of which some are made in a state where all takes `APART` times as long."""
    generator = np.random.default_rng(SEED)
    values = around(len(is_high), 2.0, 1.0, noise, generator)
    return values * np.where(is_high, APART, 1.0)


IN_TURN = np.arange(NR_RUNS) % 4 == 1
BY_BOOT = np.arange(NR_RUNS) >= NR_RUNS // 2
BOOTS = ["boot-1"] * (NR_RUNS // 2) + ["boot-2"] * (NR_RUNS // 2)


def told_of(made):
    """Limits and notes that speak of two groups."""
    with Store(made.path, read_only=True) as store:
        kept = Measurements(store)
        rows = answers.rows(kept, kept.campaigns())
        said = limits.limits(rows) + answers.notes(rows)
    return [one for one in said if "two groups" in one]


def test_one_setup_alone_is_warned_of(made):
    made.add("6.1.0", {("make", ()): with_states(IN_TURN)})
    [said] = told_of(made)
    assert said.startswith("make, 6.1.0: runs fall into two groups, 20 % apart")
    assert "boot" not in said


@pytest.mark.parametrize(
    ("is_high", "end"),
    [(IN_TURN, "Both are met within a boot"), (BY_BOOT, "compare boots, not repetitions")],
)
def test_whether_boots_go_with_states_is_told(made, is_high, end):
    made.add("6.1.0", {("make", ()): with_states(is_high)}, boots=BOOTS)
    [said] = told_of(made)
    assert said.endswith(end)


def test_what_a_comparison_has_as_a_note_is_told_once(made):
    made.add("6.1.0", {("make", ()): with_states(IN_TURN)})
    made.add("6.18.0", {("make", ()): with_states(np.zeros(NR_RUNS, bool))})
    assert len(told_of(made)) == 1


def test_where_boots_are_compared_the_repetitions_are_still_asked(made):
    boots = [f"boot-{n % 4}" for n in range(NR_RUNS)]
    made.add("6.1.0", {("make", ()): with_states(IN_TURN)}, boots=boots)
    others = [f"{boot} of the other" for boot in boots]
    made.add("6.18.0", {("make", ()): with_states(np.zeros(NR_RUNS, bool))}, boots=others)
    [said] = told_of(made)
    assert said.endswith("Each boot is in one of them: compare boots, not repetitions")


def test_one_state_is_no_reason_to_warn(made):
    made.add("6.1.0", {("make", ()): with_states(np.zeros(NR_RUNS, bool))}, boots=BOOTS)
    assert told_of(made) == []


def test_the_page_has_the_warning(made, tmp_path):
    made.add("6.1.0", {("make", ()): with_states(IN_TURN)})
    page = tmp_path / "page.html"
    done = CliRunner().invoke(report_verb, [str(made.path), "-o", str(page)])
    assert done.exit_code == 0, done.output
    limits = page.read_text("utf-8").split('id="limits"')[1].split("</div>")[0]
    assert "make, 6.1.0: runs fall into two groups, 20 % apart" in limits


def test_so_many_are_found_as_the_guide_says():
    """Two in five of 20 repetitions with 30 % six standard deviations away, seven in eight at
    eight; of one state hardly any."""
    generator = np.random.default_rng(SEED)
    found = {0: 0, 6: 0, 8: 0}
    for distance in found:
        for _ in range(300):
            logs = generator.normal(0, 1, 20)
            logs[:6] += distance
            found[distance] += two_states(np.exp(0.01 * logs)) is not None
    assert found[0] <= 3
    assert found[6] / 300 == pytest.approx(0.40, abs=0.12), f"seed {SEED}"
    assert found[8] / 300 == pytest.approx(0.88, abs=0.10), f"seed {SEED}"
