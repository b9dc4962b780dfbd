"""Levels of factors, by the table of the lab's own factors, or by the parameters of the instrument."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vtare.errors import BadInput
from vtare.plan.checks import Checks
from vtare.plan.factors import BY_NAME, symbol_of_key
from vtare.plan.level import Level


class Levels(Checks):
    """Reads the levels of factors."""

    def levels(self, factor: str, levels: Any, instrument: str, path: str) -> tuple[Level, ...]:
        """The levels of one factor, in the plan's order, each once."""
        if not isinstance(levels, list) or not levels:
            raise self.bad_value(path, levels, 'a list of levels, such as ["a", "b"]')
        checked = tuple(self._level(factor, level, instrument, f"{path}[{i}]") for i, level in enumerate(levels))
        labels = [level.label for level in checked]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise self.error(f"{path}[{i}]", f"level '{label}' is listed twice")
        return checked

    def baseline(self, found: Any, factor: str, levels: tuple[Level, ...], instrument: str, path: str) -> str:
        """The label of the level that the others are compared with: the one found, else the first.

        It may be written in another way than the level that it means: "1000 us" for "1 ms".
        """
        where = f"{path}.baseline.{factor}"
        return levels[0].label if found is None else self.label(found, factor, levels, instrument, where)

    def label(self, found: Any, factor: str, levels: tuple[Level, ...], instrument: str, where: str) -> str:
        """The label of the level of a factor that is meant, by its label or as levels are written."""
        labels = [level.label for level in levels]
        if isinstance(found, str) and found in labels:
            return found
        wanted = self.bad_value(where, found, labels)
        try:
            label = self._level(factor, found, instrument, where).label
        except BadInput as error:
            raise (wanted if factor in BY_NAME else error) from error
        if label not in labels:
            raise wanted
        return label

    def _level(self, factor: str, found: Any, instrument: str, path: str) -> Level:
        if factor in BY_NAME:
            return replace(BY_NAME[factor].read(self, found, path), unit=symbol_of_key(factor))
        parameter = self.contract.parameters(instrument, self.at(path))[factor]
        value = parameter.check(found, self.at(path))
        return Level(parameter.label(value), value, symbol_of_key(factor))
