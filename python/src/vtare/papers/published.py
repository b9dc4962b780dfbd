"""The small extract of the published tables that `vtare check` carries inside its binary.

The extract has what is needed to place a machine among them: the cost of reading a clock and the miss of a sleep on
five platforms under three loads (Kirova 2019, Tables 1 and 2), and the coefficient of variation of a counter function
on sixteen configurations (Lampe 2013, Table 1). `python/tools/make_published.py` writes it to
`papers/data/published.json`; a test fails when the file and the tables disagree.

Only the standard library is used here, so that the generator runs before any dependency is installed.
"""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from typing import Any

SCHEMA = "vtare.published/1"
"""Name and version of the extract's shape. Keys are added, never renamed."""

LAMPE_CV_QUANTUM = 0.0001
"""Lampe 2013 prints its coefficients with four decimals: a printed 0.0000 means "below half of this"."""


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of one table in `papers/data`, every value as it is printed there.

    Args:
        name: file name without `.csv`, for example `kirova2019_table1_timer_cost`.

    Raises:
        FileNotFoundError: no such table in the package.
    """
    text = (files("vtare.papers") / "data" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def rows_where(table: str, /, **wanted: str) -> list[dict[str, str]]:
    """Rows of a published table with these values."""
    return [row for row in read_rows(table) if all(row[key] == value for key, value in wanted.items())]


def one_value(table: str, column: str, /, **wanted: str) -> float:
    """The one number that a published table holds there.

    Raises:
        LookupError: none, or several that differ.
    """
    values = {row[column] for row in rows_where(table, **wanted) if row[column].strip()}
    if len(values) != 1:
        raise LookupError(f"{table}: {len(values)} values of {column} with {wanted}, not one")
    return float(values.pop())


def oliveira_affinity(statistic: str, state: str) -> float:
    """A figure of Oliveira's Table 3 in percent of the round-trip time, with CPUs pinned (`on`) or not (`off`)."""
    wanted = {"table": "3", "driver_or_factor": f"cpu_affinity={state}", "statistic": statistic}
    return one_value("oliveira_rtt_tables", "value_percent", **wanted)


def number(text: str) -> float | None:
    """A printed number, or None where the table has an empty field: missing is never zero."""
    return float(text) if text.strip() else None


def _kirova(name: str) -> list[dict[str, Any]]:
    return [
        {
            "function": row["function"],
            "platform": row["platform"],
            "load": row["load"],
            "median_ns": number(row["median_ns"]),
            # The paper's "MAD" is half the interquartile range, not the median absolute deviation.
            "half_iqr_ns": number(row["mad_ns"]),
            "min_ns": number(row["min_ns"]),
            "max_ns": number(row["max_ns"]),
            "source": row["source"],
        }
        for row in read_rows(name)
    ]


def _lampe() -> list[dict[str, Any]]:
    return [
        {
            "config_id": int(row["config_id"]),
            "machine_type": row["machine_type"],
            "virtualization_software": row["virtualization_software"],
            "host_utilization": row["host_utilization"],
            "programming_language": row["programming_language"],
            "argument": int(row["argument_a"]),
            "cv": number(row["cv"]),
            "source": row["source"],
        }
        for row in read_rows("lampe2013_table1_cv")
    ]


def published_document() -> dict[str, Any]:
    """The extract as one JSON-ready document; its shape is described in `papers/data/README.md`."""
    return {
        "schema": SCHEMA,
        "timer_cost": _kirova("kirova2019_table1_timer_cost"),
        "sleep_miss": _kirova("kirova2019_table2_sleep_miss"),
        "counter_cv_quantum": LAMPE_CV_QUANTUM,
        "counter_cv": _lampe(),
    }


def published_text() -> str:
    """The extract as the exact text of `published.json`: one row per line, so that a change reads well in a diff."""
    parts: list[str] = []
    for key, value in published_document().items():
        if isinstance(value, list):
            rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in value)
            parts.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
