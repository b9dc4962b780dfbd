"""Why a platform is slower: planted costs come back, each in its kind, and the rest is what is not explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from simulated_reasons import COUNTS, EXPLAINED, MORE, PER_TURN, Small, explained, rounds_of

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, compare
from vtare.ab.figures import COUNTED
from vtare.sentences import weigh as wording
from vtare.weigh.costs import why
from vtare.weigh.why import LEAST_ROUNDS, Amount, explain


def test_each_kind_gets_its_own_cost_and_the_largest_cause_is_in_front() -> None:
    one = explained("gvisor", noise=0.0001)
    assert [cause.kind for cause in one.causes] == ["system call", "file open", "program start"]
    for cause in one.causes:
        assert cause.each.value == pytest.approx(MORE[cause.kind], rel=0.01)
        assert cause.together.value == pytest.approx(COUNTS[cause.kind] * MORE[cause.kind], rel=0.01)
    assert [cause.kind for cause in one.large] == ["system call", "file open"]
    assert one.rest.value == pytest.approx(1e7, rel=0.01)
    # What the command never does needs no cost.
    assert one.unpriced == {}


def test_intervals_hold_what_was_planted_in_95_of_100_explanations() -> None:
    many = [explained("gvisor", seed=seed) for seed in range(400)]
    for name, planted in (("explained", EXPLAINED), ("measured", EXPLAINED + 1e7), ("rest", 1e7)):
        amounts: list[Amount] = [getattr(one, name) for one in many]
        held = np.mean([amount.low <= planted <= amount.high for amount in amounts])
        assert 0.92 <= held <= 0.995, (name, held)


def test_a_kind_without_a_cost_is_named_and_not_taken_for_nothing() -> None:
    rounds = [({**host}, {kind: ns for kind, ns in own.items() if kind != "file open"})
              for host, own in rounds_of(np.random.default_rng(1))]  # fmt: skip
    one = explain("gvisor", COUNTS, PER_TURN, rounds, [EXPLAINED] * 8, {"file open": "read-only"})
    assert one.unpriced == {"file open": "read-only"}
    assert one.rest.value > 0.9 * COUNTS["file open"] * MORE["file open"]


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Explain a comparison of the host with itself and with gvisor."""

    def of(runner: Any, *, slower: str = "gvisor") -> Any:
        commands = [Command((name,), name) for name in ("host", slower)]
        asked = Asked(design="interleaved", most_pairs=40)
        compared = compare(runner, commands, COUNTED[:1], asked, rng=np.random.default_rng(2))
        monkeypatch.setattr("time.monotonic", lambda: 0.0)
        return why(compared, runner, until=1.0, rng=np.random.default_rng(4), show=lambda _: None)

    return of


def test_only_platforms_that_are_slower_are_explained(reasons: Callable[..., Any]) -> None:
    assert reasons(Small(), slower="podman") is None
    told = reasons(Small())
    assert (told.counts, told.missing) == (COUNTS, {})
    (one,) = told.explanations
    assert one.platform == "gvisor"
    assert one.explained.low < EXPLAINED < one.explained.high


@pytest.mark.parametrize(
    ("runner", "where", "reason"),
    [
        (Small(counted="needs root"), "host", "needs root"),
        (Small(refuses=["gvisor"]), "gvisor", "no such call"),
        (Small(rounds=LEAST_ROUNDS - 1), "gvisor", wording.NO_TIME),
    ],
)
def test_what_cannot_be_explained_states_why(
    runner: Small, where: str, reason: str, reasons: Callable[..., Any]
) -> None:
    told = reasons(runner)
    assert (told.explanations, told.missing) == ((), {where: reason})
