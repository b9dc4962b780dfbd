"""Real faults on campaigns over fleets of this machine: VTARE_FAULTS of them (1; `make test-faults FAULTS=100`).

They are drawn by VTARE_FAULT_SEED. One shows that it works; bench/fleet makes 100 and prints what they cost.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fleet_faults import FLEETS, inject

from vtare.platforms.binary import not_static

pytestmark = [pytest.mark.e2e, pytest.mark.fault]

FAULTS = int(os.environ.get("VTARE_FAULTS", "1"))
SEED = int(os.environ.get("VTARE_FAULT_SEED", "20261126"))


@pytest.mark.parametrize("name", FLEETS)
def test_faults_lose_no_run_and_leave_nothing(name: str, vtare: Path, tmp_path: Path) -> None:
    share, make = FLEETS[name]
    if (reason := not_static(vtare)) is not None:
        pytest.skip(reason)
    number = max(round(FAULTS * share), int(name == "namespaces"))
    if number == 0:
        pytest.skip("VTARE_FAULTS is too low for this fleet; make test-faults FAULTS=10")
    with make(tmp_path) as fleet:
        found = inject(fleet, tmp_path, vtare, number, SEED)
    assert found.wrong == []
    assert (found.done, found.faults.total()) == (found.runs, number)
