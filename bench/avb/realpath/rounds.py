"""All cells by all methods, round by round, and their table."""

from __future__ import annotations

import csv
import random
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from realpath.cells import Asked, Cell, Row
from realpath.cross import cross
from realpath.methods import IPERF3, SEND_COST_NS, estimates, iperf3, is_own, responder
from realpath.path import shape
from realpath.table import HEAD, line, missed
from realpath.truth import LinkCounter, judge


def table(cells: Sequence[Cell], kinds: Sequence[str], methods: Sequence[str], asked: Asked) -> None:
    """All cells by all methods, in rounds, each in random order."""
    rows: dict[tuple[Cell, str, str], list[Row]] = {}
    wrong: dict[tuple[Cell, str, str], str] = {}
    try:
        measure(cells, kinds, methods, asked, rows, wrong)
    except KeyboardInterrupt:
        print("interrupted: what was measured by then")
    print(HEAD)
    lines = []
    for cell in cells:
        for kind in kinds:
            for method in methods:
                key = (cell, kind, method)
                if rows.get(key):
                    lines.append(line(rows[key], asked.others))
                if key in wrong:
                    print(f"{cell!s:<9} {kind:<7} {method:<20} {wrong[key]}")
    missed(lines)


def measure(
    cells: Sequence[Cell],
    kinds: Sequence[str],
    methods: Sequence[str],
    asked: Asked,
    rows: dict[tuple[Cell, str, str], list[Row]],
    wrong: dict[tuple[Cell, str, str], str],
) -> None:
    """Fills the rows, and what went wrong, round by round; the rows file is written anew after each cell."""
    plan = [(cell, kind) for cell in cells for kind in kinds if cell.cross or kind == kinds[0]]
    for number in range(asked.rounds):
        random.shuffle(plan)
        for cell, kind in plan:
            order = list(methods)
            random.shuffle(order)
            shape(cell, asked.bucket)
            with tempfile.TemporaryDirectory() as name:
                place = Path(name)
                with responder(asked.key), cross(cell, kind, place) as told:
                    found, links = {}, {}
                    for method in order:
                        count = asked.count if is_own(method) else max(1, asked.count // 3)
                        with LinkCounter() if asked.counted else nullcontext() as counter:
                            if method == IPERF3:
                                found[method], said = iperf3(cell, count)
                            else:
                                run = estimates(method, count, asked.key, place, asked.limit_s)
                                found[method], said = run.found, run.wrong
                                if is_own(method) and run.send_cost_ns:
                                    SEND_COST_NS[cell] = run.send_cost_ns
                            links[method] = None if counter is None else counter.account()
                        if said:
                            wrong[(cell, kind, method)] = said
                bins, lost = told[0]
            if lost > 0.01:
                print(f"round {number} of {cell} {kind}: {lost:.1%} of the cross traffic was lost", flush=True)
            for method in order:
                rows.setdefault((cell, kind, method), []).extend(
                    judge(cell, kind, method, found[method], bins, links[method])
                )
            if asked.rows:
                keep(asked.rows, rows)


def keep(place: Path, rows: dict[tuple[Cell, str, str], list[Row]]) -> None:
    """Writes all rows: under another name first, so that no half of them is left."""
    new = place.with_name(place.name + ".new")
    with new.open("w", newline="") as file:
        writer = csv.writer(file)
        names = list(Row.__dataclass_fields__)
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for each in rows.values() for row in each)
    new.replace(place)
