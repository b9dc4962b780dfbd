"""Names of the lab: one class name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import vtare

SOURCE = Path(vtare.__file__).parent


def test_no_class_name_stands_for_two_things() -> None:
    homes = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert len(homes) > 100
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
