"""What a report shows of round trips: every figure from the store, nothing where nothing was captured."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import polars as pl
import pytest

from vtare import plots
from vtare.number_text import percent_text
from vtare.report.build import render
from vtare.report.claims import answer
from vtare.report.content import Content, content_of, layouts_of
from vtare.report.main_table import main_rows
from vtare.report.pages.rtt import PAGE, PIECE_NAMES, stack_figures
from vtare.sentences.template import plain
from vtare.summary import Summary, summarise


@pytest.fixture(scope="module")
def summary(two_host_store: Path) -> Summary:
    return summarise(two_host_store)


@pytest.fixture(scope="module")
def content(summary: Summary) -> Content:
    return content_of(summary)


def main_figure(summary: Summary) -> tuple[list[str], list[str]]:
    said = answer(summary, layouts_of(summary))
    return [plain(one) for one in said.sentences], [plain(one) for notes in said.notes.values() for one in notes]


def test_the_answer_is_the_round_trip_and_the_overhead_and_losses_stand_in_the_section(summary: Summary) -> None:
    sentences, details = main_figure(summary)
    same = "the same in all runs"
    assert sentences[0] == (f"A round trip takes 50.0 µs ({same}) from the host and 50.0 µs ({same}) from netns.")
    assert sentences[1] == (
        f"With captures on both hosts it takes 50.0 µs ({same}) from the host and 50.0 µs ({same}) from netns. "
        "Of this, the layer at the sender takes 26.0 % or 13.0 µs (13.0 to 13.0 µs) from the host and 26.0 % or 13.0 "
        "µs (13.0 to 13.0 µs) from netns."
    )
    assert len(sentences) == 2
    assert "16 of 6400 packets were lost" in details[0]


def test_the_main_comparisons_set_platforms_and_captures_side_by_side(summary: Summary) -> None:
    rows = main_rows(summary, layouts_of(summary), "rates")
    assert [(row.figure, row.level, row.baseline, row.labels["capture" if row.factor == "platform" else "platform"])
            for row in rows] == [
        ("rtt_ns", "netns", "host", "off"),
        ("overhead_ns", "netns", "host", "on"),
        # What capturing itself changes.
        ("rtt_ns", "on", "off", "host"),
    ]  # fmt: skip
    cells = summary.cells.filter(pl.col("platform").is_in(["host", "netns"]))
    for row in rows:
        assert row.verdict == "equivalent"
        assert row.ratio is not None
        assert row.ratio_low is not None
        assert row.ratio_high is not None
        assert row.ratio == pytest.approx(1.0)
        # What the step of the clock hides either way; overheads are medians of differences of finer captures.
        is_stepped = row.figure == "rtt_ns"
        assert (row.ratio_low < row.ratio < row.ratio_high) == is_stepped
        column = "median" if row.figure == "rtt_ns" else "overhead_ns"
        for level, value in ((row.level, row.median), (row.baseline, row.median_baseline)):
            shared = {**row.labels, row.factor: level}
            (wanted,) = cells.filter(pl.col("platform") == shared["platform"], pl.col("capture") == shared["capture"])[
                column
            ]
            assert value == pytest.approx(wanted)


def test_where_all_was_captured_the_overhead_is_part_of_what_was_shown(summary: Summary) -> None:
    captured = dataclasses.replace(summary, cells=summary.cells.filter(pl.col("capture") == "on"))
    sentences, _ = main_figure(captured)
    assert sentences[1] == (
        "Of this, the layer at the sender takes 26.0 % or 13.0 µs (13.0 to 13.0 µs) from the host and 26.0 % or 13.0 "
        "µs (13.0 to 13.0 µs) from netns."
    )


def test_nothing_is_stated_of_overhead_where_nothing_was_captured(summary: Summary) -> None:
    blank = [
        pl.lit(None, pl.Float64).alias(name)
        for name in ("overhead_ns", "overhead_low_ns", "overhead_high_ns", *PIECE_NAMES)
    ]
    bare = dataclasses.replace(
        summary,
        cells=summary.cells.with_columns(blank),
        comparisons=tuple(row for row in summary.comparisons if row.factor != "capture"),
    )
    sentences, _ = main_figure(bare)
    assert not any("captur" in sentence for sentence in sentences[:2])
    for layout in layouts_of(bare).values():
        assert stack_figures(bare, layout) is None


def test_the_pieces_are_drawn_for_captured_cells_only(summary: Summary, content: Content) -> None:
    (layout,) = layouts_of(summary).values()
    question = PAGE.first(summary, layout) if PAGE.first is not None else None
    assert question is not None
    (panel,) = question.panels
    words = panel.drawing.text
    for platform in ("host", "netns"):
        assert (
            f"{platform} 50.0 µs: layer at the sender 13.0 µs, wire 12.0 µs, layer at the responder 5.00 µs, "
            "responder 20.0 µs (26.0 % of the whole is layer at the sender)" in words
        )
    assert "docker" not in words
    # The main figure has shares, the second one times.
    second = stack_figures(summary, layout)
    assert second is not None
    assert second.title == "Where does the time go?"
    drawn = content.headline
    assert drawn is not None
    assert (drawn.id, drawn.title) == ("answer-rates", "How much of a round trip is the layer?")


def test_without_a_turnaround_the_responder_is_one_piece(summary: Summary) -> None:
    (layout,) = layouts_of(summary).values()
    echo = dataclasses.replace(
        summary, cells=summary.cells.with_columns(turnaround_ns=None, responder_overhead_ns=None)
    )
    question = PAGE.first(echo, layout) if PAGE.first is not None else None
    assert question is not None
    assert "responder with its layer 25.0 µs" in question.panels[0].drawing.text
    assert ", responder 2" not in question.panels[0].drawing.text


def test_the_page_counts_lost_packets_and_states_how_the_pieces_were_made(content: Content) -> None:
    page = render(content)
    heads = re.findall(r'<th scope="col"[^>]*data-k="([a-z0-9_]+)"', page)
    assert {"lost", "sent", "overhead_ns", "overhead_share_percent", "wire_ns", "turnaround_ns"} <= set(heads)
    assert 'id="figure-answer-rates"' in page
    assert "Pieces: requests and replies are captured on both host sides" in page
    assert "Sender, responder and both servers share the CPUs of one machine" in page
    # The far end is the lab's own: it is no level that cells differ in.
    assert "peer" not in heads


def test_the_share_in_the_figure_is_that_of_the_sentence_and_of_the_table(summary: Summary, content: Content) -> None:
    assert content.headline is not None
    drawn = content.headline.panels[0].drawing
    shares = drawn.data.filter(pl.col("piece") == "layer at the sender")["share"].to_list()
    for _, pieces in drawn.data.filter(pl.col("piece") != "whole").group_by("label"):
        assert pieces["share"].sum() == pytest.approx(1.0)
    cells = summary.cells.filter((pl.col("experiment") == "rates") & pl.col("overhead_share_percent").is_not_null())
    assert shares
    assert set(shares) <= {share / 100 for share in cells["overhead_share_percent"]}
    said = " ".join(plain(sentence) for sentence in content.answer.sentences)
    assert all(f"{percent_text(share)} or " in said for share in shares)
    assert all(f"({percent_text(share)} of the whole is layer at the sender)" in drawn.text for share in shares)


def test_pieces_below_zero_stand_left_of_zero_and_the_axis_holds_them() -> None:
    row = plots.Stack("guest", 60_000.0, (("sender_overhead_ns", -4_000.0), ("wire_ns", 50_000.0)))
    assert plots.stack_values([row]) == [50_000.0, -4_000.0, 60_000.0]
    scale = plots.stack_scale(plots.stack_values([row]))
    assert scale.kind == "linear"
    assert scale.low < -4_000 < 60_000 < scale.high
    drawing = plots.stacks([row], name="pieces", names=PIECE_NAMES, label="round-trip time")
    assert "guest 60.0 µs: layer at the sender -4.00 µs, wire 50.0 µs" in drawing.text
    with pytest.raises(ValueError, match="there are no rows"):
        plots.stacks([], name="pieces", names=PIECE_NAMES, label="round-trip time")
