"""gVisor for real: both of its networks carry round trips, it stays on the CPUs given, and bad settings are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from machines import PATIENCE_S, wait_until

from vtare.errors import BadInput
from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Platform, Resources
from vtare.topology.links import TwoHosts

pytestmark = [pytest.mark.e2e, pytest.mark.platform]


def opened(binary: Path, **settings: str) -> Platform:
    platform = open_platform("gvisor", binary=binary, owner=own_prefix(), settings=settings)
    reason = platform.missing()
    if reason is not None:
        pytest.skip(reason)
    return platform


@pytest.mark.parametrize("stack", ["netstack", "host"])
def test_round_trips_pass_both_networks_and_the_facts_name_which(
    static_vtare: Path, namespaces: None, stack: str, tmp_path: Path
) -> None:
    platform = opened(static_vtare, network=stack)
    key = tmp_path / "key"
    key.write_text("00" * 32 + "\n")
    key.chmod(0o600)
    with TwoHosts(own_prefix()) as hosts:
        try:
            far, near = platform.start(1, hosts.responder)[0], platform.start(1, hosts.sender)[0]
            serve = ["serve", "--listen", f"{far.address}:8462", "--key-file", str(key), "--json"]
            answer = tmp_path / "serve.json"
            responder = far.start(serve, directory=tmp_path, stdout=answer, stderr=tmp_path / "serve.log")
            wait_until("the responder listens", lambda: b"\n" in answer.read_bytes())
            rtt = ["rtt", f"{far.address}:8462", "--count", "50", "--key-file", str(key), "--json"]
            out, log = tmp_path / "rtt.json", tmp_path / "rtt.log"
            child = near.start(rtt, directory=tmp_path, stdout=out, stderr=log)
            assert child.wait(PATIENCE_S) == 0, log.read_text()
            document = json.loads(out.read_text())
            assert document["cells"][0]["received"] > 0
            assert document["machine"]["container"] == "gvisor"
            responder.terminate(PATIENCE_S)
            about = near.facts()["container"]
            assert isinstance(about, dict)
            assert about["network"] == stack
        finally:
            platform.stop()


def test_a_sandbox_stays_on_the_cpus_that_it_was_given(static_vtare: Path, namespaces: None) -> None:
    platform = opened(static_vtare)
    try:
        (instance,) = platform.start(1, None, Resources(pinned=(0,)))
        allowed = [os.sched_getaffinity(pid) for pid in _processes(lambda words: instance.name in words)]
        assert allowed
        assert set.union(*map(set, allowed)) == {0}
    finally:
        platform.stop()


def test_a_setting_that_gvisor_does_not_have_is_refused(static_vtare: Path) -> None:
    with pytest.raises(BadInput, match="traps is 'qemu': use one of: systrap, ptrace, kvm"):
        open_platform("gvisor", binary=static_vtare, owner=own_prefix(), settings={"traps": "qemu"})


def _processes(are_wanted: Callable[[str], bool]) -> list[int]:
    """Processes of runsc whose words hold what is wanted."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
            if words.startswith("runsc") and are_wanted(words):
                found.append(int(entry.name))
    return found
