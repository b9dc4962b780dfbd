"""`vtare doctor`: reasons become commands of this distribution, the rights of a binary are its file's too."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vtare.cli import app
from vtare.doctor import machine
from vtare.doctor.machine import Feature, features
from vtare.doctor.places import Place
from vtare.doctor.ways import Ways, kvm_command, pip_install
from vtare.errors import BadInput
from vtare.platforms import KINDS, platform_class

NO_ROOT = "needs root to make containers; run it with sudo"


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """Those of a machine whose sources have all packages of the table, for an ordinary user with sudo."""
    found = Ways()
    monkeypatch.setattr(Ways, "_candidates", frozenset(found.packages.values()))
    monkeypatch.setattr("vtare.doctor.ways._lists_read", lambda: True)
    monkeypatch.setattr("vtare.doctor.ways.pip_install", lambda package: f"pip install {package}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    return found


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("the program 'lxc-start' is missing; install lxc", "sudo apt-get install -y lxc"),
        ("the program 'runsc' is missing; install runsc", "sudo apt-get install -y runsc"),
        ("the program 'hypervisor' is missing; install it from https://github.com/x/releases", None),
        ("the program 'VBoxManage' is missing; install VirtualBox", None),
        (NO_ROOT, "sudo vtare ..."),
        ("the Python package 'asyncssh' is missing; install it with `pip install asyncssh`", "pip install asyncssh"),
        ("there is no /proc/xen; run `mount -t xenfs xenfs /proc/xen`", "sudo mount -t xenfs xenfs /proc/xen"),
        (
            "Open vSwitch is installed, but its daemon does not answer; run "
            "`/usr/share/openvswitch/scripts/ovs-ctl start`",
            "sudo /usr/share/openvswitch/scripts/ovs-ctl start",
        ),
    ],
)  # fmt: skip
def test_a_reason_leads_to_the_command_that_removes_it(reason: str, command: str | None, ways: Ways) -> None:
    assert ways.out_of(reason) == command


@pytest.mark.parametrize(
    ("pip", "uv", "own", "command"),
    [
        (True, True, False, "/opt/venv/bin/python -m pip install docker"),
        (False, True, False, "uv pip install --python /opt/venv/bin/python docker"),
        (True, False, True, "/opt/venv/bin/python -m pip install --break-system-packages docker"),
    ],
)
def test_a_library_is_installed_for_the_python_of_the_lab(
    pip: bool, uv: bool, own: bool, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("vtare.doctor.ways.find_spec", lambda _: object() if pip else None)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/uv" if uv else None)
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix if own else "/opt/venv")
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr("vtare.doctor.ways.sysconfig.get_path", lambda _: str(tmp_path))
    assert pip_install("docker") == command


def test_a_package_that_this_machine_has_no_source_of_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtare.doctor.ways._lists_read", lambda: True)
    monkeypatch.setattr(Ways, "_candidates", frozenset({"gcc"}))
    assert Ways().install("gcc") == "sudo apt-get install -y gcc"
    assert Ways().install("lxc") is None
    assert Ways().out_of("the program 'lxc-start' is missing; install lxc") is None


def test_every_program_of_an_option_has_its_package_in_the_table(ways: Ways) -> None:
    assert set(machine._PROGRAMS) <= set(ways.packages)


def test_platforms_and_the_table_name_the_same_packages(ways: Ways) -> None:
    tools = [item for kind in KINDS for item in getattr(platform_class(kind), "TOOLS", {}).items()]
    assert len(tools) >= 4
    for tool, package in tools:
        assert ways.packages.get(tool, package) == package.partition(",")[0]


@pytest.mark.parametrize(
    ("flags", "command"),
    [("fpu svm", "sudo modprobe kvm_amd"), ("vmx ept", "sudo modprobe kvm_intel"), ("fpu svm_lock", None)],
)
def test_the_module_of_kvm_is_that_of_the_cpu(flags: str, command: str | None) -> None:
    assert kvm_command(f"processor : 0\nflags\t\t: {flags}\n") == command


def test_rights_of_the_binary_s_file_count(monkeypatch: pytest.MonkeyPatch, ways: Ways) -> None:
    """As `setcap cap_net_raw,cap_bpf+ep` writes them: version 2, effective."""
    monkeypatch.setattr(machine, "capabilities", lambda: 0)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machine, "_refused", lambda *_: "refused")

    def lacking(data: bytes | None) -> dict[str, Feature]:
        def attribute(*_: object) -> bytes:
            if data is None:
                raise OSError(61, "No data available")
            return data

        monkeypatch.setattr(os, "getxattr", attribute)
        return {feature.name: feature for feature in features(Path("/opt/vtare"), ways)}

    none = lacking(None)
    assert none["raw packets"].command == "sudo setcap cap_net_raw+ep /opt/vtare"
    assert none["programs in the kernel (BPF)"].lacks == "without CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON"
    assert none["ICMP"].lacks is not None
    some = lacking(struct.pack("<5I", 0x02000001, 1 << 13, 0, 1 << (39 - 32), 0))
    assert some["raw packets"].lacks is None
    assert some["ICMP"].lacks is None
    assert some["programs in the kernel (BPF)"].lacks == "without CAP_NET_ADMIN, CAP_PERFMON"
    kept = "sudo setcap cap_net_admin,cap_net_raw,cap_perfmon,cap_bpf+ep /opt/vtare"
    assert some["programs in the kernel (BPF)"].command == kept


def test_a_real_time_priority_is_asked_for_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, __: asked.append(policy))
    assert machine._priority_refused() is None
    assert asked == [os.SCHED_FIFO, os.SCHED_OTHER]

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert "cpu.rt_runtime_us" in str(machine._priority_refused())


def _reading(replaced: dict[str, str]):  # noqa: ANN202
    original = Path.read_text

    def read(path: Path, *words: str, **named: str) -> str:
        return replaced[str(path)] if str(path) in replaced else original(path, *words, **named)  # type: ignore[arg-type]

    return read


LACKS = "no daemon; also no library"
PLACES = (
    Place("host", {"rtt": NO_ROOT, "sleep": None}, None, None, False, None),
    Place("docker", {"rtt": LACKS, "sleep": LACKS}, LACKS, "sudo dockerd &", False, None),
    Place("ssh", {"rtt": "names no machine", "sleep": "names no machine"}, "names no machine", None, True, None),
    Place("esxi", {"rtt": None, "sleep": None}, None, None, False, "no ESXi was run"),
)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, fake: object) -> list[str]:
    """A machine with these platforms; the words that name the binary."""
    monkeypatch.setattr("vtare.doctor.places.places", lambda *_: PLACES)
    found = (Feature("KVM", "guests", "there is no /dev/kvm", "sudo modprobe kvm_amd"), Feature("ICMP", "rtt --icmp"))
    monkeypatch.setattr("vtare.doctor.machine.features", lambda *_: found)
    return ["--binary", str(fake.path)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], 0),
        (["sleep"], 0),
        (["sleep", "host"], 0),
        (["rtt", "host"], 3),
        (["rtt", "esxi"], 0),
        (["rtt", "sleep", "esxi", "docker"], 3),
        (["docker"], 3),
        (["ssh"], 3),
    ],
)
def test_the_exit_code_answers_for_what_is_named(names: list[str], code: int, here: list[str]) -> None:
    done = CliRunner().invoke(app, ["doctor", *names, *here, "--json"])
    assert done.exit_code == code, done.output
    found = json.loads(done.stdout)
    assert (found["able"], found["asked"]) == (code == 0, names)
    assert [place["name"] for place in found["platforms"]] == ["host", "docker", "ssh", "esxi"]


def test_a_misspelt_name_finds_its_neighbour(here: list[str]) -> None:
    done = CliRunner().invoke(app, ["doctor", "docer", *here])
    assert isinstance(done.exception, BadInput)
    assert "'docer' is no instrument or platform. Did you mean 'docker'?" in str(done.exception)


def test_each_cell_and_each_way_out_is_shown(here: list[str]) -> None:
    lines = CliRunner().invoke(app, ["doctor", "--platforms", *here]).output.splitlines()
    rows = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:4]] for line in lines if "│" in line
    }
    assert rows == {"host": ["-", "yes"], "docker": ["-", "-"], "ssh": ["plan", "plan"], "esxi*": ["yes", "yes"]}
    shown = "\n".join(lines)
    assert "  docker: no daemon\n  docker: no library\n" in shown
    assert shown.endswith("as far as commands get it\n  docker:\n    sudo dockerd &")
    assert "  KVM, for guests: there is no /dev/kvm\n    sudo modprobe kvm_amd\n" in shown
    assert f"  rtt: {NO_ROOT}\n" in shown + "\n"
    assert "names no machine" not in shown


def test_the_screen_names_what_is_ready_and_what_could_be_added(here: list[str]) -> None:
    lines = CliRunner().invoke(app, ["doctor", *here]).output.splitlines()
    assert lines == [
        "Ready on this machine: check, ab, exec, serve, path, run, report",
        f"Not ready: rtt: {NO_ROOT}",
        "Platforms for campaigns: host, esxi",
        "Optional, not set up: docker, ssh",
        "Optional, missing: KVM",
        "What each needs: vtare doctor --platforms",
    ]


def test_what_is_named_has_its_reasons_and_commands_alone(here: list[str]) -> None:
    done = CliRunner().invoke(app, ["doctor", "docker", *here])
    assert (done.exit_code, done.output) == (3, "docker: no daemon\ndocker: no library\n  sudo dockerd &\n")
    done = CliRunner().invoke(app, ["doctor", "sleep", "host", *here])
    assert (done.exit_code, done.output) == (0, "sleep: ready on host\nhost: ready\n")
    done = CliRunner().invoke(app, ["doctor", "rtt", "host", *here])
    assert (done.exit_code, done.output) == (3, f"rtt: not on host: {NO_ROOT}\nhost: ready\n")
    done = CliRunner().invoke(app, ["doctor", "rtt", *here])
    assert (done.exit_code, done.output) == (0, "rtt: ready on esxi\n")
