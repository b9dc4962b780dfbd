"""SciPy on first use: it takes most of a second to load, and few figures need it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import special as special
    from scipy import stats as stats
else:

    class _Late:
        """A module that is loaded when something of it is used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self._name), attribute)

    special, stats = _Late("scipy.special"), _Late("scipy.stats")

__all__ = ["special", "stats"]
