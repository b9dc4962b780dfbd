"""The platform `xen` without Xen: what its tools printed when recorded, what is made of it, and what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import tty
from collections.abc import Sequence
from pathlib import Path

import pytest
from transcripts.replay import Entry, entries

from vtare.errors import BadInput, MachineCannot
from vtare.platforms import open_platform, xen
from vtare.platforms.guest import xen_domain, xen_tools
from vtare.platforms.guest.agent import Agent
from vtare.platforms.guest.cards import Card, Network
from vtare.platforms.guest.channel import Terminal
from vtare.platforms.guest.disk import Disk, file_in
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.frames import Decoder, Kind, encode
from vtare.platforms.guest.xen_domain import DomainSpec
from vtare.platforms.network import Site
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Resources
from vtare.platforms.xen import XenPlatform
from vtare.topology.forwarding_guests import MachineGuests, forwarding_guests
from vtare.topology.guest_slots import guest_slot

TRANSCRIPT = Path(__file__).resolve().parents[3] / "tests/transcripts/xen.txt"
SAID = {" ".join(entry.words): entry for entry in entries(TRANSCRIPT.read_text())}
SITE = Site("sender server", "vtare-1-2-s", 1, ("10.77.2.1",))
MEBIBYTE = 1 << 20


def said(command: str) -> str:
    return "\n".join(SAID[command].out)


def reason(command: str) -> str:
    return xen_tools.reason_in("\n".join(SAID[command].err))


@pytest.fixture
def dom0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a dom0 whose tools answer as recorded."""
    root = tmp_path / "root"
    (root / "sys/bus/xen-backend/drivers/vbd").mkdir(parents=True)
    facts = {"sys/hypervisor/type": "xen\n", "proc/xen/capabilities": "control_d\n", "dev/loop-control": ""}
    for path, text in facts.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)

    def run(words: Sequence[str]) -> str:
        entry = SAID.get(" ".join(words), Entry([], code=1))
        if entry.code:
            raise xen_tools.XenError(f"`{' '.join(words)}`: {xen_tools.reason_in(chr(10).join(entry.err))}")
        return "\n".join(entry.out)

    monkeypatch.setattr(xen_tools, "run", run)
    monkeypatch.setattr(xen_tools, "ROOT", root)
    monkeypatch.setattr(xen_tools.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(xen_tools.os, "geteuid", lambda: 0)
    monkeypatch.setattr(xen, "missing_kernel", lambda flavour: None)
    monkeypatch.setattr(xen.tempfile, "gettempdir", lambda: str(tmp_path))
    return root


def platform(**settings: str | int) -> XenPlatform:
    return XenPlatform(Path("/nowhere"), "vtare-1-2", settings)


def test_the_hypervisor_is_what_xl_info_states() -> None:
    found = xen_tools.hypervisor_of(xen_tools.read_info(said("xl info")))
    assert found == xen_tools.Hypervisor("4.17.7", 1, 1000 * MEBIBYTE, dom0_gives_memory=False, scheduler="credit2")
    nothing = xen_tools.hypervisor_of(xen_tools.read_info("no such line\n"))
    assert (nothing.version, nothing.cpus, nothing.free_memory_byte) == (None, None, None)


@pytest.mark.parametrize(
    ("command_line", "settings", "gives"),
    [
        ("", "", True),
        ("dom0_mem=1024M,max:1024M", "", False),
        ("dom0_mem=1024M", '#autoballoon="off"\nautoballoon="on"\n', True),
        ("", "autoballoon = 'off'\n", False),
        ("", 'autoballoon="auto"\n', True),
        ("dom0_max_vcpus=2", 'autoballoon="auto"\n', True),
    ],
)
def test_dom0_gives_memory_where_xl_would_take_it(command_line: str, settings: str, gives: bool) -> None:
    assert xen_tools.hypervisor_of({"xen_commandline": command_line}, settings).dom0_gives_memory is gives


def test_domains_are_what_xl_list_states() -> None:
    assert xen_tools.read_list(said("xl list")) == [
        xen_tools.Domain("Domain-0", 0, 1024 * MEBIBYTE, 1, "r-----"),
        xen_tools.Domain("vtare-282-839b-s-0", 9, 96 * MEBIBYTE, 1, "-b----"),
    ]
    assert xen_tools.read_list("a guest  3  64  2  --p---  0.0\nnonsense\n") == [
        xen_tools.Domain("a guest", 3, 64 * MEBIBYTE, 2, "--p---")
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("xl create -F big.cfg", "can't allocate low memory for domain: Out of memory; xc_dom_boot_mem_init failed"),
        ("xl create -F kernel.cfg", "xg_dom_core.c:205: failed to open file '/nowhere': No such file or directory"),
        ("xl create -F script.cfg", 'Error: argument "nowhere" is wrong: Invalid "netns" value; /run/join online'),
        ("xl create -F crash.cfg", "Domain 6 has shut down, reason code 3 0x3"),
        ("xl domid nobody", "Can't get domid of domain name 'nobody', maybe this domain does not exist."),
    ],
)
def test_the_first_cause_is_shown_and_not_what_follows_from_it(command: str, words: str) -> None:
    assert words in reason(command)
    for noise in ("Parsing", "Non-existant", "(re-)build", "Exiting now"):
        assert noise not in reason(command)


def test_what_is_missing_is_stated_with_the_way_out(dom0: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert platform().missing() is None
    (dom0 / "sys/bus/xen-backend/drivers/vbd").rmdir()
    assert "run `modprobe xen-blkback`, or give guests no disk" in str(platform().missing())
    (dom0 / "dev/loop-control").unlink()
    assert "run `modprobe loop`, or give guests no disk" in str(platform().missing())
    assert platform().missing(Resources(disk_byte=0)) is None
    (dom0 / "proc/xen/capabilities").write_text("")
    assert "is a guest of Xen (domU), which makes no domains; run the lab in dom0" in str(platform().missing())
    (dom0 / "proc/xen/capabilities").unlink()
    assert "run `mount -t xenfs xenfs /proc/xen`" in str(platform().missing())
    (dom0 / "sys/hypervisor/type").unlink()
    assert str(platform().missing()).startswith(
        "this machine does not run under Xen (/sys/hypervisor/type: not there); boot the entry with Xen"
    )
    monkeypatch.setattr(xen_tools.shutil, "which", lambda name, **_: None)
    assert str(platform().missing()).startswith(
        "the program 'xl' is missing; install xen-system-amd64; also the programs 'xenstore-read', 'xenstore-write' "
        "are missing; install xenstore-utils; also this machine does not run under Xen"
    )


def test_without_root_and_without_services_that_is_stated(dom0: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAID, "xl info", SAID["xl info --without-xen"])
    assert str(platform().missing()).endswith("start Xen's services: `service xen start`")
    monkeypatch.setattr(xen_tools.os, "geteuid", lambda: 1000)
    assert platform().missing() == "needs root to make domains; run it with sudo"


@pytest.mark.usefixtures("dom0")
@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (Resources(memory_byte=4 << 30), "1 guest would take 4100 MiB, but Xen has 1000 MiB free"),
        (Resources(memory_byte=64 * MEBIBYTE), "a guest of 64 MiB does not boot; give it 128 MiB or more"),
        (Resources(pinned=(0, 7)), "CPU 7 to pin to is not there: use some of 0 to 0"),
        (Resources(nic="e1000"), "has no network card 'e1000': use netfront"),
        (Resources(clock_source="kvm-clock"), "has no clock source 'kvm-clock': use xen or tsc"),
    ],
)
def test_what_a_guest_cannot_have_is_refused_with_what_it_can(resources: Resources, words: str) -> None:
    assert words in str(platform().missing(resources))


@pytest.mark.usefixtures("dom0")
def test_more_guests_than_xen_has_memory_for_are_refused_before_the_first() -> None:
    with pytest.raises(MachineCannot, match="11 guests would take 1452 MiB, but Xen has 1000 MiB free"):
        platform().start(11)


def test_settings_are_checked() -> None:
    with pytest.raises(BadInput, match="unknown setting 'accelerator': use one of: kernel"):
        platform(accelerator="kvm")
    with pytest.raises(BadInput, match="kernel is 'tiny': use one of: cloud, generic"):
        platform(kernel="tiny")
    assert open_platform("xen", binary=Path("/nowhere"), owner="vtare-1-2").name == "xen"


def spec(**changes: object) -> DomainSpec:
    given = {"vcpus": 3, "pinned": (1, 0), "clock_source": "tsc", "network": Network(SITE, 3, "netfront"), **changes}
    return DomainSpec("g", Path("/d"), Path("/k"), Path("/i"), 96 * MEBIBYTE, **given)  # type: ignore[arg-type]


def test_xl_is_shown_what_was_asked_for() -> None:
    lines = dict(line.split(" = ", 1) for line in xen_domain.config(spec()).splitlines())
    told = {key: json.loads(value) for key, value in lines.items()}
    assert (told["name"], told["type"], told["memory"], told["vcpus"]) == ("g", "pv", 96, 3)
    assert told["cpus"] == ["1", "0", "1"]
    assert told["vif"] == ["mac=02:76:0a:4d:01:05,script=/d/join"]
    assert {told[key] for key in told if key.startswith("on_")} == {"destroy"}
    words = told["cmdline"].split()
    assert words[-3:] == ["--", "agent", "--init"]
    for word in ("rdinit=/vtare", "clocksource=tsc", "vtare.port=/dev/hvc0", "vtare.address=10.77.1.5/16"):
        assert word in words
    bare = xen_domain.config(spec(network=None, pinned=None))
    assert "vif" not in bare
    assert "cpus = [" not in bare


def test_a_disk_is_a_loop_device_that_blkback_gets_and_the_kernel_frees() -> None:
    disk = Disk(Path("/d/disk"), 64 * MEBIBYTE)
    lines = dict(line.split(" = ", 1) for line in xen_domain.config(spec(disk=disk)).splitlines())
    assert json.loads(lines["disk"]) == ["format=raw,vdev=xvda,access=rw,script=/d/attach,target=/d/disk"]
    assert "vtare.disk=xvda" in json.loads(lines["cmdline"]).split()
    script = xen_domain.disk_script(disk).splitlines()
    assert "    loop=$(losetup --find --show --direct-io=off /d/disk)" in script
    assert any(line.startswith("remove) losetup --detach") for line in script)
    assert subprocess.run(["sh", "-n"], input="\n".join(script), text=True, check=True).returncode == 0


def test_the_script_puts_the_card_behind_the_bridge_under_the_ports_name() -> None:
    lines = spec().scripts[Path("/d/join")].splitlines()
    assert 'ip link set dev "$vif" netns vtare-1-2-s name port3' in lines
    assert "ip -n vtare-1-2-s link set dev port3 master br0 up" in lines
    assert lines[-1] == 'xenstore-write "$XENBUS_PATH/hotplug-status" connected'


def test_a_guest_that_forwards_has_a_card_towards_either_bridge() -> None:
    slot = guest_slot("vtare-1-2", "abc", 0)
    cards = tuple(Card("netfront", one.port, one.mac, one.address, 1500, one.neighbours) for one in slot.interfaces)
    guest = spec(network=None, cards=cards, namespace="vtare-1-2-f", forwards=True)
    lines = dict(line.split(" = ", 1) for line in xen_domain.config(guest).splitlines())
    assert json.loads(lines["vif"]) == [
        "mac=02:76:c6:01:00:01,script=/d/join0",
        "mac=02:76:c6:02:00:01,script=/d/join1",
    ]
    assert {"vtare.forward=1", "vtare.device=02:76:c6:02:00:01"} <= {*json.loads(lines["cmdline"]).split()}
    joins = [text.splitlines() for text in guest.scripts.values()]
    for join, port in zip(joins, ("iabc0", "oabc0"), strict=True):
        assert f'ip link set dev "$vif" netns vtare-1-2-f name {port}' in join
        assert not any("master" in line for line in join)
    assert isinstance(forwarding_guests(platform()), MachineGuests)


def test_domains_of_gone_lab_processes_are_found_and_others_left_alone(
    dom0: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, own = "vtare-999999999-1-s-0", f"{own_prefix()}-x0"
    listed = said("xl list").splitlines()
    rows = [row.replace("vtare-282-839b-s-0", name) for name in (gone, own, "other") for row in listed[-1:]]
    monkeypatch.setitem(SAID, "xl list", Entry([], out=[*listed[:-1], *rows]))
    monkeypatch.setitem(SAID, f"xl destroy {gone}", Entry([]))
    (tmp_path / f"{gone}-xen").mkdir()
    (tmp_path / "vtare-999999999-1-x1-xen").mkdir()
    found = {leftover.name: leftover for leftover in xen.leftovers()}
    assert set(found) == {gone, own, "vtare-999999999-1-x1"}
    assert "still runs" in str(found[own].kept_because)
    for name in (gone, "vtare-999999999-1-x1"):
        assert found[name].kept_because is None
        found[name].remove()
    assert list(tmp_path.glob("vtare-*-xen")) == []
    (dom0 / "proc/xen/capabilities").unlink()
    assert xen.leftovers() == ()


def test_the_loop_device_of_a_gone_labs_disk_is_freed(dom0: Path, tmp_path: Path) -> None:
    assert dom0.is_dir()
    home = tmp_path / "vtare-999999999-1-x2-xen"
    home.mkdir()
    image = file_in(home)
    image.write_bytes(bytes(1 << 20))
    loop = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if loop.returncode:
        pytest.skip(f"no loop device here: {loop.stderr.strip()}")
    (found,) = (one for one in xen.leftovers() if one.name == "vtare-999999999-1-x2")
    found.remove()
    words = ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]
    assert str(image) not in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert not home.exists()


def test_a_domain_that_is_gone_already_is_destroyed_and_one_that_stays_is_shown(dom0: Path) -> None:
    assert dom0.is_dir()
    xen_tools.destroy("nobody")
    with pytest.raises(xen_tools.XenError, match="`xl destroy vtare-282-839b-s-0`"):
        xen_tools.destroy("vtare-282-839b-s-0")
    assert xen_tools.console_of("nobody") is None


def test_a_guest_that_xl_does_not_create_fails_with_xls_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dom0: Path
) -> None:
    assert dom0.is_dir()
    xl = tmp_path / "xl"
    words = "\n".join(SAID["xl create -F big.cfg"].err)
    xl.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 3\n")
    xl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    domain = xen_domain.XenDomain(
        DomainSpec("vtare-999999999-1-x0", tmp_path / "g", Path("/k"), Path("/i"), 96 * MEBIBYTE)
    )
    with pytest.raises(GuestFailed, match="`xl create` ended with exit code 3; can't allocate low memory"):
        domain.wait_ready(30)
    assert not domain.alive
    with pytest.raises(GuestFailed, match="was never opened"):
        _ = domain.agent
    domain.end()
    assert not (tmp_path / "g").exists()


def opened(doubled: bytes = b"") -> tuple[int, int, Terminal]:
    outer, inner = os.openpty()
    return outer, inner, Terminal(Path(os.ttyname(inner)), doubled=doubled)


def test_every_byte_passes_a_terminal_and_the_kernels_own_key_comes_twice() -> None:
    outer, inner, terminal = opened(b"\x0f")
    every = bytes(range(256))
    terminal.sendall(every)
    wanted = every.replace(b"\x0f", b"\x0f\x0f")
    came = b""
    while len(came) < len(wanted):
        came += os.read(outer, 4096)
    assert came == wanted
    os.write(outer, every)
    came = b""
    while len(came) < len(every):
        came += terminal.recv(4096)
    assert came == every
    terminal.close()
    os.close(inner)
    os.close(outer)


def test_what_was_stated_before_the_terminal_was_opened_is_received() -> None:
    outer, inner = os.openpty()
    # As xenconsoled leaves it.
    tty.setraw(inner)
    os.write(outer, b"first words\n")
    terminal = Terminal(Path(os.ttyname(inner)))
    assert terminal.recv(4096) == b"first words\n"
    terminal.close()
    os.close(inner)
    os.close(outer)


def test_a_terminal_whose_other_end_is_closed_is_at_its_end() -> None:
    outer, inner, terminal = opened()
    os.close(inner)
    os.write(outer, b"last")
    assert terminal.recv(4096) == b"last"
    os.close(outer)
    assert terminal.recv(4096) == b""
    terminal.close()


def test_whoever_waits_at_a_terminal_is_woken() -> None:
    outer, inner, terminal = opened()
    came: list[bytes] = []
    waiting = threading.Thread(target=lambda: came.append(terminal.recv(4096)), daemon=True)
    waiting.start()
    terminal.shutdown(2)
    waiting.join(30)
    assert came == [b""]
    terminal.close()
    os.close(inner)
    os.close(outer)


def test_an_agent_speaks_over_a_console_on_which_its_kernel_speaks_too() -> None:
    outer, inner, terminal = opened(b"\x0f")
    agent = Agent(terminal, "g")
    os.write(outer, b"[    0.1] booting\r\n" + encode(Kind.HELLO, 0, b'{"schema": "vtare.agent/1"}'))
    assert agent.hello(30)["schema"] == "vtare.agent/1"
    assert agent.noise == b"[    0.1] booting\r\n"
    answered = threading.Thread(target=answer_facts, args=(outer,), daemon=True)
    answered.start()
    assert agent.facts() == {"clock_source": "xen"}
    answered.join(30)
    os.close(inner)
    os.close(outer)
    agent.close()


def answer_facts(outer: int) -> None:
    decoder = Decoder()
    while True:
        # The guest's kernel takes the doubled byte for one.
        for frame in decoder.take(os.read(outer, 4096).replace(b"\x0f\x0f", b"\x0f")):
            os.write(outer, encode(Kind.ANSWER, frame.job, b'{"clock_source": "xen"}'))
            return
