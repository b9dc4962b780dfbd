"""What `vtare compare` prints follows from the stores, by a script that imports nothing of vtare."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

import terminal_audit
from campaigns import Truth, write_campaign
from page import next_digit

from vtare.summary.between import compare_stores
from vtare.terminal.between import show_between
from vtare.terminal.over_time import show_over_time
from vtare.watch.over_time import over_time

Sides = tuple[list[Path], list[Path]]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Three campaigns a side with offsets; the second method of the later ones is 40 % slower."""
    base = tmp_path_factory.mktemp("terminal")
    offsets = np.exp(0.04 * np.random.default_rng(3).normal(size=6))
    stores = [
        write_campaign(
            base / str(at), Truth(blocks=4, samples=320, scale=scale, ratio=1.4 if at > 2 else 1.0, methods=4), at
        )
        for at, scale in enumerate(offsets)
    ]
    return stores[:3], stores[3:]


def printed(sides: Sides) -> str:
    out = io.StringIO()
    show_between(Console(width=220, file=out), compare_stores(*sides), verbose=True)
    return out.getvalue()


def test_every_figure_of_a_comparison_on_a_terminal_follows_from_its_stores(sides: Sides) -> None:
    wrong, checked = terminal_audit.compared(printed(sides), *sides)
    assert wrong == []
    assert checked >= 30


@pytest.mark.parametrize(
    "pattern", [r"\u2502 *(\d[\d.]*) \N{MICRO SIGN}s", r"(\d[\d.]*)\N{MULTIPLICATION SIGN}", r"4 cells: (\d+) "]
)
def test_a_page_that_was_changed_is_seen(sides: Sides, pattern: str) -> None:
    text = printed(sides)
    changed = next_digit(pattern)(text)
    assert changed != text
    wrong, _ = terminal_audit.compared(changed, *sides)
    assert wrong


def test_a_campaign_over_time_follows_from_its_runs(sides: Sides) -> None:
    store = sides[0][0]
    out = io.StringIO()
    show_over_time(Console(width=220, file=out), over_time(store), 0.05)
    wrong, checked = terminal_audit.over_time(out.getvalue(), store)
    assert wrong == []
    assert checked >= 20
    changed = re.sub(
        r"(\d)(\.\d) \N{MICRO SIGN}s",
        lambda m: f"{(int(m[1]) + 1) % 10}{m[2]} \N{MICRO SIGN}s",
        out.getvalue(),
        count=1,
    )
    assert terminal_audit.over_time(changed, store)[0]
