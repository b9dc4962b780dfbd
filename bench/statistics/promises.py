"""What reports and `vtare compare` promise, against simulated campaigns: steps, memory, power, false alarms."""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path

import numpy as np
from campaigns import Truth, write_campaign
from conditions import Floats, ar1
from lines import show

from vtare import stats
from vtare.report.content import content_of
from vtare.report.families import families_of
from vtare.summary import summarise
from vtare.summary.campaigns import campaigns_needed, shift_between

MARGIN = 1.05
STEP = 10.0
_TOO_FEW = "so few blocks show no memory"
_PART = "the memory that is found is less than the true one"


def _campaigns(rng: np.random.Generator, true_ns: float, count: int, offset: float, run_sd: float) -> Floats:
    """Run medians of campaigns, shape (campaigns, 5): read by a clock of 10 ns, each campaign with an offset."""
    centre = true_ns * np.exp(offset * rng.normal(size=(count, 1)) + run_sd * rng.normal(size=(count, 5)))
    found: Floats = np.maximum(STEP * np.rint(centre / STEP), STEP)
    return found


def _compared(after: Floats, before: Floats) -> tuple[float, float, float]:
    """p and interval of the ratio by the rule of `vtare compare`, which finds the step in the readings."""
    slack = stats.step_slack(after.ravel(), before.ravel(), step=STEP, on_log=True)
    found = shift_between(*(np.log(side).mean(axis=1).tolist() for side in (after, before)), slack=slack)
    assert found.p is not None
    assert found.low is not None
    assert found.high is not None
    return found.p, found.low, found.high


def lattice(rng: np.random.Generator, f: dict[str, float], trials: int) -> None:
    """`vtare compare` on readings that move in steps of 10 ns: equal sides, and changes that the step hides."""
    some = max(300, trials // 4)
    hidden = "runs that agree to the step are uncertain by half of it: intervals are wider than chance alone asks for"
    for count in (3, 5):
        for true_ns, offset in ((float(rng.uniform(30, 90)), 0.01), (float(rng.uniform(300, 900)), 0.05)):
            rejected = covered = 0
            for _ in range(some):
                at = true_ns * float(rng.uniform(0.9, 1.1))
                p, low, high = _compared(*(_campaigns(rng, at, count, offset, 0.02) for _ in range(2)))
                rejected += p <= 0.05
                covered += low <= 0.0 <= high
            name = f"compare, 10 ns steps of {true_ns:.0f} ns, {count} campaigns a side"
            limit = hidden if true_ns < 100 else None
            show(f"{name}: rejected", rejected, some, 0.03, 0.07, limit)
            show(f"{name}: covered", covered, some, 0.93, 0.97, limit)
            for change in (1.04, 1.08, 1.124):
                false = held = 0
                for _ in range(some):
                    at = true_ns * float(rng.uniform(0.9, 1.1))
                    after = _campaigns(rng, change * at, count, offset, 0.02)
                    _, low, high = _compared(after, _campaigns(rng, at, count, offset, 0.02))
                    false += change > MARGIN and -math.log(MARGIN) <= low and high <= math.log(MARGIN)
                    held += low <= math.log(change) <= high
                show(f"{name}, {100 * change - 100:+.3g} %: equivalent", false, some, 0.0, 0.05)
                show(f"{name}, {100 * change - 100:+.3g} %: covered", held, some, 0.93, 1.0)


def dependence(rng: np.random.Generator, f: dict[str, float], trials: int) -> None:
    """Equal cells whose blocks follow each other, each cell in its own way."""
    some = max(300, trials // 3)
    for memory in (0.0, 0.3, 0.5, 0.7):
        for n in (5, 10, 20, 40):
            x, y = (f["run_sd"] * ar1(rng, some, n, memory) for _ in range(2))
            rejected = covered = 0
            for a, b in zip(np.exp(x), np.exp(y), strict=True):
                found = stats.compare_runs(dict(enumerate(a)), dict(enumerate(b)))
                assert found.p is not None
                assert found.low is not None
                assert found.high is not None
                rejected += found.p <= 0.05
                covered += found.low <= 1.0 <= found.high
            limit = None if memory == 0.0 else _TOO_FEW if n < 8 else _PART
            show(f"blocks with a memory of {memory:g}, {n} blocks: rejected", rejected, some, 0.03, 0.07, limit)
            show(f"blocks with a memory of {memory:g}, {n} blocks: covered", covered, some, 0.93, 0.97, limit)


def promised(rng: np.random.Generator, f: dict[str, float], trials: int) -> None:
    """The power that a report and `vtare compare` promise of a new campaign, and what that campaign keeps."""
    some = max(300, trials // 3)
    for n in (5, 10):
        for family in (1, 8):
            found = 0
            sd = f["run_sd"]
            shift = sd * float(rng.uniform(0.5, 1.0))
            for _ in range(some):
                pilot = stats.compare_runs(
                    dict(enumerate(np.exp(sd * rng.normal(size=n)))), dict.fromkeys(range(n), 1.0)
                )
                needed = stats.runs_needed(pilot, ratio=math.exp(shift), comparisons=family)
                if needed is None:
                    continue
                d = sd * rng.normal(size=(family, needed))
                d[0] += shift
                p = stats.adjust(stats.paired_t(d).p().tolist(), family="f", adjustment="holm")
                found += p[0].adjusted <= 0.05
            name = f"promised 80 %, pilot of {n} blocks, {family} comparisons, {shift / sd:.2f} SD"
            show(f"{name}: found", found, some, 0.75, 0.85)
    for count in (3, 5):
        for family in (1, 20):
            found = 0
            shift = float(rng.uniform(0.8, 1.5))
            for _ in range(some):
                campaigns = rng.normal(size=(2, count))
                spread = math.sqrt(float(campaigns.var(axis=1, ddof=1).mean()))
                needed = campaigns_needed(spread, shift, comparisons=family, freedom=2.0 * count - 2.0)
                if needed is None:
                    continue
                sides = rng.normal(size=(2, family, needed))
                sides[0, 0] += shift
                p = stats.adjust(stats.welch_t(*sides).p().tolist(), family="f", adjustment="holm")
                found += p[0].adjusted <= 0.05
            name = f"promised 80 % by compare, {count} campaigns a side, {family} cells, {shift:.2f} SD"
            show(f"{name}: found", found, some, 0.75, 0.85)


def reports(rng: np.random.Generator, stores: int, directory: Path) -> None:
    """A/A stores of 3 loads x 3 methods: reports with a false claim on the first screen, and in each family."""
    first_screen = claims = families = 0
    for _ in range(stores):
        root = Path(tempfile.mkdtemp(prefix="vtare-statistics-", dir=directory))
        try:
            truth = Truth(blocks=6, samples=60, loads=3, methods=3, block=0.05)
            summary = summarise(write_campaign(root / "store", truth, int(rng.integers(2**31))))
        finally:
            shutil.rmtree(root)
        content = content_of(summary, figures=False)
        assert content.main is not None
        first_screen += any(cell.kind in ("higher", "lower") for row in content.main.rows for cell in row)
        found = families_of(summary, content.layouts)
        families += len(found)
        claims += sum(family.claims > 0 for family in found)
    show("A/A reports, 3 loads x 3 methods: a false claim on the first screen", first_screen, stores, 0.0, 0.10)
    show("A/A reports, 3 loads x 3 methods: families with a false claim", claims, families, 0.0, 0.05)
