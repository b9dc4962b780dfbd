"""Fixtures of the report's tests: synthetic stores, their summaries and reports, each made once."""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

# The tests are imported by path (importlib mode), so a module beside them is found only with its directory named.
sys.path.insert(0, str(Path(__file__).parent))

from synthetic_store import Recipe, write_store

from vtare.report.build import render
from vtare.report.content import Content, content_of
from vtare.summary import Summary, summarise


class Reported:
    """A store with its summary and report, each made once by the first of all workers that asks for it.

    Drawing takes most of the time: who needs only the summary does not wait for it.
    """

    def __init__(self, place: Path, recipe: Recipe) -> None:
        self.store = place / "store"
        self._place = place
        self.summary: Summary = self._once("summary", lambda: summarise(write_store(self.store, recipe)))

    @cached_property
    def content(self) -> Content:
        """The report with all its figures."""
        made: Content = self._once("content", lambda: content_of(self.summary))
        return made

    @cached_property
    def html(self) -> str:
        """The report's page."""
        made: str = self._once("html", lambda: render(self.content))
        return made

    def _once(self, name: str, make: Callable[[], object]) -> Any:
        kept = self._place / name
        with (self._place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                # Where this is ended half-way, the next one makes it again.
                half = kept.with_suffix(".half")
                half.write_bytes(pickle.dumps(make()))
                half.rename(kept)
            return pickle.loads(kept.read_bytes())


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Recipe], Reported]:
    """Make the report of a recipe, once for all workers of these tests together."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base

    def make(recipe: Recipe) -> Reported:
        place = shared / f"reported-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]}"
        place.mkdir(exist_ok=True)
        return Reported(place, recipe)

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
