"""Why a machine cannot do something: all reasons at once, in the words that `vtare doctor` makes one command of."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Between two reasons.
ALSO: Final = "; also "


def together(*reasons: str | None) -> str | None:
    """All reasons in one text, each once; None where there is none.

    Who installs what the first one names should not be shown the second only then.
    """
    return ALSO.join(dict.fromkeys(reason for reason in reasons if reason is not None)) or None


def programs(tools: Mapping[str, str]) -> str | None:
    """Which of these programs (program -> package) are missing, or None."""
    lacking: dict[str, list[str]] = {}
    for tool, package in tools.items():
        if shutil.which(tool) is None:
            lacking.setdefault(package, []).append(f"'{tool}'")
    return together(*(
        f"the program{'s' if len(some) > 1 else ''} {', '.join(some)} {'are' if len(some) > 1 else 'is'} missing; "
        f"install {package}"
        for package, some in lacking.items()
    ))  # fmt: skip


def library(module: str, package: str) -> str | None:
    """Why a Python module cannot be used, or None."""
    try:
        there = find_spec(module) is not None
    except ModuleNotFoundError:
        there = False
    return None if there else f"the Python package '{package}' is missing; install it with `pip install {package}`"
