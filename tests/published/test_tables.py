"""Goal: of all published figures that were derived from others, exactly the known slips contradict
their table. Method: derive each again in decimal numbers, and compare with the list of errata.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import pytest
from schedlab import published, user_file
from schedlab.errors import SchedlabError, UnknownName
from schedlab.published import rows

# ---- every derived figure, derived again ---------------------------------------------------------


@dataclass(frozen=True)
class Derived:
    """A figure that was derived by those who printed it, and what it is when derived again."""

    table: str
    place: str
    column: str
    printed: Decimal
    exact: Decimal

    @property
    def rounded(self) -> Decimal:
        """What follows, to as many places as were printed; halves go away from zero."""
        last = Decimal(1).scaleb(self.printed.as_tuple().exponent)
        return self.exact.quantize(last, ROUND_HALF_UP)

    @property
    def follows(self) -> bool:
        """Whether the printed figure is the exact one, rounded; a half may have gone either way."""
        half_unit = Decimal("0.5").scaleb(self.printed.as_tuple().exponent)
        return abs(self.printed - self.exact) <= half_unit


def derive() -> list[Derived]:
    return [*counter(), *improvements(), *means_2007(), *sizes(), *differences_2012()]


def of_row(table: str, place: str, row: dict, column: str, exact: Decimal) -> Derived:
    return Derived(table, place, column, Decimal(row[column]), exact)


def counter() -> Iterator[Derived]:
    table = "seed000_counter"
    for row in rows(table):
        place = f"{row['n_procs']} processes, {row['kernel']}"
        yield of_row(table, place, row, "cost_s", Decimal(row["total_s"]) / int(row["n_procs"]))


def improvements() -> Iterator[Derived]:
    table, times = "seed000_printed_improvement", {}
    for workload, source, n, seconds in (
        ("counter", "seed000_counter", "n_procs", "total_s"),
        ("compile", "seed000_compile_e2fsprogs", "n_jobs", "elapsed_s"),
    ):
        for row in rows(source):
            times[workload, row[n], row["kernel"]] = Decimal(row[seconds])
    for row in rows(table):
        workload = row["workload"].partition("_")[0]
        base, new = (times[workload, row["n"], row[key]] for key in ("base_kernel", "new_kernel"))
        place = f"{row['workload']}, {row['n']}: {row['new_kernel']} after {row['base_kernel']}"
        yield of_row(table, place, row, "improvement_pct", 100 * (base - new) / base)


def means_2007() -> Iterator[Derived]:
    table, runs = "seed003_lat_ctx_printed_summary", {}
    for row in rows("seed003_lat_ctx"):
        runs.setdefault(row["kernel"], []).append(Decimal(row["latency_us"]))
    means = {kernel: sum(latencies) / len(latencies) for kernel, latencies in runs.items()}
    base = means["v2.6.22"]
    for row in rows(table):
        mean = means[row["kernel"]]
        yield of_row(table, row["kernel"], row, "mean_us", mean)
        if row["change_vs_v2_6_22_pct"]:
            change = 100 * (mean - base) / base
            yield of_row(table, row["kernel"], row, "change_vs_v2_6_22_pct", change)


def sizes() -> Iterator[Derived]:
    table = "seed003_code_size"
    for row in rows(table):
        whole = sum(Decimal(row[part]) for part in ("text_bytes", "data_bytes", "bss_bytes"))
        for column, base in (("dec_bytes", 10), ("hex_bytes", 16)):
            printed = Decimal(int(row[column], base))
            yield Derived(table, row["object"], column, printed, whole)


def differences_2012() -> Iterator[Derived]:
    table = "seed004_printed_differences"
    means = {
        (row["benchmark"], row["machine"], row["kernel"]): Decimal(row["mean_s"])
        for row in rows("seed004_means")
    }
    for row in rows(table):
        cell = (row["benchmark"], row["machine"])
        cfs, bfs = (means[(*cell, kernel)] for kernel in ("3.6.2-vanilla", "3.6.2-ck"))
        place = ", ".join(cell)
        yield of_row(table, place, row, "difference_s", bfs - cfs)
        yield of_row(table, place, row, "change_pct", 100 * abs(bfs - cfs) / cfs)


def test_every_derived_figure_is_derived_again():
    counted = Counter((figure.table, figure.column) for figure in derive())
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


def test_the_errata_know_exactly_the_figures_that_contradict_their_table():
    slips = [figure for figure in derive() if not figure.follows]
    known = [erratum for erratum in published.errata() if erratum.kind == published.ARITHMETIC]
    assert len(slips) == 6
    assert len({slip.place for slip in slips}) == 4
    for slip, erratum in zip(slips, known, strict=True):
        benchmark, machine = slip.place.split(", ")
        assert erratum.originals == f"{benchmark}_2012"
        assert erratum.where == f"{benchmark} means table"
        assert erratum.item == f"{machine}: {slip.column}"
        assert erratum.printed == str(slip.printed)
        assert str(slip.rounded) in erratum.what_follows


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
    assert Derived("t", "p", "c", Decimal(printed), Decimal(exact)).follows == follows


# ---- the tables ----------------------------------------------------------------------------------


def test_a_slip_is_pointed_out_and_never_mended():
    means = {
        (row["benchmark"], row["machine"], row["kernel"]): row["mean_s"]
        for row in rows("seed004_means")
    }
    # These two means have the same decimals, and the second cannot be right.
    assert means["make", "AMD Athlon XP", "3.6.2-vanilla"] == "1120.6486"
    assert means["make", "AMD Athlon XP", "3.6.2-ck"] == "1095.6486"


def test_faster_and_slower_are_the_signs_of_the_differences():
    differences = rows("seed004_printed_differences")
    for row in differences:
        assert row["ck_is"] == ("faster" if Decimal(row["difference_s"]) < 0 else "slower")
    assert Counter(row["ck_is"] for row in differences) == {"faster": 19, "slower": 2}


def test_the_line_counts_of_2007_add_up():
    changed = [int(row["changed_lines"]) for row in rows("seed003_diffstat")]
    assert sum(changed) == 243 + 646


def test_quantiles_of_2012_rise_and_leave_room_for_the_means():
    quantiles: dict[tuple, list[Decimal]] = {}
    for row in rows("seed004_quantiles"):
        cell = (row["benchmark"], row["machine"], row["kernel"])
        quantiles.setdefault(cell, []).append(Decimal(row["seconds"]))
    assert len(quantiles) == 42
    assert all(of == sorted(of) and len(of) == 7 for of in quantiles.values())
    for row in rows("seed004_means"):
        of = quantiles[row["benchmark"], row["machine"], row["kernel"]]
        assert of[0] <= Decimal(row["mean_s"]) <= of[-1]


def test_a_table_that_is_not_there_or_is_damaged_is_an_error(tmp_path):
    with pytest.raises(UnknownName, match="seed004_means"):
        rows("seed004_mean")
    broken = tmp_path / "broken.csv"
    broken.write_text("a,b\n1,2\n3\n")
    with pytest.raises(SchedlabError, match="line 3"):
        user_file.csv_rows("a table", broken)
    broken.write_text('a,b\n"1,2\n')
    with pytest.raises(SchedlabError, match="cannot read"):
        user_file.csv_rows("a table", broken)
    broken.write_bytes(b"a,b\n\xff,2\n")
    with pytest.raises(SchedlabError, match="cannot be read"):
        user_file.csv_rows("a table", broken)
