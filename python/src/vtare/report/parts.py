"""What a report is made of, as data: sections of blocks, which every form of a report writes in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.plots import Chart, Drawing
    from vtare.report.facts import Fact
    from vtare.report.text import Shown
    from vtare.sentences.template import Sentence


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` is its name in the CSV file, `label` its heading, `about` the heading's explanation.

    `wide` ones have no room on a printed page.
    """

    key: str
    label: str
    numeric: bool = True
    about: str = ""
    wide: bool = False


def in_words(*keys: str) -> tuple[Column, ...]:
    """Columns of words, each under its own name."""
    return tuple(Column(key, key, numeric=False) for key in keys)


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to be shown and downloaded; `id` names its CSV file.

    On a page: `folded` ones are closed at first, with `about` inside; `choice` offers a choice of verdicts; columns of
    the keys `long` hold sentences.
    """

    kind: ClassVar[str] = "table"
    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Shown, ...], ...]
    folded: bool = False
    about: str = ""
    choice: bool = False
    long: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing with its heading; `chart` makes its interactive counterpart, where it has one."""

    heading: str
    drawing: Drawing
    chart: Callable[[], Chart] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the reader, the drawings that answer it and how to read them. `folded` ones are closed at first."""

    kind: ClassVar[str] = "question"
    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; a `caption` explains what follows."""

    kind: ClassVar[str] = "text"
    words: str
    caption: bool = False


@dataclass(frozen=True, slots=True)
class Notes:
    """A list of sentences; `details` of what the answer says."""

    kind: ClassVar[str] = "notes"
    lines: tuple[Sentence, ...]
    details: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    words: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts, each with what it means; `head` is what one of them is."""

    kind: ClassVar[str] = "facts"
    id: str
    head: str
    rows: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Text as it is."""

    kind: ClassVar[str] = "code"
    text: str


Block = Text | Notes | Heading | Facts | Code | Table | Question


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under its heading."""

    id: str
    title: str
    blocks: tuple[Block, ...]

    def tables(self) -> tuple[Table, ...]:
        """The tables among its blocks."""
        return tuple(block for block in self.blocks if isinstance(block, Table))
