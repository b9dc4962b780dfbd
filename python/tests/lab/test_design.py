from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from vtare.design import Design, Run, expected_run_s, make_design, read_design, run_seed, runs_of, write_design
from vtare.errors import BadInput
from vtare.fleet.hosts import simulated_hosts
from vtare.fleet.needs import with_pairs
from vtare.plan.files import load_plan, parse_plan, shipped_plans
from vtare.plan.model import Plan


def cell(run: Run) -> tuple[str, tuple[tuple[str, str], ...]]:
    return run.experiment, tuple(run.factors.items())


def test_every_block_holds_every_cell_once_between_its_controls() -> None:
    plan = load_plan(shipped_plans()["quickstart"])
    runs = make_design(plan, 3)
    for block in range(1, plan.blocks + 1):
        rows = [run for run in runs if run.block == block]
        cells = [run for run in rows if run.control is None]
        assert set(Counter(map(cell, cells)).values()) == {1}
        assert len(cells) == 3 * 4 + 3 * 5
        assert [run.control for run in (rows[0], rows[-1])] == ["open", "close"]
        assert sum(run.control == "centre" for run in rows) == 1
    assert [run.position for run in runs] == list(range(len(runs)))
    assert len({run.run_id for run in runs}) == len(runs)


def test_one_factor_at_a_time_meets_every_level_beside_the_baseline_of_all_others(tiny_plan: Plan) -> None:
    whole = load_plan(shipped_plans()["kirova-timers"])
    text = whole.text.replace('instrument = "sleep"', 'instrument = "sleep"\ncells = "one-at-a-time"')
    plan = parse_plan(text, source=Path("x"))
    sleep = plan.experiment("sleep")
    rows = [run.factors for run in make_design(plan, 1) if run.experiment == "sleep" and run.block == 1]
    assert len(rows) == 1 + sum(len(factor.levels) - 1 for factor in sleep.factors)
    for factor in sleep.factors:
        # What is nested stands in the rows of its platforms alone.
        met = {row[factor.name] for row in rows if factor.name in row}
        assert met == {level.label for level in factor.levels}
    others = [sum(row.get(factor.name, factor.baseline) != factor.baseline for factor in sleep.factors) for row in rows]
    assert max(others) == 1
    with pytest.raises(BadInput, match="one-at-a-time"):
        parse_plan(text.replace('"one-at-a-time"', '"star"'), source=Path("x"))


def test_order_follows_the_seed_and_differs_between_blocks(tiny_plan: Plan) -> None:
    plan = load_plan(shipped_plans()["quickstart"])
    assert make_design(plan, 3) == make_design(plan, 3)
    assert [r.run_id for r in make_design(plan, 3)] != [r.run_id for r in make_design(plan, 4)]
    runs = make_design(plan, 3)
    orders = [[cell(r) for r in runs if r.block == block and r.control is None] for block in (1, 2)]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("name", sorted(shipped_plans()))
def test_the_runs_of_a_plan_are_those_of_its_design_whatever_their_order(name: str) -> None:
    plan = with_pairs(load_plan(shipped_plans()[name]), simulated_hosts(4))
    drawn, stated = make_design(plan, 3), runs_of(plan)
    assert {(run.run_id, run.block) for run in drawn} == {(run.run_id, run.block) for run in stated}
    assert len(drawn) == len(stated)


def test_run_id_depends_on_what_a_run_is_and_not_on_the_order(tiny_plan: Plan) -> None:
    ids = {r.run_id for r in make_design(tiny_plan, 1)}
    assert ids == {r.run_id for r in make_design(tiny_plan, 2)}
    changed = parse_plan(tiny_plan.text.replace("samples = 300", "samples = 301"), source=Path("x"))
    assert not ids & {r.run_id for r in make_design(changed, 1)}


def test_factor_sets_its_parameter_as_the_binary_takes_it(tiny_plan: Plan) -> None:
    run = next(r for r in make_design(tiny_plan, 1) if r.factors["method"] == "spin")
    assert run.parameters == {"target_ns": [1_000_000], "samples": 300, "method": ["spin"]}


def test_seed_of_a_run_depends_on_campaign_and_run() -> None:
    assert run_seed(1, "aa") != run_seed(2, "aa") != run_seed(1, "ab")
    assert 0 <= run_seed(1, "aa") < 2**32


def test_written_design_reads_back_with_its_seed(tmp_path: Path, tiny_plan: Plan) -> None:
    runs = make_design(tiny_plan, 9)
    write_design(tmp_path / "design.parquet", runs, tiny_plan.labels, seed=9, program="0")
    assert read_design(tmp_path / "design.parquet") == Design(runs, 9, None)
    columns = pl.read_parquet(tmp_path / "design.parquet").columns
    assert columns == [
        "position", "block", "replicate", "run_id", "experiment", "instrument", "control", "load", "method",
        "parameters",
    ]  # fmt: skip


def test_a_disk_that_takes_no_design_is_named_by_the_system(tiny_plan: Plan) -> None:
    with pytest.raises(OSError, match="No space left"):
        write_design(Path("/dev/full"), make_design(tiny_plan, 9), tiny_plan.labels, seed=9, program="0")


def test_foreign_and_missing_designs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_design(tmp_path / "design.parquet")
    (tmp_path / "design.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="not a design of vtare"):
        read_design(tmp_path / "design.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "design.parquet")
    with pytest.raises(BadInput, match="not a design of vtare"):
        read_design(tmp_path / "design.parquet")


@pytest.mark.parametrize(("name", "limit_s"), [("quickstart", 170.0), ("quickstart-quick", 40.0)])
def test_shipped_plan_is_expected_to_keep_its_time_on_two_cpus(
    name: str, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    plan = load_plan(shipped_plans()[name])
    assert sum(expected_run_s(run, plan) for run in make_design(plan, 1) if run.block <= plan.blocks) < limit_s


@pytest.mark.parametrize(
    # What they took on a machine of two CPUs with other work on it, from the first run to the last.
    # The second of them beside two CPUs' worth of other work: no figure of a quiet machine is known.
    ("name", "took_s", "within"),
    [("kirova-avb-quick", 256, 0.15), ("kachan-avb-quick", 403, 0.25)],
)
def test_plans_of_available_bandwidth_are_expected_to_take_what_they_took(
    name: str, took_s: float, within: float
) -> None:
    plan = load_plan(shipped_plans()[name])
    expected_s = sum(expected_run_s(run, plan) for run in make_design(plan, 1) if run.block <= plan.blocks)
    assert expected_s == pytest.approx(took_s, rel=within)


def test_an_estimate_is_expected_to_take_what_its_method_takes_and_no_longer_than_it_may(tiny_plan: Plan) -> None:
    def expected(**parameters: object) -> float:
        run = Run(0, 1, 1, "0", "e", "avb", None, {}, {"estimates": 10, "pause_ns": 0, **parameters})
        return expected_run_s(run, tiny_plan)

    own, slow = expected(method="vtare"), expected(method="spruce:some-preset")
    assert slow > own + 50
    assert expected(method="spruce", most_ns=1_000_000_000) == pytest.approx(own - 1.5 + 10.0)
    assert expected(method="vtare", most_ns=15_000_000_000) == own, "the time allowed is not the time taken"
    assert expected(method="spruce", seconds=5.0) < own + 15
    assert expected(estimates=None, method="vtare") < own
    assert expected(method="vtare", peer="10.0.0.2") < own, "no path of the lab, no link counter"


def test_crowded_cpu_is_expected_to_start_programs_slowly(tiny_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    runs = make_design(tiny_plan, 1)
    idle, crowded = (next(r for r in runs if r.factors["load"] == load) for load in ("idle", "cpu 3"))
    assert expected_run_s(crowded, tiny_plan) > expected_run_s(idle, tiny_plan)
