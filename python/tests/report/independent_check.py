"""Recompute the descriptive figures of a report from the raw readings of its store, without any code of vtare.

    python independent_check.py STORE REPORT.md

Reads `design.parquet`, the runs that have readings, and the report as Markdown; polars only opens Parquet files.
Compared at the digits that the report prints: figures of the answer's sentences, of each table of cells, of the
main comparisons (both figures), of all comparisons (both medians and the numbers of runs), shares of outliers. Prints
how many figures of each kind were compared, and each that differs; the exit code is 1 if one does. Ratios, intervals
and p-values are not recomputed.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

UNITS = {"ns": 1.0, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, "": 1.0}
FIGURE = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)(?: (ns|\u00b5s|ms|s|%))?(?![\w.]\w)")
LOADS = {"idle machine": "idle", "busy threads": "cpu", "disk and network load": "io"}
ALIASES = {
    "clock_monotonic": ("clock_gettime",), "adaptive": ("adaptive", "vtare's"), "vtare": ("vtare's",),
}  # fmt: skip
LEVELS = {"timer": "source", "sleep": "method", "counter": "argument", "noise": "cpu"}
READINGS = {"timer": "cost_ps", "sleep": "miss_ns", "counter": "wall_ns", "noise": "gap_ns"}


@dataclass
class RunCell:
    """The readings of one cell in one run, in ns, with what the run itself recorded for the cell."""

    values: np.ndarray
    counts: np.ndarray
    footer: dict[str, Any]
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    def above_per_s(self, threshold_ns: float) -> float:
        """Readings above a threshold per second of the series: the readings, and what was slept on purpose."""
        length = float((self.values * self.counts).sum()) + self.extra.get("target_ns", 0.0) * self.n
        return float(self.counts[self.values > threshold_ns].sum()) / (length / 1e9)

    def quantile(self, p: float) -> float:
        """Linear between the two nearest readings (type 7), readings repeated by their counts."""
        ends = np.cumsum(self.counts)
        place = (self.n - 1) * p
        low = math.floor(place)
        first, second = (
            self.values[np.searchsorted(ends, rank, side="right")] for rank in (low, min(low + 1, self.n - 1))
        )
        return float(first + (place - low) * (second - first))


@dataclass
class Report:
    """What was compared: numbers of figures by kind, and each that differs."""

    checked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def compare(self, kind: str, where: str, printed: str, computed: float) -> None:
        self.checked[kind] += 1
        found = number(printed)
        if printed.startswith("below ") and found is not None:
            agrees = computed < found
        else:
            agrees = found is not None and same(found, computed)
        if not agrees:
            self.wrong.append(f"{kind}: {where}: printed {printed!r}, recomputed {computed:.6g}")


def number(text: str) -> float | None:
    """The first figure of a cell in ns, as a share or as a plain number."""
    match = FIGURE.search(text)
    if match is None:
        return None
    return float(match.group(1)) * UNITS[match.group(2) or ""]


def same(printed: float, computed: float) -> bool:
    """Whether a figure of three digits (or a whole number) is the computed one, rounded."""
    if printed == computed:
        return True
    if not math.isfinite(computed) or computed == 0 or printed == 0:
        return False
    step = 10.0 ** (math.floor(math.log10(abs(computed))) - 2)
    return abs(printed - computed) <= 0.5 * min(step, max(1.0, step)) * (1 + 1e-9) + 1e-12


def cells_of(store: Path) -> dict[tuple[str, str, str], list[RunCell]]:
    """Readings by experiment, load and level (source, method, argument or CPU), a `RunCell` for each run."""
    found: dict[tuple[str, str, str], list[RunCell]] = {}
    for run in pl.read_parquet(store / "design.parquet").filter(pl.col("control").is_null()).to_dicts():
        path = store / "runs" / run["run_id"] / "samples.parquet"
        if not path.exists():
            continue
        footer = json.loads(pl.read_parquet_metadata(path)["vtare"])
        level = LEVELS[run["instrument"]]
        frame = pl.read_parquet(path)
        for (name,), part in frame.group_by([level], maintain_order=True):
            values = part[READINGS[run["instrument"]]].to_numpy().astype(np.float64)
            values = values / 1000 if run["instrument"] == "timer" else values
            counts = part["count"].to_numpy() if "count" in part.columns else np.ones(len(values), dtype=np.int64)
            order = np.argsort(values, kind="stable")
            own = next((cell for cell in footer["result"]["cells"] if str(cell.get(level)) == str(name)), {})
            cell = RunCell(values[order], counts[order], own)
            if "disturbed" in part.columns:
                cell.extra["disturbed"] = float(part["disturbed"].mean())  # type: ignore[arg-type]
            if "target_ns" in part.columns:
                cell.extra["target_ns"] = float(part["target_ns"][0])
            found.setdefault((run["experiment"], run["load"], str(name)), []).append(cell)
    return found


def figures_of(runs: list[RunCell]) -> dict[str, float]:
    """Every descriptive figure of a cell: the median over runs of run figures; extremes and counts over all runs."""

    def middle(values: list[float]) -> float:
        return float(np.median(values))

    figures = {
        "median": middle([run.quantile(0.5) for run in runs]),
        "half IQR": middle([(run.quantile(0.75) - run.quantile(0.25)) / 2 for run in runs]),
        "p99": middle([run.quantile(0.99) for run in runs if run.n >= 299] or [math.nan]),
        "p99.9": middle([run.quantile(0.999) for run in runs if run.n >= 2995] or [math.nan]),
        "min": min(float(run.values[0]) for run in runs),
        "max": max(float(run.values[-1]) for run in runs),
        "runs": len(runs),
        "readings": sum(run.n for run in runs),
        "CV": middle([_cv(run) for run in runs]),
    }
    for name, key in (("CPU time", "cpu_fraction"), ("time lost", "lost_fraction"), ("gaps per s", "gaps_per_s")):
        if all(key in run.footer for run in runs):
            figures[name] = middle([run.footer[key] for run in runs])
    if all("read_cost_ns" in run.footer for run in runs):
        figures["read cost"] = middle([run.footer["read_cost_ns"]["median"] for run in runs])
    if all("disturbed" in run.extra for run in runs):
        figures["disturbed"] = middle([run.extra["disturbed"] for run in runs])
    return figures


def _cv(run: RunCell) -> float:
    mean = float(np.average(run.values, weights=run.counts))
    variance = float(np.sum(run.counts * (run.values - mean) ** 2)) / max(run.n - 1, 1)
    return math.sqrt(variance) / mean if mean else math.nan


def tables(text: str) -> list[tuple[str, list[dict[str, str]]]]:
    """Every table with the heading above it; a row is header -> text, a header that is repeated counts once."""
    found: list[tuple[str, list[dict[str, str]]]] = []
    heading, header = "", None
    for line in text.replace("\\_", "_").replace("&lt;", "<").splitlines():
        if line.startswith("#"):
            heading, header = line.lstrip("# "), None
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|\n ").split(" | ")]
            cells = [cell.strip("| ") for cell in cells]
            if header is None:
                header = cells
                found.append((heading, []))
            elif not set("".join(cells)) <= set("-: "):
                row: dict[str, str] = {}
                for name, cell in zip(header, cells, strict=False):
                    row.setdefault(name, cell)
                found[-1][1].append(row)
        else:
            header = None
    return found


def check(store: Path, text: str) -> Report:
    """Compare a report's figures with those of the readings."""
    report = Report()
    # Groups of three digits are joined; all other spaces that do not break are plain ones.
    text = re.sub(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})", "", text).replace("\u00a0", " ").replace("\u202f", " ")
    cells = {key: (runs, figures_of(runs)) for key, runs in cells_of(store).items()}
    titles: dict[str, str] = {}
    for heading, rows in tables(text):
        if heading.endswith("all cells") and rows:
            titles[heading.partition(":")[0]] = _kind(rows[0])
            _check_cells(report, heading, rows, cells)
        elif heading in ("Main comparisons", "All main comparisons"):
            _check_main(report, rows, cells)
        elif "Comparisons" in heading:
            _check_comparisons(report, rows, cells)
        elif "outliers" in heading and rows and "of all outliers" in rows[0]:
            _check_outliers(report, heading, rows, cells)
    _check_sentences(report, text, cells)
    _check_needs(report, text, titles, cells)
    return report


Cells = dict[tuple[str, str, str], tuple[list[RunCell], dict[str, float]]]


KINDS = {"source": "timers", "method": "sleeps", "argument": "counters", "CPU": "noises"}


_MEASURED = ("median", "median of differences", "half IQR", "p99", "p99.9", "min", "max", "CV", "read cost")


def _kind(row: dict[str, str]) -> str:
    return next(kind for level, kind in KINDS.items() if level in row)


def _check_cells(report: Report, heading: str, rows: list[dict[str, str]], cells: Cells) -> None:
    level = next(name for name in KINDS if name in rows[0])
    for row in rows:
        kind = KINDS[level]
        key = (kind, row["load"], row[level])
        if key not in cells:
            # A cell that was not measured has a row without figures, never zeros.
            report.checked[f"{kind}: cells"] += 1
            if any(number(printed) is not None for column, printed in row.items() if column in _MEASURED):
                report.wrong.append(f"{kind}: cells: {heading}: {row['load']}, {row[level]}: figures of no readings")
            continue
        runs, figures = cells[key]
        for column, printed in row.items():
            name = {"median of differences": "median"}.get(column, column)
            where = f"{heading}: {row['load']}, {row[level]}, {column}"
            if column.startswith("above ") and column.endswith(", per s"):
                threshold = number(column)
                assert threshold is not None
                rate = float(np.median([run.above_per_s(threshold) for run in runs]))
                report.compare(f"{kind}: exceedances", where, printed, rate)
            if name not in figures:
                continue
            if printed.startswith("n/a"):
                report.checked[f"{kind}: cells"] += 1
                needed = number(printed.partition("<")[2]) or 0.0
                if any(run.n >= needed for run in runs):
                    report.wrong.append(f"{kind}: cells: {where}: printed {printed!r}, a run has {needed:g} readings")
            else:
                report.compare(f"{kind}: cells", where, printed, figures[name])


MAIN_METRICS = {"miss": "median", "gap": "median", "read cost": "read cost", "CV": "CV", "p99": "p99",
                "share lost": "time lost"}  # fmt: skip


def _check_main(report: Report, rows: list[dict[str, str]], cells: Cells) -> None:
    """Both figures of each row: of the cell with the level here, and of the cell with the other at the same place."""
    for row in rows:
        place = re.sub(r"^(argument|CPU|load) ", "", row["at"])
        for column in ("here", "against"):
            level, _, printed = row[column].partition(": ")
            factor, _, name = level.rpartition(" ")
            key = (row["experiment"], name, place) if factor == "load" else (row["experiment"], place, name)
            _, figures = cells[key]
            if row["metric"] in MAIN_METRICS:
                report.compare("main comparisons", f"{key}, {column}", printed, figures[MAIN_METRICS[row["metric"]]])
            elif printed or row["metric"] != "mean":
                report.wrong.append(f"main comparisons: {key}: a figure of an unknown metric {row['metric']!r}")


def _check_comparisons(report: Report, rows: list[dict[str, str]], cells: Cells) -> None:
    for row in rows:
        factor, _, levels = row["compared"].partition(": ")
        over, _, base = levels.partition(" against ")
        place = re.sub(r"^(argument|CPU|load|source|method) ", "", row["where"])
        for level, column in ((over, "here"), (base, "at the baseline")):
            key = (row["experiment"], level, place) if factor == "load" else (row["experiment"], place, level)
            runs, figures = cells[key]
            # Counters are compared by their coefficient of variation, clock reads by the cost of a read, threads that
            # lose time by its share.
            name = {"counters": "CV", "timers": "read cost", "noises": "time lost"}.get(row["experiment"], "median")
            report.compare("comparisons", f"{key}, {column}", row[column], figures[name])
            printed = row["runs"].split("/")[0 if column == "here" else 1]
            report.compare("comparisons", f"{key}, runs", printed, float(len(runs)))


def _check_outliers(report: Report, heading: str, rows: list[dict[str, str]], cells: Cells) -> None:
    total = sum(number(row["outliers"]) or 0.0 for row in rows)
    for row in rows:
        level, _, load = row["cell"].rpartition(", load ")
        word, _, name = level.rpartition(" ")
        kind = {"argument": "counters", "CPU": "noises"}.get(word)
        (key,) = [key for key in cells if key[1:] == (load, name) and (kind is None or key[0] == kind)]
        readings = cells[key][1]["readings"]
        outliers = number(row["outliers"])
        report.compare("outliers", f"{heading}: {row['cell']}, readings", row["readings"], readings)
        if outliers is not None and row["of its readings"][:1].isdigit():
            report.compare("outliers", f"{heading}: {row['cell']}", row["of its readings"], outliers / readings)
            report.compare("outliers", f"{heading}: {row['cell']}", row["of all outliers"], outliers / total)


def _check_sentences(report: Report, text: str, cells: Cells) -> None:
    """Each figure of the answer is one of a cell whose load and level the sentence names; brackets are left out."""
    answer = text.replace("\\_", "_").partition("\n## ")[0]
    answer = "\n".join(line for line in answer.splitlines() if not line.startswith("|"))
    load = "idle"
    for sentence in re.split(r"\n+|(?<=[a-z.]); |(?<=\.) (?=[A-Z])", answer):
        named = [level for words, level in LOADS.items() if words in sentence.replace("with 100 ", "")]
        load = named[0] if named else load
        plain = re.sub(r"\([^)]*\)", "", sentence)
        known = [
            figures for (_, at, level), (_, figures) in cells.items()
            if (at == load and any(word in plain for word in (level, *ALIASES.get(level, ())) if not word.isdigit()))
            or (at == load and level.isdigit() and ("computation" in plain or f"CPU {level}" in plain))
        ]  # fmt: skip
        for match in FIGURE.finditer(plain):
            unit = match.group(2)
            if unit is None or not known or plain[: match.start()].endswith("sleep of "):
                continue
            value = number(match.group(0))
            assert value is not None
            report.checked["sentences"] += 1
            wanted = ("median", "p99", "CV", "read cost", "time lost", "CPU time")
            if not any(same(value, figures[name]) for figures in known for name in wanted if name in figures):
                report.wrong.append(f"sentences: {sentence.strip()!r}: {match.group(0)} is no figure of what it names")


def _check_needs(report: Report, text: str, titles: dict[str, str], cells: Cells) -> None:
    """Sentences about quantiles that are not estimated: how many readings they need, and the longest run's."""
    for line in text.splitlines():
        match = re.search(r"p(99|999) needs (\d+) readings in a run, the longest has (\d+)", line)
        kind = next((kind for title, kind in titles.items() if line.startswith(f"- {title},")), None)
        if match is None or kind is None:
            continue
        share = float(f"0.{match.group(1)}")
        longest = max(run.n for (name, *_), (runs, _) in cells.items() if name == kind for run in runs)
        report.compare("sentences", line, match.group(2), math.ceil(math.log(0.05) / math.log(share)))
        report.compare("sentences", line, match.group(3), longest)


def main(arguments: list[str]) -> int:
    """Check one report; prints the numbers of figures by kind and each that differs."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    report = check(Path(arguments[0]), Path(arguments[1]).read_text(encoding="utf-8"))
    for kind, count in sorted(report.checked.items()):
        print(f"{kind}: {count} figures")
    for line in report.wrong:
        print(line)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
