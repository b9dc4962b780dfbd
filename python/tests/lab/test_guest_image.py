"""The micro guest's image and kernel, QEMU's command line, and the reasons where there can be no guests."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from vtare.errors import BadInput, MachineCannot
from vtare.platforms import open_platform, qemu
from vtare.platforms.guest import accelerator, cpio, image, kernel, qemu_command, taps
from vtare.platforms.guest.accelerator import Accelerator
from vtare.platforms.guest.cards import Network
from vtare.platforms.guest.modules import Modules, depends, in_order
from vtare.platforms.network import Site
from vtare.platforms.owner import OWNER_VARIABLE, own_prefix, started_by
from vtare.platforms.protocol import Resources
from vtare.process import ToolFailed

OWNER = "vtare-1-2"
SITE = Site("sender server", f"{OWNER}-s", 1, ("10.77.2.1",))
GONE = "vtare-999999999-1"


def wait_for_mark(pid: int, owner: str) -> None:
    deadline = time.monotonic() + 30
    while not started_by(pid, owner):
        assert time.monotonic() < deadline, "the program was not started within 30 s"
        time.sleep(0.01)


def module(*needed: str) -> bytes:
    return b"\x7fELF..\0license=GPL\0depends=" + ",".join(needed).encode() + b"\0retpoline=Y\0"


def test_an_archive_is_read_by_other_programs(tmp_path: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("cpio is not installed (Debian: cpio)")
    packed = cpio.archive(
        [cpio.directory("dev"), cpio.file("vtare", b"odd", executable=True), cpio.file("modules", b"four")]
    )
    listed = subprocess.run(["cpio", "-itv", "--quiet"], input=packed, capture_output=True, check=True).stdout.decode()
    assert [(line.split()[0], line.split()[-1]) for line in listed.splitlines()] == [
        ("drwxr-xr-x", "dev"),
        ("-rwxr-xr-x", "vtare"),
        ("-rw-r--r--", "modules"),
    ]
    subprocess.run(["cpio", "-id", "--quiet"], input=packed, cwd=tmp_path, check=True)
    assert (tmp_path / "vtare").read_bytes() == b"odd"
    assert (tmp_path / "modules").read_bytes() == b"four"


def test_modules_come_after_those_they_need_and_built_in_ones_not_at_all(tmp_path: Path) -> None:
    files = {
        "net/virtio_net.ko": module("net_failover", "virtio-ring"),
        "net/net-failover.ko.xz": lzma.compress(module("failover")),
        "core/failover.ko": module(),
        "virtio/virtio_ring.ko": module(),
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    modules = Modules(tmp_path)
    found = modules.ordered(["virtio_pci", "virtio_net"])
    assert [name for name, _ in found] == ["failover", "net_failover", "virtio_ring", "virtio_net"]
    assert dict(found)["net_failover"] == module("failover")
    assert modules.has("virtio-pci")
    assert not modules.has("e1000")
    with pytest.raises(MachineCannot, match="has no driver 'e1000'"):
        modules.ordered(["e1000"])
    assert depends(b"no module") == []
    assert in_order(["a"], lambda name: module(), ["a"]) == []


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the program 'zstd' is missing")
def test_a_packed_module_that_is_damaged_is_an_error_that_names_the_tool(tmp_path: Path) -> None:
    (tmp_path / "e1000.ko.zst").write_bytes(b"no module")
    with pytest.raises(ToolFailed, match=r"`zstd -dcq .*e1000\.ko\.zst`: "):
        Modules(tmp_path).ordered(["e1000"])


def test_the_image_holds_the_binary_and_its_modules_in_order() -> None:
    packed = image.initramfs(b"BINARY", [("mii", b"M"), ("8139cp", b"C")])
    assert packed.count(b"070701") == 5 + 1 + 1 + 2 + 1 + 1
    assert b"/modules/mii.ko\n/modules/8139cp.ko\n" in packed
    assert packed == image.initramfs(b"BINARY", [("mii", b"M"), ("8139cp", b"C")])


def test_a_binary_that_needs_shared_libraries_is_refused(tmp_path: Path) -> None:
    shell = Path("/bin/sh").resolve()
    assert image.is_dynamic(shell.read_bytes())
    assert not image.is_dynamic(b"#!/bin/sh")
    with pytest.raises(MachineCannot, match="use the static binary"):
        image.image_for(kernel.Kernel(tmp_path, tmp_path), shell, None)


def test_a_kernel_packed_with_xz_is_unpacked_once(tmp_path: Path) -> None:
    payload = lzma.compress(b"\x7fELF kernel") + b"\x0c\0\0\0"
    head = bytearray(1024)
    head[0x1F1], head[0x202:0x206] = 1, b"HdrS"
    head[0x248:0x24C] = (16).to_bytes(4, "little")
    head[0x24C:0x250] = len(payload).to_bytes(4, "little")
    packed = tmp_path / "vmlinuz-6.1"
    packed.write_bytes(bytes(head) + bytes(16) + payload)
    unpacked = kernel.bootable(packed, tmp_path)
    assert (unpacked.name, unpacked.read_bytes()) == ("vmlinux-6.1", b"\x7fELF kernel")
    other = tmp_path / "vmlinuz-6.2"
    other.write_bytes(b"another kind of kernel" * 100)
    assert kernel.bootable(other, tmp_path) == other


def test_a_named_kernel_needs_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.1-x").write_bytes(b"k")
    monkeypatch.setenv("VTARE_GUEST_KERNEL", str(tmp_path / "boot/vmlinuz-6.1-x"))
    with pytest.raises(MachineCannot, match="use a kernel vmlinuz-RELEASE whose modules"):
        kernel.find_kernel("cloud")
    (tmp_path / "lib/modules/6.1-x").mkdir(parents=True)
    assert kernel.find_kernel("cloud").release == "6.1-x"


def test_the_smallest_kernel_that_has_the_driver_is_chosen() -> None:
    assert [kernel.flavour_for(nic) for nic in (None, "virtio", "vmxnet3", "e1000", "rtl8139")] == [
        "cloud", "cloud", "cloud", "generic", "generic",
    ]  # fmt: skip
    assert kernel.flavour_for(None, "generic") == "generic"


def spec(**changes: object) -> qemu_command.GuestSpec:
    place = Network(SITE, 3, "e1000")
    given = {"network": place, "accelerator": "tcg", "clock_source": "hpet", "vcpus": 2, **changes}
    return qemu_command.GuestSpec("g", Path("/d"), Path("/k"), Path("/i"), **given)  # type: ignore[arg-type]


def test_the_guest_learns_its_place_from_the_kernel_command_line() -> None:
    words = qemu_command.kernel_command_line(spec()).split()
    assert words[-3:] == ["--", "agent", "--init"]
    for word in (
        "rdinit=/vtare",
        "clocksource=hpet",
        "no_timer_check",
        "vtare.port=org.vtare.agent",
        "vtare.address=10.77.1.5/16",
        "vtare.mtu=1500",
        "vtare.neighbours=10.77.1.1@02:76:0a:4d:01:01,10.77.2.1@02:76:0a:4d:02:01",
    ):
        assert word in words
    assert not any(word.startswith("vtare.a") for word in qemu_command.kernel_command_line(spec(network=None)).split())


def test_qemu_runs_where_its_tap_is_and_alone_without_one() -> None:
    words = qemu_command.command(spec())
    assert words[:5] == ["ip", "netns", "exec", f"{OWNER}-s", "qemu-system-x86_64"]
    assert "tap,id=net0,ifname=port3,script=no,downscript=no" in words
    assert "e1000,netdev=net0,mac=02:76:0a:4d:01:05,romfile=" in words
    assert words[words.index("-cpu") + 1] == "max"
    alone = qemu_command.command(spec(network=None, accelerator="kvm"))
    assert alone[0] == "qemu-system-x86_64"
    assert "-netdev" not in alone
    assert alone[alone.index("-cpu") + 1] == "host"
    fast = qemu_command.command(spec(network=Network(SITE, 0, "virtio"), accelerator="kvm", vhost=True))
    assert "tap,id=net0,ifname=port0,script=no,downscript=no,vhost=on" in fast
    assert str(taps.tap_steps(SITE, 3)[0]) == f"ip -n {OWNER}-s tuntap add dev port3 mode tap"


def test_what_stands_against_a_guest_is_stated_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "missing_kernel", lambda flavour: None)
    monkeypatch.setattr(shutil, "which", lambda tool, **_: None)
    platform = open_platform("qemu", binary=tmp_path, owner=OWNER, settings={"accelerator": "tcg"})
    reason = str(platform.missing())
    assert reason.startswith("the program 'qemu-system-x86_64' is missing; install qemu-system-x86; also ")
    monkeypatch.setattr(shutil, "which", lambda tool, **_: tool)
    assert platform.missing() is None
    assert "no driver for the card 'foo'" in str(platform.missing(Resources(nic="foo")))
    assert "a guest of 32 MiB does not boot; give it 96 MiB" in str(platform.missing(Resources(memory_byte=32 << 20)))
    assert "CPU 4000 to pin to is not there" in str(platform.missing(Resources(pinned=(4000,))))
    assert "kvm-clock is there under KVM only" in str(platform.missing(Resources(clock_source="kvm-clock")))
    assert platform.need(Resources(vcpus=2)).memory_byte > 96 << 20
    for settings, text in (
        ({"kernel": "huge"}, "kernel is 'huge': use one of: cloud, generic"),
        ({"speed": "high"}, "unknown setting 'speed'"),
    ):
        with pytest.raises(BadInput, match=text):
            open_platform("qemu", binary=tmp_path, owner=OWNER, settings=settings)


def test_kvm_is_tried_once_in_the_life_of_the_hosts_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tried: list[str] = []

    def attempt(probe: qemu_command.GuestSpec) -> Accelerator:
        tried.append(probe.name)
        return Accelerator("tcg", "a guest did not come up under KVM")

    monkeypatch.setattr(accelerator, "_try", attempt)
    monkeypatch.setattr(accelerator, "_DEVICE", tmp_path / "kvm")
    assert "there is no" in str(accelerator.choose(spec).reason)
    (tmp_path / "kvm").touch()
    assert accelerator.choose(spec) == accelerator.choose(spec) == attempt(spec())
    assert len(tried) == 2
    monkeypatch.setattr(accelerator, "_boot_id", lambda: "another")
    accelerator.choose(spec)
    assert len(tried) == 3


def test_only_guests_of_lab_processes_that_are_gone_are_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in (f"{GONE}-q0-qemu", f"{own_prefix()}-q0-qemu", "vtare-mine-qemu", f"{GONE}-q1"):
        (tmp_path / name).mkdir()
    inside = {"cwd": tmp_path / f"{GONE}-q0-qemu"}
    ours = subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER_VARIABLE: GONE}, **inside)  # type: ignore[call-overload]
    strange = subprocess.Popen(["sleep", "600"], **inside)  # type: ignore[call-overload]
    try:
        # A program that has just been started shows no environment for a moment.
        wait_for_mark(ours.pid, GONE)
        found = {leftover.name: leftover for leftover in qemu.leftovers()}
        assert set(found) == {f"{GONE}-q0", f"{own_prefix()}-q0"}
        assert found[f"{own_prefix()}-q0"].kept_because is not None
        assert found[f"{GONE}-q0"].kept_because is None
        found[f"{GONE}-q0"].remove()
        assert ours.wait(timeout=60) == -9
        assert strange.poll() is None
        assert not (tmp_path / f"{GONE}-q0-qemu").exists()
        found[f"{GONE}-q0"].remove()
    finally:
        ours.kill()
        strange.kill()
