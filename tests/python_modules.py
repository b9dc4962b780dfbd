"""Which module of a Python package imports which: the graph that `test_rooms.py` keeps free of circles.

Imports inside functions count, since they only hide a circle, and so do those for types alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module of the package and the modules of it that it imports, by name."""
    files = {_name(path, package.parent): path for path in package.rglob("*.py")}
    return {name: set(_imported(path, files)) - {name} for name, path in files.items()}


def _name(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            wholes = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (
                name for name in ((whole if whole in known else node.module) for whole in wholes) if name in known
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All of them: imports are statements, so expressions need not be walked."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
