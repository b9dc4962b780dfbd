"""The same programs weighed twice: do both tables name the same order, where a verdict says so?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from figures import figure

#: A ratio to the host with its interval; the ends are None where too few rounds were made.
Ratio = tuple[float, float | None, float | None]


def ratios(document: dict[str, Any]) -> dict[str, Ratio]:
    """Wall time against the host, by platform."""
    rows = [row for row in document["findings"] if row["figure"] == "wall time" and row["ratio"] is not None]
    return {row["platform"]: (row["ratio"], row["ratio_low"], row["ratio_high"]) for row in rows}


def is_below(one: Ratio, other: Ratio) -> bool:
    """Whether the whole interval of one lies below that of the other."""
    return one[2] is not None and other[1] is not None and one[2] < other[1]


def orders(both: tuple[dict[str, Ratio], dict[str, Ratio]]) -> tuple[int, list[str]]:
    """How many pairs of platforms, the host among them, both tables put in an order, and the pairs that they contradict
    each other about."""
    host: Ratio = (1.0, 1.0, 1.0)
    first, second = ({"host": host, **one} for one in both)
    agreed, contradicted = 0, []
    for one, other in itertools.permutations(sorted(first.keys() & second.keys()), 2):
        if is_below(first[one], first[other]):
            agreed += is_below(second[one], second[other])
            if is_below(second[other], second[one]):
                contradicted.append(f"{one} and {other}")
    return agreed, contradicted


def shown(one: Ratio | None) -> str:
    """A ratio with its interval."""
    if one is None:
        return "-"
    ratio, low, high = one
    return f"{ratio:.3g} ({low:.3g} to {high:.3g})" if low is not None and high is not None else f"{ratio:.3g}"


def main(programs: dict[str, str], weighed: Callable[[str, int], dict[str, Any]], seeds: tuple[int, int]) -> None:
    """Weigh all of them, and all of them again."""
    tables: list[dict[str, dict[str, Ratio]]] = []
    for seed in seeds:
        documents = {name: weighed(command, seed) for name, command in programs.items()}
        for name, document in documents.items():
            if "error" in document:
                print(f"{name}, seed {seed}: left out, {document['error'].splitlines()[-1]}")
        tables.append({name: ratios(one) for name, one in documents.items() if "error" not in one})
    agreed, contradicted = 0, []
    print(f"wall time against the host, seeds {seeds[0]} and {seeds[1]}")
    for name in programs:
        both = (tables[0].get(name, {}), tables[1].get(name, {}))
        print(f"  {name}")
        for platform in sorted(both[0].keys() | both[1].keys()):
            for at, one in enumerate(both):
                if platform in one:
                    ratio, low, high = one[platform]
                    ends = None if low is None or high is None else (low, high)
                    figure(f"twice/{name}/{platform}/{at + 1}", ratio, "", ends)
            print(f"    {platform:<12}{shown(both[0].get(platform)):<28}{shown(both[1].get(platform))}")
        more, names = orders(both)
        agreed += more
        contradicted += [f"{name}: {pair}" for pair in names]
    figure("twice/orders agreed", agreed)
    figure("twice/orders contradicted", len(contradicted))
    good = not contradicted and agreed > 0
    print(f"  {'reached' if good else 'MISSED '}  both tables have the same order where a verdict says so: {agreed} "
          f"pairs agree, {len(contradicted)} contradict{''.join(f'; {one}' for one in contradicted)}")  # fmt: skip
