#!/usr/bin/env python3
"""Writes the tables of questions in README.md and docs/index.md from docs/questions.toml.

tools/site_hook.py takes from here what no committed page repeats, too: the keys of plans, and the options of every
command.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
#: The help that the binary prints; its tests hold these files to it.
GOLDEN = ROOT / "crates" / "vtare" / "tests" / "golden"
#: Tables of a plan that hold keys of their own, in the order of the page.
TABLES = ("analysis", "stop", "repeat")
BEGIN, END = "<!-- questions -->", "<!-- end of questions -->"
#: Pages with a table of the questions, and the way from each to docs/.
TABLE_PAGES = {"README.md": "docs/", "docs/index.md": ""}


def plan_keys() -> str:
    """The keys of plans as tables, from the JSON Schema that `vtare plan schema` prints."""
    from vtare.contract import load_contract
    from vtare.plan.schema import plan_schema

    schema = plan_schema(load_contract())
    made = schema["definitions"]
    parts = [_section("The plan", schema)]
    parts += [_section(f"`[{name}]`", schema["properties"][name]) for name in TABLES]
    parts.append(_section("`[[experiment]]`", made["experiment"]))
    factors = {key.removeprefix("factor."): one for key, one in made.items() if key.startswith("factor.")}
    parts.append(_section("`[experiment.factors]` of the lab", {"properties": factors}))
    for key, one in made.items():
        if key.endswith(".parameters"):
            title = f"`[experiment.parameters]` of `{key.removesuffix('.parameters')}`, factors too"
            parts.append(_section(title, one))
    return "\n".join(parts)


def _section(title: str, schema: Mapping[str, Any]) -> str:
    rows = list(_rows(schema))
    return "\n".join([f"## {title}", "", "| key | is | values | default |", "|---|---|---|---|", *rows, ""])


def _rows(schema: Mapping[str, Any]) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for name, one in schema["properties"].items():
        default = "required" if name in required else _shown(one["default"]) if "default" in one else ""
        cells = (f"`{name}`", one.get("description", ""), _values(one), default)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _shown(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _values(one: Mapping[str, Any]) -> str:
    """Which values a key takes, in a few words."""
    if "anyOf" in one:
        return " or ".join(dict.fromkeys(filter(None, map(_values, one["anyOf"]))))
    if "enum" in one:
        return ", ".join(f"`{value}`" for value in one["enum"])
    if one.get("type") == "array":
        inner = _values(one.get("items", {}))
        return f"list of: {inner}" if inner else "list"
    low, high = one.get("minimum", one.get("exclusiveMinimum")), one.get("maximum", one.get("exclusiveMaximum"))
    span = "" if low is None and high is None else f" from {low}" if high is None else f" {low} to {high}"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}
    kind = words.get(str(one.get("type")), "table" if one.get("type") == "object" else "")
    return _quantity(one) or f"{kind}{span}"


def _quantity(one: Mapping[str, Any]) -> str:
    """A number with one of its units, such as `"5 ms"`."""
    units = re.search(r"\(\?:([^()]*)\)\\s\*\$$", str(one.get("pattern", "")))
    if units is None:
        return ""
    return "number with " + ", ".join(re.sub(r"\\s\*", "", unit) for unit in units[1].split("|"))


def options() -> str:
    """The help of every command that people are shown, in the order of `vtare help --all`."""
    words = json.loads((ROOT / "python/src/vtare/data/commands.json").read_text(encoding="utf-8"))
    entries: Iterable[Mapping[str, Any]] = (one for group in words["groups"] for one in group["commands"])
    parts = [f"## vtare {one['name']}\n\n```text\n{_help(one)}\n```\n" for one in entries]
    return "\n".join(parts)


def _help(one: Mapping[str, Any]) -> str:
    kept = GOLDEN / f"help_{one['name']}.txt"
    if kept.exists():
        return kept.read_text(encoding="utf-8").strip()
    if not one.get("lab"):
        return f"{one['about']}. Options: vtare {one['name']} --help"
    from click import Context

    from vtare.cli import app

    context = Context(app, info_name="vtare")
    command = app.get_command(context, one["name"])
    if command is None:
        raise LookupError(f"the lab has no command {one['name']}")
    return command.get_help(Context(command, parent=context, info_name=one["name"])).strip()


def questions() -> list[dict[str, str]]:
    """The questions of docs/questions.toml: `asks`, `page`, `command`."""
    found: list[dict[str, str]] = tomllib.loads((ROOT / "docs/questions.toml").read_text("utf-8"))["question"]
    return found


def with_questions(text: str, prefix: str) -> str:
    """The text of a page with the table of questions between its marks. `prefix` leads from the page to docs/."""
    rows = ""
    for one in questions():
        typed = ", ".join(f"`{word}`" for word in one["command"].split(", "))
        rows += f"| [{one['asks']}]({prefix}{one['page']}) | {typed} |\n"
    table = f"{BEGIN}\n\n| question | command |\n|---|---|\n{rows}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: table, text, count=1, flags=re.DOTALL)


def navigation() -> list[dict[str, str]]:
    """The entries of the site's navigation, one a question."""
    return [{one["asks"]: one["page"]} for one in questions()]


if __name__ == "__main__":
    for place, prefix in TABLE_PAGES.items():
        page = ROOT / place
        page.write_text(with_questions(page.read_text(encoding="utf-8"), prefix), encoding="utf-8")
