"""What the tables of Kirova 2019 show about its methods: which post-hoc test, what maxima are, what pooling hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare import stats
from vtare.number_text import percent_points, time_text
from vtare.papers.claims.kirova_tables import ALPHA, FIGURES, FUNCTIONS, PLATFORMS, TABLES, cells, sentence
from vtare.papers.claims.model import decide, grouped

if TYPE_CHECKING:
    from vtare.papers.claims.model import Claim

_NEAR: Final = 0.01
"""How far from a multiple of the tick a maximum may lie, in ticks: 1 in 50 by chance."""
_CHANGED: Final = 0.02
"""Changes below this are within the digits of the tables."""


def method_claims() -> list[Claim]:
    """Sections 2.3, 3.1 and 3.2."""
    return [_post_hoc(), _ticks(), _pooled()]


def _post_hoc() -> Claim:
    """Pairs of levels that either post-hoc test calls different, over both tables, all factors and parameters."""
    by_test: dict[str, set[tuple[str, ...]]] = {"Tukey": set(), "Dunn": set()}
    for kind, table in TABLES.items():
        for factor in ("platform", "load"):
            for parameter, figure in FIGURES.items():
                groups = grouped(table, lambda row, factor=factor: row[factor], figure)  # type: ignore[misc]
                names, values = list(groups), list(groups.values())
                tests = {
                    "Tukey": stats.tukey_on_ranks(values, family="f"),
                    "Dunn": stats.dunn(values, family="f", adjustment="none"),
                }
                for name, pairs in tests.items():
                    by_test[name] |= {
                        (kind, parameter, names[pair.first], names[pair.second])
                        for pair in pairs if pair.p.adjusted <= ALPHA
                    }  # fmt: skip
    text = sentence("post-hoc-test")
    tukey, dunn = by_test["Tukey"], by_test["Dunn"]
    named = set(text.words.values())
    return text.claim(
        "The post-hoc test is the one that the section on methods names.",
        "; ".join(f"{part}: {words}" for part, words in text.words.items()),
        f"pairs of platforms or loads that differ: {len(tukey)} by Tukey on ranks, {len(dunn)} by Dunn, "
        f"{len(tukey & dunn)} by both",
        decide(holds=len(named) == 1, in_part=tukey == dunn),
        "Tukey's test is adjusted for all pairs; Dunn's is shown without adjustment, since none is stated.",
    )  # fmt: skip


def _ticks() -> Claim:
    """How many maxima under CPU load are whole ticks of a kernel with 250 of them a second."""
    text = sentence("tails-cpu")
    tick = text.numbers["tick"]
    multiples, total = [], 0
    for kind in TABLES:
        for (function, platform, load), value in cells(kind, "max").items():
            if load != "cpu":
                continue
            total += 1
            ticks = value / tick
            if abs(ticks - round(ticks)) <= _NEAR:
                multiples.append(f"{function} on {platform} {round(ticks)}")
    return text.claim(
        "The longer tails under CPU load are those of the timers and sleeps.", text.words["cause"],
        f"{len(multiples)} of {total} maxima are whole multiples of {time_text(tick)}; by chance "
        f"{2 * _NEAR * total:g} would be",
        decide(holds=len(multiples) <= 4 * _NEAR * total, in_part=False),
        f"{time_text(tick)} is the scheduler's tick at 250 Hz: the reading thread waited for its turn, whatever it "
        f"read. In ticks: {', '.join(multiples)}.",
    )  # fmt: skip


def _pooled() -> Claim:
    """Effects of the CPU load on the median cost of a clock read, with their signs."""
    median = cells("timers", "median")
    changes = {
        f"{function} on {platform}": median[function, platform, "cpu"] / median[function, platform, "idle"] - 1
        for function in FUNCTIONS["timers"] for platform in PLATFORMS
        if (function, platform, "cpu") in median and (function, platform, "idle") in median
    }  # fmt: skip
    lower = {name: change for name, change in changes.items() if change < -_CHANGED}
    higher = {name: change for name, change in changes.items() if change > _CHANGED}
    text = sentence("load-on-median")
    ends = (min(changes, key=lambda name: changes[name]), max(changes, key=lambda name: changes[name]))
    return text.claim(
        "The load has no effect on the median cost of reading a clock.", text.words["effect"],
        f"CPU load lowers it in {len(lower)} and raises it in {len(higher)} of {len(changes)} cases",
        decide(holds=not lower and not higher, in_part=not (lower and higher)),
        "Over all functions and platforms together opposite changes cancel: "
        + ", ".join(f"{name} {percent_points(100 * changes[name])}" for name in ends) + ".",
    )  # fmt: skip
