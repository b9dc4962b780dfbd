"""What machines of each kind could resolve when a command was compared with itself: kept for later comparisons.

A runner of a CI is another machine each time, but of the same kind: the CI keeps `floors.json` between them, in the
cache (`$XDG_CACHE_HOME/vtare`, else `~/.cache/vtare`).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from vtare import documents
from vtare.errors import BadInput
from vtare.places import cache
from vtare.process import write_whole

_NAME: Final = "floors.json"
#: The newest that are kept of a kind of machine, and the kinds.
_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Floor:
    """The median of the smallest ratios above 1 that were resolved, and of how many comparisons."""

    ratio: float
    count: int


def remember(machine: Mapping[str, Any], ratio: float) -> None:
    """Add what was resolved here. A cache that cannot be written is left alone."""
    kept = _read()
    kind = _kind(machine)
    kept[kind] = [*kept.pop(kind, []), ratio][-_MOST:]
    with suppress(OSError):
        cache().mkdir(parents=True, exist_ok=True)
        write_whole(cache() / _NAME, json.dumps(dict(list(kept.items())[-_MOST:])).encode())


def remembered(machine: Mapping[str, Any]) -> Floor | None:
    """What machines of this kind resolve; None where that is not known."""
    ratios = _read().get(_kind(machine))
    return Floor(statistics.median(ratios), len(ratios)) if ratios else None


def _kind(machine: Mapping[str, Any]) -> str:
    cpus = len(machine.get("cpus_allowed") or ())
    return "; ".join(str(one) for one in (machine.get("cpu_model"), cpus, machine.get("hypervisor")))[:200]


def _read() -> dict[str, list[float]]:
    """What is kept; of a file that is none of ours nothing."""
    try:
        kept = documents.read(cache() / _NAME)
    except BadInput:
        return {}
    return {
        kind: [float(one) for one in ratios[-_MOST:]]
        for kind, ratios in list(kept.items())[-_MOST:]
        if isinstance(ratios, list) and all(isinstance(one, float) and 1.0 <= one < 1e3 for one in ratios)
    }
