"""All figures of a row are of the same readings: those of the settled run; parts and whole of a row agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import Change, planted
from synthetic_store import SMALL, write_store

from vtare.campaign.two_hosts import SIDES, capture_name
from vtare.instruments import RECORDS
from vtare.report.claims import answer
from vtare.report.content import layouts_of
from vtare.sentences.template import plain
from vtare.summary import summarise

N, WARM_UP = 2000, 565
#: What is about the whole run: counts, how far it came, and the time that it spent late.
OF_THE_WHOLE = {"warmup_n", "asked", "completed_fraction", "late_fraction"}


def round_trips(times_slower: float) -> Change:
    """2,000 round trips of 50 us, 20 % of it in the layer; in the warm-up both take `times` as long."""

    def change(rows: pl.DataFrame, footer: dict[str, Any], place: Path) -> pl.DataFrame:
        rng = np.random.default_rng(footer["started_unix_ns"] % 1000)
        slower = np.where(np.arange(N) < WARM_UP, times_slower, 1.0)
        layer = np.rint(1e4 * slower * np.exp(rng.normal(0, 0.1, N))).astype(np.int64)
        rtt = layer + np.rint(4e4 * slower * np.exp(rng.normal(0, 0.1, N))).astype(np.int64)
        sent = np.arange(N) * 1_000_000
        made = pl.concat([rows.head(1)] * N).with_columns(
            sequence=pl.Series(np.arange(N)).cast(rows["sequence"].dtype), scheduled_ns=pl.Series(sent),
            sent_ns=pl.Series(sent), arrived_ns=pl.Series(sent + rtt), rtt_ns=pl.Series(rtt),
            rtt_scheduled_ns=pl.Series(rtt), fate=pl.lit("received"),
        )  # fmt: skip
        for side in SIDES:
            path = place / capture_name(side)
            if path.exists():
                frame = pl.read_parquet(path)
                at = {"request": sent + layer // 2, "reply": sent + rtt - (layer - layer // 2)}
                if side == "responder":
                    at = {"request": at["request"] + 10_000, "reply": at["reply"] - 10_000}
                parts = [
                    pl.concat([frame.filter(pl.col("kind") == kind).head(1)] * N).with_columns(
                        sequence=pl.Series(np.arange(N)).cast(frame["sequence"].dtype), captured_ns=pl.Series(stamps)
                    )
                    for kind, stamps in at.items()
                ]
                pl.concat(parts).sort("captured_ns").write_parquet(
                    path, metadata={"vtare": pl.read_parquet_metadata(path)["vtare"]}
                )
        return made

    return change


@pytest.fixture(scope="module")
def captured(two_host_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same campaign with a warm-up that is 10 and 30 times slower."""
    base = tmp_path_factory.mktemp("captured")
    slow, slower = (planted(two_host_store, base / str(times), round_trips(times)) for times in (10.0, 30.0))
    return slow, slower


def test_no_figure_but_counts_depends_on_readings_of_the_warm_up(captured: tuple[Path, Path]) -> None:
    runs = [summarise(store).runs for store in captured]
    assert runs[0]["warmup_n"].min() >= WARM_UP  # type: ignore[operator]
    assert runs[0]["overhead_ns"].drop_nulls().len()
    differ = {name for name in runs[0].columns if not runs[0][name].equals(runs[1][name], null_equal=True)}
    assert differ <= OF_THE_WHOLE


def test_no_figure_of_a_sleep_depends_on_the_warm_up(tmp_path: Path) -> None:
    def slow(times: float) -> Change:
        def change(rows: pl.DataFrame, _footer: dict[str, Any], _place: Path) -> pl.DataFrame:
            long = pl.concat([rows] * 6).with_columns(index=pl.int_range(pl.len()).over("method", "target_ns"))
            warm_up = pl.col("index") < WARM_UP
            return long.with_columns(
                miss_ns=pl.when(warm_up).then(pl.col("miss_ns") * times).otherwise("miss_ns").cast(pl.Int64),
                disturbed=pl.when(warm_up).then(times > 20).otherwise("disturbed"),
                spin_ns=pl.when(warm_up).then(int(times)).otherwise("spin_ns"),
            )

        return change

    made = write_store(tmp_path / "made", SMALL)
    runs = [
        summarise(planted(made, tmp_path / str(times), slow(times), instrument="sleep")).runs for times in (10.0, 30.0)
    ]
    assert runs[0]["warmup_n"].max() >= WARM_UP  # type: ignore[operator]
    cut = [frame.filter(pl.col("warmup_n") >= WARM_UP) for frame in runs]
    differ = {name for name in cut[0].columns if not cut[0][name].equals(cut[1][name], null_equal=True)}
    assert differ <= OF_THE_WHOLE


def test_parts_and_whole_of_a_row_agree(captured: tuple[Path, Path]) -> None:
    cells = summarise(captured[0]).cells
    shares = [(metric.name, *metric.share_of) for record in RECORDS for metric in record.metrics if metric.share_of]
    assert shares
    for row in cells.filter(pl.col("overhead_ns").is_not_null()).iter_rows(named=True):
        for share, part, whole in shares:
            assert row[share] == pytest.approx(100 * row[part] / row[whole])
        assert row["overhead_ns"] == pytest.approx(1e4, rel=0.05)
        assert row["rtt_scheduled_ns"] == pytest.approx(row["median"])
        pieces = sum(row[name] for name in ("sender_overhead_ns", "wire_ns", "responder_side_ns"))
        assert pieces == pytest.approx(row["median"], rel=0.02)


def test_the_sentence_on_the_layer_divides_the_figures_beside_it(captured: tuple[Path, Path]) -> None:
    summary = summarise(captured[0])
    said = " ".join(plain(one) for one in answer(summary, layouts_of(summary)).sentences)
    assert "the layer at the sender takes 19" in said or "the layer at the sender takes 20" in said, said
