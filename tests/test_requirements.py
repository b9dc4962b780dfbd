"""The pinned Python packages are those that pyproject.toml asks for, each with hashes; nothing names a place."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PINNED = re.compile(r"(?P<name>[a-z0-9.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.+))?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Pin:
    """One package in one version, for the machines that the marker is about."""

    name: str
    version: Version
    marker: Marker | None
    hashes: int

    def holds(self, python: str) -> bool:
        """Whether it is installed on Linux with this Python."""
        found = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
        return self.marker is None or self.marker.evaluate(found)


def pins(text: str) -> list[Pin]:
    """What a file of requirements pins. Raises AssertionError for any line that does something else."""
    found = []
    joined = re.sub(r" \\\n\s*", "\n--", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).replace("\n----", " --")
    for line in joined.splitlines():
        head, *hashes = line.split(" --hash=")
        pin = PINNED.fullmatch(head)
        assert pin is not None, f"found {line[:80]!r}, expected NAME==VERSION with hashes: run `make lock`"
        assert all(HASH.fullmatch(f"--hash={one}") for one in hashes), line[:80]
        marker = Marker(pin["marker"]) if pin["marker"] else None
        found.append(Pin(canonicalize_name(pin["name"]), Version(pin["version"]), marker, len(hashes)))
    return found


@pytest.fixture(scope="module")
def stated(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pinned(root: Path) -> dict[str, list[Pin]]:
    return {path.stem: pins(path.read_text(encoding="utf-8")) for path in (root / "requirements").glob("*.txt")}


def unmet(wanted: list[str], found: list[Pin]) -> list[str]:
    """The requirements that the pins do not meet on some Python."""
    missing = []
    for requirement in map(Requirement, wanted):
        for python in PYTHONS:
            here = [pin for pin in found if pin.name == canonicalize_name(requirement.name) and pin.holds(python)]
            if len(here) != 1 or here[0].version not in requirement.specifier:
                missing.append(f"{requirement} on Python {python}: found {[str(pin.version) for pin in here]}")
    return missing


def test_what_pyproject_asks_for_is_pinned_once_for_every_python(
    stated: dict[str, Any], pinned: dict[str, list[Pin]]
) -> None:
    extras = stated["project"]["optional-dependencies"]
    run = [*stated["build-system"]["requires"], *stated["project"]["dependencies"]]
    assert unmet(run, pinned["run"]) == []
    assert unmet([*run, *extras["dev"], *extras["platforms"]], pinned["dev"]) == []
    assert unmet(extras["docs"], pinned["docs"]) == []
    assert unmet(extras["platforms"], pinned["platforms"]) == []
    assert unmet(extras["libvirt"], pinned["libvirt"]) == []
    assert unmet(extras["s3-server"], pinned["s3-server"]) == []
    assert unmet(extras["kubernetes"], pinned["kubernetes"]) == []
    assert set(pinned) == {"run", "dev", "docs", "platforms", "libvirt", "s3-server", "kubernetes"}


def test_every_pinned_package_has_hashes_and_tests_run_on_the_versions_of_the_lab(
    pinned: dict[str, list[Pin]],
) -> None:
    assert [pin.name for file in pinned.values() for pin in file if pin.hashes == 0] == []
    tested = {(pin.name, pin.version) for pin in pinned["dev"]}
    assert [
        pin.name for name in ("run", "platforms") for pin in pinned[name] if (pin.name, pin.version) not in tested
    ] == []


def test_a_requirement_that_is_not_pinned_is_named() -> None:
    text = "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:" + "0" * 64 + "\n"
    assert [pin.hashes for pin in pins(text)] == [1]
    assert unmet(["numpy>=2"], pins(text)) == [f"numpy>=2 on Python {python}: found []" for python in PYTHONS[1:]]
    assert unmet(["numpy>=3"], pins(text))[0] == "numpy>=3 on Python 3.11: found ['2.4.6']"
    with pytest.raises(AssertionError, match="run `make lock`"):
        pins("numpy>=2\n")
