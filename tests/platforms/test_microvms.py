"""Firecracker, Cloud Hypervisor and Kata, none of which was run: programs in their place check what they are given.

Each runs vtare's agent on its stdin and stdout, as the guest would over its serial line; the lab then measures by it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import PATIENCE_S

from vtare.contract import check_samples_file
from vtare.errors import MachineCannot
from vtare.links import TwoHosts
from vtare.platforms import Resources, kata, open_platform
from vtare.platforms.guest import stdio_machine
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.owner import own_prefix

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

RUN_ID = "0123456789abcdef"
#: What stands in the place of each program: it leaves what it was given and becomes vtare's agent.
STAND_IN = """#!{python}
import json, os, sys
json.dump(sys.argv[1:], open({given!r}, "w"))
os.execv({vtare!r}, ["vtare", "agent", "--directory", "/"])
"""


@pytest.fixture(params=["firecracker", "cloudhypervisor", "kata"])
def platform(
    request: pytest.FixtureRequest,
    static_vtare: Path,
    namespaces: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[stdio_machine.StdioPlatform]:
    opened = open_platform(str(request.param), binary=static_vtare, owner=own_prefix())
    assert isinstance(opened, stdio_machine.StdioPlatform)
    try:
        find_kernel("cloud")
    except MachineCannot as error:
        pytest.skip(str(error))
    programs = tmp_path / "bin"
    programs.mkdir()
    stand_in = programs / opened.PROGRAM
    given = str(tmp_path / "given")
    stand_in.write_text(STAND_IN.format(python=sys.executable, given=given, vtare=str(static_vtare)))
    stand_in.chmod(0o755)
    (programs / kata.SHIM).symlink_to(stand_in)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(stdio_machine, "KVM", Path("/dev/null"))
    assert opened.missing() is None
    yield opened
    opened.stop()


def test_a_guest_is_made_as_the_schema_states_and_measures_over_its_serial_line(
    platform: stdio_machine.StdioPlatform, tmp_path: Path
) -> None:
    resources = Resources() if platform.name == "kata" else Resources(vcpus=2, memory_byte=256 << 20)
    with TwoHosts(own_prefix()) as hosts:
        if platform.name == "kata":
            (instance,) = platform.start(1, hosts.sender, resources)
        else:
            # A tap carries nothing before its monitor has opened it: the stand-in does not.
            (instance,) = platform.start(1, None, resources)
        parameters = {"source": ["clock_monotonic"], "samples": 2000}
        document = {
            "schema": "vtare.run/1",
            "run_id": RUN_ID,
            "instrument": "timer",
            "seed": 1,
            "parameters": parameters,
        }
        run, log = tmp_path / "run.json", tmp_path / "log"
        run.write_text(json.dumps({**document, "output": str(tmp_path / "samples.parquet")}))
        child = instance.start(["measure", str(run)], directory=tmp_path, stdout=log, stderr=log)
        assert child.wait(PATIENCE_S) == 0, log.read_text()
        instance.fetch(tmp_path, {"samples.parquet": 16 << 20})
        check_samples_file(tmp_path / "samples.parquet", run_id=RUN_ID, instrument="timer")
        guest = instance.facts()["guest"]
        assert isinstance(guest, dict)
        assert guest["unverified"] == platform.UNVERIFIED
        _check(platform.name, json.loads((tmp_path / "given").read_text()))
        platform.stop()


def test_where_kvm_is_not_there_the_reason_says_so(
    platform: stdio_machine.StdioPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_machine, "KVM", Path("/no-such-device"))
    assert str(platform.missing()).endswith("needs KVM, and /no-such-device cannot be opened here")


def _check(kind: str, given: list[str]) -> None:
    """What the monitor was given, against its schema or the description of its options."""
    if kind == "firecracker":
        assert given[:2] == ["--no-api", "--config-file"]
        # FullVmConfiguration of firecracker.yaml: these keys, and in each of them no others.
        config = json.loads(Path(given[2]).read_text())
        assert set(config) == {"boot-source", "drives", "machine-config", "network-interfaces"}
        assert set(config["boot-source"]) == {"kernel_image_path", "initrd_path", "boot_args"}
        assert Path(config["boot-source"]["initrd_path"]).is_file()
        assert config["machine-config"] == {"vcpu_count": 2, "mem_size_mib": 256}
        assert config["boot-source"]["boot_args"].endswith("-- agent --init")
    elif kind == "cloudhypervisor":
        options = dict(zip(given[::2], given[1::2], strict=True))
        assert set(options) == {
            "--kernel", "--initramfs", "--cmdline", "--cpus", "--memory", "--serial", "--console",
        }  # fmt: skip
        assert (options["--cpus"], options["--memory"], options["--serial"]) == ("boot=2", "size=256M", "tty")
    else:
        assert given[:5] == ["run", "--rm", "--runtime", "io.containerd.kata.v2", "--with-ns"]
        assert given[5].startswith("network:/run/netns/vtare-")
        assert given[-4:] == ["/vtare", "agent", "--directory", "/"]
