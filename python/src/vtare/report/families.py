"""How many families of tests a report holds, and how many false claims to expect where nothing differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare.number_text import significant
from vtare.report.pages import page_of
from vtare.sentences import caveats as wording

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from vtare.report.layout import Layout
    from vtare.summary import Summary
    from vtare.summary.contrasts import ComparisonRow


@dataclass(frozen=True, slots=True)
class Family:
    """Tests that are adjusted together: how many, and how many of them claim a difference."""

    name: str
    size: int
    claims: int


def families_of(summary: Summary, layouts: Mapping[str, Layout]) -> list[Family]:
    """Every family of tests that the report shows; those of the main comparisons come first."""
    counted: dict[str, list[int]] = {}
    for name, p in _adjusted(summary, layouts):
        counts = counted.setdefault(name, [0, 0])
        counts[0] += 1
        counts[1] += p <= summary.plan.analysis.alpha
    return [Family(name, size, claims) for name, (size, claims) in counted.items()]


def _adjusted(summary: Summary, layouts: Mapping[str, Layout]) -> Iterator[tuple[str, float]]:
    """The family and the adjusted p-value of every test."""
    # Rows of layers that stand in a list before it are of its families and not counted twice.
    seen: set[str] = set()
    frames = [_of(frame) for frame in (summary.tests, summary.interactions, summary.levels)]
    for tests in (_of_rows(summary.comparisons), _of_rows(summary.tails), *frames, _of_rows(summary.layers)):
        own = list(tests)
        yield from ((name, p) for name, p in own if name not in seen)
        seen |= {name for name, _ in own}
    for layout in layouts.values():
        tested = page_of(layout.experiment.instrument).tested
        if tested is not None:
            yield from ((p.family, p.adjusted) for p in tested(summary, layout))


def _of_rows(rows: Sequence[ComparisonRow]) -> Iterator[tuple[str, float]]:
    return ((row.family, row.p_adjusted) for row in rows if row.p_adjusted is not None)


def _of(frame: pl.DataFrame) -> Iterator[tuple[str, float]]:
    if not frame.height:
        return
    for name, p in frame.select("family", "p_adjusted").iter_rows():
        if p is not None:
            yield str(name), float(p)


def false_claims(summary: Summary, layouts: Mapping[str, Layout]) -> list[str]:
    """How many families there are, and how many of them would claim a difference where there is none."""
    families = families_of(summary, layouts)
    if not families:
        return []
    alpha = summary.plan.analysis.alpha
    main = len({name for name, _ in _of_rows(summary.comparisons)})
    return [wording.families(len(families), main, significant(alpha * len(families), 2), alpha)]
