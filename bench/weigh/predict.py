"""Predicts what programs take on platforms that are left out, from a card of this machine, and measures it then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from figures import figure

from vtare.weigh.why import LEAST_ROUNDS, Amount

WITHIN = 0.15


def measured(document: dict[str, Any]) -> dict[str, Amount]:
    """By platform: how much longer the runs of a document took than the host's beside them; where they were enough."""
    walls = {one["name"]: [run["wall time"] for run in one["runs"]] for one in document["platforms"]}
    host = walls.pop("host")
    return {
        name: Amount.typical([own - other for own, other in zip(own_walls, host, strict=True)])
        for name, own_walls in walls.items()
        if len(host) >= LEAST_ROUNDS
    }


def ms(amount: Amount) -> str:
    """A time with its interval."""
    return f"{amount.value / 1e6:.1f} ({amount.low / 1e6:.1f} to {amount.high / 1e6:.1f})"


def main(programs: Mapping[str, str], weighed: Callable[[str, Sequence[str]], dict[str, Any]], card: str) -> None:
    """Predict each program with the host alone, measure it on all platforms, and print both."""
    results: list[tuple[bool, bool]] = []
    for name, command in programs.items():
        documents = [weighed(command, words) for words in (["--on", "host", "--card", card], [])]
        if wrong := [one["error"] for one in documents if "error" in one]:
            print(f"\n{name}: left out, {wrong[0].splitlines()[-1]}")
            continue
        print(f"\n{name}")
        after = measured(documents[1])
        if not after:
            print(f"  left out: fewer than {LEAST_ROUNDS} rounds in the time")
        for told in documents[0]["predicted"]["platforms"]:
            platform, predicted = told["name"], Amount(**told["longer_ns"])
            if platform not in after:
                continue
            longer = after[platform]
            rest = longer.less(predicted)
            neither = all(one.low <= 0 <= one.high for one in (predicted, longer))
            within = neither or abs(rest.value) <= WITHIN * abs(longer.value)
            holds = rest.low <= 0 <= rest.high
            results.append((within, holds))
            print(f"  {platform:<12}predicted {ms(predicted)} ms, measured {ms(longer)} ms"
                  f"{'' if within else '  MISSED 15 %'}{'' if holds else '  MISSED the interval'}")  # fmt: skip
            for key, amount in (("predicted", predicted), ("measured", longer)):
                figure(f"{name}/{platform}/{key}", amount.value / 1e6, "ms", (amount.low / 1e6, amount.high / 1e6))
    good, holding = (sum(one[at] for one in results) for at in (0, 1))
    enough = 0 < 0.8 * len(results) <= good, 0 < 0.9 * len(results) <= holding
    print(f"\n  {'reached' if enough[0] else 'MISSED '}  predicted to 15 %, or neither shows a difference: {good} of "
          f"{len(results)}, wanted 80 %")  # fmt: skip
    print(f"  {'reached' if enough[1] else 'MISSED '}  the interval holds: {holding} of {len(results)}, wanted 90 %")
