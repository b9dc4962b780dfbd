"""A bound is never a value: each reader of figures is fed cells that a limit of the plan capped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from forwarding_store import write_forwarding_store
from rich.console import Console

from vtare.ab.figures import COUNTED
from vtare.ab.trials import Measured
from vtare.instruments import RECORDS
from vtare.plan.level import Level
from vtare.plan.model import Analysis, Experiment, Factor
from vtare.report.content import Content, content_of
from vtare.report.overlay import overlay
from vtare.report.plain import as_json, markdown
from vtare.series.figures import figures_of
from vtare.series.over_time import of_runs
from vtare.stats import Known, Side, Verdict, middle
from vtare.summary import Summary, summarise
from vtare.summary.between import _compared, _Side, compare_stores, judge
from vtare.summary.cells import Cell
from vtare.summary.contrasts import compare
from vtare.summary.measured import read_measured
from vtare.summary.rows import apart, known_of
from vtare.terminal.between import show_between
from vtare.terminal.over_time import show_over_time
from vtare.watch.round import Collected

#: Guests pass 202 to 400 kpacket/s of frames of 64 B, and 91 to 180 of 1518 B.
CAP = 100_000
BOUND = "at least 100\N{NO-BREAK SPACE}kpacket/s"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six blocks, in which every cell but that of one loaded guest and long frames is capped."""
    return write_forwarding_store(tmp_path_factory.mktemp("capped") / "store", blocks=6, loaded=(1, 12), most=CAP)


@pytest.fixture(scope="module")
def summary(store: Path) -> Summary:
    return summarise(store)


@pytest.fixture(scope="module")
def content(summary: Summary) -> Content:
    return content_of(summary)


def test_a_median_of_bounds_is_exact_where_they_cannot_move_it() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        true = rng.normal(size=rng.integers(1, 8))
        cap = rng.normal()
        seen = [Known(cap, "at least") if value > cap else Known(float(value)) for value in true]
        found, median = middle(seen), float(np.median(true))
        assert found is not None
        assert (found.number == median) if found.side == "exact" else (found.number <= median)
        turned = middle([Known(-one.number, "at most" if one.side == "at least" else "exact") for one in seen])
        assert turned is not None
        assert (turned.number, turned.side == "exact") == (-found.number, found.side == "exact")


def test_a_capped_figure_is_null_in_its_column_and_stands_beside_it_with_its_side(summary: Summary) -> None:
    for frame in (summary.cells, summary.runs):
        for row in frame.iter_rows(named=True):
            is_capped = (row["frame_byte"], row["loaded"]) != ("1.518 kB", "1")
            for figure in ("median", "throughput_bit_per_s"):
                known = known_of(row, figure)
                assert known is not None
                assert (known.side == "at least", row[figure] is None) == (is_capped, is_capped)


def test_a_bound_is_compared_only_where_it_decides_the_order(summary: Summary) -> None:
    assert summary.comparisons
    decided = 0
    for row in (*summary.comparisons, *summary.tails, *summary.layers):
        if "bound" not in str(row.reason):
            continue
        assert (row.ratio, row.ratio_low, row.ratio_high) == (None, None, None)
        if row.ratio_side is None:
            assert (row.p_adjusted, row.ratio_bound) == (None, None)
            assert row.verdict is Verdict.INCONCLUSIVE
        else:
            # Exactly 98 against at least 100: lower, whatever that is.
            assert (row.ratio_side, row.verdict) == ("at most", Verdict.LOWER)
            assert 0.9 < row.ratio_bound < 1.0
            assert "which decides the order" in row.reason
            assert row.p_adjusted <= 0.05
            decided += 1
    assert decided
    assert all("6 of 6 runs give only a bound (at least)" in row.reason for row in summary.comparisons)
    assert {(row.ratio, row.n_runs) for row in summary.comparisons} == {(None, 6)}
    assert not summary.tests.height or summary.tests["refused"].is_not_null().all()
    own = pl.col("figure") == "throughput_packet_per_s"
    assert summary.levels.filter(own & pl.col("tau_b").is_not_null()).height == 0


def test_the_first_screen_names_bounds_first_and_decides_nothing_by_them(content: Content) -> None:
    page = markdown(content)
    screen = page.partition("## What differs")[0].replace("\n", " ")
    assert "at least 100 kpacket/s" in screen.replace("\N{NO-BREAK SPACE}", " ")
    assert "Not certain: 3 of 4 cells are known only as a bound" in screen
    assert "decided" not in screen
    assert "equivalent within" not in screen
    assert "1.00\N{MULTIPLICATION SIGN}" not in page
    assert "at most 0.97" in page.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("here", "there", "side", "word"),
    [
        (Known(2000.0, "at least"), Known(1500.0), "at least", Verdict.HIGHER),
        (Known(1500.0), Known(2000.0, "at least"), "at most", Verdict.LOWER),
        (Known(1500.0, "at most"), Known(2000.0), "at most", Verdict.LOWER),
        (Known(2000.0, "at least"), Known(2500.0), None, Verdict.INCONCLUSIVE),
        (Known(2000.0, "at least"), Known(1500.0, "at least"), None, Verdict.INCONCLUSIVE),
        (Known(2000.0, "at most"), Known(1500.0), None, Verdict.INCONCLUSIVE),
    ],
)  # fmt: skip
def test_a_verdict_follows_from_bounds_on_one_side_only(
    here: Known, there: Known, side: Side | None, word: Verdict
) -> None:
    rng = np.random.default_rng(1)

    def cell(level: str, known: Known) -> Cell:
        noise = rng.lognormal(0, 0.02, 6)
        runs = [
            apart({"quantity": "throughput_packet_per_s", "n": 9,
                   "median": Known(known.number * (one if known.side == "exact" else 1.0), known.side)})
            for one in noise
        ]  # fmt: skip
        return Cell({"loaded": level}, figures=list(runs), blocks=list(range(6)))

    loaded = Factor("loaded", (Level("1", 1), Level("2", 2)), "1")
    experiment = Experiment("e", "throughput", "e", {}, (loaded,))
    (row,) = compare([cell("2", here), cell("1", there)], {"loaded": "1"}, Analysis(), experiment, quantum_ns=0.0)
    assert (row.ratio, row.ratio_side, row.verdict) == (None, side, word)
    assert (row.ratio_bound is None) == (side is None)


def test_no_format_has_a_bound_as_a_number(content: Content) -> None:
    for section in json.loads(as_json(content))["sections"]:
        for table in section["tables"]:
            for row in table["rows"]:
                for cell in row.values():
                    if "at least" in str(cell["text"]) and isinstance(cell["value"], int | float):
                        raise AssertionError(f"{table['id']}: {cell}")


def test_a_bound_is_drawn_hollow_and_stands_on_no_line_of_ratios(content: Content) -> None:
    bounds = [row for drawing in content.drawings() if {"y", "hollow"} <= set(drawing.data.columns)
              for row in drawing.data.to_dicts() if row["y"] == CAP]  # fmt: skip
    assert all(row["hollow"] for row in bounds)
    for drawing in content.drawings():
        if "ratio" in drawing.data.columns:
            assert drawing.data["ratio"].drop_nulls().len() == 0, drawing.name


def test_papers_set_no_bound_beside_a_published_value(summary: Summary) -> None:
    found = overlay(summary, "batalla2018")
    for table in found.tables:
        for row in table.rows:
            for column, shown in zip(table.columns, row, strict=True):
                assert column.key != "throughput_ratio" or shown.kind == "missing", row
                assert shown.raw != str(CAP)


def test_compare_refuses_bounds_on_either_side(store: Path, tmp_path: Path) -> None:
    free = write_forwarding_store(tmp_path / "free", blocks=6, loaded=(1, 12), began_s=1_800_000_000)
    for before, after in (([free], [store]), ([store], [free])):
        found = compare_stores(before, after)
        capped = [row for row in found.cells if row.ratio is None]
        assert len(capped) == 3
        assert all(row.verdict == "refused" and "bound" in str(row.reason) for row in capped)
        assert all(row.after is None and row.change is None for row in capped)
        console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
        show_between(console, found, verbose=True)
        assert "6 of 6 runs give only a bound" in " ".join(console.export_text().split())


def test_compare_decides_by_bounds_where_they_show_the_order() -> None:
    """Campaigns of 70 kpacket/s against campaigns that end at 100: at least 1.4 times, and never equivalent."""

    def campaigns(number: float, side: Side) -> _Side:
        made = _Side()
        rng = np.random.default_rng([int(number), side == "exact"])
        for at in range(4):
            runs = [
                apart({"quantity": "throughput_packet_per_s", "n": 9,
                       "median": Known(number * (one if side == "exact" else 1.0), side)})
                for one in rng.lognormal(0, 0.02, 5)
            ]  # fmt: skip
            cell = Cell({"loaded": "1"}, figures=list(runs), blocks=list(range(5)))
            made.cells.setdefault(("e", (("loaded", "1"),)), {})[at] = cell
        return made

    exact, capped = campaigns(70e3, "exact"), campaigns(100e3, "at least")
    for old, new, word, side in (
        (exact, capped, "higher", "at least"), (capped, exact, "lower", "at most"), (capped, capped, "refused", None),
    ):  # fmt: skip
        made = _compared(("e", (("loaded", "1"),)), "median", old, new, Analysis(), paired=False)
        assert made is not None
        (judged,) = judge([made], "f", "holm", Analysis())
        assert (judged.ratio, judged.verdict, judged.ratio_side) == (None, word, side)
        assert judged.change == {"higher": "better", "lower": "worse"}.get(word)


def test_a_history_takes_no_bound_for_a_value(store: Path) -> None:
    measured = read_measured(store)
    for row in measured.work.run_rows:
        labels = {key: row[key] for key in ("frame_byte", "loaded")}
        followed = {key.figure: value for key, value in figures_of("e", "throughput", labels, row).items()}
        assert Known(CAP) not in followed.values()
        exact = followed["median"].side == "exact"
        assert exact == ((row["frame_byte"], row["loaded"]) == ("1.518 kB", "1"))


def test_what_is_only_a_bound_is_not_followed_and_named(store: Path) -> None:
    measured = read_measured(store)
    found = of_runs(measured.work.run_rows, measured.samples.files, measured.samples.keys)
    assert len([one for one in found.bounds if "median" in one]) == 3
    assert all("at least" in one for one in found.bounds)
    assert not [one for one in found.series if one.key.figure == "median" and CAP in one.values]
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show_over_time(console, found, 0.05)
    assert console.export_text().count("not followed, known only as a bound") == len(found.bounds)
    collected = Collected({}, [])
    for row in measured.work.run_rows:
        labels = {key: row[key] for key in ("frame_byte", "loaded")}
        for key, known in figures_of("e", "throughput", labels, row).items():
            collected.values[key].append(known)
    assert CAP not in collected.figures.values()
    assert len([one for one in collected.bounds if "median" in one]) == 3


def test_memory_at_the_floor_is_compared_with_nothing_even_where_the_other_command_takes_more() -> None:
    def run(byte: int) -> Measured:
        return Measured(**{**dict.fromkeys(Measured.__dataclass_fields__), "most_resident_byte": byte,
                           "least_byte": 8_000_000})  # type: ignore[arg-type]  # fmt: skip

    memory = next(figure for figure in COUNTED if figure.name == "peak memory")
    assert memory.hidden([run(8_100_000), run(200_000_000)]) is not None
    assert memory.hidden([run(90_000_000), run(200_000_000)]) is None


def test_every_instrument_that_marks_bounds_names_their_column() -> None:
    """The columns of the contract whose words are those of a bound."""
    from vtare.contract import columns

    marks = {"at_least", "censored"}
    for record in RECORDS:
        known = marks & set(columns().get(record.name, {}))
        assert known <= {record.value.at_least}, record.name
