"""What `vtare watch` states of its rounds."""

from __future__ import annotations

from typing import Final

from vtare.sentences.words import plural

#: Why a program did not run.
CAUSES: Final = {
    "suspended": "the machine was suspended",
    "stopped": "the process was stopped, or its control group frozen",
    "machine_stalled": "the machine stalled",
    "stopped_or_machine_stalled": "the process was stopped, or the machine stalled",
}
UNKNOWN_CAUSE: Final = "it was stopped, its machine suspended or moved, or its CPU taken"
#: What the metrics show of UTC by the page of `vtare clock`.
ABOUT_UTC: Final = {
    "status": "What UTC by the page of `vtare clock` is worth.",
    "generation": "Disruptions of time that the keepers of the page have seen, and their restarts.",
    "interval_width_seconds": "Width of the interval in which UTC is confirmed to be.",
    "hosts": "Hosts whose statements count in it.",
    "liars": "How many of these hosts may be wrong.",
}
LATE_ROUND: Final = (
    "it was stopped, its control group frozen, or its machine suspended. The round begins that much late; no figure "
    "includes that time"
)
AFTER_ROUND: Final = (
    "it was stopped, its control group frozen, or its machine suspended. The round was over before; no figure includes "
    "that time"
)
THIS_WATCH: Final = "this watch"


def measuring(experiment: str) -> str:
    return f"{experiment}: the program that measured"


def standstill(who: str, length_s: float, began: str, why: str) -> str:
    return f"{who} stalled for {length_s:.3g} s, from {began}: {why}"


def standstill_left_out(standstill: str) -> str:
    return f"{standstill}. No figure includes that time"


def rounds(measured: int, skipped: int, alerts: int) -> str:
    left = f", {skipped} skipped" if skipped else ""
    return f"{plural(measured, 'round')} measured{left}; {plural(alerts, 'alert') if alerts else 'no alert'}."


def all_changes(store: str) -> str:
    return f"All changes: vtare compare --over-time {store}"
