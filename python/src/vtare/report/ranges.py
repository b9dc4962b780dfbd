"""Notes that differ in their figures alone, as one: each figure that differs as a range from least to greatest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from vtare.summary.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Units of what is measured, and what one of them is in the first of its kind.
_UNITS: Final = {
    "ns": ("ns", 1.0), "us": ("ns", 1e3), "ms": ("ns", 1e6), "s": ("ns", 1e9), "%": ("%", 1.0),
    "kbit/s": ("bit/s", 1e3), "Mbit/s": ("bit/s", 1e6), "Gbit/s": ("bit/s", 1e9),
}  # fmt: skip
#: A number that stands by itself, with its unit: no part of a name or a version (`Kite2`, `12.2.0`).
_FIGURE: Final = re.compile(rf"(?<![\w.-])(\d+(?:\.\d+)?)(?: ({'|'.join(map(re.escape, _UNITS))})(?!\w))?(?![\w.]*\d)")
_MOST_ALIKE: Final = 3
"""Notes that differ in counts and sizes (`64 B to 2 of 4 guests`) stay apart up to this number."""


def said_once(notes: Iterable[Note]) -> tuple[tuple[Note, int], ...]:
    """Merge notes of one id whose text is the same but for measured figures, or, where many are left, for any figure.

    Each with how many notes it was made of. A merged note stands where its first one stood. Its `runs` is the sum: how
    often it was made, since one run may make it with several figures.
    """
    alike: dict[tuple[str, str], dict[str, list[Note]]] = {}
    for note in notes:
        groups = alike.setdefault((note.id, _template(note.text, any_figure=True)), {})
        groups.setdefault(_template(note.text, any_figure=False), []).append(note)
    counted: list[tuple[Note, int]] = []
    for groups in alike.values():
        many = len(groups) > _MOST_ALIKE
        for same in [[note for group in groups.values() for note in group]] if many else groups.values():
            counted.append((_ranged(same), len(same)))
    return tuple(counted)


def _template(text: str, *, any_figure: bool) -> str:
    """The text with its figures replaced by their kind of unit; where not any figure, only of those that have one."""

    def kind(found: re.Match[str]) -> str:
        unit = found[2]
        return f"<{_UNITS[unit][0]}>" if unit else "<>" if any_figure else found[0]

    return _FIGURE.sub(kind, text)


def _ranged(notes: Sequence[Note]) -> Note:
    columns = zip(*(_FIGURE.finditer(note.text) for note in notes), strict=True)
    spans = iter([_span(column) for column in columns])
    text = _FIGURE.sub(lambda _: next(spans), notes[0].text)
    return Note(notes[0].id, text, sum(note.runs for note in notes))


def _span(found: Sequence[re.Match[str]]) -> str:
    """One figure of several notes: `142 to 333 ms`, `20.0 us to 1.30 s`, or what it is in all."""

    def size(one: re.Match[str]) -> float:
        return float(one[1]) * (_UNITS[one[2]][1] if one[2] else 1.0)

    low, high = min(found, key=size), max(found, key=size)
    if size(low) == size(high):
        return low[0]
    return f"{low[1] if low[2] == high[2] else low[0]} to {high[0]}"
