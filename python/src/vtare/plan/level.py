"""One level of a factor, or of what one run measures several levels of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Level:
    """A level as a value: it travels from the plan to the page, where its text is made.

    `label` is how the plan writes it. `value` is what it means: the resolved parameter for an instrument's factor, the
    platform's name, or a `Load`. `unit` is what a number counts in, None where there is none.
    """

    label: str
    value: Any
    unit: str | None = None

    @property
    def number(self) -> float | None:
        """The number that it stands for, counted in `unit`; None where it is a word, a switch, or several."""
        value = self.value[0] if isinstance(self.value, list) and len(self.value) == 1 else self.value
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def is_bare(self) -> bool:
        """Whether it is a number without a unit, which means nothing without the name of its factor."""
        return self.unit is None and self.number is not None
