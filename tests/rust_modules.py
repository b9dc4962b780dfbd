"""Which Rust source file uses which: the graph that `test_rooms.py` keeps free of circles.

A file is a module. It uses another file when a path in its code leads to an item that the other file defines. Passing
items on is no use: `mod child;` and `pub use child::Item;` alone make no edge, and a path through them leads to the
file that defines the item. Tests (`#[cfg(test)]`, `tests.rs`, `*_tests.rs`) may use what they test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rust_source import code_only

TEST_ATTRIBUTE = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]\s*")
MODULE = re.compile(r"\bmod\s+(\w+)\s*;")
USE = re.compile(r"\b(?P<public>pub(?:\s*\([^)]*\))?\s+)?use\s+(?P<tree>[^;]+);")
PATH = re.compile(r"(?<![\w:])\w+(?:::\w+)+")


@dataclass
class Module:
    """A file: its path in the crate (the root is `()`), its code without tests, and the names that it imports."""

    file: str
    path: tuple[str, ...]
    code: str
    children: set[str] = field(default_factory=set)
    #: Name in this file -> the path that it stands for; with `pub use` among `passed_on` too.
    imported: dict[str, tuple[str, ...]] = field(default_factory=dict)
    passed_on: set[str] = field(default_factory=set)
    #: Modules of which everything is imported, and whether it is passed on.
    globs: list[tuple[tuple[str, ...], bool]] = field(default_factory=list)


def without_tests(code: str) -> str:
    """The code without items under `#[cfg(test)]`."""
    while found := TEST_ATTRIBUTE.search(code):
        end, depth = found.end(), 0
        while end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
            if depth == 0 and code[end - 1] in ";}":
                break
        code = code[: found.start()] + code[end:]
    return code


def uses(tree: str, before: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each name that `use TREE;` makes, and the path that it stands for; the name is `*` for a glob."""
    tree = tree.strip()
    if "{" not in tree:
        path, _, name = (part.strip() for part in tree.partition(" as "))
        whole = (*before, *path.split("::"))
        if whole[-1] == "self":
            whole = whole[:-1]
        yield name or whole[-1], whole
        return
    head, _, rest = tree.partition("{")
    inside = rest[: rest.rindex("}")]
    start = (*before, *(part for part in head.strip().split("::") if part))
    depth, begun = 0, 0
    for at, letter in enumerate(inside + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if inside[begun:at].strip():
                yield from uses(inside[begun:at], start)
            begun = at + 1


def module_path(file: Path, source: Path) -> tuple[str, ...]:
    """The module that a file is: `()` for `lib.rs` and `main.rs`."""
    parts = file.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] == "mod" or parts in (("lib",), ("main",)) else parts


def is_test(file: Path) -> bool:
    """Whether a file holds tests only."""
    return "tests" in file.parts or file.stem == "tests" or file.stem.endswith("_tests")


def modules(crate: Path) -> dict[tuple[str, ...], Module]:
    """The modules of a crate by their path."""
    source = crate / "src"
    found: dict[tuple[str, ...], Module] = {}
    for file in sorted(source.rglob("*.rs")):
        if is_test(file.relative_to(source)):
            continue
        path = module_path(file, source)
        code = without_tests(code_only(file.read_text(encoding="utf-8")))
        module = Module(str(file.relative_to(crate.parent)), path, code)
        module.children = set(MODULE.findall(code))
        found[path] = module
    for module in found.values():
        module.children = {name for name in module.children if (*module.path, name) in found}
        for use in USE.finditer(module.code):
            for name, target in uses(use["tree"]):
                whole = absolute(module, target)
                if whole is None:
                    continue
                if name == "*":
                    module.globs.append((whole[:-1], bool(use["public"])))
                else:
                    module.imported[name] = whole
                    module.passed_on |= {name} if use["public"] else set()
        module.code = MODULE.sub("", USE.sub("", module.code))
    return found


def absolute(module: Module, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """A path from the crate's root; `None` for one that leads into another crate or to a local name."""
    first, *rest = path
    if first == "crate":
        return tuple(rest)
    if first == "self":
        return (*module.path, *rest)
    if first == "super":
        up = module.path
        while rest and rest[0] == "super":
            up, rest = up[:-1], rest[1:]
        return (*up[:-1], *rest)
    if first in module.children:
        return (*module.path, *path)
    if first in module.imported:
        return (*module.imported[first], *rest)
    return None


def definer(tree: dict[tuple[str, ...], Module], path: tuple[str, ...], depth: int = 0) -> tuple[str, ...] | None:
    """The module that defines what `path` leads to, through whatever passes it on; `None` for a bare module."""
    length = next(length for length in range(len(path), -1, -1) if path[:length] in tree)
    module = tree[path[:length]]
    if length == len(path):
        return None
    name, rest = path[length], path[length + 1 :]
    if depth < 16:
        if name in module.passed_on:
            return definer(tree, (*module.imported[name], *rest), depth + 1)
        for whole, public in module.globs:
            if public and whole in tree and re.search(rf"\b{name}\b", tree[whole].code):
                return definer(tree, (*whole, name, *rest), depth + 1)
    return module.path


def edges(tree: dict[tuple[str, ...], Module]) -> dict[str, set[str]]:
    """File -> the files of the same crate whose items it uses."""
    graph: dict[str, set[str]] = {module.file: set() for module in tree.values()}
    for module in tree.values():
        wanted = [path for name, path in module.imported.items() if name not in module.passed_on]
        # A name that is passed on may be used here as well.
        wanted += [module.imported[name] for name in module.passed_on if re.search(rf"\b{name}\b", module.code)]
        wanted += [
            whole for found in PATH.findall(module.code) if (whole := absolute(module, tuple(found.split("::"))))
        ]
        for whole, public in module.globs:
            if not public and whole in tree:
                graph[module.file].add(tree[whole].file)
        for whole in wanted:
            target = definer(tree, whole)
            if target is not None and tree[target].file != module.file:
                graph[module.file].add(tree[target].file)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The files that use each other, directly or through others: the strongly connected parts of the graph (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(found)


def circles_of(crates: Iterable[Path]) -> list[list[str]]:
    """The circles of several crates."""
    return [circle for crate in crates for circle in circles(edges(modules(crate)))]
