"""`vtare path` in a plan: a campaign over the lab's own path with a fake binary, its figures and its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.plan.files import parse_plan
from vtare.report.build import build
from vtare.summary import summarise

Run = Callable[[Store], CampaignResult]
PLAN = Path(__file__).parents[1] / "paths.toml"


def test_a_plan_sets_latency_under_load_against_its_factors(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", parse_plan(PLAN.read_text(encoding="utf-8"), source=PLAN), 7) as store:
        assert run_campaign(store).done == 4
    summary = summarise(tmp_path / "store")
    cells = {(row["cross"], row["direction"], row["load_percent"]): row for row in summary.cells.iter_rows(named=True)}
    # Each direction at each load; what covers both directions is no cell of its own.
    assert {key[1:] for key in cells} == {(way, load) for way in ("up", "down") for load in ("50", "90", "110")}
    up, down = cells["10 Mbit/s", "up", "110"], cells["10 Mbit/s", "down", "110"]
    assert (up["median"], up["free_bit_per_s"], up["depth_ns"], up["depth_byte"]) == (24e6, 50e6, 24e6, 150e3)
    # A buffer that was not filled has no depth, and latency that is not known is no 0.
    assert (down["depth_ns"], down["deeper_buffers"], up["deeper_buffers"]) == (None, 2, 0)
    assert cells["10 Mbit/s", "down", "90"]["median"] is None
    page = build(summary)
    for words in ("Using more than is free lengthens a round trip by", "24.0", "buffer", "Latency under load"):
        assert words in page
