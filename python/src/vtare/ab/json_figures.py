"""Figures in JSON: documents read strictly, numbers with the digits they were printed in, paths into them."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.readings import NoReading, Number, Reading, ReadingUnit, read_number, with_unit
from vtare.ab.text_figures import whole_text, without_escapes
from vtare.errors import BadInput
from vtare.kernel_files import free_memory_byte
from vtare.stored.paths import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SHOWN: Final = 12


class Digits(float):
    """A number of a JSON document that knows how it was printed."""

    __slots__ = ("step",)
    step: float

    @classmethod
    def of(cls, text: str) -> Digits:
        """Read a number of JSON."""
        number = read_number(text)
        made = cls(number.value)
        made.step = number.step
        return made


_LITTLE_BYTE: Final = 1 << 20
"""Memory that is always free: to ask costs more time than to read a small document."""


def parse_json(printed: str) -> Any:
    """Return a JSON document whose numbers are finite.

    Raises:
        NoReading: it is none, with the line where it goes wrong.
    """
    text = without_escapes(printed.removeprefix("\ufeff"))
    if not text.strip():
        raise NoReading("the output is empty")
    _refuse_beyond_memory(text)
    try:
        return json.loads(text, parse_float=Digits.of, parse_int=Digits.of, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1 : error.lineno]
        raise NoReading(f"the output is no valid JSON: {error.msg} in line {error.lineno}: {_short(line)}") from error
    except RecursionError:
        raise NoReading("the output is JSON that is nested too deep") from None


def _refuse_beyond_memory(text: str) -> None:
    """Refuse JSON whose values take more memory than is free: each takes many times as much as its text."""
    wanted = sum(text.count(sign) * byte for sign, byte in (("{", 400), ("[", 100), (",", 90)))
    if wanted < _LITTLE_BYTE:
        return
    # 0: this machine states none.
    if 0 < (free := free_memory_byte()) < wanted:
        raise NoReading(
            f"its {text.count(',') + 1} values of JSON take {wanted / 1e9:.2g} GB of memory, {free / 1e9:.2g} GB are "
            "free. Print less"
        )


def _short(lines: Sequence[str]) -> str:
    return repr(lines[0].strip()[:80]) if lines else "its end"


def _refuse_constant(text: str) -> float:
    raise NoReading(f"'{text}' is no finite number")


def member(value: Any, key: str) -> Any:
    """Return a member of an object.

    Raises:
        NoReading: there is none of this name, with those that there are.
    """
    if not isinstance(value, dict):
        raise NoReading(f"there is no '{key}' in {kind(value)}")
    if key not in value:
        # A benchmark program says in its document why it could not measure.
        raise NoReading(_own_error(value) or f"there is no '{key}' beside {_keys(value)}")
    return value[key]


def _own_error(value: Mapping[str, Any]) -> str | None:
    for key in ("error", "error_message", "skip_message", "message"):
        if isinstance(value.get(key), str) and value[key]:
            return f"the program reports: {plain_text(value[key])[:200]}"
    return None


def _keys(value: Mapping[str, Any]) -> str:
    shown = [f"'{plain_text(key)[:40]}'" for key in value]
    return ", ".join(shown[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "") if shown else "nothing"


def members(value: Any, key: str) -> list[Any]:
    """Return a list that is a member of an object, with at least one item.

    Raises:
        NoReading: it is none, or empty.
    """
    items = member(value, key)
    if not isinstance(items, list):
        raise NoReading(f"'{key}' is {kind(items)}, not a list")
    if not items:
        raise NoReading(_own_error(value) or f"'{key}' is empty")
    return items


def text_of(value: Any, key: str, default: str | None = None) -> str:
    """Return a text that is a member of an object, without control characters; `default` where it has none."""
    content = value.get(key, default) if default is not None and isinstance(value, dict) else member(value, key)
    if not isinstance(content, str):
        raise NoReading(f"'{key}' is {kind(content)}, not a text")
    return plain_text(content)


def kind(value: Any) -> str:
    """What a value of JSON is, in words."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text '{plain_text(value)[:40]}'"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else f"the number {value:g}"


def number_of(value: Any, what: str) -> Number:
    """Return a number of a document with the step of its digits.

    Raises:
        NoReading: it is no number.
    """
    if not isinstance(value, Digits) or not math.isfinite(value):
        raise NoReading(f"'{what}' is {kind(value)}, not a number")
    return Number(float(value), value.step)


def numbers_of(values: Any, what: str) -> list[Number]:
    """Return the numbers of a list."""
    if not isinstance(values, list) or not values:
        raise NoReading(f"'{what}' is {'an empty list' if values == [] else kind(values)}, not numbers")
    return [number_of(value, what) for value in values]


def mean_of(numbers: Sequence[Number]) -> Number:
    """Return the mean of numbers; each may be off by its step, so the mean may be as well."""
    return Number(math.fsum(number.value for number in numbers) / len(numbers), min(one.step for one in numbers))


def path(text: str, name: str, *, locale: str | None) -> Callable[[str], Reading]:
    """Return what reads all numbers at a path such as `results[0].mean`; `[*]` takes every item.

    Raises:
        BadInput: it is no path.
    """
    steps = [step for step in re.split(r"[.\[\]]+", text) if step]
    if not steps:
        raise BadInput(f"--metric {name}: 'json:{text}' is no path. Example: json:results[0].mean")

    def read(printed: str) -> Reading:
        values = _followed(parse_json(printed), steps)
        return with_unit([_with_unit(value, text, locale) for value in values], name)

    return read


def _with_unit(value: Any, what: str, locale: str | None) -> tuple[Number, ReadingUnit]:
    return whole_text(value, locale) if isinstance(value, str) else (number_of(value, what), ReadingUnit())


def _followed(value: Any, steps: Sequence[str]) -> list[Any]:
    """What stands at the end of a path. null is what the program could not measure: nothing."""
    for at, step in enumerate(steps):
        here = ".".join(steps[:at]) or "the document"
        if step == "*":
            items = value.values() if isinstance(value, dict) else value
            if not isinstance(value, (dict, list)):
                raise NoReading(f"{here} is {kind(value)}, not a list")
            return [leaf for item in items for leaf in _followed(item, steps[at + 1 :])]
        if isinstance(value, list):
            if not re.fullmatch(r"-?\d{1,9}", step) or not -len(value) <= int(step) < len(value):
                raise NoReading(f"{here} is a list of {len(value)} items, there is no '{step}' in it")
            value = value[int(step)]
        else:
            value = member(value, step)
    return [] if value is None else [value]
