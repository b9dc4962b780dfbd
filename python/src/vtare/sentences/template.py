"""Sentences with figures in them: a template that reads as the sentence does, and its places."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class FigureText:
    """One figure in a sentence: `78.2 us late` and its interval, `72.1 to 83.0 us`, empty where it has none."""

    value: str
    interval: str = ""


Sentence = tuple[str | FigureText, ...]
Place = str | int | FigureText | Sentence


def fill(template: str, **places: Place) -> Sentence:
    """The sentence of a template; neighbouring text is one piece.

    >>> fill("It takes {time} ({where}).", time=FigureText("3 ms"), where="idle")
    ('It takes ', FigureText(value='3 ms', interval=''), ' (idle).')
    """
    pieces: list[str | FigureText] = []
    for words, name, _, _ in Formatter().parse(template):
        place = places[name] if name is not None else ""
        for piece in (words, *(place if isinstance(place, tuple) else (place,))):
            if isinstance(piece, FigureText):
                pieces.append(piece)
            elif pieces and isinstance(pieces[-1], str):
                pieces[-1] += str(piece)
            elif piece != "":
                pieces.append(str(piece))
    return tuple(pieces)


def joined(parts: Iterable[Sentence], between: str = ", ", last: str | None = None) -> Sentence:
    """Parts one after the other, the last one behind another word where `last` is one.

    >>> joined([("a",), ("b",), ("c",)], last=" and ")
    ('a, b and c',)
    """
    *first, end = [*parts] or [()]
    whole: Sentence = ()
    for part in first:
        whole = fill("{whole}{between}{part}", whole=whole, between=between if whole else "", part=part)
    return fill("{whole}{between}{end}", whole=whole, between=(last or between) if whole else "", end=end)


def plain(sentence: Sentence) -> str:
    """The words of a sentence, intervals in brackets."""
    return "".join(
        piece if isinstance(piece, str) else f"{piece.value} ({piece.interval})" if piece.interval else piece.value
        for piece in sentence
    )
