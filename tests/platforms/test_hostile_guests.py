"""A hostile micro guest, booted for real: each of its answers costs its run with a clear reason, and nothing else.

Its first process (`tests/hostile/guest.c`) plays the agent up to its attack.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from machines import PATIENCE_S

from vtare.campaign.executor import Campaign
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.errors import MachineCannot
from vtare.plan.files import load_plan
from vtare.platforms import qemu
from vtare.platforms.guest import disk, qemu_machine
from vtare.platforms.guest import request as request_module
from vtare.platforms.guest.image import image_for
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.owner import own_prefix

pytestmark = [pytest.mark.attack, pytest.mark.e2e, pytest.mark.platform]

SOURCE = Path(__file__).parents[1] / "hostile" / "guest.c"
#: The attacks of guest.c in their order, and a part of the reason that the journal then holds.
ATTACKS = {
    "OTHER_FILE": "damaged, or not written by vtare (not a Parquet file",
    "ENDLESS_FILE": "are the most that this run can produce",
    "ENDLESS_OUTPUT": "more than 16777216 B on stdout of a program",
    "NOISE": "B that nobody asked for, 4194304 B are allowed",
    "SILENCE": "3 B of a file came within",
    "BOMB": "1000000000 rows, 10 are the most that this run can produce",
    "DEEP_HELLO": "nested too deep",
    "EXIT_CODE": "not a number from 0 to 255",
    "CONSOLE": "damaged, or not written by vtare (not a Parquet file",
    "UNASKED": "B that nobody asked for, 4194304 B are allowed",
}
PLAN = f"""
schema = "vtare.plan/1"
name = "hostile"
question = "Does a hostile guest cost its run only?"
blocks = {len(ATTACKS)}
settle = "1 ms"

[platforms.qemu]
manager = "qemu"
kernel = "cloud"

[[experiment]]
name = "sleeps"
instrument = "sleep"
parameters = {{ samples = 10, target_ns = ["1 us"], method = ["spin"] }}

[experiment.factors]
platform = ["host", "qemu"]
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The first process of a guest for each attack."""
    place = tmp_path_factory.mktemp("hostile")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing: it builds the hostile guest")
    names = ("method", "target_ns", "index", "miss_ns", "spin_ns", "disturbed")
    pl.DataFrame({name: [0] for name in names}).write_parquet(place / "small", metadata={"vtare": "{}"})
    content = bomb_of((place / "small").read_bytes())
    (place / "bomb.h").write_text(f"static const unsigned char bomb[] = {{{','.join(map(str, content))}}};\n")
    for name in ATTACKS:
        words = ["gcc", "-O1", "-static", f"-DATTACK={name}", "-I", str(place), "-o", str(place / name), str(SOURCE)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        if done.returncode != 0 and "-lc" in done.stderr:
            pytest.skip("the static C library is missing (Debian: libc6-dev)")
        assert done.returncode == 0, done.stderr
    return {name: place / name for name in ATTACKS}


def bomb_of(small: bytes) -> bytes:
    """A file whose metadata declare a thousand million rows."""
    length = int.from_bytes(small[-8:-4], "little")
    metadata = small[-8 - length : -8]
    # Field 3 (a number of 64 bits) with the value 1, and behind it the list of row groups.
    at = metadata.index(b"\x16\x02\x19\x1c")
    rows, number = bytearray(), 2 * 10**9
    while number > 127:
        rows.append(number & 127 | 128)
        number >>= 7
    changed = metadata[: at + 1] + bytes([*rows, number]) + metadata[at + 2 :]
    return small[: -8 - length] + changed + len(changed).to_bytes(4, "little") + b"PAR1"


@pytest.mark.alone
def test_a_hostile_guest_costs_its_run_and_the_campaign_goes_on(
    vtare: Path, hostile: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_kernel("cloud")
    except MachineCannot as error:
        pytest.skip(str(error))
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = load_plan(tmp_path / "plan.toml")
    # Before images are hostile: it may boot a guest to try KVM.
    if (missing := qemu.QemuPlatform(vtare, own_prefix(), {"manager": "qemu"}).missing()) is not None:
        pytest.skip(missing)
    left = list(ATTACKS)

    def image_of_the_next(kernel: Any, _: Path, nic: str | None, **how: Any) -> Path:
        return image_for(kernel, hostile[left.pop(0)], nic, **how)

    monkeypatch.setattr(qemu, "image_for", image_of_the_next)
    monkeypatch.setattr(request_module, "ANSWER_S", 5.0)
    monkeypatch.setattr(qemu_machine, "MOST_CONSOLE_BYTE", 1 << 16)
    # One limit holds for all files of QEMU: of a guest with a disk the console may become as long as that.
    monkeypatch.setattr(disk, "DEFAULT_BYTE", 0)
    consoles: list[int] = []
    end = qemu_machine.QemuMachine.end

    def end_and_measure(machine: qemu_machine.QemuMachine) -> None:
        consoles.extend(path.stat().st_size for path in [machine.spec.console] if path.exists())
        end(machine)

    monkeypatch.setattr(qemu_machine.QemuMachine, "end", end_and_measure)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with StopRequest() as stop, Store.create(tmp_path / "store", plan, 3) as store:
        result = Campaign(store, vtare, stop).run()
        entries = store.journal.entries()
        failed = [entries[run.run_id] for run in store.runs if run.factors["platform"] == "qemu"]
    reasons = [f"{entry.reason}; {entry.log_tail}" for entry in failed]
    for (name, reason), found in zip(ATTACKS.items(), reasons, strict=True):
        assert reason in found, (name, found)
    assert (result.done, result.failed, left) == (len(ATTACKS), len(ATTACKS), [])
    assert max(consoles) == 1 << 16
    # Nothing but the runs on the host is kept, and nothing lies beside the store.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml", "store"]
    assert len(list((tmp_path / "store/runs").iterdir())) == len(ATTACKS)
    assert not any("evil" in path.name for path in tmp_path.rglob("*"))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 256 << 10, f"the lab grew by {grown_kib} KiB"
    assert not [one for one in qemu.leftovers() if one.name.startswith(own_prefix())]
