"""A change over time in words, and a standstill."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from vtare.number_text import change_text
from vtare.quantity_text import quantity_of
from vtare.sentences import comparison as wording
from vtare.sentences import watch as watch_wording
from vtare.stats.verdicts import Merit

if TYPE_CHECKING:
    from vtare.series.model import Change

#: Of a change, by whether it is for the worse.
WORDS: Final = {True: Merit.WORSE, False: Merit.BETTER, None: "changed"}


def sentence(change: Change) -> str:
    """Such as `sleep, method usleep: p99 of miss_ns: 62 us -> 88 us (+42 %, worse) since 2026-11-24 10:00 UTC; ...`."""
    return wording.change(change.key.text, levels(change), since(change), facts_text(change))


def standstill(who: str, began_unix_s: float, length_s: float, why: str) -> str:
    """State a time in which a program did not run, with its start and length."""
    began = datetime.fromtimestamp(began_unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return watch_wording.standstill(who, length_s, began, why)


def since(change: Change) -> str:
    """When the first point of the new level was made."""
    return datetime.fromtimestamp(change.at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def levels(change: Change) -> str:
    """Both levels, and the change between them: `62 us -> 88 us (+42 %, worse)`."""
    text = quantity_of(change.key.quantity).text
    share = f"{change_text(change.ratio)}, " if change.ratio is not None else ""
    return f"{text(change.before)} -> {text(change.after)} ({share}{WORDS[change.worse]})"


def facts_text(change: Change) -> str:
    """Which facts of the machine changed there, or nothing."""
    return wording.facts_changed([f"{name} {_text(before)} -> {_text(after)}" for name, before, after in change.facts])


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)
