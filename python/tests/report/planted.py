"""Copies of a store with something planted in its runs: readings that are disturbed, capped, missing or open."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

Change = Callable[[pl.DataFrame, dict[str, Any], Path], pl.DataFrame]
"""Takes the rows of a run, its footer (to be changed in place) and its directory; returns the rows."""


def planted(store: Path, to: Path, change: Change, *, instrument: str | None = None) -> Path:
    """Copy a store and change the samples of its runs, of one instrument or of all."""
    shutil.copytree(store, to)
    for samples in sorted(to.glob("runs/*/samples.parquet")):
        footer = json.loads(pl.read_parquet_metadata(samples)["vtare"])
        if instrument not in (None, footer["run"]["instrument"]):
            continue
        rows = change(pl.read_parquet(samples), footer, samples.parent)
        rows.write_parquet(samples, compression="lz4", metadata={"vtare": json.dumps(footer)})
        sums = samples.parent / "files.sha256"
        if sums.exists():
            files = sorted(path for path in samples.parent.rglob("*") if path.is_file() and path != sums)
            sums.write_text("".join(
                f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(samples.parent)}\n"
                for path in files
            ))  # fmt: skip
    return to


def others(cores: float) -> Change:
    """Other programs take this number of cores meanwhile."""

    def change(rows: pl.DataFrame, _footer: dict[str, Any], place: Path) -> pl.DataFrame:
        path = place / "surroundings.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"others_cores": cores}))
        return rows

    return change


def of_columns(**columns: pl.Expr) -> Change:
    """Columns of the samples are replaced."""
    return lambda rows, _footer, _place: rows.with_columns(**columns)


def of_cells(**figures: Any) -> Change:
    """Figures of every cell in the footer are replaced."""

    def change(rows: pl.DataFrame, footer: dict[str, Any], _place: Path) -> pl.DataFrame:
        for cell in footer["result"]["cells"]:
            cell |= figures
        return rows

    return change
