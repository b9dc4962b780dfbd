"""ESXi and vCenter as govmomi's simulator plays them, with a namespace's sshd as the machine that it makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from machines import PATIENCE_S, Sshd

from vtare.campaign.execute import RunSettings, execute
from vtare.campaign.files import Files
from vtare.campaign.setup import RunSetup
from vtare.campaign.stop import StopRequest
from vtare.contract import check_samples_file
from vtare.design import Run
from vtare.errors import BadInput, MachineCannot, PlatformFailed
from vtare.platforms import esxi, leftovers, open_platform, vsphere
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Resources
from vtare.platforms.vsphere import PASSWORD_VARIABLE, VsphereServer, session
from vtare.topology.instance_factors import IDLE

pytestmark = pytest.mark.platform

HERE = Path(__file__).parent.parent / "vcsim"
MODES = ("vcenter", "esxi")


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulator, built here; skipped where it cannot be."""
    pytest.importorskip("pyVmomi", reason="the Python package 'pyvmomi' is missing: make platforms")
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("Go is not installed (wanted `go` 1.23 or newer), with which the simulator of vSphere is built")
    # A toolchain that is older than go.mod asks for would fetch another.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=HERE, env=environment, capture_output=True, text=True, check=False
    )
    if fetched.returncode != 0:
        pytest.skip(f"the simulator's modules are not available: {fetched.stderr.strip()[-300:]}")
    program = tmp_path_factory.mktemp("vcsim") / "vcsim"
    subprocess.run([go, "build", "-o", str(program), "."], cwd=HERE, env=environment, check=True)
    return program


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@contextmanager
def running(simulator: Path, mode: str, address: str = "") -> Iterator[dict[str, Any]]:
    """A simulator, which ends with its input; the facts it prints about itself."""
    words = [str(simulator), "-mode", mode, "-address", address]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def plan_table(told: dict[str, Any], tmp_path: Path, **more: str | int) -> dict[str, str | int]:
    """The table of a plan for this server; the password lies in a file."""
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text(f"{told['password']}\n")
    return {
        "server": told["host"],
        "server_port": int(told["port"]),
        "account": told["account"],
        "password_file": str(password),
        "thumbprint": told["thumbprint"],
        "template": told["template"],
        **more,
    }


def server_of(told: dict[str, Any], **more: Any) -> VsphereServer:
    return VsphereServer(told["host"], told["account"], int(told["port"]), **more)


def machines(told: dict[str, Any]) -> dict[str, Any]:
    """The machines that lab processes made there, by name, with their configuration."""
    from pyVmomi import vim

    with session(server_of(told, insecure=True)) as vsphere_session:
        content = vsphere_session.content
        view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
        return {one.name: one.config for one in view.view if one.name.startswith("vtare-") and "esxi" in one.name}


@pytest.mark.e2e
@pytest.mark.parametrize("mode", MODES)
def test_a_machine_is_made_from_the_template_measured_on_and_deleted(
    simulator: Path, sshd: Sshd, static_vtare: Path, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = {key: value for key, value in sshd.settings().items() if key != "host"}
    # All machines of one template have one key, whatever address each of them gets.
    known = tmp_path / "known"
    key = (sshd.place / "known").read_text().split(maxsplit=1)[1]
    known.write_text(f"[template]:{sshd.port} {key}")
    login |= {"known_hosts": str(known), "host_key_alias": "template"}
    resources = Resources(vcpus=2, memory_byte=64 << 20, pinned=(0, 1), nic="e1000e")
    monkeypatch.setenv(PASSWORD_VARIABLE, "not this one: the file goes first")
    with running(simulator, mode, sshd.host) as told:
        monkeypatch.setenv(PASSWORD_VARIABLE, told["password"])
        platform = open_platform(
            "lab",
            binary=static_vtare,
            owner=own_prefix(),
            settings={"kind": "esxi", **plan_table(told, tmp_path, **login)},
        )
        assert platform.missing(resources) is None
        work = tmp_path / "work"
        work.mkdir()
        try:
            (instance,) = platform.start(1, None, resources)
            guest = instance.facts()["guest"]
            assert isinstance(guest, dict)
            assert (guest["vcpus"], guest["memory_byte"], guest["pinned"]) == (2, 64 << 20, [0, 1])
            assert guest["nic"] == "e1000e"
            assert guest["server_api"] == {"esxi": "HostAgent", "vcenter": "VirtualCenter"}[mode]
            assert guest["made_by"] == {"esxi": "copy of its disks", "vcenter": "clone"}[mode]
            assert guest["version"]
            assert guest["build"]
            # Nothing captures on such a host: there is none, which is not the same as one that saw nothing.
            assert (instance.capture_interface(), guest["host_capture"]) == (None, None)
            parameters = {"samples": 2000, "seconds": 0.2}
            run = Run(0, 1, 1, "0123456789abcdef", "e", "timer", None, {}, parameters)
            settings = RunSettings(seed=1, load=IDLE, settle_s=0.0, timeout_s=PATIENCE_S)
            with StopRequest() as stop:
                outcome = execute(run, settings, work, setup=RunSetup(instance, instance), files=Files(), stop=stop)
            assert outcome.status == "done", outcome
            check_samples_file(work / "samples.parquet", run_id=run.run_id, instrument="timer")
            (made,) = machines(told).values()
            assert made.name == instance.name
            disks = [device for device in made.hardware.device if "VirtualDisk" in type(device).__name__]
            assert len(disks) == 1
            (left,) = (one for one in leftovers() if one.kind == "ESXi machine")
            assert (left.name, "still runs" in str(left.kept_because)) == (instance.name, True)
            note = next((tmp_path / "state").rglob("*.json")).read_text()
            assert told["password"] not in json.loads(note).values()
            assert "password_file" in note
        finally:
            platform.stop()
        assert machines(told) == {}
    assert [one for one in leftovers() if one.kind == "ESXi machine"] == []


def test_what_a_killed_lab_left_is_found_by_its_note_and_nothing_else_is_touched(
    simulator: Path, static_vtare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("asyncssh", reason="the Python package 'asyncssh' is missing: make platforms")
    # It never gets an address: the machine is there, and the lab gives up.
    monkeypatch.setattr(esxi, "address_of", lambda machine, name: (_ for _ in ()).throw(PlatformFailed("no address")))
    gone = "vtare-999999999-1"
    with running(simulator, "vcenter") as told:
        monkeypatch.setenv(PASSWORD_VARIABLE, told["password"])
        platform = open_platform("esxi", binary=static_vtare, owner=gone, settings=plan_table(told, tmp_path))
        with pytest.raises(PlatformFailed, match="no address"):
            platform.start(1)
        (left,) = (one for one in leftovers() if one.kind == "ESXi machine")
        assert left.kept_because is None
        assert list(machines(told)) == [left.name]
        note = next((tmp_path / "state").rglob("*.json"))
        document = note.read_text()
        # Another laboratory's machine of the same name.
        note.write_text(document.replace(json.loads(document)["mark"], "0" * 32))
        with pytest.raises(PlatformFailed, match="is not the one that was noted; it stays"):
            left.remove()
        note.write_text(document)
        # As long as the server makes some machine, a missing one may be it.
        note.rename(note.with_stem(f"{gone}-esxi-0"))
        with monkeypatch.context() as patch:
            patch.setattr(vsphere.Vsphere, "makes_machines", lambda self: True)
            (early,) = (one for one in leftovers() if one.kind == "ESXi machine")
            with pytest.raises(PlatformFailed, match="the server is making one, which it may be"):
                early.remove()
        note.with_stem(f"{gone}-esxi-0").rename(note)
        with session(server_of(told, insecure=True)) as calm:
            assert not calm.makes_machines()
        left.remove()
        assert machines(told) == {}
        assert not note.exists()
        left.remove()


def test_a_server_is_shown_by_its_certificate(simulator: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(simulator, "vcenter") as told:
        monkeypatch.setenv(PASSWORD_VARIABLE, told["password"])
        with session(server_of(told, thumbprint=told["thumbprint"])) as good:
            assert not good.is_host
        upper = ":".join(told["thumbprint"][at : at + 2].upper() for at in range(0, 64, 2))
        with session(server_of(told, thumbprint=upper)):
            pass
        with pytest.raises(MachineCannot, match=f"SHA-256 {told['thumbprint']}, not 0000"):
            session(server_of(told, thumbprint="0" * 64)).__enter__()
        # Even at 127.0.0.1, where the library itself trusts any.
        with pytest.raises(MachineCannot, match=r"cannot be trusted .*thumbprint.*ca_file.*insecure"):
            session(server_of(told)).__enter__()
        with session(server_of(told, insecure=True)):
            pass
        monkeypatch.setenv(PASSWORD_VARIABLE, "")
        with pytest.raises(MachineCannot, match=f"set {PASSWORD_VARIABLE} or name a `password_file`"):
            session(server_of(told, insecure=True)).__enter__()
        monkeypatch.setenv(PASSWORD_VARIABLE, "another")
        with pytest.raises(MachineCannot, match=f"does not let {told['account']} in"):
            session(server_of(told, insecure=True)).__enter__()
    with pytest.raises(MachineCannot, match=f"{told['host']}:{told['port']}: "):
        session(server_of(told, insecure=True)).__enter__()


def test_what_stands_against_a_machine_is_stated_with_figures(
    simulator: Path, static_vtare: Path, tmp_path: Path
) -> None:
    pytest.importorskip("asyncssh", reason="the Python package 'asyncssh' is missing: make platforms")
    with running(simulator, "vcenter") as told:

        def missing(resources: Resources = Resources(), **more: str | int) -> str:  # noqa: B008
            table = {**plan_table(told, tmp_path), **more}
            return str(
                open_platform("esxi", binary=static_vtare, owner=own_prefix(), settings=table).missing(resources)
            )

        assert missing() == "None"
        assert "GiB of memory, free are" in missing(Resources(memory_byte=1 << 50))
        assert "a machine was to have 4096" in missing(Resources(vcpus=4096))
        assert "no CPU 4000 to pin to" in missing(Resources(pinned=(4000,)))
        assert "no network card 'rtl8139': use one of: vmxnet3" in missing(Resources(nic="rtl8139"))
        assert "no clock source of its own to choose" in missing(Resources(clock_source="tsc"))
        assert "0 of the template 'absent' exist: name a unique one" in missing(template="absent")
        assert "0 of the host 'absent' exist: name a unique one" in missing(run_on="absent")
        (tmp_path / "password").chmod(0o644)
        assert "has mode 0644, so others may use it" in missing()


def test_wrong_settings_of_a_plan_are_named(tmp_path: Path) -> None:
    def opened(**settings: str | int) -> str:
        found = open_platform("esxi", binary=Path("/proc/self/exe"), owner=own_prefix(), settings=settings)
        return str(found.missing())

    assert "names no server" in opened()
    assert "names no template" in opened(server="s", account="a")
    for settings, text in (
        ({"serve": "s"}, "unknown setting 'serve'"),
        ({"tls": "off"}, "tls is 'off': use one of: checked, insecure"),
        ({"thumbprint": "12:34"}, "thumbprint is '12:34': use the SHA-256"),
        ({"server_port": 0}, "server_port is 0"),
        ({"template": 3}, "template is 3: use a string"),
        ({"interface": "vmnic0"}, "ESXi has no place for vtare's capture"),
        ({"password": "secret"}, "unknown setting 'password'"),
    ):
        with pytest.raises(BadInput, match=text):
            opened(**settings)
    assert vsphere.plain_thumbprint("AB" * 32) == "ab" * 32
