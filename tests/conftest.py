"""What the tests of the whole tree share: where it is, and the things `make build` made."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from hermetic import seal
from native import Installed
from thorough import mark

seal()

ROOT = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin first, since all others run beside them; those that are alone are last, since others wait.

    Raises:
        UsageError: one runs the program and is not marked `e2e`: it would run where no program is built.
    """
    if unmarked := [item.nodeid for item in items
                    if "vtare" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("e2e")
                    and not item.get_closest_marker("platform")]:  # fmt: skip
        raise pytest.UsageError(f"mark them e2e, since they run the program: {', '.join(unmarked)}")

    def place(item: pytest.Item) -> int:
        return -1 if item.get_closest_marker("long") else int(item.get_closest_marker("alone") is not None)

    items.sort(key=place)
    mark(items)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the source tree."""
    return ROOT


@pytest.fixture(autouse=True)
def beside_others(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers run tests beside each other; one that is marked `alone` begins when no other runs, and others after it.

    All pass the first lock in turn: those that share the second one cannot keep one that is alone waiting for ever.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    place = tmp_path_factory.getbasetemp().parent
    with (place / "turn.lock").open("w") as turn, (place / "room.lock").open("w") as room:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield


@pytest.fixture(scope="session")
def tool(root: Path) -> Callable[[str], ModuleType]:
    """A program of `tools/` by its name, as a module."""

    def load(name: str) -> ModuleType:
        loader = SourceFileLoader(f"vtare_{name}", str(root / "tools" / name))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[loader.name] = module
        loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """Every file git tracks, relative to the root; links and files deleted in the working tree are left out."""
    if not (root / ".git").exists():
        pytest.skip("not a git checkout: it is unknown which files are tracked")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    paths = [Path(name) for name in names.split("\0") if name]
    return [path for path in paths if (root / path).is_file() and not (root / path).is_symlink()]


@pytest.fixture(scope="session")
def wheel(root: Path) -> Path:
    """The wheel `make build` left."""
    found = sorted((root / "build" / "wheels").glob("vtare-*.whl"))
    if len(found) != 1:
        pytest.fail(f"build/wheels has {len(found)} wheels, not 1: run `make build` first")
    return found[0]


@pytest.fixture(scope="session")
def vtare() -> Path:
    """The binary: under VTARE_TEST_PREFIX, which `make test` sets, else beside this Python, else on PATH."""
    if prefix := os.environ.get("VTARE_TEST_PREFIX"):
        return Path(prefix).resolve() / "bin" / "vtare"
    beside = Path(sys.executable).parent / "vtare"
    found = str(beside) if beside.is_file() else shutil.which("vtare")
    if found is None:
        pytest.fail("found no vtare beside this Python or on PATH: run `make build` first")
    return Path(found)


@pytest.fixture(scope="session")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The tree installed by `make install` under a prefix with DESTDIR unset; what is built already is not built again.

    `VTARE_TEST_PREFIX` names an installation to be used instead.
    """
    if given := os.environ.get("VTARE_TEST_PREFIX"):
        return Installed(Path(given).resolve())
    prefix = tmp_path_factory.mktemp("prefix")
    result = subprocess.run(
        ["make", "install", f"PREFIX={prefix}", "DESTDIR=", "LAB=no"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return Installed(prefix)
