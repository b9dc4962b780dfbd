"""Campaigns in guests under real hypervisors, kept in bench/plans: their stores are read, and their pages agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from vtare.report.write import write_summary
from vtare.summary import summarise

PLANS = Path(__file__).resolve().parents[3] / "bench/plans"
EXPERIMENTS = {"timers", "sleeps", "counter", "round-trips", "bandwidth", "forwarding"}
#: What each machine states of its guests.
ACCELERATORS = {"kvm": "kvm", "xen": "xen"}
HEAD = """# The papers' experiments in guests under nested {title}

<!-- Made of nested-{name}.tar.xz by VTARE_BLESS=1 pytest python/tests/report/test_hypervisor_stores.py -->

Guests under a real hypervisor in a machine that QEMU emulates (TCG): which levels work, and which way results go, are
real; times are those of the emulation. Every level was measured once, so nothing is compared with certainty. Made
beside other work by `VTARE_HYPERVISOR_PLAN=papers VTARE_HYPERVISOR_STORE=DIR make test-hypervisors-{name}`. With
hardware, `vtare run` of the papers' own plans does the same.

"""


@pytest.fixture(params=sorted(ACCELERATORS))
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A hypervisor and its store."""
    shutil.unpack_archive(PLANS / f"nested-{request.param}.tar.xz", tmp_path)
    return request.param, tmp_path / "store"


def test_the_store_has_all_experiments_of_the_papers_on_both_sides(kept: tuple[str, Path]) -> None:
    name, store = kept
    guests = [json.loads(path.read_text()).get("guest") for path in store.glob("runs/*/platform.json")]
    assert {guest["accelerator"] for guest in guests if guest is not None} == {ACCELERATORS[name]}
    summary = summarise(store)
    # Xen's host kept time by tsc in some runs: those are not pooled with the others.
    assert len(summary.sample_set.problems) == (4 if name == "xen" else 0)
    sides = {(cell["experiment"], cell["platform"]) for cell in summary.cells.rows(named=True)}
    counts = {experiment: sum(of == experiment for of, _ in sides) for experiment, _ in sides}
    assert counts == dict.fromkeys(EXPERIMENTS, 2)
    # Besides those, both estimates in the guest failed: the program that compares clocks did not answer.
    assert summary.failed.height == (6 if name == "xen" else 0)


def wrapped(line: str) -> str:
    """A line of prose within 120 columns."""
    indent = "  " if line.startswith("- ") else ""
    if line.startswith(("|", "#")):
        return line
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def test_the_page_is_that_of_the_store(kept: tuple[str, Path]) -> None:
    name, store = kept
    text = write_summary(summarise(store), "report.md", form="md").read_text()
    # Behind the title and the line of the campaign.
    answer = text.partition("\n## What differs from what?")[0].split("\n\n", 2)[2]
    cells = re.findall(r"^### .*: all cells\n(?:(?!#).*\n)*", text, flags=re.MULTILINE)
    assert len(cells) == len(EXPERIMENTS)
    title = {"kvm": "KVM", "xen": "Xen"}[name]
    page = HEAD.format(name=name, title=title) + "\n".join([answer.strip(), "", *cells]).rstrip() + "\n"
    page = re.sub(r"\n{3,}", "\n\n", "\n".join(map(wrapped, page.split("\n"))))
    written = PLANS / f"RESULTS-nested-{name}.md"
    if os.environ.get("VTARE_BLESS"):
        written.write_text(page)
    assert written.read_text() == page
