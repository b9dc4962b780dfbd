"""docs/internals/add-an-instrument.md, done to a copy of the lab: plan, campaign and report show its instrument."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vtare

PAGE = Path(__file__).resolve().parents[3] / "docs/internals" / "add-an-instrument.md"
FAKE = Path(__file__).resolve().parents[1] / "fake_vtare.py"
#: What the stand-in measures: 8 us at 64 B, 11 us at 4 kB, every hundredth message ten times as long.
MEASURE = """
    if instrument == "pipe":
        keys = ("size_byte", "index", "pipe_ns")
        table = {key: [] for key in keys}
        for size in parameters["size_byte"]:
            for i in range(parameters["samples"]):
                took = int((8_000 if size == 64 else 11_000) * (10 if i % 100 == 7 else 1) + rng.gauss(0, 200))
                for key, value in zip(keys, (size, i, took), strict=True):
                    table[key].append(value)
        return table
"""


def blocks() -> dict[str, str]:
    """The page's blocks of code by the file that each names."""
    return {name: text for name, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the lab with everything that the page adds, and a stand-in for the binary that has the instrument."""
    root = tmp_path_factory.mktemp("added")
    package = root / "lab" / "vtare"
    shutil.copytree(Path(vtare.__file__).parent, package, ignore=shutil.ignore_patterns("_lib"))
    found = blocks()
    for name in ("instruments/pipe.py", "report/pages/pipe.py"):
        (package / name).write_text(found[name], encoding="utf-8")
    register = package / "instruments" / "__init__.py"
    line = found["instruments/__init__.py"]
    text = register.read_text(encoding="utf-8")
    register.write_text(text.replace("_NAMES: Final = (\n", f"_NAMES: Final = (\n{line}", 1), encoding="utf-8")
    schema = json.loads((package / "data/run.schema.json").read_text(encoding="utf-8"))
    schema["allOf"].append(json.loads(found["run.schema.json"]))
    (package / "data/run.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    columns = json.loads((package / "data/columns.json").read_text(encoding="utf-8"))
    columns["instruments"]["pipe"] = json.loads(found["columns.json"])
    (package / "data/columns.json").write_text(json.dumps(columns), encoding="utf-8")
    source = FAKE.read_text(encoding="utf-8")
    start = '    if instrument == "rtt":\n        return round_trips'
    assert start in source
    source = source.replace(start, MEASURE.lstrip("\n") + start)
    place = str(package / "data" / "run.schema.json")
    source = source.replace('SCHEMA = HERE / "run.schema.json"\n', f"SCHEMA = Path({place!r})\n")
    (root / "vtare").write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    (root / "vtare").chmod(0o755)
    (root / "pipes.toml").write_text(found["plans/pipes.toml"], encoding="utf-8")
    return root


def command(lab: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(lab / "lab"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", "from vtare.start import main; main()", *arguments],
        cwd=lab, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def store(lab: Path) -> Path:
    command(lab, "run", "pipes.toml", "--store", "store", "--binary", str(lab / "vtare"), "--seed", "7", "--json")
    return lab / "store"


def test_page_names_every_file_that_it_adds_and_one_line_registers_the_instrument() -> None:
    found = blocks()
    assert sorted(found) == [
        "columns.json", "instruments/__init__.py", "instruments/pipe.py", "plans/pipes.toml", "report/pages/pipe.py",
        "run.schema.json",
    ]  # fmt: skip
    assert found["instruments/__init__.py"].count("\n") == 1


def test_plan_shows_the_added_instrument_with_its_expected_time(lab: Path) -> None:
    shown = json.loads(command(lab, "plan", "pipes.toml", "--binary", str(lab / "vtare"), "--json"))
    assert shown["runs"] == 6
    assert shown["experiments"][0]["instrument"] == "pipe"
    # 2 sizes x 400 messages x 20 us, and 0.14 to 0.18 s around each run.
    assert 6 * (0.016 + 0.14) < shown["expected_s"] < 6 * 0.25


def test_campaign_measures_with_the_added_instrument(lab: Path, store: Path) -> None:
    shown = json.loads(command(lab, "status", str(store), "--json"))
    assert (shown["done"], shown["failed"], shown["pending"]) == (6, 0, 0)
    assert len(list(store.glob("runs/*/samples.parquet"))) == 6


def test_report_has_the_page_figures_and_table_of_the_added_instrument(lab: Path, store: Path) -> None:
    page = (store / "report.html").read_text(encoding="utf-8")
    words = " ".join(re.sub(r"<[^>]+>", "", page).replace("\u00a0", " ").split())
    assert re.search(r"A message through a pipe and back takes (7\.9|8\.0)\d \N{MICRO SIGN}s.* \(64 B\)", words)
    assert "Pipes: two threads of one process" in page
    assert 'id="figure-medians-pipes' in page
    assert "time through a pipe and back" in page


def test_without_a_page_of_its_own_the_usual_one_shows_it(lab: Path, store: Path) -> None:
    own = lab / "lab/vtare/report/pages/pipe.py"
    away = own.rename(own.with_suffix(".away"))
    try:
        command(lab, "report", str(store), "--format", "md", "--out", "usual.md")
    finally:
        away.rename(own)
    page = (lab / "usual.md").read_text(encoding="utf-8")
    assert re.search(r"the median time through a pipe is (7\.9|8\.0)", page.replace("\u00a0", " "))
