"""Two ways of doing the same side by side in a sentence: what most programs use, and what vtare offers in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.report.sentences import against_baseline, completion, is_capped, late_figure, main_figure
from vtare.sentences import answers as wording
from vtare.sentences.template import Sentence

if TYPE_CHECKING:
    from vtare.report.sentences import Scene
    from vtare.summary import Summary


def side_by_side(scene: Scene, load: str | None, *, again: bool = False) -> Sentence:
    """The two ways under one load: `78.2 us late with usleep and 60.0 ns late with vtare's adaptive sleep`."""
    parts: list[Sentence] = []
    late = by_time(scene, load)
    for series in (scene.system, scene.ours):
        row = scene.row(series, load)
        if series is None or row is None:
            continue
        name = scene.name(series)
        short = "vtare's" if again and name.startswith("vtare's") else name
        figure = late_figure(row) if late else main_figure(scene.layout, row)
        first = late and not parts
        parts.append(wording.with_way(wording.of_its_time(figure) if first else (figure,), short))
    return wording.ways(parts)


def by_time(scene: Scene, load: str | None) -> bool:
    """Whether the two ways are compared by the time they spent late: a time limit ended runs of one of them early."""
    rows = [row for series in (scene.system, scene.ours) if (row := scene.row(series, load)) is not None]
    return any(map(is_capped, rows)) and all(row["late_fraction"] is not None for row in rows)


def completed(scene: Scene, load: str | None) -> list[Sentence]:
    """What the runs of the two ways completed that a time limit ended early."""
    capped = [(series, row) for series in (scene.system, scene.ours) if is_capped(row := scene.row(series, load))]
    return [
        (wording.completed(scene.name(str(series)), *completion(row)),) for series, row in capped if row is not None
    ]


def platform_changes(summary: Summary, scene: Scene, load: str | None) -> Sentence:
    """What other platforms make of the system's way: `Elsewhere: qemu 3.63x; docker and lxc equivalent within 5 %.`."""
    return against_baseline(summary, scene.layout, scene.row(scene.system, load), "platform")
