"""Check what `vtare compare` prints on a terminal against the stores, without any code of vtare.

`compared` reads the table and the sentences of BEFORE against AFTER, `over_time` those of one campaign in the order of
its runs. Both return a line for each figure that is not the computed one, and how many figures they checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import independent_inference as inference
import numpy as np

Checked = tuple[list[str], int]


def rows_of(text: str) -> Iterator[list[str]]:
    """The rows of the first table, its heading left out."""
    lines = [line for line in text.splitlines() if "\N{BOX DRAWINGS LIGHT VERTICAL}" in line]
    for line in lines:
        yield [
            cell.strip()
            for cell in line.strip("\N{BOX DRAWINGS LIGHT VERTICAL}").split("\N{BOX DRAWINGS LIGHT VERTICAL}")
        ]


def number(text: str) -> float:
    """`78.2 us` in ns, `1.06x`, `< 1e-4` as its bound."""
    value, _, unit = text.replace("\N{MULTIPLICATION SIGN}", "").removeprefix("< ").partition(" ")
    return float(value) * inference.SCALES.get(unit, 1.0)


def compared(text: str, before: list[Path], after: list[Path]) -> Checked:
    """Check the counts, and figures, ratio, interval, p and verdict of each row, of campaigns that are not paired."""
    text = text.replace("\u00a0", " ")
    sides = [[inference.cells_of(store) for store in stores] for stores in (before, after)]
    rows = list(rows_of(text))
    wrong: list[str] = []
    checked = 0

    def expect(what: str, holds: bool, shown: object, computed: object) -> None:
        nonlocal checked
        checked += 1
        if not holds:
            wrong.append(f"{what}: {shown}, computed {computed}")

    found = []
    for row in rows:
        experiment = row[0].split(",")[0]
        logs = []
        for side in sides:
            means = []
            for campaign in side:
                cells = campaign[experiment]
                (cell,) = [cell for cell in cells if len(cells) == 1 or f" {cell.labels['method']}" in row[0]]
                means.append(float(np.mean(np.log(list(cell.by_block("median").values())))))
            logs.append(np.array(means))
        found.append(logs)
        for at, one in ((1, logs[0]), (2, logs[1])):
            centre = math.exp(one.mean())
            expect(row[0], inference.close(number(row[at]), centre), row[at], centre)
        ratio = math.exp(logs[1].mean() - logs[0].mean())
        expect(f"{row[0]}, ratio", inference.close(number(row[3].split(" (")[0]), ratio), row[3], ratio)
    tests = [inference.welch(logs[1], logs[0]) for logs in found]
    adjusted = inference.holm([one.p for one in tests])
    words = []
    for row, one, p in zip(rows, tests, adjusted, strict=True):
        low, high = (float(end) for end in re.findall(r"\((\S+) to (\S+)\)", row[3])[0])
        # What the clock's step adds is below the digits that are shown.
        expect(f"{row[0]}, low", inference.close(low, one.low) or low < one.low, low, one.low)
        expect(f"{row[0]}, high", inference.close(high, one.high) or high > one.high, high, one.high)
        shown = number(row[4])
        expect(f"{row[0]}, p", abs(shown - p) <= max(0.06 * p, 1e-4), row[4], p)
        words.append(one.word(p))
        expect(f"{row[0]}, verdict", row[5].split()[0] == words[-1], row[5], words[-1])
    counted = dict(re.findall(r"(\d+) (higher|lower|equivalent|inconclusive)", text.split("(margin")[0])[::-1])
    for count, word in counted.items():
        expect("counts", int(count) == words.count(word), f"{count} {word}", words.count(word))
    decide = re.search(r"To decide (\d+) of the inconclusive cells, about (\d+)", text)
    if decide is not None:
        open_rows = words.count("inconclusive")
        expect("to decide", int(decide.group(1)) <= open_rows, decide.group(1), open_rows)
        # Never fewer than a test of one cell at the spread that was found takes.
        expect("to decide", int(decide.group(2)) >= min(len(before), len(after)), decide.group(2), len(before))
    return wrong, checked


def over_time(text: str, store: Path) -> Checked:
    """Check first, newest, least and greatest median of each series of a campaign, in the order of its runs."""
    text = text.replace("\u00a0", " ")
    wrong: list[str] = []
    checked = 0
    for row in rows_of(text):
        matching = [
            cell for cells in inference.cells_of(store).values() for cell in cells
            if all(label in row[0] for label in cell.labels.values())
        ]  # fmt: skip
        if not matching or ": median of" not in row[0]:
            continue
        values = [value for _, value in sorted(matching[0].by_block("median").items())]
        for shown, value in zip(row[2:6], (values[0], values[-1], min(values), max(values)), strict=True):
            checked += 1
            if not inference.close(number(shown), value):
                wrong.append(f"{row[0]}: {shown}, computed {value}")
        checked += 1
        if int(row[1]) != len(values):
            wrong.append(f"{row[0]}: {row[1]} runs, computed {len(values)}")
    return wrong, checked
