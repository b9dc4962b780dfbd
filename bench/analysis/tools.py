"""The same question to each tool, in a process of its own: `tools.py TOOL STORE` prints one JSON document.

Of each cell: exact quartiles, median, p99 and p99.9 (Hyndman-Fan type 7), and P(X > x) at every distinct reading. The
clock runs from the opened store to the last figure; imports are outside it.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "src"))

QUANTILES = (0.25, 0.5, 0.75, 0.99, 0.999)
#: Cell, its quantiles, the distinct readings and P(X > x) at each.
Answer = tuple[str, list[float], Any, Any]


def cells(store: Path) -> dict[str, list[str]]:
    """The files of each cell."""
    from vtare.campaign.store import read_store

    found: dict[str, list[str]] = {}
    for run in read_store(store)[1]:
        name = f"{run.factors['load']} {run.factors['method']}"
        found.setdefault(name, []).append(str(store / "runs" / run.run_id / "samples.parquet"))
    return found


def ask_vtare(store: Path) -> Iterator[Answer]:
    from vtare.bulk import distributions
    from vtare.campaign.store import read_store
    from vtare.samples import open_samples

    plan, runs, _ = read_store(store)
    for found in distributions(open_samples(store, plan, runs), "sleeps"):
        ordered = found.tally.ordered
        name = f"{found.labels['load']} {found.labels['method']}"
        above = (ordered.n - ordered.cumulated) / ordered.n
        yield name, [ordered.quantile(q) for q in QUANTILES], found.tally.values, above


def ask_pandas(store: Path) -> Iterator[Answer]:
    import pandas as pd

    names = cells(store)
    parts = [
        pd.read_parquet(path, columns=["miss_ns"]).assign(cell=np.int8(i))
        for i, paths in enumerate(names.values())
        for path in paths
    ]
    frame = pd.concat(parts, ignore_index=True)
    del parts
    grouped = frame.groupby("cell")["miss_ns"]
    quantiles = grouped.quantile(list(QUANTILES))
    counts = grouped.value_counts(sort=False).sort_index()
    for i, name in enumerate(names):
        each = counts.loc[i]
        n = int(each.sum())
        yield name, quantiles.loc[i].tolist(), each.index.to_numpy(), (n - each.cumsum()).to_numpy() / n


def ask_polars(store: Path) -> Iterator[Answer]:
    import polars as pl

    names = cells(store)
    about = pl.LazyFrame(
        {
            "path": [path for paths in names.values() for path in paths],
            "cell": pl.Series([i for i, paths in enumerate(names.values()) for _ in paths], dtype=pl.Int8),
        }
    )
    paths = [path for paths in names.values() for path in paths]
    scanned = pl.scan_parquet(paths, include_file_paths="path").select("path", "miss_ns")
    frame = scanned.join(about, on="path").select("cell", "miss_ns").collect()
    grouped = frame.group_by("cell").agg(
        pl.col("miss_ns").quantile(q, interpolation="linear").alias(str(q)) for q in QUANTILES
    )
    quantiles = {row["cell"]: [row[str(q)] for q in QUANTILES] for row in grouped.iter_rows(named=True)}
    counts = frame.group_by("cell", "miss_ns").len().sort("cell", "miss_ns")
    for i, name in enumerate(names):
        each = counts.filter(pl.col("cell") == i)
        n = int(each["len"].sum())
        yield (
            name,
            quantiles[i],
            each["miss_ns"].to_numpy(),
            (n - each["len"].cum_sum().cast(pl.Int64)).to_numpy() / n,
        )


def report(store: Path) -> Iterator[Answer]:
    """What `vtare report` does: every figure of the campaign, every plot, the page."""
    from vtare.report.write import write_summary
    from vtare.summary import summarise

    write_summary(summarise(store), store / "report.html")
    yield from ()


TOOLS: dict[str, Callable[[Path], Iterator[Answer]]] = {
    "vtare": ask_vtare,
    "pandas": ask_pandas,
    "polars": ask_polars,
    "vtare report": report,
}


def main() -> None:
    tool, store = sys.argv[1], Path(sys.argv[2])
    if tool == "pandas":
        import pandas  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    elif tool == "polars":
        import polars  # noqa: F401
    else:
        import vtare.summary  # noqa: F401
    began = time.perf_counter()
    answers = []
    digest = hashlib.sha256()
    for name, quantiles, x, above in sorted(TOOLS[tool](store), key=lambda answer: answer[0]):
        answers.append((name, quantiles))
        digest.update(np.asarray(x, dtype=np.float64).tobytes() + np.asarray(above, dtype=np.float64).tobytes())
    elapsed = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"elapsed_s": elapsed, "peak_byte": peak, "answers": answers, "ccdf": digest.hexdigest()}))


if __name__ == "__main__":
    main()
