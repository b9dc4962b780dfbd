"""The benchmarks start: what they import is there, and their options are described."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_benchmarks_are_found() -> None:
    assert {"bench/table", "bench/rtt/run", "bench/avb/real"} <= {str(path.relative_to(ROOT)) for path in scripts()}
