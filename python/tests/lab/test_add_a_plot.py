"""The page docs/internals/add-a-plot.md, done to a copy of the lab: a report shows its figure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vtare

PAGE = Path(__file__).resolve().parents[3] / "docs/internals" / "add-a-plot.md"
FAKE = Path(__file__).resolve().parents[1] / "fake_vtare.py"
PLAN = """
schema = "vtare.plan/1"
name = "gaps"
question = "How is time lost here?"
blocks = 3
settle = "0 ms"

[[experiment]]
name = "noise"
title = "Time lost"
instrument = "noise"
parameters = { seconds = "1 s" }
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the lab with the blocks of the page, and a finished campaign."""
    root = tmp_path_factory.mktemp("plot")
    package = root / "lab" / "vtare"
    shutil.copytree(Path(vtare.__file__).parent, package, ignore=shutil.ignore_patterns("_lib"))
    found = dict(re.findall(r"^```python (\S+(?: PAGE)?)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))
    for name in ("plots/gap_marks.py", "report/pages/noise_figure.py"):
        (package / name).write_text(found[name], encoding="utf-8")
    page = package / "report/pages/noise.py"
    text = page.read_text(encoding="utf-8")
    first = "from vtare.report.pages.model import"
    text = text.replace(first, found["report/pages/noise.py"] + first, 1)
    text, changed = re.subn(r"^PAGE: Final = .*?^\)\n", found["report/pages/noise.py PAGE"], text, flags=re.M | re.S)
    assert changed == 1
    page.write_text(text, encoding="utf-8")
    (root / "gaps.toml").write_text(PLAN, encoding="utf-8")
    schema = str(package / "data" / "run.schema.json")
    source = FAKE.read_text(encoding="utf-8").replace('HERE / "run.schema.json"', f"Path({schema!r})")
    (root / "binary").write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    (root / "binary").chmod(0o755)
    command(root, "run", "gaps.toml", "--store", "store", "--binary", str(root / "binary"), "--seed", "7", "--json")
    return root


def command(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root / "lab"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", "from vtare.start import main; main()", *arguments],
        cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_report_has_the_added_figure_with_its_question_and_its_numbers(lab: Path) -> None:
    page = (lab / "store" / "report.html").read_text(encoding="utf-8")
    assert "Many short gaps or few long ones?" in page
    assert re.search(r"Gaps per second and share of the time lost\. [^.;]*: [\d.]+ a second, [\d.]+", page)


def test_plot_writes_the_added_figure_as_a_file(lab: Path) -> None:
    command(lab, "report", "store", "--format", "svg", "--only", "gaps", "--out", "figures")
    assert [path.name for path in (lab / "figures").glob("*.svg")] == ["gaps-noise.svg"]
