"""Where keys and values of a plan stand in its text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtare.plan.files import shipped_plans
from vtare.plan.positions import Positions

EVERYTHING = """# a comment with = and [brackets]
top = 1
"quoted.key" = 'it''s'
a.b . c = 2  # dotted
text = \"\"\"
[not.a.table]
x = \\"3\\" \"\"\"\"
raw = '''
# none' ''''
when = 1979-05-27 07:32:00Z
list = [1, # one
  [2, "]"], {x = 3, y.z = [4]},
]
[table]
inner = true
[table.deep]
more = +inf
[[array]]
v = 1
[[array]]
v = -2.5e3
[array.sub]
w = "#"
[[array.list]]
u = 1_000
""".replace("'it''s'", "'its'")


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{number}]")
    else:
        yield path, value


def at(text: str, line: int, column: int) -> str:
    return "\n".join(text.split("\n")[line - 1 :])[column - 1 :]


def starts_with(text: str, value: Any) -> bool:
    """Whether the text begins with this value, whatever follows."""
    for end in range(1, len(text) + 1):
        try:
            if tomllib.loads(f"x = {text[:end]}\n")["x"] == value:
                return True
        except tomllib.TOMLDecodeError:
            continue
    return False


@pytest.mark.parametrize("text", [EVERYTHING, *(path.read_text("utf-8") for path in shipped_plans().values())])
def test_every_value_is_found_where_it_starts(text: str) -> None:
    positions = Positions(text)
    for path, value in leaves(tomllib.loads(text), ""):
        found = positions.of(path)
        assert found is not None, path
        assert starts_with(at(text, *found), value), path


def test_keys_and_tables_are_found_and_what_is_missing_at_the_table_that_lacks_it() -> None:
    positions = Positions(EVERYTHING)
    lines = EVERYTHING.split("\n")
    for path, key, words in [
        ("top", True, "top ="), ("quoted.key", True, '"quoted.key"'), ("a.b.c", True, "c = 2"), ("a.b", True, "b . c"),
        ("table", False, "[table]"), ("table.deep.none", False, "[table.deep]"), ("array[1]", False, "[[array]]"),
        ("list[2].y", True, "y.z"), ("list[2].none[3]", False, "{x = 3"), ("array[1].list[0].u", True, "u ="),
    ]:  # fmt: skip
        found = positions.of(path, key=key)
        assert found is not None
        assert lines[found.line - 1][found.column - 1 :].startswith(words), path
    assert positions.of("nothing") is None
    assert positions.of("array[1]") != positions.of("array[0]")


@given(st.text(max_size=60) | st.text("[]{}=\"'#.,\\ \nab1", max_size=60))
def test_any_text_has_positions_or_none(text: str) -> None:
    Positions(text).of("a.b[1]")
