"""Series of figures and their changes: of a campaign's runs, or as `vtare watch` keeps them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtare import stats
from vtare.records.answer import answered
from vtare.sentences import comparison as wording
from vtare.series.figures import bound_text, facts_of, figures_of
from vtare.series.model import FACTS_AFTER, FACTS_BEFORE, Change, Series, SeriesKey, changed_facts, magnitude
from vtare.series.sentences import WORDS, sentence
from vtare.stats.changes import LEAST_POINTS
from vtare.stats.verdicts import Merit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vtare.records import comparisons
    from vtare.samples import RunFile


@dataclass(frozen=True, slots=True)
class OverTime:
    """Series of figures in order of time, and their changes in the order in which they were found.

    `unit` is what a point is: a `round` of `vtare watch`, or a `run` of a campaign. `bounds` are the figures, in words,
    that a run knows only as a bound: they are not followed.
    """

    unit: str
    series: tuple[Series, ...]
    changes: tuple[Change, ...]
    bounds: tuple[str, ...] = ()

    def alerts(self, margin: float) -> tuple[Change, ...]:
        """The changes by at least this share."""
        return tuple(change for change in self.changes if magnitude(change.before, change.after) >= margin)

    def of(self, key: SeriesKey) -> tuple[Change, ...]:
        """The changes of one series."""
        return tuple(change for change in self.changes if change.key == key)

    @property
    def points(self) -> int:
        """How many the longest series has."""
        return max((len(one.values) for one in self.series), default=0)

    def _status(self) -> str:
        if self.points < LEAST_POINTS:
            return "unknown"
        is_worse = any(made[-1].worse for one in self.series if (made := self.of(one.key)))
        return str(Merit.WORSE) if is_worse else f"not {Merit.WORSE}"

    def document(self, store: Path, margin: float) -> comparisons.OverTimeDocument:
        """As JSON, schema `vtare.over_time/1`."""
        alerts = self.alerts(margin)
        return {
            "schema": "vtare.over_time/1",
            "answer": answered([answer(self)], self._status()),
            "store": str(store),
            "unit": self.unit,
            "margin_percent": 100.0 * margin,
            "bounds": list(self.bounds),
            "series": [
                {
                    **one.key.document(),
                    "n": len(one.values),
                    "at_unix_s": one.at_s,
                    "values": one.values,
                    "changes": len(self.of(one.key)),
                }
                for one in self.series
            ],
            "changes": [
                {**change.document(), "alert": change in alerts, "text": sentence(change)} for change in self.changes
            ],
        }


def answer(found: OverTime) -> str:
    """Whether the figures got worse, by the last change of each."""
    points = found.points
    if points < LEAST_POINTS:
        return wording.too_few_points(LEAST_POINTS, points, found.unit)
    counted = Counter(WORDS[found.of(one.key)[-1].worse] for one in found.series if found.of(one.key))
    if not counted:
        return wording.none_changed(len(found.series), points, found.unit)
    parts = [f"{number} {word}" for word in (Merit.BETTER, "changed") if (number := counted[word])]
    if kept := len(found.series) - counted.total():
        parts.append(f"{kept} unchanged")
    worse = counted[Merit.WORSE]
    return (
        wording.some_worse(worse, len(found.series), parts) if worse else wording.none_worse(len(found.series), parts)
    )


def of_runs(rows: Iterable[Mapping[str, Any]], files: Sequence[RunFile], keys: Any) -> OverTime:
    """The runs of a campaign: their rows (`vtare.summary`, `runs`), their files, and the key columns of experiments."""
    footers = {file.run.run_id: file.footer for file in files}
    series: dict[SeriesKey, Series] = {}
    bounds: dict[SeriesKey, str] = {}
    ordered = sorted((row for row in rows if row["control"] is None), key=lambda row: row["position"])
    for row in ordered:
        labels = {name: row[name] for name in keys(row["experiment"]) if row[name] is not None}
        footer = footers[row["run_id"]]
        for key, known in figures_of(row["experiment"], row["instrument"], labels, row).items():
            if known.side != "exact":
                bounds.setdefault(key, bound_text(key, known))
                continue
            one = series.setdefault(key, Series(key))
            one.rounds.append(len(one.rounds))
            one.at_s.append(footer["started_unix_ns"] / 1e9)
            one.values.append(known.number)
            one.facts.append(facts_of(footer))
    # Where a run gives only a bound, the others are those that no limit ended: their history would be another one.
    series = {key: one for key, one in series.items() if key not in bounds}
    changes = [change for one in series.values() for change in _changes(one)]
    return OverTime("run", tuple(series.values()), tuple(sorted(changes, key=lambda change: change.found_s)),
                    tuple(bounds.values()))  # fmt: skip


def _changes(one: Series) -> Iterable[Change]:
    for point in stats.change_points(one.values):
        place, last = point.index, point.found_at - 1
        facts = changed_facts(one.facts[place - FACTS_BEFORE], one.facts[place + FACTS_AFTER])
        yield Change(
            one.key, one.rounds[place], one.rounds[last], one.at_s[place], one.at_s[last],
            point.before, point.after, facts,
        )  # fmt: skip
