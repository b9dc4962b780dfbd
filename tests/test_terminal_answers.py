"""What instruments print is recomputed from the samples that they wrote, without any code of vtare."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, "": 1.0}
LEAST_FIGURES = 20
Figures = Iterator[tuple[str, str, float]]
"""Where a figure stands, its text, and what it should be."""


def number(text: str) -> float:
    """A printed figure in ns, as a share, or as a count."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?: ?(ns|us|ms|s|%))?", text.strip())
    assert found, f"'{text}' is no figure"
    return float(found[1]) * UNITS[found[2] or ""]


def table(text: str, first: str) -> list[dict[str, str]]:
    """The rows of the table whose first heading this is."""
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if line.split("  ")[0].strip() == first)
    heads = re.split(r"\s{2,}", lines[at].strip())
    rows = []
    for line in lines[at + 1 :]:
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) != len(heads):
            break
        rows.append(dict(zip(heads, cells, strict=True)))
    return rows


def of_times(where: str, row: dict[str, str], values: NDArray[np.float64], median: str) -> Figures:
    """Median, half the middle half, p99 and the longest."""
    low, middle, high, p99 = np.quantile(values, [0.25, 0.5, 0.75, 0.99])
    wanted = {median: middle, "half IQR": (high - low) / 2, "p99": p99, "max": values.max()}
    for head, value in wanted.items():
        if row[head] not in ("-", "<quantum"):
            yield f"{where}: {head}", row[head], float(value)


def of_sleep(text: str, rows: pl.DataFrame) -> Figures:
    for row in table(text, "method"):
        target = number(row["target"])
        own = rows.filter((pl.col("method") == row["method"]) & (pl.col("target_ns") == target))
        values = own["miss_ns"].to_numpy().astype(float)
        where = f"{row['method']} {row['target']}"
        yield from of_times(where, row, values, "median miss")
        yield f"{where}: >100 us", row[">100 us"], float(np.mean(values > 100e3))
        yield f"{where}: sleeps", row["sleeps"], len(values)


def of_noise(text: str, rows: pl.DataFrame) -> Figures:
    for row in table(text, "CPU"):
        values = rows.filter(pl.col("cpu") == int(row["CPU"]))["gap_ns"].to_numpy().astype(float)
        yield f"CPU {row['CPU']}: gaps", row["gaps"], len(values)
        if len(values) == 0:
            continue
        yield from of_times(f"CPU {row['CPU']}", row, values, "median")
        lost = re.search(rf"CPU {row['CPU']} lost (\S+ \S+):", " ".join(text.split()))
        assert lost
        yield f"CPU {row['CPU']}: lost", lost[1], float(values.sum())


def of_counter(text: str, rows: pl.DataFrame) -> Figures:
    for row in table(text, "argument"):
        values = rows.filter(pl.col("argument") == int(row["argument"]))["wall_ns"].to_numpy().astype(float)
        yield f"argument {row['argument']}: median", row["median"], float(np.median(values))
        yield f"argument {row['argument']}: CV", row["CV"], float(values.std(ddof=1) / values.mean())
        yield f"argument {row['argument']}: calls", row["calls"], len(values)


def of_rtt(text: str, rows: pl.DataFrame) -> Figures:
    back = rows.filter(pl.col("fate") == "received")["rtt_ns"].to_numpy().astype(float)
    (row,) = table(text, "peer")
    yield from of_times("table", row, back, "median RTT")
    yield "table: sent", row["sent"], rows.height
    words = " ".join(text.split())
    for pattern, value in (
        (r"takes (\S+ \S+) in the median", float(np.median(back))),
        (r"1 in 100 takes (\S+ \S+) or more", float(np.quantile(back, 0.99))),
        (r"of (\d+) packets was lost", rows.height),
    ):
        found = re.search(pattern, words)
        assert found, pattern
        yield pattern, found[1], value


COMMANDS: dict[str, tuple[str, Callable[[str, pl.DataFrame], Figures]]] = {
    "sleep": ("sleep -v --method usleep,adaptive --target 1ms,200us --samples 300", of_sleep),
    "noise": ("noise -v --seconds 1", of_noise),
    "counter": ("counter -v --batches 3 --calls 20 --max-exponent 6 --unit-ms 0.05", of_counter),
}


def check(text: str, rows: pl.DataFrame, figures: Callable[[str, pl.DataFrame], Figures]) -> int:
    """Compare each printed figure with the samples, to the three digits that are printed, and count them."""
    wrong, seen = [], 0
    for where, shown, wanted in figures(text, rows):
        seen += 1
        if abs(number(shown) - wanted) > 0.0051 * abs(wanted) + 1e-4:
            wrong.append(f"{where}: {shown}, computed {wanted}")
    assert not wrong, wrong
    return seen


@pytest.mark.e2e
def test_figures_of_terminal_answers_are_those_of_the_samples(tmp_path: Path, vtare: Path) -> None:
    seen = {}
    words = [str(vtare), "serve", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as responder:
        try:
            assert responder.stdout is not None
            address = json.loads(responder.stdout.readline())["listen"]
            commands = COMMANDS | {"rtt": (f"rtt {address} -v --count 400 --rate 500 --blocking", of_rtt)}
            for name, (line, figures) in commands.items():
                out = tmp_path / f"{name}.parquet"
                words = [str(vtare), *line.split(), "--out", str(out)]
                done = subprocess.run(words, capture_output=True, text=True, check=True, env={"COLUMNS": "200"})
                seen[name] = check(done.stdout, pl.read_parquet(out), figures)
        finally:
            responder.terminate()
    assert seen.keys() == commands.keys()
    assert sum(seen.values()) >= 2 * LEAST_FIGURES, seen


@pytest.mark.e2e
def test_a_figure_that_is_not_of_the_samples_is_seen(tmp_path: Path, vtare: Path) -> None:
    out = tmp_path / "sleep.parquet"
    line = COMMANDS["sleep"][0].split()
    done = subprocess.run(
        [vtare, *line, "--out", out], capture_output=True, text=True, check=True, env={"COLUMNS": "200"}
    )
    moved = pl.read_parquet(out).with_columns(pl.col("miss_ns") * 11 // 10)
    with pytest.raises(AssertionError, match="computed"):
        check(done.stdout, moved, of_sleep)
