"""What `make lint` reports about licences, sources and bans where cargo-deny is not installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RULES: dict[str, Any] = {
    "licenses": {"allow": ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"]},
    "bans": {"deny": [{"crate": "tokio", "reason": "no executor"}]},
}
REGISTRY = "registry+https://example.org/index"


@pytest.fixture(scope="module")
def audit(tool: Callable[[str], ModuleType]) -> ModuleType:
    """`tools/audit` as a module."""
    return tool("audit")


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0", True),
        ("GPL-3.0 OR MIT", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("MIT OR GPL-3.0 AND GPL-2.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
        ("GPL-3.0/MIT", True),
        ("GPL-3.0", False),
    ],
)
def test_a_licence_is_allowed_where_the_allowed_ones_meet_its_expression(
    audit: ModuleType, expression: str, fine: bool
) -> None:
    assert audit.allowed(expression, set(RULES["licenses"]["allow"])) is fine


@pytest.mark.parametrize("expression", ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT Apache-2.0"])
def test_what_is_no_expression_is_not_allowed(audit: ModuleType, expression: str) -> None:
    with pytest.raises(ValueError, match=r"is not an SPDX expression|lacks a closing"):
        audit.allowed(expression, {"MIT"})


def package(name: str, **changes: Any) -> dict[str, Any]:
    usual = {"name": name, "version": "1.0.0", "source": REGISTRY, "license": "MIT", "dependencies": []}
    return {**usual, **changes}


def test_each_package_that_breaks_a_rule_is_named(audit: ModuleType) -> None:
    own = package(
        "vtare", source=None, dependencies=[{"name": "a", "req": "*"}, {"name": "b", "req": "*", "path": "b"}]
    )
    found = audit.offences(
        [
            own,
            package("a"),
            package("tokio"),
            package("c", license=None),
            package("d", license="GPL-3.0"),
            package("e", source="git+https://example.org/e"),
        ],
        RULES,
    )
    assert found == [
        "c 1.0.0: has the licence None, expected one that deny.toml allows",
        "d 1.0.0: has the licence 'GPL-3.0', expected one that deny.toml allows",
        "e 1.0.0: comes from git+https://example.org/e, expected the registry or this tree",
        "tokio 1.0.0: is banned: no executor",
        "vtare 1.0.0: asks for any version of a, expected a version",
    ]
    assert audit.offences([package("a"), package("b")], RULES) == []
    wrapped = {**RULES, "bans": {"deny": [{"crate": "tokio", "wrappers": ["h2"], "reason": "no executor"}]}}
    assert audit.offences([package("tokio", used_by={"h2"})], wrapped) == []
    assert audit.offences([package("tokio", used_by={"h2", "vtare"})], wrapped) == [
        "tokio 1.0.0: is banned for vtare: no executor"
    ]
    two = audit.offences([package("a"), package("b", source="registry+https://example.com/other")], RULES)
    assert two == ["the packages come from 2 registries: use one"]


def test_what_this_tree_depends_on_is_within_the_rules(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    rules = audit.tomllib.loads((root / "tools/deny.toml").read_text(encoding="utf-8"))
    monkeypatch.setattr(audit.shutil, "which", lambda _name: None)
    assert audit.crates("Cargo.toml", rules) == []
    rules["licenses"]["allow"].remove("MIT")
    assert any("has the licence 'MIT'" in fault for fault in audit.crates("Cargo.toml", rules))


def test_a_lock_file_that_is_not_that_of_its_manifests_is_a_fault_and_not_skipped(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    outdated = "error: cannot update the lock file x/Cargo.lock because --locked was passed to prevent this\nhelp: x"
    answer = audit.subprocess.CompletedProcess([], 101, "", outdated)
    monkeypatch.setattr(audit, "run", lambda _words: answer)
    (fault,) = audit.crates("x/Cargo.toml", RULES)
    assert (
        fault == "x/Cargo.lock is older than its manifests: run `cargo update --workspace --manifest-path x/Cargo.toml`"
    )
    answer.stderr = "error: could not download"
    with pytest.raises(audit.Unreachable, match="could not download"):
        audit.crates("x/Cargo.toml", RULES)


def test_what_cannot_be_reached_is_skipped_with_the_reason(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(*_: object) -> list[str]:
        raise audit.Unreachable("the advisory database (no route)")

    for name in ("crates", "advisories", "python"):
        monkeypatch.setattr(audit, name, unreachable)
    assert audit.main() == 0
    assert "this needs the advisory database (no route)" in capsys.readouterr().out
    monkeypatch.setattr(audit, "crates", lambda *_: ["tokio 1.0.0: is banned"])
    assert audit.main() == 1
