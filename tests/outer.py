"""The outer machine of the tests under real hypervisors: emulated, with this machine's root read-only over 9p."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.journal import Journal
from vtare.contract import check_samples_file
from vtare.errors import MachineCannot
from vtare.platforms.guest import cpio
from vtare.platforms.guest.image import image_for, is_dynamic
from vtare.platforms.guest.kernel import Kernel, find_kernel
from vtare.platforms.guest.modules import VIRTIO_DISK, XEN_DISK, Modules
from vtare.platforms.guest.qemu_command import PROGRAM
from vtare.platforms.intake import OUTPUT_LOST
from vtare.summary import summarise

HERE = Path(__file__).resolve().parent / "hypervisors"
#: Its root over 9p, and what networks between its guests are made of.
DRIVERS = ("virtio_pci", "9pnet_virtio", "9p", "tun", "bridge", "veth", "sch_tbf")
#: What is shown of each cell of the campaign.
SHOWN = (
    *("experiment", "platform", "source", "nic", "load", "quantity", "n", "median", "overhead_ns", "lost", "estimates"),
    *("unanswered", "truth_bit_per_s", "error_percent", "throughput_bit_per_s", "latency_ns"),
)
#: The plan of the campaign, `plan` or `papers`, and where its store is kept (docs/internals/guests.md).
PLAN = os.environ.get("VTARE_HYPERVISOR_PLAN", "plan")
KEPT = os.environ.get("VTARE_HYPERVISOR_STORE")
#: 2 to 5 minutes on two busy cores; the papers' plan takes more than half an hour there.
TIME_LIMIT_S = 900 if PLAN == "plan" else 5400


@dataclass(frozen=True)
class JobOutput:
    """The lines that the job printed, and all other output, for whoever looks at a failure.

    `campaign` is what it printed of its campaign, `store` where that left its runs.
    """

    lines: list[dict[str, Any]]
    text: str
    campaign: dict[str, Any]
    store: Path

    @property
    def damaged(self) -> bool:
        """Whether output of a program in a guest came otherwise than it was written."""
        return any(line.get("code") == OUTPUT_LOST for line in self.lines)

    def of(self, nic: str) -> list[dict[str, Any]]:
        """The lines on a guest with one model of card: what is missing, facts, runs, and that it was destroyed."""
        begin = next((at for at, line in enumerate(self.lines) if line.get("nic") == nic), None)
        assert begin is not None, self.text
        assert self.lines[begin]["missing"] is None, self.text
        ends = (at for at, line in enumerate(self.lines) if at > begin and line.get("destroyed"))
        end = next(ends, None)
        assert end is not None, self.text
        of_nic = self.lines[begin : end + 1]
        assert len(of_nic) == 7, self.text
        return of_nic


def skip_unless_bootable() -> None:
    """Skip the test where no outer machine can be booted, with the reason."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"the program '{PROGRAM}' is missing (Debian: qemu-system-x86)")
    if os.geteuid() != 0:
        pytest.skip("the outer machine reads this machine's root as root: run it with sudo")


def kernels() -> dict[str, Kernel]:
    """Kernels of both flavours, or a skip with the reason."""
    skip_unless_bootable()
    try:
        return {flavour: find_kernel(flavour) for flavour in ("cloud", "generic")}
    except MachineCannot as error:
        pytest.skip(str(error))


def image(kernel: Kernel, drivers: Sequence[str]) -> bytes:
    """The initramfs of the outer machine, with the drivers of its hypervisor beside its own."""
    busybox = Path(shutil.which("busybox") or "/nowhere")
    if not busybox.is_file() or is_dynamic(busybox.read_bytes()):
        pytest.skip("a static busybox is missing (Debian: busybox-static)")
    modules = Modules(kernel.modules).ordered((*DRIVERS, *drivers))
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


def prepare_job(
    job: Path,
    vtare: Path,
    kernels: dict[str, Kernel],
    guests: Sequence[tuple[str, str, Sequence[str]]],
    *,
    platform: str,
    before: str = "",
    plan: str | None = None,
) -> None:
    """Lay out the directory of the job: what the adapter in there finds in its cache, and what is run.

    `guests` are kernels' flavours, models of card and drivers of the control channel; `before` is shell that is run
    first; `plan` is the text of a plan that is run as a campaign afterwards, its store left in the job's directory.
    """
    images = job / "cache/vtare/images"
    images.mkdir(parents=True)
    for flavour, kernel in kernels.items():
        place = job / "cache/vtare/kernels" / flavour
        place.mkdir(parents=True)
        (place / "kept").symlink_to(kernel.modules.parents[2])
    driver = XEN_DISK if platform == "xen" else VIRTIO_DISK
    for flavour, nic, channel in guests:
        try:
            # With a card and a disk; without a card; and without a disk, which guests that forward lack.
            for card, disk in ((nic, driver), (None, driver), (nic, None)):
                shutil.copy(image_for(kernels[flavour], vtare, card, channel, disk=disk), images)
        except MachineCannot as error:
            pytest.skip(str(error))
    nics = [nic for _, nic, _ in guests]
    words = [sys.executable, str(HERE / "inner_job.py"), str(vtare.resolve()), platform, *nics]
    campaign = ""
    if plan is not None:
        (job / "plan.toml").write_text(plan)
        inner = [sys.executable, str(HERE / "inner_campaign.py"), str(vtare.resolve())]
        campaign = shlex.join([*inner, "/run/job/plan.toml", "/run/job/store"]) + " >/run/job/campaign\n"
    paths = os.pathsep.join(path for path in sys.path if path)
    # All but /run is read-only in there.
    (job / "job.sh").write_text(
        "export HOME=/run/tmp TMPDIR=/run/tmp XDG_CACHE_HOME=/run/job/cache PYTHONDONTWRITEBYTECODE=1\n"
        f"export PATH={shlex.quote(os.environ['PATH'])}:/usr/sbin:/sbin PYTHONPATH={shlex.quote(paths)}\n"
        f"{before}{shlex.join(words)} >/run/job/output\n{campaign}"
    )


def boot(machine: Sequence[str], job: Path) -> JobOutput:
    """Boot the outer machine, wait for its end, and give the output of its job."""
    console = job.parent / "console"
    command = [
        *(PROGRAM, *machine, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-serial", f"file:{console}"),
        *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        *("-virtfs", f"local,path={job},mount_tag=job,security_model=none"),
    ]
    try:
        errors = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False).stderr
    except subprocess.TimeoutExpired:
        errors = f"the outer machine did not end within {TIME_LIMIT_S} s"
    texts = [path.read_text(errors="replace") if path.is_file() else "" for path in (job / "output", job / "log")]
    last = console.read_text(errors="replace")[-2000:] if console.is_file() else ""
    # One that was killed may have left half a line.
    lines = [json.loads(line) for line in texts[0].splitlines(keepends=True) if line.endswith("\n")]
    report = job / "campaign"
    text = report.read_text() if report.is_file() else ""
    campaign = json.loads(text) if text.endswith("\n") else {}
    return JobOutput(lines, "\n".join([*texts, errors, last]), campaign, job / "store")


def check_runs(lines: list[dict[str, Any]], hypervisor: str) -> None:
    """Timer, sleep and round trips were measured in a guest. Figures are judged by their sanity alone."""
    runs = {line["instrument"]: line for line in lines if "instrument" in line}
    assert list(runs) == ["timer", "sleep", "rtt"]
    for instrument, line in runs.items():
        assert line["code"] == 0, (instrument, line["log"])
        assert line["samples_byte"] > 0
        assert line["document"]["machine"]["hypervisor"] == hypervisor
    (cell,) = runs["rtt"]["document"]["cells"]
    assert cell["received"] > 0
    assert cell["sent"] == cell["received"] + cell["lost"]
    assert cell["rtt_ns"]["min"] > 0
    # Each probe and each reply passed the host's end of the guest's card.
    capture = lines[5]
    assert (capture["code"], capture["interface"]) == (0, "port0"), capture["log"]
    assert sum(seen["packets"] for seen in capture["document"]["cells"]) >= cell["sent"] + cell["received"]


def plan(platform: str, nics: Sequence[str], settings: str = "") -> str:
    """The text of the campaign's plan for this hypervisor."""
    text = (HERE / f"{PLAN}.toml").read_text()
    cards = json.dumps(list(nics))
    for word, value in (("PLATFORM", platform), ("NICS", cards), ("BASE", json.dumps(nics[0])), ("SETTINGS", settings)):
        text = text.replace(word, value)
    return text


def check_all_done(output: JobOutput) -> None:
    """Every run of the campaign is done."""
    assert output.campaign, output.text
    with Journal(output.store / "journal.sqlite", read_only=True) as journal:
        entries = journal.entries()
    failed = {name: entry for name, entry in entries.items() if entry.status != "done"}
    logs = [path.read_text()[-2000:] for path in output.store.glob("**/log")] if failed else []
    assert not failed, "\n".join([str(failed), *logs, output.text])


def check_campaign(output: JobOutput, accelerator: str, show: Callable[[str], None]) -> None:
    """Every run of the campaign is done, in guests under this hypervisor; print its tables."""
    if KEPT:
        shutil.copytree(output.store, KEPT)
    check_all_done(output)
    for path in output.store.glob("runs/*/platform.json"):
        guest = json.loads(path.read_text()).get("guest")
        assert guest is None or guest["accelerator"] == accelerator
    loads = [json.loads(path.read_text()) for path in output.store.glob("runs/*/load.json")]
    moved = [load["io"] for load in loads if load["kind"] == "io"]
    assert moved
    for io in moved:
        assert (io["file_system"]["type"], io["file_system"]["in_memory"]) == ("ext4", False)
        assert io["device"]["written_byte"] > 0
    summary = summarise(output.store)
    shown = [name for name in SHOWN if name in summary.cells.columns]
    cells = summary.cells.select(shown).rows(named=True)
    assert {cell["experiment"] for cell in cells} >= {"timers", "round-trips", "bandwidth", "forwarding"}
    # Estimates and searches may find no answer on a processor that is emulated: they are made, and counted.
    assert all(cell["estimates"] for cell in cells if cell["experiment"] == "bandwidth")
    # Most readings of a clock of whole microseconds are alike: their median difference is 0.
    assert all(cell["median"] is not None for cell in cells if cell["experiment"] in ("timers", "round-trips"))
    # Round trips fall into what the guest's program saw and what its card's end on the host did.
    guests = [cell for cell in cells if cell["experiment"] == "round-trips" and cell.get("platform") != "host"]
    assert all(cell["overhead_ns"] is not None for cell in guests)
    show(f"\n{accelerator}: {output.campaign}")
    for cell in cells:
        show(", ".join(f"{key} {value}" for key, value in cell.items() if value is not None))
    for path in output.store.glob("runs/*/samples.parquet"):
        run = json.loads((path.parent / "run.json").read_text())
        if run["instrument"] == "throughput":
            for cell in check_samples_file(path, run_id=run["run_id"], instrument="throughput")["result"]["cells"]:
                assert cell["sent"] == cell["received"] + cell["lost"]
                assert cell["received"] > 0
                show(f"forwarding: {cell['received']} of {cell['sent']} frames came; void: {cell['void_because']}")
        if run["instrument"] == "avb":
            footer = check_samples_file(path, run_id=run["run_id"], instrument="avb")
            ended = ", ".join(str(cell["stopped"]) for cell in footer["result"]["cells"])
            texts = "; ".join(note["text"] for note in footer.get("notes") or ())
            show(f"bandwidth: estimates ended: {ended}; notes: {texts or 'none'}")
