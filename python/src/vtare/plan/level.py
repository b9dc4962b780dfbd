"""One level of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a factor.

    `label` is what tables and plots show. `value` is what the level means: the resolved parameter for an instrument's
    factor, the platform's name, or a `Load`.
    """

    label: str
    value: Any
