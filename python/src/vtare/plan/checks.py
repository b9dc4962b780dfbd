"""Checks of one value of a plan. Each error has the key path, the value and what to use instead."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtare.contract import Contract
from vtare.errors import BadInput, bad_value, instead_of
from vtare.plan.positions import Positions
from vtare.platforms.endpoint_names import refusal
from vtare.quantities import QuantityError, Unit, parse, refuse_above_a_year
from vtare.stored.paths import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        """The error for the value at a key path, or for the `key`."""
        return BadInput(f"{self.at(path, key=key)}: {message}")

    def bad_value(self, path: str, value: object, use: str | Iterable[str]) -> BadInput:
        """The error for a value that cannot be used: `PATH is VALUE: use WHAT`."""
        return BadInput(f"{self.at(path)} {bad_value(value, use)}")

    def known(self, table: dict[str, Any], keys: tuple[str, ...], path: str) -> None:
        """Refuse keys of a table that are none of these."""
        for key in table:
            if key not in keys:
                where = f"{path}.{key}" if path else key
                raise self.error(where, f"unknown key '{key}'{instead_of(key, keys)}", key=True)

    def text(self, found: Any, path: str) -> str:
        """A string that is not empty, without the blanks around it."""
        if not isinstance(found, str) or not found.strip():
            raise self.bad_value(path, found, "a string")
        if plain_text(found) != found:
            raise self.bad_value(path, found, "a string without control characters")
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
            raise self.bad_value(path, name, "letters, digits, '-' and '_' only")
        return name

    def texts(self, found: Any, path: str, use: str) -> tuple[str, ...]:
        """A list of strings that is not empty."""
        if not isinstance(found, list) or not found:
            raise self.bad_value(path, found, use)
        return tuple(self.text(word, f"{path}[{number}]") for number, word in enumerate(found))

    def choice(self, found: Any, wanted: tuple[str, ...], path: str) -> str:
        """One of these words."""
        if not isinstance(found, str) or found not in wanted:
            raise self.bad_value(path, found, wanted)
        return found

    def integer(self, found: Any, path: str, *, low: int, high: int) -> int:
        """An integer in a range, its ends included."""
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise self.bad_value(path, found, f"an integer from {low} to {high}")
        return found

    def number(self, found: Any, path: str, low: float, high: float) -> float:
        """A number in a range, its ends not included."""
        if isinstance(found, bool) or not isinstance(found, int | float) or not low < found < high:
            raise self.bad_value(path, found, f"a number between {low:g} and {high:g}")
        return float(found)

    def quantity(self, found: Any, path: str, unit: Unit | None) -> float:
        """A quantity with its unit, 0 or more, as a number of `unit`."""
        if unit is None:
            raise AssertionError("the unit comes from this package's own constants")
        if not isinstance(found, str):
            raise self.bad_value(path, found, f'a quantity with a unit, such as "1 {unit.symbol}"')
        try:
            value = parse(found, unit)
            refuse_above_a_year(found, value, unit)
        except QuantityError as error:
            raise self.error(path, str(error)) from error
        if value < Decimal(0):
            raise self.bad_value(path, found, "0 or more")
        return float(value)

    def parameters(self, table: Any, instrument: str, path: str) -> dict[str, Any]:
        """Parameters of an instrument, by the contract, units gone."""
        if not isinstance(table, dict):
            raise self.bad_value(path, table, "a table: parameter = value")
        known = self.contract.parameters(instrument, self.at(path))
        self.known(table, tuple(known), path)
        return {name: known[name].check(value, self.at(f"{path}.{name}")) for name, value in table.items()}
