"""Run figures of campaigns with a known truth, drawn from families whose parameters are fresh each time.

Every generator gives logarithms of run figures of two cells, shapes (trials, n_a) and (trials, n_b), whose true ratio
of geometric means is 1; blocks are the columns where both have as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
#: What draws two cells: a generator, trials, and the numbers of runs of both.
Draw = Callable[[np.random.Generator, int, int, int], Pair]


@dataclass(frozen=True)
class Condition:
    """One condition: its name, what draws it, and why a goal cannot be reached in principle (None: it can)."""

    name: str
    draw: Draw
    step: float = 0.0
    limit: str | None = None


def families(rng: np.random.Generator) -> dict[str, float]:
    """The parameters of this round, drawn anew: spreads are standard deviations of logarithms."""
    return {
        "run_sd": float(rng.uniform(0.02, 0.15)),
        "block_sd": float(rng.uniform(0.02, 0.3)),
        "drift": float(rng.uniform(0.1, 0.6)),
        "memory": float(rng.uniform(0.85, 0.97)),
        "outlier": float(rng.uniform(2.0, 20.0)),
        "mode_ratio": float(rng.uniform(1.3, 3.0)),
        "mode_share": float(rng.uniform(0.2, 0.5)),
        "coarse_ns": float(rng.uniform(25.0, 60.0)),
    }


def conditions(f: dict[str, float]) -> list[Condition]:
    """Every condition on medians that blocks pair."""
    sd, block = f["run_sd"], f["block_sd"]

    def normal(rng: np.random.Generator, trials: int, n_a: int, n_b: int, *, a: float = sd, b: float = sd) -> Pair:
        x, y = a * rng.normal(size=(trials, n_a)), b * rng.normal(size=(trials, n_b))
        if n_a == n_b:
            moved = block * rng.normal(size=(trials, n_a))
            return x + moved, y + moved
        return x, y

    def inside(rng: np.random.Generator, trials: int, n_a: int, n_b: int) -> Pair:
        return tuple(  # type: ignore[return-value]
            np.median(ar1(rng, trials * n, 300, f["memory"]).reshape(trials, n, 300), axis=2) * 0.2
            + 0.5 * sd * rng.normal(size=(trials, n))
            for n in (n_a, n_b)
        )

    def drifting(rng: np.random.Generator, trials: int, n_a: int, n_b: int) -> Pair:
        x, y = normal(rng, trials, n_a, n_b)
        slope = f["drift"] * rng.choice([-1.0, 1.0], size=(trials, 1))
        return x + slope * np.linspace(0, 1, n_a), y + slope * np.linspace(0, 1, n_b)

    def outlying(rng: np.random.Generator, trials: int, n_a: int, n_b: int) -> Pair:
        x, y = normal(rng, trials, n_a, n_b)
        side = rng.random(trials) < n_a / (n_a + n_b)
        x[side, rng.integers(0, n_a, trials)[side]] += math.log(f["outlier"])
        y[~side, rng.integers(0, n_b, trials)[~side]] += math.log(f["outlier"])
        return x, y

    def bimodal(rng: np.random.Generator, trials: int, n_a: int, n_b: int) -> Pair:
        x, y = normal(rng, trials, n_a, n_b)
        up = math.log(f["mode_ratio"])
        return (
            x + up * (rng.random((trials, n_a)) < f["mode_share"]),
            y + up * (rng.random((trials, n_b)) < f["mode_share"]),
        )

    def stepped(centre: float) -> Draw:
        def draw(rng: np.random.Generator, trials: int, n_a: int, n_b: int) -> Pair:
            at = centre * rng.uniform(0.9, 1.1, size=(trials, 1))
            x, y = normal(rng, trials, n_a, n_b)
            return tuple(  # type: ignore[return-value]
                np.log(np.maximum(10.0 * np.rint(at * np.exp(side) / 10.0), 10.0)) for side in (x, y)
            )

        return draw

    hidden = "a median is known to half a step only, so the interval is wider than chance alone asks for"
    return [
        Condition("normal", normal),
        Condition("lognormal, sigma 1", lambda r, t, n, m: normal(r, t, n, m, a=1.0, b=1.0)),
        Condition("AR(1) inside runs", inside),
        Condition("SD 1:5", lambda r, t, n, m: normal(r, t, n, m, a=5 * sd)),
        Condition("drift over blocks", drifting),
        Condition(
            "one outlier run", outlying,
            limit="one far run raises mean and error alike: t stays near 1, so that nothing is rejected",
        ),
        Condition(
            "bimodal runs", bimodal,
            limit="few runs may all be of one kind (above 7 %), or one of the other kind decides (below 3 %)",
        ),
        Condition("10 ns step of 60 us", stepped(60e3), step=10.0),
        Condition(f"10 ns step of {f['coarse_ns']:.0f} ns", stepped(f["coarse_ns"]), step=10.0, limit=hidden),
    ]  # fmt: skip


def ar1(rng: np.random.Generator, runs: int, n: int, memory: float) -> Floats:
    """Series of unit variance that follow each other."""
    noise = rng.normal(size=(runs, n))
    noise[:, 0] /= math.sqrt(1.0 - memory**2)
    series: Floats = lfilter([math.sqrt(1 - memory**2)], [1.0, -memory], noise, axis=1)
    return series


def tails(rng: np.random.Generator, trials: int, n: int, *, readings: int, spread: float, memory: float) -> Floats:
    """Logarithms of each run's p99 of readings that follow each other, runs differing by `spread`."""
    x = ar1(rng, trials * n, readings, memory)
    p99: Floats = np.quantile(x, 0.99, axis=1).reshape(trials, n)
    return p99 + spread * rng.normal(size=(trials, n))


def coarse_readings(rng: np.random.Generator, true_ns: float, *, readings: int = 1500, step: float = 10.02) -> Floats:
    """Durations read by a counter of this step, 24 or 25 ticks of 0.409 ns at a time."""
    begin = rng.uniform(0, step, readings)
    steps = np.floor((begin + true_ns * np.exp(0.02 * rng.normal(size=readings))) / step)
    found: Floats = np.rint(steps * step / 0.409 + (rng.random(readings) < 0.3) * (steps > 0)) * 0.409
    return found
