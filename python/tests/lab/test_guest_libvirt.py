"""A guest's description for libvirt, and the reasons where there is no libvirt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from vtare.errors import BadInput, MachineCannot
from vtare.platforms import open_platform, qemu
from vtare.platforms.guest import cards, disk, libvirt_machine, qemu_command, taps
from vtare.platforms.guest.disk import Disk
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.libvirt_domain import domain_xml
from vtare.platforms.guest.libvirt_machine import Manager, found_manager, remove_domain
from vtare.platforms.network import Site
from vtare.platforms.protocol import Resources

OWNER = "vtare-1-2"
SITE = Site("sender server", f"{OWNER}-s", 1, ("10.77.2.1",))
GOLDEN = Path(__file__).parent / "guest_domain.xml"


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    found_manager.cache_clear()
    yield
    found_manager.cache_clear()


def spec(**changes: object) -> qemu_command.GuestSpec:
    place = cards.Network(SITE, 3, "e1000")
    given = {"network": place, "accelerator": "tcg", "clock_source": "hpet", "vcpus": 2, **changes}
    return qemu_command.GuestSpec("g", Path("/d"), Path("/k"), Path("/i"), **given)  # type: ignore[arg-type]


def test_the_description_is_the_one_that_was_tried() -> None:
    found = domain_xml(spec(), tap="vtt1x3", user=(0, 0), security=["apparmor", "dac"])
    assert found == GOLDEN.read_text(encoding="utf-8").rstrip("\n")


def test_kvm_a_fast_card_and_no_card_are_described() -> None:
    fast = spec(accelerator="kvm", vhost=True, network=cards.Network(SITE, 0, "virtio"))
    domain = ElementTree.fromstring(domain_xml(fast, tap="vtt1x0"))
    assert domain.get("type") == "kvm"
    assert [one.get("mode") for one in domain.findall("cpu")] == ["host-passthrough"]
    assert [one.get("name") for one in domain.findall("devices/interface/driver")] == ["vhost"]
    assert domain.findall("seclabel") == []
    alone = ElementTree.fromstring(domain_xml(spec(network=None)))
    assert alone.findall("devices/interface") == []


def test_a_disk_is_described_as_the_emulators_command_has_it() -> None:
    guest = spec(disk=Disk(Path("/d/disk"), 64 << 20))
    domain = ElementTree.fromstring(domain_xml(guest))
    (found,) = domain.findall("devices/disk")
    assert [(one.tag, dict(one.attrib)) for one in found] == [
        ("driver", {"name": "qemu", "type": "raw", "cache": "writeback"}),
        ("source", {"file": "/d/disk"}),
        ("target", {"dev": "vda", "bus": "virtio"}),
    ]
    words = qemu_command.command(guest)
    assert words[words.index("-drive") + 1].startswith("file=/d/disk,if=none,id=disk,format=raw,")
    assert "vtare.disk=vda" in words[words.index("-append") + 1].split()
    assert "-drive" not in qemu_command.command(spec())


def test_a_new_disk_is_a_sparse_file_with_a_file_system(tmp_path: Path) -> None:
    assert disk.missing(Resources()) is None
    assert disk.disk_of(tmp_path, Resources(disk_byte=0)) is None
    made = disk.disk_of(tmp_path, Resources())
    assert made is not None
    made.make()
    facts = made.file.stat()
    assert facts.st_size == disk.DEFAULT_BYTE
    assert facts.st_blocks * 512 <= disk.OWN_BYTE
    # The mark of ext4, at its place in the superblock.
    assert made.file.read_bytes()[0x438:0x43A] == b"\x53\xef"
    assert made.facts()["byte"] == disk.DEFAULT_BYTE
    assert isinstance(made.facts()["host_file_system"], str)
    with pytest.raises(FileExistsError):
        made.make()


def test_libvirt_that_is_not_there_is_stated_and_plain_qemu_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    manager = found_manager()
    assert manager.uri is None
    assert "pip install libvirt-python" in manager.reason
    assert manager.facts["manager"] == "none: plain QEMU"
    monkeypatch.setattr(qemu, "missing_kernel", lambda flavour: None)
    monkeypatch.setattr("shutil.which", lambda tool: tool)
    # By itself the lab does without it; who asks for it gets the reason.
    for wanted, reason in (
        ("auto", None),
        ("qemu", None),
        ("libvirt", "libvirt was asked for, but the Python package"),
    ):
        settings = {"accelerator": "tcg", "manager": wanted}
        found = open_platform("qemu", binary=tmp_path, owner=OWNER, settings=settings).missing(Resources())
        assert found is None if reason is None else str(found).startswith(reason)
    with pytest.raises(BadInput, match="manager is 'virsh': use one of: auto, libvirt, qemu"):
        open_platform("qemu", binary=tmp_path, owner=OWNER, settings={"manager": "virsh"})
    # A guest that ran under it is not taken for one that is gone.
    remove_domain(tmp_path, "g")
    (tmp_path / "libvirt").write_text("qemu:///system")
    with pytest.raises(GuestFailed, match="ran under libvirt, whose Python package is missing now"):
        remove_domain(tmp_path, "g")


def test_the_facts_state_who_runs_the_guest() -> None:
    assert Manager("qemu:///system", "9.0.0", "it answers").facts == {
        "manager": "libvirt at qemu:///system", "manager_version": "9.0.0", "manager_reason": "it answers",
    }  # fmt: skip
    assert Manager(None, None, "the plan asks for plain QEMU").facts["manager_version"] is None


def test_guests_that_forward_are_the_labs_own_and_libvirt_is_not_promised_for_them(tmp_path: Path) -> None:
    card = cards.Card("virtio", "port0", "02:76:00:00:00:01", "10.0.0.1/24", 1500, ())
    platform = open_platform(
        "qemu", binary=tmp_path, owner=OWNER, settings={"accelerator": "tcg", "manager": "libvirt"}
    )
    assert isinstance(platform, qemu.QemuPlatform)
    with pytest.raises(MachineCannot, match="guests that forward are run by the lab itself; leave `manager` out"):
        platform.boot([qemu.GuestAttachment("g", cards=(card,))])


def test_taps_of_gone_labs_are_shown_by_their_alias_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        '[{"ifname": "vtt9x0", "ifalias": "vtare-999999999-1-tap"}, {"ifname": "vtt9x1"},'
        ' {"ifname": "eth0", "ifalias": "vtare-999999999-1-tap"}, {"ifname": "vtt9x2", "ifalias": "mine"}]'
    )
    monkeypatch.setattr(taps.network, "run_tool", lambda words: text)
    assert [(one.name, one.kept_because) for one in taps.leftovers()] == [("vtt9x0", None)]
    assert libvirt_machine.URI_VARIABLE == "VTARE_LIBVIRT_URI"
