"""Goal: every published table has its place in `schedlab reproduce`, beside what we make of it, and
whatever is known to be wrong with an original is told with it, and with no other.

Method: the real command where it is quick; the list against the files of published/.
"""

import pytest
from made_measurements import MadeStore
from schedlab import catalogue, published
from schedlab.bench import suite
from schedlab.commands import reproduce
from schedlab.experiment import table as experiment_table
from schedlab.report import tables

# What other tables are about: no figures of schedulers.
ABOUT = {"errata", "originals", "seed004_machines", "seed004_software", "seed000_kernel_size"}


def test_every_published_table_belongs_to_an_original():
    of_originals = {table for one in published.originals() for table in one.tables.split()}
    assert of_originals == set(catalogue.names(catalogue.PUBLISHED)) - ABOUT
    for original in published.originals():
        if original.experiment:
            catalogue.find(catalogue.EXPERIMENTS, original.experiment)
        assert original.experiment or original.verb or original.not_simulated
        if original.suite:
            read = suite.read(catalogue.find(catalogue.SUITES, original.suite))
            assert original.benchmark in [benchmark.name for benchmark in read.benchmarks]


def test_no_erratum_is_forgotten_and_none_is_told_of_another_table():
    names = {original.name for original in published.originals()}
    for erratum in published.errata():
        assert erratum.originals and set(erratum.originals.split()) <= names
    of_counter = {one.where for one in published.original("counter_2009").errata()}
    assert of_counter == {"counter table", "conclusion"}
    of_make = {one.where for one in published.original("make_2012").errata()}
    assert {"make text", "make means table"} <= of_make
    assert not any(where.startswith(("video", "compress")) for where in of_make)


def test_slips_stand_apart_from_what_else_is_known(capsys):
    reproduce.print_errata(published.original("make_2012"))
    slips, others = capsys.readouterr().out.split("what else is to be known of the original")
    assert slips.startswith("printed figures that contradict their own table")
    assert slips.count("make means table") == 3
    assert "make text" in others and "method" in others


@pytest.mark.parametrize("name", ["lat_ctx_2007", "seed003_lat_ctx"])
def test_an_original_stands_beside_what_is_simulated_with_its_errors(command, name):
    done = command("reproduce", name, "--repeat", "1", "-q")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("== lat_ctx_2007: ")
    assert "cfs_2007@2.6.23, duron-600" in done.stdout
    assert "published   simulated   unit      error" in done.stdout
    assert "not measured in schedlab.db yet: `schedlab bench quick --only lat_ctx`" in done.stdout
    assert "+12% for 2.6.23-rc6" in done.stdout


def test_what_nothing_simulates_is_shown_with_the_reason(command):
    done = command("reproduce", "groups_2003")
    assert done.returncode == 0, done.stderr
    assert "not simulated: the model has no memory" in done.stdout
    assert "No buffer space available" in done.stdout


def test_without_a_name_all_are_listed_and_a_wrong_name_is_refused(command):
    listed = command("reproduce").stdout
    for original in published.originals():
        assert original.name in listed
    done = command("reproduce", "conter_2009")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean counter_2009" in done.stderr


def test_what_was_measured_stands_with_its_original_and_no_other(command, tmp_path):
    made = MadeStore(tmp_path / "schedlab.db")
    cases = {("make", (("jobs", 2),)): [61.5, 61.6, 61.7], ("counter", (("n", 3),)): [0.5] * 3}
    made.add("6.18.0", cases, suite="study-2009")

    told = reproduce.measured(published.original("compile_2009"), made.path)
    assert [(row.name, len(*(s.values for s in row.samples.values()))) for row in told] == [
        ("make jobs=2", 3)
    ]
    assert [
        row.name for row in reproduce.measured(published.original("counter_2009"), made.path)
    ] == ["counter n=3"]
    assert reproduce.measured(published.original("make_2012"), made.path) == []
    done = command("reproduce", "groups_2003")
    assert "not measured in schedlab.db yet" in done.stdout


def test_on_a_narrow_terminal_no_text_is_cut_off(monkeypatch, capsys):
    monkeypatch.setattr(tables, "PIPED_COLUMNS", 80)
    reproduce.print_rows(published.original("groups_2003"))
    text = capsys.readouterr().out
    assert "…" not in text
    assert "in every row: groups asked 600, group step 25, repeats per step 5" in text
    assert "2.6.0-test9" in text and "unavailable" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_published_ratios_that_do_not_fit_beside_the_times_stand_below(monkeypatch, capsys):
    def named(n):
        return f"a policy of some name, on a machine {n}"

    columns = [*experiment_table.OF_TIMES, "published ×", "simulated ×"]
    rows = {named(n): ["1,121", "1,226", "s", f"+{n}.4 %", "0.978", "0.960"] for n in range(3)}
    for width, nr_tables in ((120, 1), (80, 2)):
        monkeypatch.setattr(tables, "PIPED_COLUMNS", width)
        experiment_table._print_columns(
            [
                (column, {what: texts[at] for what, texts in rows.items()})
                for at, column in enumerate(columns)
            ]
        )
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= width
        assert text.count(named(2)) == nr_tables
        assert all(cell in text for cell in (*rows[named(2)], *columns[:4]))
