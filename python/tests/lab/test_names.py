"""Names of the lab: one class name means one thing, and a local is named for what it holds."""

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


def test_no_local_is_named_found() -> None:
    """It names how a value came about, and not what it is."""
    places = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "found" and isinstance(node.ctx, ast.Store)
    ]
    assert places == []
