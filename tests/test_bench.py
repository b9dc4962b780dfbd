"""The benchmarks start: what they import is there, and their options are described."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def scripts() -> list[Path]:
    """The benchmarks in Python that take options."""
    found = [path for path in sorted(ROOT.glob("bench/*")) + sorted(ROOT.glob("bench/*/*")) if path.is_file()]
    python = [path for path in found if path.suffix == "" and path.read_bytes().startswith(b"#!/usr/bin/env python3")]
    return [path for path in python if "argparse" in path.read_text()]


@pytest.mark.parametrize("script", scripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_benchmark_in_python_describes_its_options(script: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python/src")}
    done = subprocess.run(
        [sys.executable, str(script), "--help"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")


@pytest.mark.parametrize("run", sorted(ROOT.glob("bench/*/run")), ids=lambda path: path.parent.name)
def test_every_benchmark_offers_a_document(run: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python/src")}
    done = subprocess.run(
        [sys.executable, str(run), "--help"], env=environment, capture_output=True, text=True, check=False
    )
    assert "--json" in done.stdout, done.stderr


def test_a_benchmark_prints_one_document_of_its_figures_by_name() -> None:
    words = [
        sys.executable,
        str(ROOT / "bench/watch/run"),
        "--json",
        "--points",
        "1000",
        "--steps",
        "2",
        "--rounds",
        "60",
    ]
    done = subprocess.run([*words, "--without-otava"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["benchmark"]) == ("vtare-bench/1", "watch/run")
    assert {"machine", "commit", "date"} <= document.keys()
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert len(figures) == len(document["figures"]), "a name stands for one figure"
    assert figures["history"]["unit"] == "MB"
    assert figures["history"]["value"] > 0
    assert all(figure["value"] is None for name, figure in figures.items() if name.endswith("/Otava"))
    assert f"history {figures['history']['value']:.1f} MB" in done.stderr, "the text shows the same figure"


def test_a_benchmark_keeps_what_it_prints_newest_first_and_leaves_what_people_wrote(tmp_path: Path) -> None:
    script = tmp_path / "bench" / "one" / "run"
    script.parent.mkdir(parents=True)
    (script.parents[1] / "figures.py").write_text((ROOT / "bench/figures.py").read_text("utf-8"), "utf-8")
    script.write_text(
        "import argparse, subprocess, sys\nsys.path.insert(0, sys.path[0] + '/..')\nimport figures\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--n')\nn = figures.parsed(parser).n\n"
        "print('first line', n)\nsys.stdout.flush()\nsubprocess.run(['echo', 'of a program'])\n"
    )
    page = script.with_name("RESULTS.md")
    page.write_text("# Results of one\n\nWhy.\n\n## By hand\n\nOld.\n")
    for n in (7, 0, 1, 2, 3, 4, 5, 0):
        done = subprocess.run(
            [sys.executable, script, "--write", "--n", str(n)], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout) == (0, f"first line {n}\nof a program\n"), done.stderr
    title, *sections = page.read_text().split("\n## ")
    assert title == "# Results of one\n\nWhy.\n"
    assert sections[-1] == "By hand\n\nOld.\n"
    assert [section.split("    first line ")[1][0] for section in sections[:-1]] == list("054321"), "one of each"
    assert all("bench/one/run --n" in section and "commit" in section for section in sections[:-1])
    script.write_text(script.read_text() + "raise SystemError('it ended early')\n")
    early = subprocess.run([sys.executable, script, "--write"], capture_output=True, text=True, timeout=60)
    assert (early.returncode, page.read_text().count("first line")) == (1, 6)
    both = subprocess.run([sys.executable, script, "--write", "--json"], capture_output=True, text=True, timeout=60)
    assert (both.returncode, page.read_text().count("first line")) == (2, 6)


@pytest.mark.parametrize("page", sorted(ROOT.glob("bench/*/RESULTS.md")), ids=lambda page: page.parent.name)
def test_results_are_written_by_their_benchmark(page: Path) -> None:
    directory = page.relative_to(ROOT).parent
    _, *sections = page.read_text("utf-8").split("\n## ")
    begin = rf"\d{{4}}-\d\d-\d\d \d\d:\d\d UTC: {directory}/\w+.*\n\n.* CPUs, .* commit \w{{8}}\n"
    assert sections, page
    assert [section[:80] for section in sections if not re.match(begin, section)] == [], "notes belong in README.md"


def test_the_table_reads_figures_by_name_and_leaves_out_what_is_missing(tool: Any) -> None:
    table = tool("../bench/table")
    figures = {"a": 3.0, "b": None, "cell 1/own/error": 0.0, "cell 2/own/error": 0.3, "cell 3/own/error": None}
    assert table.value(figures, "own/error") == pytest.approx(0.2), "less than 0.1 counts as 0.1"
    assert table.found(table.Ratio("", "a", "own/error"), figures) == pytest.approx(15)
    assert table.found(table.Ratio("", "b"), figures) is None
    assert table.found(table.Ratio("", "a", "missing"), figures) is None


def test_benchmarks_are_found() -> None:
    assert {"bench/table", "bench/rtt/run", "bench/avb/real"} <= {str(path.relative_to(ROOT)) for path in scripts()}


def drawing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that draws real paths at random."""
    monkeypatch.syspath_prepend(str(ROOT / "bench/avb"))
    return importlib.import_module("realpath.draw")


def test_a_seed_draws_the_same_real_paths_again(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = drawing(monkeypatch).draw
    once, again, other = ([draw(rng) for _ in range(20)] for rng in map(random.Random, (7, 7, 8)))
    assert once == again
    assert once != other


def test_random_real_paths_are_of_every_kind_and_within_the_stated_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    module = drawing(monkeypatch)
    rng = random.Random(1)
    drawn = [module.draw(rng) for _ in range(500)]
    assert {path.group for path in drawn} == {"tbf", "htb", "police", "link", "two near", "two apart"}
    assert any(path.is_deep and not path.polices for path in drawn)
    assert {path.cross for path in drawn} == {"none", "constant", "onoff", "iperf3"}
    for path in drawn:
        narrow = min(link.bit_per_s for link in path.links)
        assert path.cross_bit_per_s <= 0.85 * narrow + 1
        assert (path.cross_bit_per_s == 0) == (path.cross == "none")
        for link in path.links:
            assert 1e7 - 1 <= link.bit_per_s <= 1e9 + 1
            # A bucket holds a frame at least, and at most 20 ms of its rate; a policer's 2 ms.
            most_s = 2e-3 if link.kind == "police" else 20e-3
            assert link.depth_byte is None or 1514 <= link.depth_byte <= max(4 * 1514, most_s * link.bit_per_s / 8 + 1)
        if path.group == "two near":
            assert max(link.bit_per_s for link in path.links) <= 1.2 * narrow + 1
