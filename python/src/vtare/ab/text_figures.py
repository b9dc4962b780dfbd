"""Figures in printed text, by a regular expression whose group is a number as a whole, with the unit beside it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.readings import (
    NUMBER_SIGNS,
    NoReading,
    Number,
    Reading,
    ReadingUnit,
    is_known,
    read_number,
    read_unit,
    with_unit,
)
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SECONDS: Final = 10.0
"""Seconds after which a search through what one run printed is given up."""
#: Colours and titles that programs send to terminals (ECMA-48): control sequences, and strings to their end.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_SPLIT: Final = re.compile(rf"([-+]?[{NUMBER_SIGNS}]*\d[{NUMBER_SIGNS}]*(?:[eE][-+]?\d+)?)[ \t]*(\S*)")
_WORD: Final = re.compile(r"[A-Za-z%/\u00b5\u03bc][A-Za-z0-9%/\u00b5\u03bc]*")
_LETTERS: Final = re.compile(r"[A-Za-z\u00b5\u03bc]")
#: Words for powers of ten after a number: such a number is not read at all.
_LARGE: Final = frozenset({"thousand", "million", "billion", "trillion", "lakh", "crore"})


def without_escapes(text: str) -> str:
    r"""The text without what commands a terminal.

    >>> without_escapes("\x1b[32m12.5\x1b[0m ms")
    '12.5 ms'
    """
    return _ESCAPES.sub("", text)


def pattern(text: str, name: str, *, locale: str | None) -> Callable[[str], Reading]:
    """Return what reads all numbers of a regular expression, in the order in which they were printed.

    Raises:
        BadInput: it is no regular expression.
    """
    # RE2: its time grows with the text only, whatever the expression.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        raise BadInput(
            f"--metric {name}: '{text}' is no regular expression that RE2 reads (it has neither "
            f"look-around nor back-references): {_words(error)}"
        ) from error

    def read(printed: str) -> Reading:
        plain = without_escapes(printed)
        if not plain.strip():
            raise NoReading("the output is empty")
        numbers = [_number(plain, span, match, locale) for match, span in _groups(compiled, plain)]
        if not numbers:
            raise NoReading(f"nothing in the output matches '{text}'; it ends with: {plain.strip()[-200:]}")
        return with_unit(numbers, name)

    return read


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _groups(compiled: Any, plain: str) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Each match with the place of its first group, or of all of it; a group that took no part is passed over."""
    until = time.monotonic() + _SECONDS
    for match in compiled.finditer(plain):
        if time.monotonic() > until:
            raise NoReading(f"the search took more than {_SECONDS:g} s. Print less, or use a simpler expression")
        span = match.span(1 if compiled.groups else 0)
        if span[0] >= 0:
            yield match, span


def _number(plain: str, span: tuple[int, int], match: Any, locale: str | None) -> tuple[Number, ReadingUnit]:
    begin, end = span
    number, unit = whole_text(plain[begin:end], locale)
    end = begin + len(plain[begin:end].rstrip())
    _refuse_part(plain, begin, end, match.span(0))
    if unit == ReadingUnit():
        return number, _unit_beside(plain[end : end + 40])
    return number, _scaled_by(unit, plain[end : end + 40])


def _scaled_by(unit: ReadingUnit, after: str) -> ReadingUnit:
    """A unit; where it only counts in thousands or the like, of the unit behind it: `12 k req/s`."""
    if unit.symbol or unit.factor == 1.0:
        return unit
    more = _unit_beside(after)
    return ReadingUnit(more.symbol, unit.factor * more.factor, more.more_is_better)


def whole_text(text: str, locale: str | None) -> tuple[Number, ReadingUnit]:
    """Return a text that is a number, with the unit behind it where it has one.

    Raises:
        NoReading: it is anything else.
    """
    split = _SPLIT.fullmatch(text.strip())
    if split is None or (split[2] and not is_known(split[2])):
        return read_number(text, locale), ReadingUnit()
    return read_number(split[1], locale), read_unit(split[2])


def _refuse_part(plain: str, begin: int, end: int, whole: tuple[int, int]) -> None:
    """Refuse a number that goes on beyond its group: half of `12,112` is another number.

    Where the expression itself goes on, it states what stands there.
    """
    before, after = plain[max(0, begin - 20) : begin], plain[end : end + 20]
    goes_on = end == whole[1] and re.match(rf"[{NUMBER_SIGNS}:]?\d|[eE][-+]?\d", after)
    began = begin == whole[0] and re.search(rf"\d[{NUMBER_SIGNS}:]?$", before)
    number = plain[begin:end]
    # Digits in groups of three with blanks between them may be one number.
    goes_on = goes_on or (end == whole[1] and re.fullmatch(r"\d{1,3}", number) and re.match(r" \d{3}(?!\d)", after))
    began = began or (begin == whole[0] and re.match(r"\d{3}(?!\d)", number) and re.search(r"(?<!\d)\d{1,3} $", before))
    if goes_on or began or re.match(r"[A-Za-z]{1,2}\d", after):
        whole_number = re.split(r"[^\S ]|(?<!\d) ", before)[-1] + number + re.split(r"[^\S ]| (?!\d)", after)[0]
        raise NoReading(
            f"'{number}' is only a part of '{whole_number}'. Let the group match all of the number, or the expression "
            "what stands beside it"
        )


def _unit_beside(after: str) -> ReadingUnit:
    """The unit right after a number, or a known one after a blank; any other word there is none."""
    joined = after[:1] not in ("", " ", "\t")
    match = _WORD.match(after.lstrip(" \t"))
    if match is None:
        return ReadingUnit()
    word = match[0].rstrip("/")
    if word.lower() in _LARGE:
        raise NoReading(f"the number is followed by '{word}'. Print it in digits")
    if joined or is_known(word):
        unit = read_unit(word) if _LETTERS.search(word) or word == "%" else ReadingUnit()
        return _scaled_by(unit, after.lstrip(" \t")[match.end() :])
    scaled = re.fullmatch(r"([kKMGT]i?|[mun\u00b5\u03bc])([A-Z][A-Za-z]*(?:/[A-Za-z]+)?|[a-z]+/[a-z]+)", word)
    # A word such as `Mfoo/s` may be scaled in another run: kept as it is, so that units that differ are seen.
    return ReadingUnit(word) if scaled else ReadingUnit()
