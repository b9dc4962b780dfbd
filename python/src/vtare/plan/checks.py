"""Checks of one value of a plan, each with the key path, the value found and the values wanted."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from vtare.contract import Contract
from vtare.errors import BadInput, did_you_mean
from vtare.plan.positions import Positions
from vtare.platforms.endpoint_names import refusal
from vtare.quantities import QuantityError, Unit, parse, refuse_above_a_year
from vtare.stored.paths import plain_text


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """A key path of a plan, as messages begin: `plan.toml:12:9: experiment[0].factors.load[1]`.

    The text is searched for the position only where a message is made. `key`: the key itself is meant, not its value.
    """

    source: Path
    text: str
    path: str
    key: bool = False

    def __str__(self) -> str:
        """File, line, column and key path."""
        at = Positions(self.text).of(self.path, key=self.key)
        return f"{self.source}: {self.path}" if at is None else f"{self.source}:{at.line}:{at.column}: {self.path}"


class Checks:
    """The checks, for the plan of one file, against one contract."""

    def __init__(self, source: Path, contract: Contract, text: str = "") -> None:
        """`source` and the positions in the `text` of the plan are only named in errors."""
        self.source = source
        self.contract = contract
        self.text_of_plan = text
        #: The plan's own platforms with their settings; none until their tables are read.
        self.platforms: dict[str, dict[str, str | int]] = {}

    def at(self, path: str, *, key: bool = False) -> KeyPosition:
        """Where a key path is, for messages."""
        return KeyPosition(self.source, self.text_of_plan, path, key)

    def error(self, path: str, message: str, *, key: bool = False) -> BadInput:
        """The error for the value at a key path, or for the `key`: what was found and what was wanted."""
        return BadInput(f"{self.at(path, key=key)}: {message}")

    def known(self, table: dict[str, Any], keys: tuple[str, ...], path: str) -> None:
        """Refuse keys of a table that are none of these."""
        for key in table:
            if key not in keys:
                where = f"{path}.{key}" if path else key
                hint = did_you_mean(key, keys)
                wanted = ", ".join(keys) or "none"
                raise self.error(where, f"unknown key '{key}'{hint}; expected one of: {wanted}", key=True)

    def text(self, found: Any, path: str) -> str:
        """A string that is not empty, without the blanks around it."""
        if not isinstance(found, str) or not found.strip():
            raise self.error(path, f"{_found(found)} expected a string")
        if plain_text(found) != found:
            raise self.error(path, f"found {found!r}, expected a string without control characters")
        return found.strip()

    def endpoint(self, found: Any, path: str, key: str) -> str:
        """The name of a machine or a device, by the key that has it (`endpoint_names`)."""
        name = self.text(found, path)
        if (reason := refusal(key, name)) is not None:
            raise self.error(path, reason)
        return name

    def name(self, found: Any, path: str) -> str:
        """A name that the plan gives."""
        name = self.text(found, path)
        if not name.replace("-", "").replace("_", "").isalnum():
            raise self.error(path, f"found '{name}', expected letters, digits, '-' and '_' only")
        return name

    def texts(self, found: Any, path: str, wanted: str) -> tuple[str, ...]:
        """A list of strings that is not empty."""
        if not isinstance(found, list) or not found:
            raise self.error(path, f"found {found!r}, expected {wanted}")
        return tuple(self.text(word, f"{path}[{number}]") for number, word in enumerate(found))

    def choice(self, found: Any, wanted: tuple[str, ...], path: str) -> str:
        """One of these words."""
        if not isinstance(found, str) or found not in wanted:
            hint = did_you_mean(found, wanted) if isinstance(found, str) else ""
            was = "missing;" if found is None else f"found {found!r}{hint},"
            raise self.error(path, f"{was} expected one of: {', '.join(wanted)}")
        return found

    def integer(self, found: Any, path: str, *, low: int, high: int) -> int:
        """An integer in a range, its ends included."""
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise self.error(path, f"{_found(found)} expected an integer from {low} to {high}")
        return found

    def number(self, found: Any, path: str, low: float, high: float) -> float:
        """A number in a range, its ends not included."""
        if isinstance(found, bool) or not isinstance(found, int | float) or not low < found < high:
            raise self.error(path, f"{_found(found)} expected a number between {low:g} and {high:g}")
        return float(found)

    def quantity(self, found: Any, path: str, unit: Unit | None) -> float:
        """A quantity with its unit, 0 or more, as a number of `unit`."""
        if unit is None:
            raise AssertionError("the unit comes from this package's own constants")
        if not isinstance(found, str):
            raise self.error(path, f'found {found!r}, expected a quantity with a unit such as "1 {unit.symbol}"')
        try:
            value = parse(found, unit)
            refuse_above_a_year(found, value, unit)
        except QuantityError as error:
            raise self.error(path, str(error)) from error
        if value < Decimal(0):
            raise self.error(path, f"found {found!r}, expected 0 or more")
        return float(value)

    def parameters(self, table: Any, instrument: str, path: str) -> dict[str, Any]:
        """Parameters of an instrument, by the contract, units gone."""
        if not isinstance(table, dict):
            raise self.error(path, f"found {table!r}, expected a table: parameter = value")
        known = self.contract.parameters(instrument, self.at(path))
        self.known(table, tuple(known), path)
        return {name: known[name].check(value, self.at(f"{path}.{name}")) for name, value in table.items()}


def _found(found: Any) -> str:
    """What was found, as the start of a message."""
    return "missing;" if found is None else f"found {found!r},"
