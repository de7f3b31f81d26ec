"""Goal: of all published figures that were derived from others, exactly the known slips contradict
their table. Method: derive each again in decimal numbers, and compare with the list of errata.
"""

from collections import Counter
from decimal import Decimal

import pytest
from schedlab import published
from schedlab.errors import SchedlabError, UnknownName
from schedlab.published import Derived

# Table, place, column, printed, what follows: six figures in four rows of the study of 2012.
SLIPS = [
    ("compress, AMD Athlon XP", "difference_s", "-10.5753", "-10.5743"),
    ("make, AMD Athlon XP", "difference_s", "-25.4671", "-25.0000"),
    ("make, AMD Athlon XP", "change_pct", "2.3", "2.2"),
    ("make, Intel i7-2620M", "change_pct", "1.4", "1.0"),
    ("video, Intel X3360", "difference_s", "-1.7232", "-1.6932"),
    ("video, Intel X3360", "change_pct", "4.4", "4.3"),
]


def test_every_derived_figure_is_derived_again():
    counted = Counter((found.table, found.column) for found in published.derive())
    assert counted == {
        ("seed000_counter", "cost_s"): 96,
        ("seed000_printed_improvement", "improvement_pct"): 37,
        ("seed003_lat_ctx_printed_summary", "mean_us"): 3,
        ("seed003_lat_ctx_printed_summary", "change_vs_v2_6_22_pct"): 2,
        ("seed003_code_size", "dec_bytes"): 5,
        ("seed003_code_size", "hex_bytes"): 5,
        ("seed004_printed_differences", "difference_s"): 21,
        ("seed004_printed_differences", "change_pct"): 21,
    }


def test_six_figures_in_four_rows_contradict_their_table_and_no_others():
    slips = published.slips()
    found = [(s.place, s.column, str(s.printed), str(s.rounded)) for s in slips]
    assert found == SLIPS
    assert len({slip.place for slip in slips}) == 4


def test_the_errata_know_exactly_these_slips_and_what_follows_instead():
    known = [erratum for erratum in published.errata() if erratum.kind == published.ARITHMETIC]
    slips = published.slips()
    assert [published.erratum_of(slip) for slip in slips] == known
    for slip, erratum in zip(slips, known, strict=True):
        assert erratum.printed == str(slip.printed)
        assert str(slip.rounded) in erratum.what_follows


def test_a_slip_is_pointed_out_and_never_mended():
    means = {
        (row["benchmark"], row["machine"], row["kernel"]): row["mean_s"]
        for row in published.rows("seed004_means")
    }
    # These two means have the same decimals, and the second cannot be right.
    assert means["make", "AMD Athlon XP", "3.6.2-vanilla"] == "1120.6486"
    assert means["make", "AMD Athlon XP", "3.6.2-ck"] == "1095.6486"


def test_faster_and_slower_are_the_signs_of_the_differences():
    differences = published.rows("seed004_printed_differences")
    for row in differences:
        assert row["ck_is"] == ("faster" if Decimal(row["difference_s"]) < 0 else "slower")
    assert Counter(row["ck_is"] for row in differences) == {"faster": 19, "slower": 2}


def test_the_line_counts_of_2007_add_up():
    changed = [int(row["changed_lines"]) for row in published.rows("seed003_diffstat")]
    assert sum(changed) == 243 + 646


@pytest.mark.parametrize(
    ("printed", "exact", "follows"),
    [
        ("0.64", "0.645", True),
        ("0.65", "0.645", True),
        ("0.65", "0.6449", False),
        ("-3", "-3.41", True),
    ],
)
def test_a_half_may_be_rounded_either_way_and_more_not(printed, exact, follows):
    found = Derived("t", "p", "c", Decimal(printed), Decimal(exact))
    assert found.follows == follows


def test_quantiles_of_2012_rise_and_leave_room_for_the_means():
    quantiles: dict[tuple, list[Decimal]] = {}
    for row in published.rows("seed004_quantiles"):
        cell = (row["benchmark"], row["machine"], row["kernel"])
        quantiles.setdefault(cell, []).append(Decimal(row["seconds"]))
    assert len(quantiles) == 42
    assert all(found == sorted(found) and len(found) == 7 for found in quantiles.values())
    for row in published.rows("seed004_means"):
        found = quantiles[row["benchmark"], row["machine"], row["kernel"]]
        assert found[0] <= Decimal(row["mean_s"]) <= found[-1]


def test_a_table_that_is_not_there_or_is_damaged_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(UnknownName, match="seed004_means"):
        published.rows("seed004_mean")
    broken = tmp_path / "broken.csv"
    broken.write_text("a,b\n1,2\n3\n")
    with pytest.raises(SchedlabError, match="line 3"):
        published.read_rows(broken)
    broken.write_bytes(b"a,b\n\xff,2\n")
    with pytest.raises(SchedlabError, match="cannot read"):
        published.read_rows(broken)
    read = published.rows
    monkeypatch.setattr(
        published, "rows", lambda table: [{**row, "mean_s": "fast"} for row in read(table)]
    )
    with pytest.raises(SchedlabError, match="seed004_means is not what it was: mean_s is 'fast'"):
        published.derive()
