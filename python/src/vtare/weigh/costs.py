"""What single services of the kernel cost on each platform, in rounds beside the host; and how many a command asks for.

`vtare costs` measures and counts; `why` explains by it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vtare.ab.trials import OutOfTime
from vtare.errors import MachineCannot
from vtare.sentences import weigh as wording
from vtare.weigh.runner import RefusedThere
from vtare.weigh.why import LEAST_ROUNDS, Explanation, Kinds, Why, explain, unit_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.ab.compare import Compared
    from vtare.weigh.runner import WeighRunner
    from vtare.weigh.why import Amount

_ROUNDS: Final = 10


def why(
    compared: Compared,
    runner: WeighRunner,
    *,
    until: float,
    rng: np.random.Generator,
    show: Callable[[str], None],
) -> Why | None:
    """Explain each platform on which the command is shown to be slower; None where there is none.

    It ends at `until` (`time.monotonic`).
    """
    names = [one.text for one in compared.commands]
    slower = {names[one.command]: one.command for one in compared.primary if one.is_different and one.is_higher}
    if not slower:
        return None
    host, runner.until = names[0], until
    show(wording.COUNTING)
    try:
        counted = runner.counted(host)
        small = runner.costs(host, count=True)
    except RefusedThere as error:
        return Why(None, missing={host: error.reason})
    except OutOfTime:
        return Why(None, missing={host: wording.NO_TIME})
    if isinstance(counted, str):
        return Why(None, missing={host: counted})
    rounds = _rounds(runner, [host, *slower], until, rng, show)
    explanations: list[Explanation] = []
    for name, pairs in rounds.pairs.items():
        longer = [pair.runs[slower[name]].wall_ns - pair.runs[0].wall_ns for pair in compared.pairs]
        lost = small["missing"] | rounds.lost[name]
        explanations.append(explain(name, counted, small["counts"], pairs, longer, lost))
    return Why(counted, tuple(explanations), rounds.missing)


@dataclass(frozen=True, slots=True)
class Prices:
    """What one event of each kind costs more than on the host.

    `costs` by platform, and `lost`: kinds without one, with the reason; `missing`: platforms without any.
    """

    costs: dict[str, dict[str, Amount]]
    lost: dict[str, dict[str, str]]
    missing: dict[str, str]


def prices(
    runner: WeighRunner,
    names: Sequence[str],
    *,
    until: float,
    rng: np.random.Generator,
    show: Callable[[str], None],
) -> Prices:
    """Measure what single events cost on each platform; the host is in front of the `names`.

    Raises:
        MachineCannot: events cannot be counted here.
    """
    runner.until = until
    show(wording.COUNTING_SMALL)
    try:
        small = runner.costs(names[0], count=True)
    except RefusedThere as error:
        raise MachineCannot(error.reason) from None
    except OutOfTime:
        raise MachineCannot(wording.NO_TIME) from None
    rounds = _rounds(runner, names, until, rng, show)
    costs = {name: unit_costs(small["counts"], pairs) for name, pairs in rounds.pairs.items()}
    return Prices(costs, {name: small["missing"] | rounds.lost[name] for name in costs}, rounds.missing)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """What the small programs took, by platform, in pairs with the host; `lost` and `missing` as in `Prices`."""

    pairs: dict[str, list[tuple[Kinds, Kinds]]]
    lost: dict[str, dict[str, str]]
    missing: dict[str, str]


def _rounds(
    runner: WeighRunner, names: Sequence[str], until: float, rng: np.random.Generator, show: Callable[[str], None]
) -> _Rounds:
    """Time the small programs on each platform, in rounds of random order, beside the host, the first one."""
    rounds, refusals = _printed(runner, names, until, rng, show)
    pairs: dict[str, list[tuple[Kinds, Kinds]]] = {}
    lost: dict[str, dict[str, str]] = {}
    missing: dict[str, str] = {}
    host, *others = names
    for name in others:
        both = [(_typical(of[host]), _typical(of[name])) for of in rounds if host in of and name in of]
        if len(both) < LEAST_ROUNDS:
            missing[name] = refusals.get(name, refusals.get(host, wording.NO_TIME))
            continue
        pairs[name], lost[name] = both, {}
        for of in rounds:
            lost[name] |= of.get(name, {}).get("missing", {})
    return _Rounds(pairs, lost, missing)


def _printed(
    runner: WeighRunner, names: Sequence[str], until: float, rng: np.random.Generator, show: Callable[[str], None]
) -> tuple[list[dict[str, dict[str, Any]]], dict[str, str]]:
    """What `vtare costs` printed on each platform, in rounds of random order; and why it did not run where that was so.

    A sandbox may fail to start once, while the one before it is still ending.
    """
    rounds: list[dict[str, dict[str, Any]]] = []
    refusals: dict[str, str] = {}
    took_s = 0.0
    while len(rounds) < _ROUNDS and time.monotonic() + took_s < until:
        begin = time.monotonic()
        show(wording.pricing(len(rounds) + 1, _ROUNDS))
        done: dict[str, dict[str, Any]] = {}
        for at in rng.permutation(len(names)):
            try:
                done[names[at]] = runner.costs(names[at])
            except RefusedThere as error:
                refusals[names[at]] = error.reason
            except OutOfTime:
                return rounds, refusals
        rounds.append(done)
        took_s = time.monotonic() - begin
    return rounds, refusals


def _typical(printed: Mapping[str, Any]) -> Kinds:
    """The mean batch of each small program: like the time of a command, it has what a busy machine adds."""
    return {kind: float(np.mean(batches)) for kind, batches in printed["costs"].items()}
