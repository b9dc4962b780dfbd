"""Fixtures of the report's tests: synthetic stores, their summaries and reports, each made once."""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

# The tests are imported by path (importlib mode), so a module beside them is found only with its directory named.
sys.path.insert(0, str(Path(__file__).parent))

from synthetic_store import Recipe, write_store

from vtare.report.build import render
from vtare.report.content import Content, content_of
from vtare.summary import Summary, summarise


@dataclass(frozen=True)
class Reported:
    """A store with its summary and report, whose figures were drawn once."""

    store: Path
    summary: Summary
    content: Content
    html: str


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Recipe], Reported]:
    """Make the report of a recipe; the fixtures below make each one once, for all workers of these tests together."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base

    def make(recipe: Recipe) -> Reported:
        place = shared / f"reported-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]}"
        place.mkdir(exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "made").exists():
                store = write_store(place / "store", recipe)
                summary = summarise(store)
                content = content_of(summary)
                (place / "made").write_bytes(pickle.dumps((store, summary, content, render(content))))
            return Reported(*pickle.loads((place / "made").read_bytes()))

    return make


@pytest.fixture(scope="session")
def five_runs(reported: Callable[[Recipe], Reported]) -> Reported:
    """Five complete blocks of timers and sleeps under three loads."""
    return reported(Recipe())


@pytest.fixture(scope="session")
def one_run(reported: Callable[[Recipe], Reported]) -> Reported:
    """A campaign cut short after one block, with failed and skipped runs, on a machine with hostile names."""
    hostile = {"cpu_model": "<script>alert(1)</script>", "hostname": '"><img src=x>'}
    return reported(Recipe(blocks=3, pending_from_block=2, fail=(("two_phase", 1),), skip_load="io", machine=hostile))


@pytest.fixture(scope="session")
def all_instruments(reported: Callable[[Recipe], Reported]) -> Reported:
    """All four instruments, sleeps with two targets, one method silent below the quantum."""
    return reported(Recipe(blocks=3, all_instruments=True, targets=("100 us", "1 ms"), frozen=("adaptive",)))
