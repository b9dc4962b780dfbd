"""What reports infer, recomputed from the raw readings by a script that shares no code with vtare."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

from campaigns import Truth, write_campaign
from forwarding_store import write_forwarding_store
from page import next_digit
from synthetic_store import Recipe, write_store

from vtare.report.content import content_of
from vtare.report.plain import markdown
from vtare.summary import summarise
from vtare.summary.between import compare_stores

SCRIPT = Path(__file__).parent / "independent_inference.py"


def checked(first: Path | str, page: Path) -> tuple[int, dict[str, int], list[str]]:
    """The exit code of the script, how many figures of each kind it compared, and those that differ."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(first), str(page)], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    counts = {kind: int(n) for kind, n in re.findall(r"^(.*): (\d+) figures$", done.stdout, re.MULTILINE)}
    wrong = [line for line in done.stdout.splitlines() if not re.search(r" figures$|^not recomputed: ", line)]
    return done.returncode, counts, wrong


@pytest.fixture(scope="module")
def stores(
    tmp_path_factory: pytest.TempPathFactory, routed_store: Path, two_host_store: Path
) -> dict[str, tuple[Path, str]]:
    """A store of each kind of report with its Markdown: timers, sleeps, counters and noise are one."""
    base = tmp_path_factory.mktemp("inferred")
    made = {
        "lab": write_store(base / "lab", Recipe(blocks=5, all_instruments=True)),
        "rtt": two_host_store,
        "avb": routed_store,
        "throughput": write_forwarding_store(base / "forwarding"),
    }
    return {kind: (store, markdown(content_of(summarise(store), figures=False))) for kind, store in made.items()}


def test_the_script_imports_nothing_of_vtare() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in names if name.split(".")[0] == "vtare"}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (
            "lab",
            {
                "comparisons": 200,
                "tails": 100,
                "exceedances": 50,
                "main": 100,
                "tail costs": 20,
                "sentences": 10,
                "cells": 50,
            },
        ),
        ("rtt", {"comparisons": 10, "tails": 10, "main": 8, "sentences": 5, "cells": 8}),
        ("avb", {"comparisons": 8, "main": 8, "sentences": 5, "cells": 40}),
        ("throughput", {"comparisons": 7, "main": 12, "sentences": 13, "cells": 18}),
    ],
)
def test_every_figure_follows_from_the_readings(
    stores: dict[str, tuple[Path, str]], tmp_path: Path, kind: str, wanted: dict[str, int]
) -> None:
    store, text = stores[kind]
    page = tmp_path / "report.md"
    page.write_text(text, encoding="utf-8")
    code, counts, wrong = checked(store, page)
    assert (code, wrong) == (0, [])
    assert {name: counts.get(name, 0) >= least for name, least in wanted.items()} == dict.fromkeys(wanted, True), counts


@pytest.mark.parametrize(
    ("kind", "where", "pattern"),
    [
        ("comparisons", "lab", r"^\| sleeps \| usleep \| load: cpu against idle \| miss \| (\d)"),
        ("comparisons", "lab", r"^\| counters \| argument 4 \| load: cpu against idle \| CV \| \S+ \((\d)"),
        ("tails", "lab", r"^\| usleep \| load: cpu against idle \| p99 \| (\d)"),
        ("exceedances", "lab", r"^\| cpu \| 1.ms \| adaptive \| [^|]*\| [^|]*\| [^|]*\| [^|]*\| (\d)"),
        ("main", "lab", r"^\| sleeps \| miss \| load cpu: [^|]*\| [^|]*\| (\d)"),
        ("tail costs", "lab", r"^\| timers \| tail \| mean reading \| rdtsc \| [^|]*\| (\d)"),
        ("sentences", "throughput", r"The guests pass from (\d)"),
        ("sentences", "throughput", r"The guests pass from \S+ \S+ \((\d)"),
        ("cells", "avb", r"^\| 0.Mbit/s \| os \| vtare \| (\d)"),
        ("sentences", "rtt", r"^A round trip takes (\d)"),
    ],
)
def test_a_figure_that_is_changed_in_the_report_is_found(
    stores: dict[str, tuple[Path, str]], tmp_path: Path, kind: str, where: str, pattern: str
) -> None:
    store, text = stores[where]
    page = tmp_path / "report.md"
    page.write_text(next_digit(pattern)(text), encoding="utf-8")
    code, _, wrong = checked(store, page)
    assert code == 1
    assert all(line.startswith(f"{kind}: ") for line in wrong), wrong


def test_a_comparison_of_campaigns_follows_from_their_stores(tmp_path: Path) -> None:
    scales = (1.0, 1.06, 0.95, 1.4, 1.5, 1.38)
    stores = [
        write_campaign(tmp_path / str(at), Truth(blocks=4, samples=320, scale=scale), at)
        for at, scale in enumerate(scales)
    ]
    for before, after in ((stores[:3], stores[3:]), (stores[:1], stores[3:4])):
        page = tmp_path / "compare.json"
        document = compare_stores(before, after).document()
        page.write_text(json.dumps(document), encoding="utf-8")
        code, counts, wrong = checked("--compare", page)
        assert (code, wrong) == (0, [])
        assert counts["medians"] + counts["tails"] >= 10
    document["cells"][0]["ratio"] *= 1.001
    page.write_text(json.dumps(document), encoding="utf-8")
    assert checked("--compare", page)[0] == 1
