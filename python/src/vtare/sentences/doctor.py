"""What `vtare doctor` states of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE: Final = "\nWhat can be measured here"
UNVERIFIED: Final = "* never compared with the real thing (docs/reference/platforms.md)"
KEY: Final = "plan: on machines that a plan names. -: the reason is below."
NOT_NEEDED: Final = (
    "This is what campaigns can do here; `vtare rtt` and `vtare avb` to another machine need none of it."
)
MISSING: Final = "\nWhat is missing"
COMMANDS: Final = "\nAll that a platform lacks, as far as commands get it"
NEEDS: Final = "What each needs: vtare doctor --platforms"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def ready(names: Iterable[str]) -> str:
    return f"Ready on this machine: {_listed(names)}"


def not_ready(name: str, why: str) -> str:
    return f"Not ready: {name}: {why}"


def platforms(names: Iterable[str]) -> str:
    return f"Platforms for campaigns: {_listed(names)}"


def not_set_up(names: Iterable[str]) -> str:
    return f"Optional, not set up: {_listed(names)}"


def optional(names: Iterable[str]) -> str:
    return f"Optional, missing: {_listed(names)}"


def ready_on(name: str, platforms: Iterable[str]) -> str:
    return f"{name}: ready on {_listed(platforms)}"


def not_on(name: str, platform: str, why: str) -> str:
    return f"{name}: not on {platform}: {why}"


def is_ready(platform: str) -> str:
    return f"{platform}: ready"


def platforms_ready(names: str) -> str:
    return f"Platforms that are ready: {names}."
