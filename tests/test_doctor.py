"""`vtare doctor` on this machine: what it finds, and that the commands which it names get what they promise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vtare.doctor import machine
from vtare.doctor.ways import Ways
from vtare.instruments import RECORDS
from vtare.platforms import KINDS

# What an ordinary user tries, once without and once with what doctor names: feature -> arguments.
TRIED = {
    "raw packets": ["capture", "lo", "--hook", "packet", "--seconds", "0.2"],
    "programs in the kernel (BPF)": ["capture", "lo", "--hook", "tc", "--seconds", "0.2"],
    "ICMP": ["rtt", "127.0.0.1", "--icmp", "--count", "3"],
}
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@pytest.mark.platform
def test_every_platform_and_instrument_is_looked_at_here(vtare: Path) -> None:
    done = subprocess.run([vtare, "doctor", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["able"] == (done.returncode == 0)
    assert [place["name"] for place in found["platforms"]] == list(KINDS)
    assert all(list(place["instruments"]) == [record.name for record in RECORDS] for place in found["platforms"])
    host = found["platforms"][0]
    assert (host["lacks"], host["instruments"]["timer"]) == (None, None)


@pytest.fixture
def copy(vtare: Path) -> Iterator[Path]:
    """A copy of the binary that an ordinary user can start."""
    with tempfile.TemporaryDirectory(prefix="vtare-doctor-") as directory:
        Path(directory).chmod(0o755)
        yield Path(shutil.copy(vtare, directory))


@pytest.mark.e2e
@pytest.mark.parametrize("name", TRIED)
def test_the_command_that_is_named_gets_what_was_missing(
    name: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("setcap", path=PATH) is None:
        pytest.skip("needs root, setpriv and setcap (Debian: util-linux, libcap2-bin)")
    # In a network of its own, whose settings end with it.
    with monkeypatch.context() as patched:
        patched.setattr(machine, "_held", lambda _: 0)
        patched.setattr(machine, "_refused", lambda *_: "refused")
        patched.setattr(os, "getegid", lambda: 65534)
        found = {feature.name: feature for feature in machine.features(copy, Ways())}[name]
    assert found.command is not None
    user = " ".join([*NOBODY, str(copy), *TRIED[name]])
    # The kernel's own default lets nobody send ICMP without a raw socket.
    script = f"""ip link set lo up
        sysctl -qw net.ipv4.ping_group_range='1 0'
        {user} >/dev/null 2>&1 && exit 10
        {found.command.removeprefix("sudo ")} >/dev/null || exit 11
        {user} >/dev/null"""
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script],
        env={**os.environ, "PATH": PATH}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, found.command, done.stderr)


PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
