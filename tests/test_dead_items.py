"""No public item of a crate is there for nobody: the compiler reports private ones, but not those that crates offer."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from rust_modules import without_tests
from rust_source import code_only

ITEM = re.compile(
    r"^\s*pub (?:(?:const|unsafe|async) )*(?:fn|struct|enum|const|static|trait|type|union) (\w+)", re.MULTILINE
)
#: Programs that are no part of this tree use what these offer.
FOR_OTHERS = ("crates/capi/", "crates/preload/")
#: What tests look through into something that has no other opening, or run it otherwise than it ships.
OPENINGS = {
    "PROBE_BYTE", "run_once", "lookup", "delete",  # programs and maps of the kernel, without a network device
    "figures_by", "with_settling",  # other numbers than the shipped ones: sensitivity
    "sent_near",  # what a reader of short probes on the wire reads from them
}  # fmt: skip
#: Stand-ins for machines and links, which tests use alone.
SIMULATED = re.compile(r"(^|/)(sim|simulated|pathsim)(/|\.rs$)")


def names(files: dict[str, str]) -> tuple[set[tuple[str, str]], Counter[str], Counter[str]]:
    """What is public, as (file, name); and how often each word is in programs, and in tests beside them."""
    offered: set[tuple[str, str]] = set()
    programs: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for file, source in files.items():
        # To pass an item on, or to import it, is no use.
        whole = re.sub(r"\b(?:pub(?:\([^)]*\))? )?use [^;]+;", "", code_only(source))
        is_test = "/tests/" in file or file.endswith("tests.rs") or "/fuzz/" in file or file.startswith("bench/")
        code = "" if is_test else without_tests(whole)
        programs.update(re.findall(r"\w+", code))
        tests.update(re.findall(r"\w+", whole))
        # Names in the braces of format strings are uses.
        formatted = re.findall(r"{([a-zA-Z_]\w*)[:}]", source)
        tests.update(formatted)
        programs.update([] if is_test else formatted)
        if not file.startswith(FOR_OTHERS):
            offered |= {(file, name) for name in ITEM.findall(code)}
    return offered, programs, tests


def dead(files: dict[str, str]) -> list[str]:
    """Items that nothing names but their own line, and those that only tests name."""
    offered, programs, everywhere = names(files)
    return sorted(
        f"{file}: {name}"
        for file, name in offered
        if everywhere[name] <= 1 or (programs[name] <= 1 and name not in OPENINGS and not SIMULATED.search(file))
    )


def test_every_public_item_has_a_user_outside_the_tests(root: Path, tracked: list[Path]) -> None:
    files = {str(path): (root / path).read_text("utf-8") for path in tracked if path.suffix == ".rs"}
    assert dead(files) == []


def test_what_nobody_uses_is_found_and_passing_on_is_no_use() -> None:
    files = {
        "crates/a/src/lib.rs": "pub use inner::{lonely, used, tested};\nmod inner;",
        "crates/a/src/inner.rs": (
            "pub fn lonely() {}\npub const fn used() {}\npub fn tested() {}\n"
            "#[cfg(test)]\nmod tests {\n    fn t() { tested(); }\n}\n"
        ),
        "crates/b/src/main.rs": "fn main() { a::used(); } // lonely()",
        "crates/a/src/sim.rs": "pub fn stand_in() {}",
        "crates/a/tests/it.rs": "fn t() { stand_in(); }",
    }
    assert dead(files) == ["crates/a/src/inner.rs: lonely", "crates/a/src/inner.rs: tested"]
