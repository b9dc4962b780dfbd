"""The history of a `watch` that came from somebody else: damaged, or made to be shown."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from vtare.errors import BadInput
from vtare.report.over_time import page
from vtare.series.model import Change, SeriesKey
from vtare.series.sentences import levels
from vtare.terminal.over_time import show_over_time
from vtare.watch.history import History, Round
from vtare.watch.over_time import over_time

pytestmark = pytest.mark.attack

HOSTILE = (
    "\x1b]0;owned\x07", "<script>owned()</script>", "\"><img src=x onerror=owned()>", "::error::owned", "a\nb",
    "\u202eowned",
    "x" * 900, "", "\0",
)  # fmt: skip


def history(store: Path, text: str) -> None:
    """Rounds with a change, in which every text is this one."""
    key = SeriesKey(text, ((text, text),), text, f"{text}_ns", "less")
    with History(store) as one:
        for number in range(30):
            figures = {key: (60e3 if number < 15 else 90e3) + number}
            one.append(Round(1.79e9 + 600 * number, 3.0, {text: text if number < 15 else f"{text}!"}, figures))


def shown(store: Path) -> str:
    """What a terminal gets."""
    found = io.StringIO()
    show_over_time(Console(file=found, width=80, force_terminal=False), over_time(store), 0.05)
    return found.getvalue()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_a_history_are_data_on_terminal_and_page(text: str, tmp_path: Path) -> None:
    history(tmp_path, text)
    screen = shown(tmp_path)
    assert all(char.isprintable() or char == "\n" for char in screen)
    assert not any(line.lstrip().startswith("::") for line in screen.splitlines())
    html = page(tmp_path, over_time(tmp_path))
    assert "<script>owned" not in html
    assert "<img src=x" not in html
    assert len(html) < 6_000_000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def sleeps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history that each example damages in a copy of its own."""
    store = tmp_path_factory.mktemp("sleeps")
    history(store, "sleep")
    return store


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_row_of_a_history_is_shown_or_named_as_damaged(data: st.DataObject, tmp_path: Path, sleeps: Path) -> None:
    store = Path(shutil.copytree(sleeps, tmp_path / str(len(list(tmp_path.iterdir())))))
    (file,) = store.glob("*.sqlite")
    key = {"experiment": "e", "labels": {"a": "b"}, "figure": "f", "quantity": "q", "better": "less"}
    changed = {**key, data.draw(st.sampled_from(sorted(key))): data.draw(VALUES)} if data.draw(st.booleans()) else (
        data.draw(VALUES)
    )  # fmt: skip
    number = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
    with sqlite3.connect(file) as rows:
        statement, value = data.draw(st.sampled_from([
            ("UPDATE series SET key = ?", json.dumps(changed)), ("UPDATE rounds SET facts = ?", json.dumps(changed)),
            ("UPDATE rounds SET at_s = ? WHERE number = 3", data.draw(number)),
            ("UPDATE points SET value = ? WHERE round = 3", data.draw(number)),
            ("UPDATE changes SET before = ?", data.draw(number)), ("UPDATE changes SET found = ?", data.draw(number)),
            ("UPDATE changes SET round = ?", data.draw(number)), ("DELETE FROM points WHERE round > ?", 17),
        ]))  # fmt: skip
        try:
            rows.execute(statement, (value,))
        except sqlite3.Error:
            return
    with suppress(BadInput):
        shown(store)
        page(store, over_time(store))


@pytest.mark.parametrize(("before", "ratio"), [(50.0, 2.0), (0.0, None), (-1.0, None), (4.131921861170933e-308, None)])
def test_a_level_that_is_almost_nothing_has_no_ratio(before: float, ratio: float | None) -> None:
    change = Change(SeriesKey("sleep", (), "median", "miss_ns", "less"), 3, 4, 3.0, 4.0, before, 100.0)
    assert change.ratio == ratio
    assert ("%" in levels(change)) == (ratio is not None), "a change in percent where there is one"
