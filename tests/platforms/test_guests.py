"""Micro guests for real: boot, measure, capture on the host side, and what a guest that dies or hangs costs.

Booted under KVM where that works, else emulated; nothing here depends on which, nor on how fast.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from machines import wait_until

from vtare.campaign.execute import RunOutcome, RunSettings, execute
from vtare.campaign.files import Files
from vtare.campaign.programs import CounterPrograms, room_for
from vtare.campaign.setup import RunSetup
from vtare.campaign.stop import StopRequest
from vtare.campaign.two_hosts import SIDES, Roles, TwoHostRun, capture_name
from vtare.contract import RUN_SCHEMA, check_samples_file
from vtare.design import Run
from vtare.errors import MachineCannot, PlatformFailed
from vtare.overhead.figures import figures_of
from vtare.overhead.files import read_capture, read_round_trips
from vtare.overhead.join import join
from vtare.platforms import network, open_platform, qemu
from vtare.platforms.guest import child as child_module
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.host import HostInstance
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Instance, Platform, Resources
from vtare.platforms.qemu import QemuInstance
from vtare.topology.instance_factors import IDLE, Load
from vtare.topology.links import TwoHosts

pytestmark = [pytest.mark.e2e, pytest.mark.platform]


def quiet(seconds: float = 600.0, load: Load = IDLE) -> RunSettings:
    return RunSettings(seed=1, load=load, settle_s=0.0, timeout_s=seconds)


def run_of(instrument: str, **parameters: Any) -> Run:
    return Run(0, 1, 1, "0123456789abcdef", "e", instrument, None, {}, parameters)


@pytest.fixture(scope="module", autouse=True)
def able() -> None:
    """Skip where guests cannot be booted, with the reason."""
    for flavour in ("cloud", "generic"):
        try:
            find_kernel(flavour)
        except MachineCannot as error:
            pytest.skip(str(error))


def platform_of(vtare: Path, resources: Resources, kernel: str = "cloud") -> Platform:
    platform = open_platform("qemu", binary=vtare, owner=own_prefix(), settings={"kernel": kernel, "manager": "qemu"})
    reason = platform.missing(resources)
    if reason is not None:
        pytest.skip(reason)
    return platform


@contextmanager
def one_guest(vtare: Path, resources: Resources) -> Iterator[QemuInstance]:
    platform = platform_of(vtare, resources)
    try:
        (instance,) = platform.start(1, None, resources)
        assert isinstance(instance, QemuInstance)
        yield instance
    finally:
        platform.stop()


def measure(
    instance: Instance, directory: Path, run: Run, settings: RunSettings, setup: RunSetup | None = None
) -> RunOutcome:
    directory.mkdir(exist_ok=True)
    made = RunSetup(instance, instance) if setup is None else setup
    with StopRequest() as stop:
        return execute(run, settings, directory, setup=made, files=Files(), stop=stop)


@contextmanager
def two_hosts() -> Iterator[TwoHosts]:
    reason = TwoHosts.missing()
    if reason is not None:
        pytest.skip(reason)
    try:
        with TwoHosts(own_prefix()) as hosts:
            yield hosts
    except network.NetworkRefused as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("nic", ["virtio", "vmxnet3", "e1000", "rtl8139"])
def test_round_trips_of_a_guest_fall_into_pieces_with_every_model_of_card(
    vtare: Path, tmp_path: Path, nic: str
) -> None:
    resources = Resources(nic=nic)
    guests = platform_of(vtare, resources, "generic")
    others = open_platform("netns", binary=vtare, owner=own_prefix())
    with two_hosts() as hosts:
        try:
            (sender,) = guests.start(1, hosts.sender, resources)
            (responder,) = others.start(1, hosts.responder)
            host_sides = {"sender": hosts.sender, "responder": hosts.responder}
            made = TwoHostRun(
                Roles(sender="qemu", responder="netns", capture="on"),
                {"sender": sender, "responder": responder},
                {side: HostInstance.at(vtare, site) for side, site in host_sides.items()},
                hosts,
            )
            run = run_of("rtt", rate_packet_per_s=100, seconds=1.0)
            outcome = measure(sender, tmp_path, run, quiet(), made)
        finally:
            guests.stop()
            others.stop()
    if outcome.status == "skipped":
        pytest.skip(str(outcome.reason))
    assert outcome.status == "done", outcome
    trips = read_round_trips(tmp_path / "samples.parquet")
    captures = {side: read_capture(tmp_path / capture_name(side)) for side in SIDES}
    found: Any = figures_of(
        join(trips.frame, trips.flows[0], sender=captures["sender"], responder=captures["responder"])
    )
    assert found["sent"] == found["received"] + found["late"] + sum(found["lost_at"].values())
    assert found["received"] > 0
    # The guest's clock is its own: pieces that are taken from two clocks are differences, and add up all the same.
    assert sum(piece["mean"] for piece in found["pieces"].values()) == pytest.approx(found["rtt_ns"]["mean"])
    assert found["pieces"]["wire_ns"]["min"] > 0
    topology = json.loads((tmp_path / "topology.json").read_text())
    told = topology["sender"]["guest"]
    assert (told["nic"], told["accelerator"]) in {(nic, "kvm"), (nic, "tcg")}
    assert (told["accelerator"] == "kvm") == (told["accelerator_reason"] is None)
    assert topology["sender"]["capture_interface"] == hosts.sender.port(0)
    # The namespace of the tests' own sshd stays for all of them.
    ours = {name for name in network.namespaces() if name.startswith(own_prefix())}
    assert ours <= {f"{own_prefix()}-ssh"}


@pytest.mark.parametrize("queue", ["fq", "etf"])
def test_packets_handed_over_together_leave_a_guest_one_by_one_at_the_times_that_they_carry(
    vtare: Path, tmp_path: Path, queue: str
) -> None:
    gap_ns = 5_000_000
    settings = {"kernel": "cloud", "queue": queue}
    guests = open_platform("qemu", binary=vtare, owner=own_prefix(), settings=settings)
    reason = guests.missing()
    if reason is not None:
        pytest.skip(reason)
    with two_hosts() as hosts, ExitStack() as stack:
        stack.callback(guests.stop)
        (sender,) = guests.start(1, hosts.sender)
        # An etf lets nothing pass that carries no time: no session could be opened through it, and nobody learns
        # the guest's hardware address.
        address = sender.address
        assert address is not None
        words = ("neigh", "replace", address, "lladdr", network.mac(address), "dev", hosts.sender.bridge)
        network.carry_out([network.Step(("ip", "-n", hosts.sender.namespace, *words))])
        run = run_of(
            "rtt", peer=[hosts.sender.address], mode="icmp", pacing="txtime", gap_ns=gap_ns, packets=100, seconds=None
        )
        tap = tmp_path / "tap.parquet"
        log = tmp_path / "tap.log"
        port = sender.capture_interface()
        assert port is not None
        asked = ["capture", port, "--icmp", "--out", str(tap)]
        capture = HostInstance.at(vtare, hosts.sender).start(asked, directory=tmp_path, stdout=log, stderr=log)
        stack.callback(capture.kill)
        wait_until("the capture is in place", lambda: "ready" in log.read_text())
        outcome = measure(sender, tmp_path / "run", run, quiet())
        assert capture.terminate(60) == 0, log.read_text()
    assert outcome.status == "done", outcome
    samples = tmp_path / "run/samples.parquet"
    (cell,) = check_samples_file(samples, run_id=run.run_id, instrument="rtt")["result"]["cells"]
    pacing = cell["pacing"]
    assert (pacing["holder"], pacing["queue"], pacing["check"]["judged"]) == ("txtime", f"{queue} on eth0", "kept")
    # Several were with the kernel at the same time.
    assert pacing["handed_ahead_most_ns"] > 2 * gap_ns
    # Each was stamped when it left, and none had left before its time.
    drops = cell["local_drops"]
    assert pacing["launches"]["stamped"] + drops["launch_missed"] > 50
    assert pacing["launches"]["earliest_ns"] >= -cell["link"]["stamp_error_ns"]
    assert drops["launch_invalid"] == 0
    assert queue == "etf" or drops["launch_missed"] == 0
    # An etf drops what it gets too late, as from an emulated guest that waits for a busy CPU.
    if drops["launch_missed"] > 50:
        pytest.skip(f"the guest handed {drops['launch_missed']} of 100 packets over after their time")
    # In the guest and in front of it they are spaced by about the gap asked for.
    left = pl.read_parquet(samples).select("sequence", at="kernel_tx_ns").drop_nulls()
    seen = read_capture(tap).frame.filter(pl.col("kind").cast(pl.String) == "echo_request")
    for stamps in (left, seen.select("sequence", at="captured_ns")):
        one, other = pl.col("sequence").diff(), pl.col("at").diff()
        steps = stamps.sort("sequence").select(one.alias("step"), other.alias("gap"))
        gaps = sorted(steps.filter(pl.col("step") == 1)["gap"].to_list())
        assert len(gaps) > (10 if queue == "etf" else 50)
        assert gap_ns / 2 < gaps[len(gaps) // 2] < 2 * gap_ns


@pytest.mark.parametrize("clock_source", ["hpet", "acpi_pm"])
def test_timer_sleep_and_counter_run_in_a_guest_on_the_clock_source_that_is_asked_for(
    vtare: Path, tmp_path: Path, clock_source: str
) -> None:
    pinned = (min(os.sched_getaffinity(0)),)
    with one_guest(vtare, Resources(vcpus=2, pinned=pinned, clock_source=clock_source)) as guest:
        told = guest.facts()["guest"]
        assert isinstance(told, dict)
        assert (told["pinned"], told["clock_source"], told["vcpus"]) == ([*pinned, *pinned], clock_source, 2)
        runs = {
            "timer": run_of("timer", samples=2000, seconds=0.2),
            "sleep": run_of("sleep", samples=10, target_ns=[1_000_000]),
            # Brought in: nothing but the kernel is there to run it.
            "counter": run_of("counter", batches=2, calls=3, max_exponent=2, unit_ms=1.0, language="c"),
        }
        for name, run in runs.items():
            load = Load("cpu", 2) if name == "sleep" else IDLE
            (tmp_path / name).mkdir()
            with CounterPrograms(vtare).beside(run, "qemu", "qemu", tmp_path / name) as placed:
                outcome = measure(guest, tmp_path / name, placed, quiet(load=load))
            assert outcome.status == "done", (name, outcome)
            samples = tmp_path / name / "samples.parquet"
            machine = check_samples_file(samples, run_id=run.run_id, instrument=name)["machine"]
            # The guest reports itself what it is: no record of an emulated one can be taken for another.
            assert (machine["hypervisor"], machine["clock_source"]) == (told["accelerator"], clock_source)
            assert machine["cpus_online"] == 2
        # What the load offered is recorded, measured by itself.
        assert json.loads((tmp_path / "sleep/load.json").read_text())["operations"] > 0


def test_the_counter_in_java_brings_its_virtual_machine_into_a_guest(vtare: Path, tmp_path: Path) -> None:
    run = run_of("counter", batches=1, calls=3, max_exponent=1, unit_ms=1.0, language="java")
    resources = room_for(run, "qemu", Resources())
    with one_guest(vtare, resources) as guest:
        with CounterPrograms(vtare).beside(run, "qemu", "qemu", tmp_path, resources.memory_byte) as placed:
            outcome = measure(guest, tmp_path, placed, quiet())
        assert outcome.status == "done", outcome
        cells = check_samples_file(tmp_path / "samples.parquet", run_id=run.run_id, instrument="counter")["result"]
        assert [(cell["language"], cell["runtime_ns"]["n"]) for cell in cells["cells"]] == [("java", 3), ("java", 3)]


def test_the_io_load_of_a_guest_reaches_its_disk_on_the_host_by_either_access(vtare: Path, tmp_path: Path) -> None:
    resources = Resources(disk_byte=64 << 20)
    with one_guest(vtare, resources) as guest:
        disk = qemu.directory_of(guest.name) / "disk"
        before = disk.stat().st_blocks
        words = ["load", "io", "--threads", "2", "--seconds", "1", "--json"]
        child = guest.start(words, directory=tmp_path, stdout=tmp_path / "load.json", stderr=tmp_path / "log")
        assert child.wait(120) == 0, (tmp_path / "log").read_text()
        io = json.loads((tmp_path / "load.json").read_text())["io"]
        assert io["file_system"] == {"type": "ext4", "device": "vda", "in_memory": False}
        assert io["buffered"]["written_byte"] > 0
        assert io["direct"]["written_byte"] > 0
        # Its counters and those of its device are read one after the other, while the load goes on.
        assert io["device"]["written_byte"] > io["written_byte"] / 2
        # A stream's file of 16 MiB may have been whole before the load was ready: that much lies on the host.
        assert disk.stat().st_blocks > before
        assert dict(guest.facts())["guest"]["disk"]["byte"] == 64 << 20  # type: ignore[index]
    assert not disk.exists()


def test_a_guest_that_dies_costs_its_run_and_states_how(vtare: Path, tmp_path: Path) -> None:
    with one_guest(vtare, Resources()) as guest:
        child = guest.start(["load", "idle"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "log")
        os.kill(emulator_of(guest), signal.SIGKILL)
        assert child.wait(120) == -signal.SIGKILL
        assert "QEMU ended with signal 9" in (tmp_path / "log").read_text()
        assert not guest.alive
        with pytest.raises(PlatformFailed, match="QEMU ended with signal 9"):
            guest.start(["load", "idle"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "log")


#: Waits until a process has RUN in its command line, and sets wall time 2 s later. A guest starts nothing but its own
#: binary; that starts the program of a counter.
SET_WALL_TIME = r"""
#define _GNU_SOURCE
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int started(void) {
    glob_t found;
    int seen = 0;
    if (glob("/proc/[0-9]*/cmdline", 0, 0, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char words[4096];
        FILE *file = fopen(found.gl_pathv[i], "r");
        if (!file) continue;
        seen |= memmem(words, fread(words, 1, sizeof words, file), RUN, sizeof RUN) != 0;
        fclose(file);
    }
    globfree(&found);
    return seen;
}
int main(void) {
    while (!started()) usleep(50000);
    sleep(2);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += STEP;
    return clock_settime(CLOCK_REALTIME, &now) != 0;
}
"""


@pytest.mark.fault
def test_wall_time_that_is_set_in_a_guest_during_a_run_is_stated_and_moves_no_duration(
    vtare: Path, tmp_path: Path
) -> None:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no cc (Debian: gcc libc6-dev)")
    with one_guest(vtare, Resources()) as guest:
        for step_s, stated in ((7200, "set forward by 7200 s"), (-86_400, "set back by 86400 s")):
            place, beside = (tmp_path / stated.split()[1] / name for name in ("run", "set"))
            for directory in (place, beside):
                directory.mkdir(parents=True)
            words = [compiler, "-static", "-x", "c", "-", "-o", str(beside / "program")]
            words += [f'-DRUN="{place}/run.json"', f"-DSTEP={step_s}"]
            subprocess.run(words, input=SET_WALL_TIME, text=True, check=True)
            parameters = {
                "language": "c",
                "program": str(beside / "program"),
                "batches": 1,
                "calls": 3,
                "max_exponent": 1,
            }
            document = {"schema": RUN_SCHEMA, "run_id": "0" * 16, "instrument": "counter", "seed": 1, "output": None}
            (beside / "run.json").write_text(json.dumps({**document, "parameters": parameters}))
            child = guest.start(
                ["measure", str(beside / "run.json")], directory=beside, stdout=beside / "out", stderr=beside / "log"
            )
            run = run_of("sleep", samples=100_000, seconds=6.0, target_ns=[1_000_000], method=["usleep"])
            outcome = measure(guest, place, run, quiet())
            # It is no counter, and its run ends with that: its program was started, though.
            assert child.wait(120) != 0
            assert outcome.status == "done", outcome
            footer = check_samples_file(place / "samples.parquet", run_id=run.run_id, instrument="sleep")
            (note,) = (note["text"] for note in footer["notes"] if note["id"] == "wall_time_set")
            assert stated in note
            # Neither the run nor any sleep in it is as much longer, or ends before it began.
            assert 0 < footer["elapsed_ns"] < 600e9
            late = pl.read_parquet(place / "samples.parquet")["miss_ns"]
            assert -1e6 <= late.min() <= late.max() < 600e9  # type: ignore[operator]


def test_a_guest_that_hangs_is_given_up(vtare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with one_guest(vtare, Resources()) as guest:
        monkeypatch.setattr(child_module, "_KILL_S", 1.0)
        run = run_of("sleep", samples=1000, target_ns=[1_000_000_000])
        child = guest.start(["load", "idle"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "log")
        os.kill(emulator_of(guest), signal.SIGSTOP)
        assert child.terminate(0.5) == -signal.SIGKILL
        assert not guest.alive
        with pytest.raises(PlatformFailed, match="did not kill a program"):
            measure(guest, tmp_path / "run", run, quiet(5.0))


def emulator_of(guest: QemuInstance) -> int:
    (pid,) = qemu.running_in(guest.directory)
    return pid


LAB = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix
platform = open_platform("qemu", binary=Path(sys.argv[1]), owner=own_prefix(), settings={"manager": "qemu"})
platform.start(1)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.alone
def test_a_killed_lab_takes_its_guests_along_and_clean_finds_the_rest(vtare: Path) -> None:
    platform_of(vtare, Resources())
    lab = subprocess.Popen([sys.executable, "-c", LAB, str(vtare), *sys.path], stdout=subprocess.PIPE, text=True)
    assert lab.stdout is not None
    assert lab.stdout.readline() == "ready\n"
    (before,) = [one for one in qemu.leftovers() if one.name.startswith(f"vtare-{lab.pid}-")]
    assert before.kept_because is not None
    lab.kill()
    lab.wait(60)
    lab.stdout.close()
    (left,) = [one for one in qemu.leftovers() if one.name == before.name]
    assert left.kept_because is None
    directory = qemu.directory_of(left.name)
    deadline = time.monotonic() + 60
    while list(qemu.running_in(directory)):
        assert time.monotonic() < deadline, "QEMU outlived the lab by 60 s"
        time.sleep(0.05)
    left.remove()
    assert not directory.exists()
