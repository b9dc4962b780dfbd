"""A level that was not reached is named with what was achieved, and is compared with none as that level."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from comparison_frames import compared
from planted import Change, of_cells, planted

from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.plan.files import parse_plan
from vtare.plan.model import StopRule
from vtare.report.content import content_of
from vtare.report.plain import markdown
from vtare.summary import Summary, summarise
from vtare.summary.between import compare_stores
from vtare.summary.stopping import judge_precision

TWO_HOSTS = (Path(__file__).parents[1] / "two_hosts.toml").read_text(encoding="utf-8")
ROUTED = (Path(__file__).parents[1] / "routed.toml").read_text(encoding="utf-8")
RATES = TWO_HOSTS.replace("blocks = 3", "blocks = 4").replace(
    'capture = ["off", "on"]\nplatform = ["host", "netns", "docker"]',
    'platform = ["host", "netns"]\nrate_packet_per_s = ["1 kpacket/s", "1 Mpacket/s"]',
).replace(', capture = "off"', "")  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Callable[[Store], CampaignResult]) -> Path:
    """The sender sends 1 kpacket/s whatever it is asked for; of the slots of the rest half passed too early."""
    with Store.create(tmp_path / "made", parse_plan(RATES, source=Path("rates.toml")), 7) as made:
        assert run_campaign(made).done == 16

    def change(rows: pl.DataFrame, footer: dict[str, Any], _place: Path) -> pl.DataFrame:
        if footer["run"]["parameters"]["rate_packet_per_s"] < 1e6:
            return rows
        late = pl.int_range(pl.len()) % 20 == 0
        nothing = [pl.when(late).then(None).otherwise(pl.col(name)).alias(name) for name in ("rtt_ns", "sent_ns")]
        return rows.with_columns(
            pl.when(late).then(pl.lit("too_late")).otherwise(pl.col("fate")).alias("fate"), *nothing
        )

    return planted(tmp_path / "made", tmp_path / "store", change)


@pytest.fixture
def summary(store: Path) -> Summary:
    return summarise(store)


def test_cells_that_fell_short_are_in_no_comparison_test_or_fit(summary: Summary) -> None:
    rows = compared(summary.comparisons).to_dicts()
    short = [row for row in rows if row["rate_packet_per_s"] == "1 Mpacket/s"]
    assert len(short) == 3
    for row in short:
        assert (row["ratio"], row["p_value"], row["verdict"]) == (None, None, "inconclusive")
        assert row["reason"].startswith("not compared: 1.00 kpacket/s reached at ")
    # At the rate that was reached platforms are compared as ever.
    assert [row["ratio"] is not None for row in rows if row not in short] == [True]
    ordered = summary.levels.filter((pl.col("factor") == "rate_packet_per_s") & pl.col("tau_b").is_not_null())
    assert ordered.height == 0


def test_each_place_that_names_the_level_names_what_was_achieved_and_the_limit_is_stated(summary: Summary) -> None:
    page = markdown(content_of(summary, figures=False)).replace("\N{NO-BREAK SPACE}", " ")
    screen = page.partition("## What differs")[0]
    assert "Not certain: 1 Mpacket/s was not reached in 2 cells (1 kpacket/s)" in screen.replace("1.00 k", "1 k")
    assert "the sender's CPU was too slow for its schedule" in screen
    for line in screen.splitlines():
        if line.startswith("|") and "1 Mpacket/s" in line:
            assert "reached)" in line, screen
    assert "decided" not in screen


def slow_by(began_later_ns: int = 0) -> Change:
    """A sixth of the rate that the run asks for."""

    def change(rows: pl.DataFrame, footer: dict[str, Any], place: Path) -> pl.DataFrame:
        footer["started_unix_ns"] += began_later_ns
        footer["run"]["parameters"]["rate_packet_per_s"] = 1000
        return of_cells(achieved_packet_per_s=165.0)(rows, footer, place)

    return change


def test_a_rate_that_is_no_factor_is_looked_at_too(two_host_store: Path, tmp_path: Path) -> None:
    slow = planted(two_host_store, tmp_path / "slow", slow_by())
    summary = summarise(slow)
    assert compared(summary.comparisons)["ratio"].null_count() == len(summary.comparisons) > 0
    assert "the rate asked for was not reached" in markdown(content_of(summary, figures=False))


def test_two_campaigns_are_not_compared_at_a_level_that_one_missed(two_host_store: Path, tmp_path: Path) -> None:
    found = compare_stores([two_host_store], [planted(two_host_store, tmp_path / "slow", slow_by(10**15))])
    assert {row.verdict for row in found.cells} == {"refused"}
    assert all(row.ratio is None and "after, 165 packet/s reached" in str(row.reason) for row in found.cells)


def test_what_cannot_be_compared_keeps_no_campaign_going(two_host_store: Path, tmp_path: Path) -> None:
    slow = planted(two_host_store, tmp_path / "slow", slow_by())
    judged = judge_precision(slow, StopRule(precision_percent=5.0))
    assert judged.stop
    assert judged.reason.startswith("no comparison can be made: not compared")


def test_cross_traffic_that_its_source_did_not_send_is_a_level_not_reached(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Callable[[Store], CampaignResult]
) -> None:
    with Store.create(tmp_path / "made", parse_plan(ROUTED, source=Path("routed.toml")), 7) as made:
        assert run_campaign(made).done == 8

    def change(rows: pl.DataFrame, _footer: dict[str, Any], place: Path) -> pl.DataFrame:
        log = place / "cross-sent.parquet"
        if log.exists():
            metadata = {"vtare": pl.read_parquet_metadata(log)["vtare"]}
            half = pl.read_parquet(log).with_columns(pl.col("ip_byte") // 2)
            half.write_parquet(log, metadata=metadata)
        return rows

    cells = summarise(tmp_path / "made").cells
    assert cells.filter(pl.col("cross") == "150 Mbit/s")["cross_share"].to_list() == pytest.approx([1.0] * 4, rel=0.05)
    short = summarise(planted(tmp_path / "made", tmp_path / "short", change))
    shares = {row["cross"]: row["cross_share"] for row in short.cells.iter_rows(named=True)}
    assert shares == {"0 Mbit/s": None, "150 Mbit/s": pytest.approx(0.5, rel=0.05)}
    text = markdown(content_of(short, figures=False))
    assert "150 Mbit/s was not reached in 4 cells" in text.replace("\N{NO-BREAK SPACE}", " ")
