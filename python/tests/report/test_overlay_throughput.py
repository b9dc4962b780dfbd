"""A campaign of forwarding guests beside Batalla et al.: what is printed, and words for what cannot be compared."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest
from forwarding_store import closed_form, throughput_of, write_forwarding_store

from vtare import plots
from vtare.papers.claims import reanalyse
from vtare.papers.published import read_rows
from vtare.report.cell_table import cell_table
from vtare.report.content import layouts_of
from vtare.report.overlay import Overlay, overlay, overlay_page
from vtare.report.pages import throughput
from vtare.report.text import keep
from vtare.summary import Summary, summarise
from vtare.terminal.papers import claims_page


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summarise(write_forwarding_store(tmp_path_factory.mktemp("forwarding") / "store"))


@pytest.fixture(scope="module")
def beside(twelve: Summary) -> Overlay:
    return overlay(twelve, "batalla2018")


def rows_of(found: Overlay, table: str) -> list[dict[str, Any]]:
    (rows,) = (entry["rows"] for entry in found.document()["tables"] if entry["id"] == table)
    return rows  # type: ignore[no-any-return]


def test_the_index_of_the_frames_sent_stands_beside_its_closed_form_and_the_papers(beside: Overlay) -> None:
    rows = rows_of(beside, "standing-jain")
    assert [row["loaded"] for row in rows] == [1, 6, 12]
    printed = {row["k_strongly_loaded"]: float(row["j_eq5"]) for row in read_rows("batalla_jain_index")}
    for row in rows:
        planned = closed_form(12, row["loaded"])
        assert row["jain_planned"] == pytest.approx(planned)
        assert row["published"] == pytest.approx(printed[f"{row['loaded']:.0f}"])
        assert row["jain_error_percent"] == pytest.approx(-0.1)


def test_bursts_are_columns_of_the_cells_where_they_were_asked_for(twelve: Summary, tmp_path: Path) -> None:
    asked = summarise(write_forwarding_store(tmp_path / "store", guests=4, loaded=(4,), bursts=3))
    for summary, shown in ((twelve, False), (asked, True)):
        layout = layouts_of(summary)["spread"]
        table = cell_table(layout, summary.cells, None, None)
        keys = [column.key for column in table.columns]
        assert ("burst_frames" in keys) is shown
    row = dict(zip(keys, table.rows[0], strict=True))
    assert (row["burst_frames"].order, row["buffer_frames"].order) == (1000.0, 600.0)
    assert row["buffer_ns"].text.replace("\N{NO-BREAK SPACE}", " ") == "3.00 ms"


def test_other_numbers_of_guests_are_given_no_printed_index(tmp_path: Path) -> None:
    found = overlay(summarise(write_forwarding_store(tmp_path / "store", guests=4, loaded=(1, 4))), "batalla2018")
    table = next(table for table in found.tables if table.id == "standing-jain")
    assert [row[-1].text for row in table.rows] == ["n/a (not of 4)"] * 2
    assert [row["published"] for row in rows_of(found, "standing-jain")] == [None, None]
    assert any("equal shares of loaded guests compare" in note for note in found.notes)
    assert "closed form" in found.drawings[0].text


def test_what_an_even_load_adds_stands_beside_the_printed_twofold(beside: Overlay) -> None:
    for row in rows_of(beside, "standing-gains"):
        wanted = throughput_of(64, 1.0) / throughput_of(64, closed_form(12, 1))
        assert row["throughput_ratio"] == pytest.approx(wanted, rel=1e-3)
        assert row["published"] == "2.0"


def test_only_frames_for_which_a_figure_is_printed_have_one_beside_them(beside: Overlay) -> None:
    rates = rows_of(beside, "standing-rates")
    assert len(rates) == 3
    assert {row["published_bit_per_s"] for row in rates} == {1e9}
    assert {row["standing"] for row in rates} == {"above the paper's link"}
    latencies = rows_of(beside, "standing-latencies")
    assert len(latencies) == 6
    small = [row["published"] for row in latencies if "64 B" in str(row["cell"])]
    assert set(small) == {"Xen: more than 80.0 \N{MICRO SIGN}s; KVM: at most 100 \N{MICRO SIGN}s"}


def test_words_state_what_cannot_be_compared(beside: Overlay) -> None:
    notes = " ".join(beside.notes)
    assert "plot throughput and latency" in notes
    assert "the guests here are netns" in notes
    assert "lower bound" in notes
    assert beside.document()["notes"] == list(beside.notes)


def test_throughput_over_j_and_latency_have_charts_beside_their_still_figures(twelve: Summary) -> None:
    (layout,) = layouts_of(twelve).values()
    panels = [panel for question in throughput.questions(twelve, layout) for panel in question.panels]
    assert panels
    for panel in panels:
        assert panel.chart is not None
        assert panel.chart().keys


def test_throughput_and_latency_are_drawn_over_bits_too_by_spread_and_by_frame_size(tmp_path: Path) -> None:
    summary = summarise(write_forwarding_store(tmp_path / "store", shares=(0.5, 1.0)))
    layout = layouts_of(summary)["spread"]
    drawn = {one.id.partition("-spread")[0]: one for one in throughput.questions(summary, layout)}
    (packets,), (bits,) = ([panel.drawing for panel in drawn[name].panels] for name in (
        "jain-throughput", "jain-throughput-in-bits"))  # fmt: skip
    # Labels hold their units together by a space that does not break.
    frame_bit = {keep(label): bit for label, bit in {"frame 64 B": 512.0, "frame 1518 B": 12_144.0}.items()}
    expected = {
        (row["label"], row["Jain's index of the load sent to each guest"]): row["throughput, packet/s"]
        * frame_bit[row["label"]]
        for row in packets.data.iter_rows(named=True)
    }
    assert expected
    for row in bits.data.iter_rows(named=True):
        key = (row["label"], row["Jain's index of the load sent to each guest"])
        assert row["throughput in bits, bit/s"] == pytest.approx(expected[key], rel=1e-3)
        assert row["low"] is None or row["low"] <= row["throughput in bits, bit/s"] <= row["high"]
    # Batalla's figures 8 and 9: a line for each spread where frames are of one size, and one for each size.
    headings = {keep(panel.heading): set(panel.drawing.data["label"]) for panel in drawn["bits"].panels}
    assert headings == {
        **{label: set(map(keep, ("1 loaded", "6 loaded", "12 loaded"))) for label in frame_bit},
        **{keep(f"{loaded} loaded"): set(frame_bit) for loaded in (1, 6, 12)},
    }


def test_latency_over_load_has_a_point_for_each_load_asked_for_and_lines_that_differ(twelve: Summary) -> None:
    (layout,) = layouts_of(twelve).values()
    question = next(one for one in throughput.questions(twelve, layout) if one.id.startswith("load"))
    asked = layout.experiment.parameters["latency_load"]
    for panel in question.panels:
        assert panel.chart is not None
        chart = panel.chart()
        styles = [plots.style_of(key.style) for key in chart.keys]
        assert len({(style.hue, style.marker) for style in styles}) == len(styles) > 1
        rows = chart.spec["datasets"]["rows"]
        for key in chart.keys:
            own = [row for row in rows if row["curve"] == key.label]
            assert len(own) == len(asked)
            assert all(row["low"] <= row["rate"] <= row["high"] for row in own)


def test_the_page_to_send_has_every_table_figure_and_note(twelve: Summary) -> None:
    found = overlay(twelve, "batalla2018")
    page = unescape(overlay_page(found))
    assert all((found.tables, found.drawings, found.notes))
    missing = [table.caption for table in found.tables if f">{table.caption}</h2>" not in page]
    missing += [drawing.name for drawing in found.drawings if drawing.name not in page]
    missing += [note for note in found.notes if keep(note) not in page]
    assert missing == []


def test_the_page_of_a_papers_claims_has_each_with_its_outcome() -> None:
    found = reanalyse("batalla2018")
    page = unescape(claims_page(found))
    assert [one.id for one in found.claims if keep(one.statement) not in page or keep(one.why) not in page] == []
