"""How far a campaign is, from plan and journal alone where the design is the plan's, else from the design."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from vtare.campaign.journal import Journal
from vtare.campaign.status import read_state
from vtare.campaign.store import Store, read_store
from vtare.errors import BadInput


def rewrite_design(store: Path, **changes: object) -> None:
    """Write the design again with other metadata, and without its last run where `rows` is one less."""
    path = store / "design.parquet"
    about = json.loads(pl.read_parquet_metadata(path)["vtare"])
    frame = pl.read_parquet(path)
    drop = changes.pop("drop", 0)
    frame.head(frame.height - int(str(drop))).write_parquet(path, metadata={"vtare": json.dumps(about | changes)})


def test_the_state_has_the_runs_of_the_design_by_block(store_of_four: Path) -> None:
    _, runs, seed = read_store(store_of_four)
    state = read_state(store_of_four)
    assert {run.run_id for run in state.runs} == {run.run_id for run in runs}
    assert state.seed == seed
    assert [state.word(run) for run in state.runs] == ["done"] * 4


def test_a_run_that_the_journal_lacks_is_pending(store_of_four: Path) -> None:
    _, runs, _ = read_store(store_of_four)
    with Journal(store_of_four / "journal.sqlite") as journal:
        journal.forget(runs[2].run_id)
    state = read_state(store_of_four)
    assert {run.run_id: state.word(run) for run in state.runs}[runs[2].run_id] == "pending"


@pytest.mark.parametrize("changes", [{"program": "0.0.1"}, {"drop": 1}])
def test_a_design_that_may_not_be_the_plans_is_read_itself(store_of_four: Path, changes: dict[str, object]) -> None:
    rewrite_design(store_of_four, **changes)
    _, runs, _ = read_store(store_of_four)
    # In the order of the design, which the plan does not state.
    assert read_state(store_of_four).runs == runs
    assert len(runs) == 4 - int(str(changes.get("drop", 0)))


def test_a_run_of_the_journal_that_the_plan_does_not_state_is_looked_for_in_the_design(store_of_four: Path) -> None:
    with sqlite3.connect(store_of_four / "journal.sqlite") as connection:
        connection.execute("INSERT INTO runs VALUES (?, 'done', 0, NULL, NULL, 1.0, 1)", ("0" * 16,))
    assert read_state(store_of_four).runs == read_store(store_of_four)[1]


def test_a_damaged_design_is_an_error(store_of_four: Path) -> None:
    (store_of_four / "design.parquet").write_bytes(b"PAR1PAR1")
    with pytest.raises(BadInput, match=r"design\.parquet: not a design of vtare"):
        read_state(store_of_four)


def test_the_state_of_a_store_that_a_campaign_holds_can_be_read(store_of_four: Path) -> None:
    with Store.open(store_of_four):
        assert len(read_state(store_of_four).entries) == 4
