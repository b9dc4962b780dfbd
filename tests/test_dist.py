"""tools/dist: the parts of a release that need no compiler, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
import zipfile
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


def test_the_glibc_that_is_asked_for_is_the_newest_symbols(dist: ModuleType) -> None:
    assert dist.oldest_glibc([b"..GLIBC_2.17\0GLIBC_2.34\0", b"GLIBC_2.4"]) == 34


def test_a_wheel_with_another_tag_keeps_its_files_and_a_true_record(dist: ModuleType, tmp_path: Path) -> None:
    machine = dist.platform.machine()
    plain = tmp_path / f"a-1-py3-none-linux_{machine}.whl"
    with zipfile.ZipFile(plain, "w") as made:
        made.writestr("a/__init__.py", "x = 1\n")
        made.writestr("a-1.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: py3-none-linux_{machine}\n")
        made.writestr("a-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1\n")
        rows = ["a/__init__.py,,", "a-1.dist-info/WHEEL,sha256=old,9", "a-1.dist-info/METADATA,,"]
        made.writestr("a-1.dist-info/RECORD", "\n".join([*rows, "a-1.dist-info/RECORD,,"]) + "\n")
    (tmp_path / "out").mkdir()
    tagged = dist.retagged(plain, f"manylinux_2_34_{machine}", tmp_path / "out")
    assert tagged.name == f"a-1-py3-none-manylinux_2_34_{machine}.whl"
    with zipfile.ZipFile(tagged) as opened:
        assert opened.read("a/__init__.py") == b"x = 1\n"
        assert f"Tag: py3-none-manylinux_2_34_{machine}" in opened.read("a-1.dist-info/WHEEL").decode()
        assert b"sha256=old" not in opened.read("a-1.dist-info/RECORD")


def test_a_key_inside_the_tree_is_refused(root: Path, dist: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist.shutil, "which", lambda _: "/usr/bin/minisign")
    with pytest.raises(SystemExit, match="inside the tree, expected it elsewhere"):
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
