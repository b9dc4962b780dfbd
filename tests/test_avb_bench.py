"""The proving ground of bench/avb: programs as methods, and simulated paths as data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def program() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    words = ["cargo", "build", "--quiet", "--locked", "--manifest-path", "bench/Cargo.toml", "-p", "bench-avb"]
    subprocess.run([*words, "--target-dir", str(target)], cwd=ROOT, check=True)
    return target / "debug" / "bench-avb"


def rows(program: Path, method: str, paths: int) -> list[list[str]]:
    words = [str(program), "--random", str(paths), "--mixed", "--first-seed", "7", "--methods", method]
    done = subprocess.run(words, cwd=ROOT / "bench", capture_output=True, text=True, check=True, timeout=120)
    return [line.split() for line in done.stdout.splitlines() if "program:" in line]


def test_a_program_of_fifty_lines_is_a_method_and_answers_on_every_path(program: Path) -> None:
    assert len((ROOT / "bench/avb/example").read_text("utf-8").splitlines()) <= 50
    (whole,) = (row for row in rows(program, f"program:{ROOT}/bench/avb/example", 8) if row[0] == "all")
    paths, none = whole[2:4]
    assert (paths, none) == ("8", "0")
    assert 0 < float(whole[5]) < 200, "a median error in percent"


@pytest.mark.parametrize("text", ["pass", "print('not JSON')", "print('{\"send\": 1}')", "print('{\"wait_ns\": 1e9}')"])
def test_a_program_that_does_not_keep_to_the_lines_has_no_answer_and_stops_nothing(
    program: Path, tmp_path: Path, text: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_text(f"#!{sys.executable}\n{text}\n", encoding="utf-8")
    bad.chmod(0o755)
    (whole,) = (row for row in rows(program, f"program:{bad}", 4) if row[0] == "all")
    assert whole[2:4] == ["4", "4"]


def test_the_data_hold_every_packet_and_the_true_values_are_capacity_less_cross_traffic(
    program: Path, tmp_path: Path
) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec {program} "$@"\n', encoding="utf-8")
    cargo.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    data = tmp_path / "data"
    words = [sys.executable, str(ROOT / "bench/avb/dataset"), str(data), "--paths", "24", "--methods", "pathchirp"]
    subprocess.run(words, env=environment, check=True, timeout=300)
    again = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (again.returncode, "exists: name a new directory" in again.stderr) == (2, True)
    paths, truth, packets = (pl.read_parquet(data / f"{name}.parquet") for name in ("paths", "truth", "packets"))
    assert paths.height == 24
    assert set(truth["path"]) == set(packets["path"]) == set(paths["path"])
    steps = truth.group_by("path").agg(pl.col("at_ns").sort().diff().drop_nulls().unique().alias("step"))
    assert set(steps["step"].explode()) == {10_000_000}
    arrived = packets.drop_nulls("received_ns")
    assert arrived.height > packets.height / 2
    assert (packets["sent_ns"] > 0).all()
    judged = 0
    for path, description in paths.select("path", "description").iter_rows():
        hops = json.loads(description)["hops"]
        kinds = [cross["traffic"] for hop in hops for cross in hop["cross"]]
        if len(hops) != 1 or [kind["kind"] for kind in kinds] != ["constant"]:
            continue
        expected = hops[0]["capacity_bit_per_s"] - kinds[0]["rate_bit_per_s"]
        mean = truth.filter(pl.col("path") == path)["available_bit_per_s"].mean()
        assert mean == pytest.approx(expected, rel=0.02)
        judged += 1
    assert judged > 0, "no path has constant traffic over one link: draw others"
