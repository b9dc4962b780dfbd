"""What was measured on a platform that nobody has tried for real is marked in the report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl

from vtare.report.method import _unverified


def summary(rows: list[tuple[str, str | None, str]], **platforms: dict[str, str]) -> Any:
    names = ["platform", "responder_platform", "status"]
    return SimpleNamespace(
        design=pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row"),
        plan=SimpleNamespace(platforms=platforms),
    )


def test_an_unverified_platform_is_named_where_a_run_was_made_on_it() -> None:
    one = summary([("host", "mine", "done"), ("host", None, "done")], mine={"kind": "virtualbox"})
    (line,) = _unverified(cast(Any, one))
    assert line.startswith("The platform mine is unverified: written from VirtualBox's documentation")
    assert "no VirtualBox was run" in line


def test_nothing_is_stated_of_platforms_that_were_tried_or_gave_nothing() -> None:
    assert _unverified(summary([("host", "netns", "done"), ("virtualbox", None, "skipped")])) == []
