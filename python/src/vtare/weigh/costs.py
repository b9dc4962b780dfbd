"""What single services of the kernel cost on each platform, in rounds beside the host; and how many a command asks for.

`vtare costs` measures and counts; `why` explains by it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vtare.ab.trials import OutOfTime
from vtare.sentences import weigh as wording
from vtare.weigh.runner import RefusedThere
from vtare.weigh.why import LEAST_ROUNDS, Explanation, Kinds, Why, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.ab.compare import Compared
    from vtare.weigh.runner import WeighRunner

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
    missing: dict[str, str] = {}
    rounds, refusals = _rounds(runner, [host, *slower], until, rng, show)
    explanations: list[Explanation] = []
    for name, command in slower.items():
        pairs = [(_typical(of[host]), _typical(of[name])) for of in rounds if host in of and name in of]
        if len(pairs) < LEAST_ROUNDS:
            missing[name] = refusals.get(name, refusals.get(host, wording.NO_TIME))
            continue
        lost: dict[str, str] = dict(small["missing"])
        for of in rounds:
            lost |= of.get(name, {}).get("missing", {})
        longer = [pair.runs[command].wall_ns - pair.runs[0].wall_ns for pair in compared.pairs]
        explanations.append(explain(name, counted, small["counts"], pairs, longer, lost))
    return Why(counted, tuple(explanations), missing)


def _rounds(
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
