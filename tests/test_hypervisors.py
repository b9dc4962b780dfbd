"""Real KVM on a machine without it: an outer guest, emulated, whose CPU offers AMD-V, and in it the `qemu` adapter.

The outer guest boots the distribution's kernel, mounts this machine's root read-only over 9p, and runs the adapter
there as on any host: guests under KVM with two models of network card measure timer, sleep and round trips. Nothing
here is fast, and no figure is judged beyond its sanity; `make test-hypervisors` takes 3 to 10 minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtare.errors import MachineCannot
from vtare.platforms.guest import cpio
from vtare.platforms.guest.image import image_for, is_dynamic
from vtare.platforms.guest.kernel import Kernel, find_kernel, flavour_for
from vtare.platforms.guest.modules import Modules
from vtare.platforms.guest.qemu_command import PROGRAM

pytestmark = [pytest.mark.e2e, pytest.mark.platform, pytest.mark.hypervisors]

HERE = Path(__file__).resolve().parent / "hypervisors"
#: What the outer guest needs: its root over 9p, KVM for its guests, and what networks between them are made of.
DRIVERS = ("virtio_pci", "9pnet_virtio", "9p", "kvm_amd", "tun", "bridge", "veth")
NICS = ("virtio", "e1000")
TIME_LIMIT_S = 3000


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    """Kernels of both flavours, or a skip with the reason."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"the program '{PROGRAM}' is missing (Debian: qemu-system-x86)")
    if os.geteuid() != 0:
        pytest.skip("the outer guest reads this machine's root as root: run it with sudo")
    try:
        return {flavour: find_kernel(flavour) for flavour in ("cloud", "generic")}
    except MachineCannot as error:
        pytest.skip(str(error))


def outer_image(kernel: Kernel) -> bytes:
    busybox = Path(shutil.which("busybox") or "/nowhere")
    if not busybox.is_file() or is_dynamic(busybox.read_bytes()):
        pytest.skip("a static busybox is missing (Debian: busybox-static)")
    modules = Modules(kernel.modules).ordered(DRIVERS)
    places = [f"modules/{name}.ko" for name, _ in modules]
    return cpio.archive(
        [
            *(cpio.directory(name) for name in ("bin", "dev", "proc", "sys", "host", "modules")),
            cpio.device("dev/console", 5, 1),
            cpio.file("bin/busybox", busybox.read_bytes(), executable=True),
            cpio.file("init", (HERE / "outer_init.sh").read_bytes(), executable=True),
            *(cpio.file(place, content) for place, (_, content) in zip(places, modules, strict=True)),
            cpio.file("modules/order", "".join(f"/{place}\n" for place in places).encode()),
        ]
    )


def test_guests_under_real_kvm_measure_timer_sleep_and_round_trips(
    vtare: Path, tmp_path: Path, kernels: dict[str, Kernel]
) -> None:
    job = tmp_path / "job"
    # Kernels and images that this machine has, where the adapter in the outer guest looks for them.
    images = job / "cache/vtare/images"
    images.mkdir(parents=True)
    for flavour, kernel in kernels.items():
        place = job / "cache/vtare/kernels" / flavour
        place.mkdir(parents=True)
        (place / "kept").symlink_to(kernel.modules.parents[2])
    for nic in NICS:
        try:
            shutil.copy(image_for(kernels[flavour_for(nic)], vtare, nic), images)
        except MachineCannot as error:
            pytest.skip(str(error))
    words = [sys.executable, str(HERE / "inner_job.py"), str(vtare.resolve()), *NICS]
    paths = os.pathsep.join(path for path in sys.path if path)
    # All but /run is read-only in there.
    (job / "job.sh").write_text(
        "export HOME=/run/tmp TMPDIR=/run/tmp XDG_CACHE_HOME=/run/job/cache PYTHONDONTWRITEBYTECODE=1\n"
        f"export PATH={os.environ['PATH']}:/usr/sbin:/sbin PYTHONPATH={paths}\n"
        f"{' '.join(words)} >/run/job/told\n"
    )
    (tmp_path / "image").write_bytes(outer_image(kernels["generic"]))
    command = [
        *(PROGRAM, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernels["generic"].image), "-initrd", str(tmp_path / "image")),
        *("-append", "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check"),
        *("-serial", f"file:{tmp_path / 'console'}"),
        *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        *("-virtfs", f"local,path={job},mount_tag=job,security_model=none"),
    ]
    subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    texts = [path.read_text(errors="replace") if path.is_file() else "" for path in (job / "told", job / "log")]
    said = "\n".join([*texts, (tmp_path / "console").read_text(errors="replace")[-2000:]])
    told = [json.loads(line) for line in texts[0].splitlines()]
    for nic in NICS:
        check(nic, told, said)


def check(nic: str, told: list[dict[str, Any]], said: str) -> None:
    """What the job told of one model of card. Figures are judged by their sanity alone."""
    begin = next((at for at, line in enumerate(told) if line.get("nic") == nic), None)
    assert begin is not None, said
    assert told[begin]["missing"] is None, said
    of_nic = told[begin : begin + 6]
    assert of_nic[-1].get("destroyed") is True, said
    guest = of_nic[1]["facts"]["guest"]
    assert (guest["accelerator"], guest["nic"], guest["clock_source"]) == ("kvm", nic, "kvm-clock")
    runs = {line["instrument"]: line for line in of_nic[2:5]}
    for instrument, line in runs.items():
        assert line["code"] == 0, (instrument, line["log"])
        assert line["samples_byte"] > 0
        assert line["document"]["machine"]["hypervisor"] == "kvm"
    (cell,) = runs["rtt"]["document"]["cells"]
    assert cell["received"] > 0
    assert cell["sent"] == cell["received"] + cell["lost"]
    assert cell["rtt_ns"]["min"] > 0
