"""Stores of any size: counting by value gives what all readings at once give, in slices, with damage."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

from campaigns import Truth, write_campaign

from vtare import stats
from vtare.bulk import Distribution, Slice, count_slice, distributions, slices_of
from vtare.errors import BadInput
from vtare.report.write import write_summary
from vtare.stats.effect import block_medians, medians_by_sorting, medians_by_window
from vtare.summary import Summary, summarise
from vtare.summary.cells import count_outliers


def same(found: Distribution, keys: tuple[str, ...], readings: pl.DataFrame) -> None:
    """The distribution is that of these readings (`value`, `weight`) of its cell."""
    wanted = (
        readings.filter(*(pl.col(key) == found.labels[key] for key in keys))
        .group_by("value")
        .agg(pl.col("weight").sum())
        .sort("value")
    )
    assert found.tally.values.tolist() == wanted["value"].to_list()
    assert found.tally.counts.tolist() == wanted["weight"].to_list()


@pytest.fixture(scope="module")
def summaries(finished: Path, two_host_store: Path, routed_store: Path) -> dict[str, Summary]:
    return {path.parent.name: summarise(path) for path in (finished, two_host_store, routed_store)}


def test_every_instruments_readings_are_counted_as_they_stand_in_the_files(summaries: dict[str, Summary]) -> None:
    seen = set()
    for summary in summaries.values():
        for experiment in summary.plan.experiments:
            seen.add(experiment.instrument)
            readings = summary.samples(experiment.name).filter(pl.col("value").is_not_null()).collect()
            keys = summary.keys[experiment.name]
            cells = list(summary.distributions(experiment.name))
            assert len(cells) == readings.select(keys).unique().height
            assert sum(found.tally.n for found in cells) == readings["weight"].sum()
            for found in cells:
                assert tuple(found.labels) == keys
                same(found, keys, readings)
    assert seen == {"sleep", "timer", "counter", "noise", "rtt", "avb"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven runs a cell of 1,200 readings, one with a warm-up, one that is damaged, one without a reading."""
    root = write_campaign(tmp_path_factory.mktemp("bulk") / "s", Truth(blocks=11, samples=1200), 5)
    paths = [root / "runs" / run / "samples.parquet" for run in pl.read_parquet(root / "design.parquet")["run_id"]]
    warm = pl.when(pl.col("index") < 200).then(pl.col("miss_ns") * 9).otherwise("miss_ns").cast(pl.Int64)
    rewrite(paths[0], pl.read_parquet(paths[0]).with_columns(miss_ns=warm))
    rewrite(paths[1], pl.read_parquet(paths[1]).clear())
    paths[2].write_bytes(paths[2].read_bytes()[:-9])
    return root


def rewrite(path: Path, frame: pl.DataFrame) -> None:
    footer = pl.read_parquet_metadata(path)["vtare"]
    assert json.loads(footer)
    frame.write_parquet(path, metadata={"vtare": footer})


def test_slices_add_up_to_the_whole(store: Path) -> None:
    summary = summarise(store)
    (whole, other), sliced = (list(distributions(summary.sample_set, "sleeps", rows=rows)) for rows in (10**9, 2500))
    assert (whole.labels, other.labels) == (sliced[0].labels, sliced[1].labels)
    for one, parts in zip((whole, other), sliced, strict=True):
        assert one.tally.values.tolist() == parts.tally.values.tolist()
        assert one.tally.counts.tolist() == parts.tally.counts.tolist()
    files = [file for file in summary.sample_set.files if file.run.factors["method"] == "usleep"]
    lengths = [len(piece.paths) for piece in slices_of(files, rows=2500)]
    assert sum(lengths) == len(files)
    assert max(lengths) <= 3
    assert [len(piece.paths) for piece in slices_of(files, rows=1)] == [1] * len(files)


def test_outliers_of_counts_are_those_of_all_readings_at_once(store: Path) -> None:
    summary = summarise(store)
    rows = {row["run_id"]: row for row in summary.runs.iter_rows(named=True)}
    for cell in summary.outliers.iter_rows(named=True):
        parts = []
        for file in summary.sample_set.files:
            if file.run.factors["method"] == cell["method"] and file.run.run_id in rows:
                parts.append(
                    summary.sample_set.read(file)["value"].to_numpy()[rows[file.run.run_id]["warmup_n"] or 0 :]
                )
        values = np.concatenate(parts)
        assert cell["n"] == len(values)
        assert cell["outliers"] == stats.robust_z(values, log=True).n_outliers
    assert count_outliers(stats.tally([])) is None


def test_boxes_show_the_warm_up_and_runs_without_readings_have_none(store: Path) -> None:
    summary = summarise(store)
    ids = summary.design["run_id"].to_list()
    assert summary.runs.filter(run_id=ids[0])["warmup_n"][0] >= 200
    box = summary.boxes.filter(run_id=ids[0]).row(0, named=True)
    raw = pl.read_parquet(store / "runs" / ids[0] / "samples.parquet")["miss_ns"].to_numpy()
    assert box["n"] == 1200
    assert (box["min"], box["max"], box["median"]) == (raw.min(), raw.max(), np.median(raw))
    assert (box["q1"], box["q3"]) == tuple(np.quantile(raw, [0.25, 0.75]))
    assert summary.boxes.filter(run_id=ids[1]).height == 0
    assert summary.boxes.filter(run_id=ids[2]).height == 0
    assert [problem.run_id for problem in summary.sample_set.problems] == [ids[2]]


def test_finished_runs_without_any_reading_are_distinguished_from_none_finished(tmp_path: Path) -> None:
    root = write_campaign(tmp_path / "s", Truth(blocks=1, samples=20), 5)
    for path in root.glob("runs/*/samples.parquet"):
        rewrite(path, pl.read_parquet(path).clear())
    with pytest.raises(BadInput, match="2 runs finished without any reading"):
        write_summary(summarise(root), tmp_path / "report.html")


def test_file_damaged_after_it_was_checked_is_bad_input(store: Path) -> None:
    damaged = store / "runs" / pl.read_parquet(store / "design.parquet")["run_id"][2] / "samples.parquet"
    with pytest.raises(BadInput, match="the samples of 1 runs cannot be counted"):
        count_slice(Slice("sleep", (str(damaged),)))


whole = st.lists(st.integers(-50, 50), max_size=60)


@given(st.lists(whole, max_size=6))
@settings(max_examples=60)
def test_tallies_added_up_are_the_tally_of_all(parts: list[list[int]]) -> None:
    adder = stats.Adder()
    for part in parts:
        adder.add(stats.tally(np.array(part, dtype=float)))
    everything = np.array([x for part in parts for x in part], dtype=float)
    distinct, counts = np.unique(everything, return_counts=True)
    for found in (adder.total(), stats.tally(everything), stats.tally(everything, weights=np.ones(len(everything)))):
        assert found.values.tolist() == distinct.tolist()
        assert found.counts.tolist() == counts.tolist()
        assert found.n == len(everything)


@given(
    st.lists(st.integers(0, 9), min_size=4, max_size=80), st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 9)
)
@settings(max_examples=80)
def test_medians_of_resamples_counted_in_a_window_are_those_of_resamples_laid_out(
    readings: list[int], seed: int, rising: bool, block: int
) -> None:
    values = np.array(sorted(readings) if rising else readings, dtype=float)
    n = len(values)
    block = min(block, n)
    starts = np.random.default_rng(seed).integers(0, n, (5, -(-n // block)))
    assert medians_by_window(values, starts, block).tolist() == medians_by_sorting(values, starts, block).tolist()


def test_long_runs_are_resampled_with_the_draws_of_short_ones() -> None:
    values = np.rint(6e4 * np.exp(0.2 * np.random.default_rng(1).standard_normal(20_001)))
    # 20,001 readings are 141 blocks of 142, the last one cut.
    starts = np.random.default_rng(2).integers(0, 20_001, (30, 141))
    wanted = medians_by_sorting(values, starts, 142)
    assert block_medians(values, np.random.default_rng(2), 30).tolist() == wanted.tolist()
