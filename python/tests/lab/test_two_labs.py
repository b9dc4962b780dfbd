"""Two labs at once: on one store only one works, beside each other both do, and neither takes the other's things."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.verify import verify
from vtare.plan.model import Plan

pytestmark = [pytest.mark.attack, pytest.mark.fault]

LABS = 4


def started(place: Path, *words: object) -> subprocess.Popen[str]:
    """A lab as a process of its own."""
    command = [sys.executable, "-m", "vtare.start", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    return subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_of_labs_that_begin_or_resume_one_store_at_once_one_measures(
    tmp_path: Path, tiny_plan: Plan, fake: Any
) -> None:
    (tmp_path / "plan.toml").write_text(tiny_plan.text)
    store = tmp_path / "store"
    words: tuple[object, ...] = ("run", "plan.toml", "--store", store, "--seed", 7, "--binary", fake.path)
    for _ in range(2):
        labs = [started(tmp_path, *words) for _ in range(LABS)]
        ended = [(lab.communicate(timeout=300)[1], lab.returncode) for lab in labs]
        assert [code for _, code in ended if code not in (0, 2)] == [], ended
        assert any(code == 0 for _, code in ended), ended
        # Those that came too late name the store, or its holder.
        assert all(str(store) in errors for errors, code in ended if code == 2), ended
        found = verify(store)
        assert found.sound, found
        words = ("resume", store, "--binary", fake.path)
    assert not list(tmp_path.glob(".*store*"))


def test_labs_beside_each_other_finish_what_each_began(tmp_path: Path, tiny_plan: Plan, fake: Any) -> None:
    (tmp_path / "plan.toml").write_text(tiny_plan.text)
    stores = [tmp_path / f"store-{number}" for number in range(LABS)]
    labs = [started(tmp_path, "run", "plan.toml", "--store", store, "--binary", fake.path) for store in stores]
    ended = [(lab.communicate(timeout=300)[1], lab.returncode) for lab in labs]
    assert [code for _, code in ended] == [0] * LABS, ended
    assert all(verify(store).sound for store in stores)
