"""The lab without the products that are made of it: what is left works, and a command that is not there says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src" / "vtare"
PRODUCTS = {"ab": "ab", "weigh": "weigh", "watch": "watch", "fleet": "fleet", "papers": "papers/claims"}


@pytest.fixture(scope="module")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the lab without them."""
    place = tmp_path_factory.mktemp("lean") / "vtare"
    shutil.copytree(SOURCES, place, ignore=shutil.ignore_patterns("__pycache__", "_bin", "_lib"))
    for name, home in PRODUCTS.items():
        shutil.rmtree(place / home)
        for room in ("cli", "terminal"):
            (place / room / f"{name}.py").unlink(missing_ok=True)
    return place.parent


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without their packages alone: their commands are there, and lack what they call."""
    place = tmp_path_factory.mktemp("bare") / "vtare"
    homes = {SOURCES / home for home in PRODUCTS.values()}

    def left_out(directory: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(directory) / name in homes or name in ("__pycache__", "_bin", "_lib")}

    shutil.copytree(SOURCES, place, ignore=left_out)
    return place.parent


def lab(lean: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(lean)}
    command = [sys.executable, "-m", "vtare.start", *words]
    return subprocess.run(command, env=environment, cwd=lean, capture_output=True, text=True, timeout=120, check=False)


def test_the_core_plans_and_reads_stores_without_the_products(lean: Path, tmp_path: Path) -> None:
    plan = lab(lean, "plan", "show", "quickstart")
    assert (plan.returncode, "factor load" in plan.stdout) == (0, True), plan.stderr
    missing = lab(lean, "report", str(tmp_path / "store"))
    assert (missing.returncode, "no such store" in missing.stderr) == (2, True)
    listed = lab(lean, "--help").stdout
    assert {name: f"\n  {name} " in listed for name in (*PRODUCTS, "run", "report")} == {
        **dict.fromkeys(PRODUCTS, False),
        "run": True,
        "report": True,
    }


@pytest.mark.parametrize(
    "words", [*((name, "--help") for name in PRODUCTS), ("run", "quickstart", "--on", "simulated:4")]
)
def test_a_command_of_a_product_that_is_left_out_names_it(lean: Path, words: tuple[str, ...]) -> None:
    done = lab(lean, *words)
    assert done.returncode == 3, done.stderr
    assert "is left out of this installation: install all of vtare (`make install`)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("ab -- true -- true", "vtare.ab"),
        ("watch quickstart", "vtare.watch"),
        ("fleet hosts.toml", "vtare.fleet"),
        ("papers lampe2013 --claims", "vtare.papers.claims"),
    ],
)
def test_a_command_whose_package_is_left_out_names_the_package(bare: Path, words: str, missing: str) -> None:
    done = lab(bare, *words.split())
    sentence = f"vtare: {missing} is left out of this installation: install all of vtare (`make install`)\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", sentence)


@pytest.mark.parametrize("words", ["plan show quickstart", "report --help", "ab --help", "papers", "--commands"])
def test_all_else_works_without_the_packages(bare: Path, words: str) -> None:
    done = lab(bare, *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
