"""Whatever stands in a plan: it is a plan, or an error that a person can act on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vtare.contract import load_contract
from vtare.errors import BadInput
from vtare.plan.files import load_plan, parse_plan, shipped_plans
from vtare.plan.model import Plan
from vtare.plan.schema import plan_schema

pytestmark = pytest.mark.attack

#: On a busy machine an example may take any time.
STEADY = settings(suppress_health_check=[HealthCheck.too_slow])

CONTRACT = load_contract()
SCHEMA = jsonschema.Draft7Validator(plan_schema(CONTRACT))
SOURCE = Path("fuzz.toml")
#: How an error begins: with the file and, where the plan can be read, line and column.
REFUSED = re.compile(r"fuzz\.toml(:\d+:\d+)?: ")
DEEP = 5_000
#: The shipped plans, by line.
LINES = {name: path.read_text(encoding="utf-8").splitlines() for name, path in shipped_plans().items()}
ASSIGNMENT = re.compile(r"^(\s*[\w.\"-]+\s*=\s*)(.+)$")

#: What somebody may write behind a `=`.
VALUES = st.one_of(
    st.sampled_from(
        [
            "-1", "0", "1", "true", "false", "nan", "inf", "-inf", "1e308", "9223372036854775807",
            "-9223372036854775808",
            "[]", "{}", "[[]]", "[{}]", '""', '"\\u0000"', '"1e30 s"', '"1e300 s"', '"-1 s"', '"nan s"', '"0 s"',
            '"0x10 s"', '"1 s s"', '"../../x"', '"1979-05-27"', "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00",
            '["a", "a"]', "[1, 1]", '[[1], ["a"]]', '{ kind = "cpu", threads = -1 }', '{ kind = [] }', "[nan, nan]",
            '"' + "x" * 300 + '"', "9" * 30, "[" * 60 + "]" * 60
        ]
    ),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20).map(
        lambda text: '"' + text.replace("\\", "").replace('"', "") + '"'
    ),
)  # fmt: skip


def plan_or_error(text: str) -> None:
    """A plan, which the schema for editors allows as well, or an error."""
    refused = None
    try:
        assert isinstance(parse_plan(text, source=SOURCE, contract=CONTRACT), Plan)
    except BadInput as error:
        refused = str(error)
    if refused is None:
        SCHEMA.validate(tomllib.loads(text))
    else:
        assert REFUSED.match(refused)


@settings(STEADY)
@given(data=st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_in_a_file_are_a_plan_or_bad_input(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=REFUSED):
        load_plan(path, contract=CONTRACT)


@settings(STEADY, max_examples=300)
@given(st.data())
def test_a_shipped_plan_with_any_values_lost_and_doubled_lines_is_a_plan_or_bad_input(data: st.DataObject) -> None:
    lines = list(LINES[data.draw(st.sampled_from(sorted(LINES)))])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        found = ASSIGNMENT.match(lines[at])
        change = data.draw(st.sampled_from(["value", "value", "value", "lose", "double"]))
        if change == "value" and found:
            lines[at] = found[1] + data.draw(VALUES)
        elif change == "double":
            lines.insert(at, lines[at])
        elif len(lines) > 1:
            del lines[at]
    plan_or_error("\n".join(lines))


@pytest.mark.parametrize(
    "line",
    [
        f"x = {'[' * DEEP}{']' * DEEP}",
        f"x = {'[' * DEEP}",
        f"x = {'{ a = ' * DEEP}1{' }' * DEEP}",
        f"{'.'.join('a' * DEEP)} = 1",
    ],
    ids=["lists", "lists without an end", "tables", "keys"],
)
def test_toml_that_is_nested_5000_deep_is_bad_input(line: str) -> None:
    with pytest.raises(BadInput, match=REFUSED):
        parse_plan("\n".join([line, *LINES["quickstart"]]), source=SOURCE, contract=CONTRACT)
