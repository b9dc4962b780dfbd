"""The lines that `run` prints: a share with its exact interval, the goal, and whether it is reached."""

from __future__ import annotations

from figures import figure

from vtare import stats

missed: list[str] = []


def show(name: str, count: int, trials: int, least: float, most: float, limit: str | None = None) -> None:
    """Print one line; `limit` states why a goal cannot be reached in principle."""
    share = stats.share_of(count, trials)
    word = "reached" if least <= share.share <= most else "MISSED"
    if word == "MISSED":
        missed.append(f"{name}: {100 * share.share:.2f} %")
    why = f" ({limit})" if word == "MISSED" and limit else ""
    print(
        f"{name:66} {figure(name, 100 * share.share, '%', (100 * share.low, 100 * share.high)):6.2f} % "
        f"{100 * share.low:6.2f} to {100 * share.high:5.2f}   "
        f"{100 * least:3.0f} to {100 * most:3.0f} %  {word}{why}",
        flush=True,
    )
