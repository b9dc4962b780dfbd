"""What a report is made of, as data: sentences with figures in them, and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vtare.report.text import Shown


@dataclass(frozen=True, slots=True)
class FigureText:
    """One figure in a sentence: `78.2 us late` and its interval, `72.1 to 83.0 us`, empty where it has none."""

    value: str
    interval: str = ""


Sentence = tuple[str | FigureText, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` is its name in the CSV file, `label` its heading, `about` the heading's explanation."""

    key: str
    label: str
    numeric: bool = True
    about: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to be shown and downloaded; `id` names its CSV file."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Shown, ...], ...]
