"""The sentences of the first screen and its table describe the same level of what a run measures several of."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl
import pytest
from conftest import Reported
from synthetic_store import Recipe

from vtare.report.content import content_of
from vtare.report.layout import fixed_parts
from vtare.report.sentences import scene_of
from vtare.sentences.template import plain


@pytest.mark.parametrize(
    ("targets", "wanted"),
    [(("100 us", "1 ms"), "1 ms"), (("50 us", "100 us", "200 us"), "50 us"), (("10 ms",), "10 ms")],
)
def test_sentences_and_table_have_one_target(
    reported: Callable[[Recipe], Reported], targets: tuple[str, ...], wanted: str
) -> None:
    made = reported(Recipe(blocks=4, targets=targets))
    content = content_of(made.summary, figures=False)
    layout = content.layouts["sleeps"]
    cells = made.summary.cells.filter(pl.col("experiment") == "sleeps")
    assert fixed_parts(layout, cells)["target_ns"] == wanted
    scene = scene_of(made.summary, layout)
    assert scene is not None
    assert {row["target_ns"] for row in scene.rows} == {wanted}
    answer = " ".join(plain(sentence) for sentence in content.answer.sentences).replace("\u00a0", " ")
    assert f"a sleep of {wanted.replace('us', chr(181) + 's')}" in answer
    assert len(set(re.findall(r"a sleep of (\d+ \S+)", answer))) == 1
    assert content.main is not None
    where = [column.key for column in content.main.columns].index("where")
    at = {target for row in content.main.rows for target in re.findall(r"target (\d+ [^ ,]+)", row[where].raw)}
    assert at <= {wanted, wanted.replace("us", "\u00b5s")}
