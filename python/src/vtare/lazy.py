"""Names of a package that are loaded on first use, so that commands which do not need them start at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def attributes(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` (PEP 562); `homes` maps each module of it to the names that it holds.

    In `vtare/campaign/__init__.py`: `__getattr__ = attributes(__name__, {"executor": ("Campaign",)})`.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
