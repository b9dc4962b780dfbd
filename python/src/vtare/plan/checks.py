"""Checks of one value of a plan, each with the key path, the value found and the values wanted."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from vtare.contract import Contract
from vtare.errors import BadInput, did_you_mean
from vtare.quantities import QuantityError, Unit, parse, refuse_above_a_year
from vtare.stored import plain_text


class Checks:
    """The checks, for the plan of one file, against one contract."""

    def __init__(self, source: Path, contract: Contract) -> None:
        """`source` is only named in errors."""
        self.source = source
        self.contract = contract
        #: The plan's own platforms with their settings; none until their tables are read.
        self.platforms: dict[str, dict[str, str | int]] = {}

    def error(self, path: str, message: str) -> BadInput:
        """The error for the value at a key path: what was found and what was wanted."""
        return BadInput(f"{self.source}: {path}: {message}")

    def known(self, table: dict[str, Any], keys: tuple[str, ...], path: str) -> None:
        """Refuse keys of a table that are none of these."""
        for key in table:
            if key not in keys:
                where = f"{path}.{key}" if path else key
                hint = did_you_mean(key, keys)
                raise self.error(where, f"unknown key '{key}'{hint}; expected one of: {', '.join(keys) or 'none'}")

    def text(self, found: Any, path: str) -> str:
        """A string that is not empty, without the blanks around it."""
        if not isinstance(found, str) or not found.strip():
            raise self.error(path, f"{_found(found)} expected a string")
        if plain_text(found) != found:
            raise self.error(path, f"found {found!r}, expected a string without control characters")
        return found.strip()

    def choice(self, found: Any, wanted: tuple[str, ...], path: str) -> str:
        """One of these words."""
        if not isinstance(found, str) or found not in wanted:
            hint = did_you_mean(found, wanted) if isinstance(found, str) else ""
            raise self.error(path, f"found {found!r}{hint}, expected one of: {', '.join(wanted)}")
        return found

    def integer(self, found: Any, path: str, *, low: int, high: int) -> int:
        """An integer in a range, its ends included."""
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise self.error(path, f"{_found(found)} expected an integer from {low} to {high}")
        return found

    def number(self, found: Any, path: str, low: float, high: float) -> float:
        """A number in a range, its ends not included."""
        if isinstance(found, bool) or not isinstance(found, int | float) or not low < found < high:
            raise self.error(path, f"found {found!r}, expected a number between {low:g} and {high:g}")
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
        known = self.contract.parameters(instrument, f"{self.source}: {path}")
        self.known(table, tuple(known), path)
        return {name: known[name].check(value, f"{self.source}: {path}.{name}") for name, value in table.items()}


def _found(found: Any) -> str:
    """What was found, as the start of a message."""
    return "missing;" if found is None else f"found {found!r},"
