"""The rooms of docs/internals/architecture.md: which crate may touch which, where `unsafe` may stand, no circles."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from python_modules import import_graph
from rust_modules import circles, circles_of
from rust_source import code_only, lines_with

MAY_TOUCH: dict[str, set[str]] = {
    "vtare-units": set(),
    "vtare-sys": {"vtare-units"},
    "vtare-clock": {"vtare-units", "vtare-sys"},
    "vtare-capi": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-control", "vtare-witness"},
    "vtare-preload": {"vtare-units", "vtare-sys", "vtare-clock"},
    "vtare-bpf": set(),
    "vtare-traffic": {"vtare-units"},
    "vtare-wire": {"vtare-units", "vtare-traffic"},
    "vtare-pathsim": {"vtare-units"},
    "vtare-methods": {"vtare-units", "vtare-traffic"},
    "vtare-probe": {"vtare-units", "vtare-traffic", "vtare-wire", "vtare-pathsim"},
    "vtare-link": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-bpf", "vtare-wire", "vtare-probe"},
    "vtare-control": {"vtare-units", "vtare-sys", "vtare-wire", "vtare-probe"},
    "vtare-serve": {
        *("vtare-units", "vtare-sys", "vtare-clock", "vtare-bpf", "vtare-wire"),
        *("vtare-probe", "vtare-link", "vtare-control"),
    },
    "vtare-witness": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-wire", "vtare-control"},
    "vtare-capture": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-bpf", "vtare-wire"},
    "vtare-emulator": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-pathsim", "vtare-wire"},
    "vtare-tester": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-bpf", "vtare-wire"},
    "vtare-load": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-wire", "vtare-pathsim"},
}
MAY_TOUCH["vtare-responsiveness"] = {"vtare-units", "vtare-sys", "vtare-wire", "vtare-methods"}
MAY_TOUCH["vtare"] = set(MAY_TOUCH) - {"vtare-capi", "vtare-preload", "vtare-responsiveness"}
# What tests of a room may use on top: estimators are tested over the product's trains on a simulated path.
TESTS_MAY_TOUCH: dict[str, set[str]] = {
    "vtare-bpf": {"vtare-sys"},
    "vtare-methods": {"vtare-pathsim", "vtare-probe"},
    "vtare-probe": {"vtare-clock", "vtare-methods"},
    "vtare-serve": {"vtare-traffic"},
}
UNSAFE_ROOMS = ("sys", "capi", "preload")
#: Where files may still use each other in a circle, and until when. An entry goes with its last circle.
PERMITTED_CIRCLES: dict[str, str] = {}


def breaches(metadata: dict[str, Any]) -> list[str]:
    """Every dependency between crates of the workspace that is not allowed; those of tests count too."""
    ours = {package["name"] for package in metadata["packages"]}
    hint = "unknown room; give it a line here and in docs/internals/architecture.md"
    found = [f"{name}: {hint}" for name in ours - set(MAY_TOUCH)]
    for package in metadata["packages"]:
        for dependency in package["dependencies"]:
            allowed = MAY_TOUCH.get(package["name"], set())
            if dependency.get("kind") == "dev":
                allowed = allowed | TESTS_MAY_TOUCH.get(package["name"], set())
            if dependency["name"] in ours - allowed:
                found.append(f"{package['name']} -> {dependency['name']}: may touch {sorted(allowed)} only")
    return sorted(set(found))


def stated(text: str, crates: set[str]) -> set[str]:
    """The crates that a text names: `nothing`, `units, sys`, or `all crates but capi and preload`."""
    text = " ".join(text.split())
    names = {f"vtare-{name}" for name in re.findall(r"\w+", text)} & crates
    return crates - names - {"vtare"} if text.startswith("all crates but ") else names


def unsafe_lines(source: str) -> list[int]:
    """The lines of `source` that use `unsafe`, or that lift the ban on it."""
    return lines_with(r"\bunsafe\b|\b(?:allow|expect|warn)\s*\([^)]*\bunsafe_code\b", source)


@pytest.fixture(scope="module")
def metadata(root: Path) -> dict[str, Any]:
    """What cargo knows of the workspace's own crates."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    document: dict[str, Any] = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)
    return document


def test_crates_touch_only_the_rooms_below_them(metadata: dict[str, Any]) -> None:
    assert breaches(metadata) == []


def test_a_dependency_against_the_direction_is_named() -> None:
    package = {"name": "vtare-units", "dependencies": [{"name": "vtare-clock"}, {"name": "serde"}]}
    clock = {"name": "vtare-clock", "dependencies": []}
    assert breaches({"packages": [package, clock]}) == ["vtare-units -> vtare-clock: may touch [] only"]


def test_methods_see_the_simulated_path_in_their_tests_only() -> None:
    path = {"name": "vtare-pathsim", "dependencies": []}
    tests_only = {"name": "vtare-methods", "dependencies": [{"name": "vtare-pathsim", "kind": "dev"}]}
    assert breaches({"packages": [path, tests_only]}) == []
    always = {"name": "vtare-methods", "dependencies": [{"name": "vtare-pathsim", "kind": None}]}
    may = "may touch ['vtare-traffic', 'vtare-units'] only"
    assert breaches({"packages": [path, always]}) == [f"vtare-methods -> vtare-pathsim: {may}"]
    tests_of_others = {"name": "vtare-pathsim", "dependencies": [{"name": "vtare-methods", "kind": "dev"}]}
    found = breaches({"packages": [tests_only, tests_of_others]})
    assert found == ["vtare-pathsim -> vtare-methods: may touch ['vtare-units'] only"]


def test_a_crate_without_a_room_is_named() -> None:
    found = breaches({"packages": [{"name": "vtare-attic", "dependencies": []}]})
    assert found == ["vtare-attic: unknown room; give it a line here and in docs/internals/architecture.md"]


def test_the_page_on_architecture_states_what_each_crate_may_touch(root: Path) -> None:
    page = (root / "docs/internals/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \|$", page.partition("| crate |")[2], re.MULTILINE)
    found = {name if name == "vtare" else f"vtare-{name}": text.partition("; its test")[::2] for name, text in rows}
    crates = {name: texts for name, texts in found.items() if name in MAY_TOUCH}
    assert {name: stated(texts[0], set(MAY_TOUCH)) for name, texts in crates.items()} == MAY_TOUCH
    tests = {name: stated(texts[1], set(MAY_TOUCH)) - MAY_TOUCH[name] for name, texts in crates.items() if texts[1]}
    assert tests == TESTS_MAY_TOUCH


def test_the_first_paragraph_of_each_crate_states_what_it_may_touch(root: Path, metadata: dict[str, Any]) -> None:
    for package in metadata["packages"]:
        source = Path(package["manifest_path"]).parent / "src"
        file = next(path for path in (source / "lib.rs", source / "main.rs") if path.exists())
        lines = takewhile(lambda line: line.startswith("//! "), file.read_text(encoding="utf-8").split("\n"))
        _, marker, text = " ".join(line.removeprefix("//! ") for line in lines).partition("May touch: ")
        assert marker, f"{file}: its first paragraph lacks `May touch: ...`"
        assert stated(text, set(MAY_TOUCH)) == MAY_TOUCH[package["name"]], file


def test_the_workspace_denies_unsafe_code_and_every_crate_takes_its_lints(root: Path, metadata: dict[str, Any]) -> None:
    workspace = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert workspace["lints"]["rust"]["unsafe_code"] in ("deny", "forbid")
    manifests = {p["name"]: tomllib.loads(Path(p["manifest_path"]).read_text("utf-8")) for p in metadata["packages"]}
    assert [name for name, manifest in manifests.items() if manifest.get("lints") != {"workspace": True}] == []


def test_unsafe_stands_only_in_the_rooms_named_for_it(root: Path) -> None:
    allowed = tuple(root / "crates" / room for room in UNSAFE_ROOMS)
    sources = [
        path for path in (root / "crates").rglob("*.rs") if not any(path.is_relative_to(room) for room in allowed)
    ]
    assert sources, "found no Rust source outside the unsafe rooms: is crates/ where it was?"
    found = [f"{path.relative_to(root)}:{line}" for path in sources for line in unsafe_lines(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "fn f() { unsafe { g() } }",
        "#[unsafe(no_mangle)] extern fn f() {}",
        "let quote = '\"'; unsafe { g() } // \"",
        'let raw = r#"a " b"#; unsafe fn g() {}',
        "#![allow(unsafe_code)]",
        '#[expect(unsafe_code, reason = "x")]',
    ],
)
def test_unsafe_code_is_seen(source: str) -> None:
    assert unsafe_lines(source) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "// unsafe is banned here",
        'let s = "unsafe";',
        "/* unsafe\n unsafe */",
        'r#"a "unsafe" b"#',
        "#![forbid(unsafe_code)]",
    ],
)
def test_the_word_in_prose_and_literals_is_no_unsafe_code(source: str) -> None:
    assert unsafe_lines(source) == []


def test_stripping_keeps_line_numbers_and_lifetimes() -> None:
    assert lines_with(r"\bunsafe\b", "/* a\nb */\nfn f<'a>(x: &'a u8) {}\nunsafe {}") == [4]
    assert "&'a u8" in code_only("fn f<'a>(x: &'a u8) {} // end")


def crate_of(folder: Path, **files: str) -> Path:
    """A crate with these files, `lib` and others; `a__b` is `a/b.rs`."""
    for name, source in files.items():
        path = folder / "made" / "src" / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return folder / "made"


def test_no_files_of_a_crate_use_each_other_in_a_circle(root: Path) -> None:
    crates = sorted(path.parent for path in (root / "crates").glob("*/Cargo.toml"))
    assert len(crates) > 15, "found few crates: is crates/ where it was?"
    found = circles_of(crates)
    within = {where: [c for c in found if all(file.startswith(where) for file in c)] for where in PERMITTED_CIRCLES}
    assert [circle for circle in found if not any(circle in circles for circles in within.values())] == []
    assert [where for where, circles in within.items() if not circles] == [], "delete what is dissolved"


def test_no_modules_of_the_lab_import_each_other_in_a_circle(root: Path) -> None:
    graph = import_graph(root / "python" / "src" / "vtare")
    assert sum(map(len, graph.values())) > 1000, "found few imports: is the lab where it was?"
    assert circles(graph) == []


def test_an_import_inside_a_function_closes_a_circle_and_so_does_one_for_types(tmp_path: Path) -> None:
    package = tmp_path / "made"
    package.mkdir()
    sources = {
        "__init__": "",
        "a": "from made import b\n",
        "b": "def f():\n    from made.a import g\n",
        "c": "import made.a\n",
        "d": "from typing import TYPE_CHECKING\nimport made.e\nif TYPE_CHECKING:\n    import made.c\n",
        "e": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.d import D\n",
    }
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    assert circles(import_graph(package)) == [["made.a", "made.b"], ["made.d", "made.e"]]


def test_two_files_that_use_each_other_are_a_circle(tmp_path: Path) -> None:
    crate = crate_of(
        tmp_path,
        lib="mod table;\nmod session;\n",
        table="use crate::session::Session;\npub(crate) struct Arrival;\nfn f(s: Session) {}",
        session="pub(crate) struct Session;\nfn g() { super::table::Arrival; }",
    )
    assert circles_of([crate]) == [["made/src/session.rs", "made/src/table.rs"]]


def test_a_circle_over_three_files_and_through_names_passed_on_is_found(tmp_path: Path) -> None:
    crate = crate_of(
        tmp_path,
        lib="mod a;\nmod b;\nmod c;\npub use c::C;\n",
        a="use crate::{b::{self, B}, C};\npub struct A;\nfn f(c: C, b: B) { b::g() }",
        b="use crate::C;\npub struct B;\npub fn g() {}",
        c="pub struct C(super::a::A);",
    )
    assert circles_of([crate]) == [["made/src/a.rs", "made/src/b.rs", "made/src/c.rs"]]


def test_a_parent_that_uses_a_child_which_uses_the_parent_is_a_circle(tmp_path: Path) -> None:
    child = "use super::Limits;\npub(super) struct Crowd(Limits);"
    both = crate_of(
        tmp_path / "both", lib="mod crowd;\nuse crowd::Crowd;\npub struct Limits;\nfn f(c: Crowd) {}", crowd=child
    )
    assert circles_of([both]) == [["made/src/crowd.rs", "made/src/lib.rs"]]
    only_passed_on = crate_of(tmp_path / "on", lib="mod crowd;\npub use crowd::Crowd;\npub struct Limits;", crowd=child)
    assert circles_of([only_passed_on]) == []


def test_tests_may_use_what_they_test(tmp_path: Path) -> None:
    crate = crate_of(
        tmp_path,
        lib="mod a;\n#[cfg(test)]\nmod tests;\npub fn f() { a::g() }",
        a="pub fn g() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n    fn h() { crate::f() }\n}",
        tests="use super::*;\npub fn h() { f() }",
    )
    assert circles_of([crate]) == []


# The room for what is printed; the commands' own short lines; a process of its own that answers on stderr.
MAY_PRINT = ("terminal/", "cli/")


def test_the_lab_prints_in_one_room(root: Path) -> None:
    package = root / "python/src/vtare"
    found = []
    for path in sorted(package.rglob("*.py")):
        name = str(path.relative_to(package))
        if name.startswith(MAY_PRINT):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called == "print" or (called == "echo" and "click" in ast.unparse(node.func)):
                found.append(f"{name}:{node.lineno}")
    assert found == [], "return the value, and print it in terminal/"
