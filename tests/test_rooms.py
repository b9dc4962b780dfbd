"""The rooms of docs/ARCHITECTURE.md: which crate may touch which, and where `unsafe` may stand."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rust_source import code_only, lines_with

MAY_TOUCH: dict[str, set[str]] = {
    "vtare-units": set(),
    "vtare-sys": {"vtare-units"},
    "vtare-clock": {"vtare-units", "vtare-sys"},
    "vtare-capi": {"vtare-units", "vtare-sys", "vtare-clock"},
    "vtare-preload": {"vtare-units", "vtare-sys", "vtare-clock"},
    "vtare-packet": {"vtare-units", "vtare-sys", "vtare-clock"},
    "vtare-methods": {"vtare-units"},
    "vtare-load": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-packet"},
    "vtare": {"vtare-units", "vtare-sys", "vtare-clock", "vtare-packet", "vtare-methods", "vtare-load"},
}
# What tests of a room may use on top: the estimators are tested on packet's simulated path, and never run on it.
TESTS_MAY_TOUCH: dict[str, set[str]] = {"vtare-methods": {"vtare-packet"}}
UNSAFE_ROOMS = ("sys", "capi", "preload")


def breaches(metadata: dict[str, Any]) -> list[str]:
    """Every dependency between crates of the workspace that is not allowed; those of tests count too."""
    ours = {package["name"] for package in metadata["packages"]}
    found = [f"{name}: unknown room; give it a line here and in docs/ARCHITECTURE.md" for name in ours - set(MAY_TOUCH)]
    for package in metadata["packages"]:
        for dependency in package["dependencies"]:
            allowed = MAY_TOUCH.get(package["name"], set())
            if dependency.get("kind") == "dev":
                allowed = allowed | TESTS_MAY_TOUCH.get(package["name"], set())
            if dependency["name"] in ours - allowed:
                found.append(f"{package['name']} -> {dependency['name']}: may touch {sorted(allowed)} only")
    return sorted(set(found))


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
    packet = {"name": "vtare-packet", "dependencies": []}
    tests_only = {"name": "vtare-methods", "dependencies": [{"name": "vtare-packet", "kind": "dev"}]}
    assert breaches({"packages": [packet, tests_only]}) == []
    always = {"name": "vtare-methods", "dependencies": [{"name": "vtare-packet", "kind": None}]}
    assert breaches({"packages": [packet, always]}) == ["vtare-methods -> vtare-packet: may touch ['vtare-units'] only"]
    tests_of_others = {"name": "vtare-packet", "dependencies": [{"name": "vtare-methods", "kind": "dev"}]}
    found = breaches({"packages": [tests_only, tests_of_others]})
    assert found == ["vtare-packet -> vtare-methods: may touch ['vtare-clock', 'vtare-sys', 'vtare-units'] only"]


def test_a_crate_without_a_room_is_named() -> None:
    found = breaches({"packages": [{"name": "vtare-attic", "dependencies": []}]})
    assert found == ["vtare-attic: unknown room; give it a line here and in docs/ARCHITECTURE.md"]


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
