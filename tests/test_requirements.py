"""The pinned Python packages are those that pyproject.toml asks for, each with hashes; uv chooses them (tools/lock)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIN = re.compile(
    r"^([a-z0-9.-]+)==([^\s;]+)(?: ; .+?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def pins(path: Path) -> dict[str, set[str]]:
    """The versions of each package, those of the files that it adds to among them.

    Fails for a line that is anything but a version with hashes or such a file, and for a package of two versions.
    """
    text = path.read_text(encoding="utf-8")
    below = re.findall(r"^--requirement (\S+)\n", text, flags=re.MULTILINE)
    assert PIN.sub("", re.sub(r"^(#|--requirement ).*\n", "", text, flags=re.MULTILINE)) == "", "run `make lock`"
    found: dict[str, set[str]] = {}
    for name, version, _ in PIN.findall(text):
        found.setdefault(canonicalize_name(name), set()).add(version)
    for beneath in (pins(path.with_name(name)) for name in below):
        for name, versions in beneath.items():
            assert found.setdefault(name, versions) == versions, "a package has two versions: run `make lock`"
    return found


@pytest.fixture(scope="module")
def pinned(root: Path) -> dict[str, dict[str, set[str]]]:
    return {path.stem: pins(path) for path in (root / "python/requirements").glob("*.txt")}


def unmet(wanted: list[str], found: dict[str, set[str]]) -> list[str]:
    """The requirements that some pin does not meet."""
    each = [
        (requirement, found.get(canonicalize_name(requirement.name), set())) for requirement in map(Requirement, wanted)
    ]
    return [
        f"{requirement}: pinned {sorted(versions)}"
        for requirement, versions in each
        if not versions or not all(version in requirement.specifier for version in versions)
    ]


def test_what_pyproject_asks_for_is_pinned(root: Path, pinned: dict[str, dict[str, set[str]]]) -> None:
    stated: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = stated["project"]["optional-dependencies"], stated["dependency-groups"]
    assert groups["build"] == stated["build-system"]["requires"]
    run = stated["project"]["dependencies"]
    wanted = {
        "run": run,
        "dev": [*run, *groups["build"], *groups["dev"], *extras["platforms"]],
        **{name: extras[name] for name in ("platforms", "libvirt")},
        **{name: groups[name] for name in ("build", "docs", "libvirt-build", "s3-server", "kubernetes")},
    }
    assert {name: unmet(requirements, pinned[name]) for name, requirements in wanted.items()} == {
        name: [] for name in pinned
    }


def test_tests_run_on_the_versions_of_the_lab(pinned: dict[str, dict[str, set[str]]]) -> None:
    for name in ("build", "run", "platforms"):
        assert {
            package for package, versions in pinned[name].items() if pinned["dev"].get(package) != versions
        } == set()


def test_a_requirement_that_is_not_pinned_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    numpy = "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:" + "0" * 64 + "\n"
    path.write_text(numpy)
    assert unmet(["numpy>=3", "numpy>=2", "scipy"], pins(path)) == ["numpy>=3: pinned ['2.4.6']", "scipy: pinned []"]
    (tmp_path / "dev.txt").write_text("--requirement run.txt\n" + numpy.replace("2.4.6", "2.4.7"))
    with pytest.raises(AssertionError, match="two versions"):
        pins(tmp_path / "dev.txt")
    for wrong in ("numpy>=2\n", "numpy==2.4.6\n"):
        path.write_text(wrong)
        with pytest.raises(AssertionError, match="run `make lock`"):
            pins(path)
