"""tools/dist: the parts of a release that need no compiler, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def dist(tool: Callable[[str], ModuleType]) -> ModuleType:
    return tool("dist")


def test_the_bill_of_materials_names_every_pinned_crate_and_package(
    root: Path, dist: ModuleType, tmp_path: Path
) -> None:
    document = json.loads(dist.materials(tmp_path, tmp_path).read_text("utf-8"))
    found = {part["purl"] for part in document["components"]}
    lock = tomllib.loads((root / "Cargo.lock").read_text("utf-8"))["package"]
    assert {f"pkg:cargo/{one['name']}@{one['version']}" for one in lock if "source" in one} <= found
    assert any(purl.startswith("pkg:pypi/polars@") for purl in found)
    assert len(found) == len(document["components"])


def test_a_key_inside_the_tree_is_refused(root: Path, dist: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist.shutil, "which", lambda _: "/usr/bin/minisign")
    with pytest.raises(SystemExit, match="inside the tree: move it elsewhere"):
        dist.sign(root / "dist/SHA256SUMS", root / "key")


def test_without_a_key_the_signature_is_skipped_with_the_reason(
    dist: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dist.sign(tmp_path / "SHA256SUMS", None)
    assert "skipped: signature: no key: make dist SIGN_KEY=FILE" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("minisign") is None, reason="no minisign here (Debian: minisign)")
def test_a_signature_is_one_that_minisign_accepts(dist: ModuleType, tmp_path: Path) -> None:
    key, public, sums = (tmp_path / name for name in ("key", "key.pub", "SHA256SUMS"))
    subprocess.run(["minisign", "-G", "-W", "-s", key, "-p", public], check=True, capture_output=True)
    sums.write_text("0  a\n")
    dist.sign(sums, key)
    subprocess.run(["minisign", "-V", "-p", public, "-m", sums], check=True, capture_output=True)
    sums.write_text("1  a\n")
    changed = subprocess.run(["minisign", "-V", "-p", public, "-m", sums], check=False, capture_output=True)
    assert changed.returncode != 0
