"""What was measured on a platform that nobody has tried for real is marked in the report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from vtare.platforms.virtualbox import VirtualBoxPlatform
from vtare.report.method import _unverified


def summary(rows: list[tuple[str, str | None, str]], **platforms: dict[str, str]) -> Any:
    names = ["platform", "responder_platform", "status"]
    return SimpleNamespace(
        design=pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row"),
        plan=SimpleNamespace(platforms=platforms),
    )


def test_an_unverified_platform_is_named_where_a_run_was_made_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VirtualBoxPlatform, "UNVERIFIED", "nobody ran it")
    one = summary([("host", "mine", "done"), ("host", None, "done")], mine={"kind": "virtualbox"})
    (line,) = _unverified(cast(Any, one))
    assert line == "The platform mine is unverified: nobody ran it."


def test_nothing_is_stated_of_platforms_that_were_tried_or_gave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VirtualBoxPlatform, "UNVERIFIED", "nobody ran it")
    assert _unverified(summary([("host", "netns", "done"), ("virtualbox", None, "skipped")])) == []
