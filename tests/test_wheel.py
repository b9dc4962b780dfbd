"""The wheel carries it all: the static binary, the lab's entry point, and every data file of the package."""

from __future__ import annotations

import configparser
import os
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest
from elf import linkage
from json_schemas import of_the_program

from vtare.records.schema import schemas

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def archive(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel, open."""
    with zipfile.ZipFile(wheel) as opened:
        yield opened


@pytest.fixture(scope="module")
def version(root: Path) -> str:
    """The version in the only place where it is written."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


def headers(archive: zipfile.ZipFile, name: str) -> Message:
    """One of the wheel's files of headers, `METADATA` or `WHEEL`."""
    path = next(path for path in archive.namelist() if path.endswith(f".dist-info/{name}"))
    return BytesParser().parsebytes(archive.read(path))


def libraries(root: Path) -> set[str]:
    """The shared libraries that the wheel carries: one for each crate that makes one."""
    made = {"capi": "vtare/_lib/libvtare_clock.so", "preload": "vtare/_lib/libvtare_preload.so"}
    return {path for crate, path in made.items() if (root / "crates" / crate / "Cargo.toml").is_file()}


def test_the_tag_is_for_every_python_3_on_this_architecture(archive: zipfile.ZipFile) -> None:
    assert re.fullmatch(rf"py3-none-manylinux_2_\d+_{platform.machine()}", headers(archive, "WHEEL")["Tag"])


def test_the_version_is_the_workspaces(archive: zipfile.ZipFile, version: str) -> None:
    assert headers(archive, "METADATA")["Version"] == version


@pytest.mark.parametrize("name", ["vtare", "vtare-rpm"])
def test_each_binary_is_a_script_of_the_wheel_and_static(archive: zipfile.ZipFile, version: str, name: str) -> None:
    info = archive.getinfo(f"vtare-{version}.data/scripts/{name}")
    assert info.external_attr >> 16 & 0o111 == 0o111
    assert linkage(archive.read(info)).static


def test_everybody_may_read_what_the_wheel_installs(archive: zipfile.ZipFile) -> None:
    modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o444 != 0o444} == {}


def test_the_lab_has_its_entry_point(archive: zipfile.ZipFile, version: str) -> None:
    entries = configparser.ConfigParser()
    entries.read_string(archive.read(f"vtare-{version}.dist-info/entry_points.txt").decode())
    assert dict(entries["console_scripts"]) == {"vtare-lab": "vtare.start:main"}


def test_every_file_of_the_package_is_in_the_wheel_and_nothing_else(archive: zipfile.ZipFile, root: Path) -> None:
    package = root / "python" / "src" / "vtare"
    ours = [path for path in package.rglob("*") if path.is_file() and path.parent.name not in ("__pycache__", "_lib")]
    documents = {name.replace("/", ".") for name in {**of_the_program(), **schemas()}}
    made = {"vtare/report/templates/charts.js", *(f"vtare/schemas/{name}.json" for name in documents)}
    wanted = {str(path.relative_to(package.parent)) for path in ours} | made | libraries(root)
    assert {name for name in archive.namelist() if name.startswith("vtare/")} == wanted


def test_the_shared_libraries_are_package_data_for_ordinary_programs(archive: zipfile.ZipFile, root: Path) -> None:
    for name in libraries(root):
        assert linkage(archive.read(name)).libraries > 0, f"{name} must use the program's own C library"


def test_the_shared_libraries_load_with_the_glibc_that_docs_and_the_tag_state(
    archive: zipfile.ZipFile, root: Path
) -> None:
    page = (root / "docs/guide/clock-library.md").read_text("utf-8")
    symbols = b"".join(archive.read(name) for name in libraries(root))
    newest = max(int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", symbols))
    assert f"needs glibc 2.{newest} or newer" in page
    assert f"manylinux_2_{newest}_" in headers(archive, "WHEEL")["Tag"]


def test_the_licences_travel_along(archive: zipfile.ZipFile) -> None:
    names = {Path(name).name for name in archive.namelist() if "/licenses/" in name}
    assert names == {"LICENSE-APACHE", "LICENSE-MIT"}


def test_every_module_can_be_imported_from_the_wheel_alone(archive: zipfile.ZipFile, tmp_path: Path) -> None:
    archive.extractall(tmp_path)
    code = (
        "import importlib, pkgutil, vtare\n"
        "names = [m.name for m in pkgutil.walk_packages(vtare.__path__, 'vtare.') if not m.name.endswith('__main__')]\n"
        "assert names\n"
        "for name in names: importlib.import_module(name)\n"
        "print(vtare.__file__)\n"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(tmp_path / "vtare" / "__init__.py")
