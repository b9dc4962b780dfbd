"""Two ways of doing the same side by side in a sentence: what most programs use, and what vtare offers in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.report.sentences import against_baseline, completed_words, is_capped, late_figure, main_figure
from vtare.sentences.template import FigureText

if TYPE_CHECKING:
    from vtare.report.sentences import Scene
    from vtare.summary import Summary


def side_by_side(scene: Scene, load: str | None, *, again: bool = False) -> list[str | FigureText]:
    """The two ways under one load: `78.2 us late with usleep and 60.0 ns late with vtare's adaptive sleep`."""
    pieces: list[str | FigureText] = []
    late = by_time(scene, load)
    for series in (scene.system, scene.ours):
        row = scene.row(series, load)
        if series is None or row is None:
            continue
        name = scene.name(series)
        short = "vtare's" if again and name.startswith("vtare's") else name
        shown: list[str | FigureText] = [late_figure(row), "" if pieces else " of its time"] if late else [
            main_figure(scene.layout, row)
        ]  # fmt: skip
        pieces += [*([" and "] if pieces else []), *shown, f" with {short}"]
    return pieces


def by_time(scene: Scene, load: str | None) -> bool:
    """Whether the two ways are compared by the time they spent late: a time limit ended runs of one of them early."""
    rows = [row for series in (scene.system, scene.ours) if (row := scene.row(series, load)) is not None]
    return any(map(is_capped, rows)) and all(row["late_fraction"] is not None for row in rows)


def completed(scene: Scene, load: str | None) -> list[str | FigureText]:
    """What the runs of the two ways completed that a time limit ended early."""
    capped = [(series, row) for series in (scene.system, scene.ours) if is_capped(row := scene.row(series, load))]
    return [f"; {completed_words(scene.name(str(series)), row)}" for series, row in capped if row is not None]


def platform_changes(summary: Summary, scene: Scene, load: str | None) -> list[str | FigureText]:
    """What other platforms make of the system's way: `; on qemu 3.63x, docker and lxc equivalent within 5 %`."""
    pieces = against_baseline(summary, scene.layout, scene.row(scene.system, load), "platform")
    return ["; elsewhere: ", *pieces] if pieces else []
