"""Guests of user-mode Linux for real: they measure, answer over their card, are captured on the host, leave nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import PATIENCE_S, wait_until

from vtare.contract import check_samples_file
from vtare.errors import PlatformFailed
from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Platform, Resources
from vtare.platforms.uml import leftovers
from vtare.topology.links import TwoHosts

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

RUN_ID = "0123456789abcdef"


@pytest.fixture
def platform(static_vtare: Path, namespaces: None) -> Iterator[Platform]:
    opened = open_platform("uml", binary=static_vtare, owner=own_prefix())
    reason = opened.missing(Resources(pinned=(0,)))
    if reason is not None:
        pytest.skip(reason)
    yield opened
    opened.stop()
    assert [left.name for left in leftovers() if own_prefix() in left.name] == []


def test_a_guest_measures_over_its_card_and_is_named_for_what_it_is(platform: Platform, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("00" * 32 + "\n")
    key.chmod(0o600)
    with TwoHosts(own_prefix()) as hosts:
        far, near = platform.start(1, hosts.responder)[0], platform.start(1, hosts.sender, Resources(pinned=(0,)))[0]
        serve = ["serve", "--listen", f"{far.address}:8462", "--key-file", str(key), "--json"]
        answer, log = tmp_path / "serve.json", tmp_path / "log"
        responder = far.start(serve, directory=tmp_path, stdout=answer, stderr=tmp_path / "serve.log")
        wait_until("the responder listens", lambda: b"\n" in answer.read_bytes())
        parameters = {"peer": [f"{far.address}:8462"], "packets": 50, "key_file": str(key)}
        document = {"schema": "vtare.run/1", "run_id": RUN_ID, "instrument": "rtt", "seed": 1, "parameters": parameters}
        run = tmp_path / "run.json"
        run.write_text(json.dumps({**document, "output": str(tmp_path / "samples.parquet")}))
        child = near.start(["measure", str(run)], directory=tmp_path, stdout=log, stderr=log)
        assert child.wait(PATIENCE_S) == 0, log.read_text()
        near.fetch(tmp_path, {"samples.parquet": 16 << 20})
        assert near.capture_interface() == "port0"
        responder.terminate(PATIENCE_S)
    footer = check_samples_file(tmp_path / "samples.parquet", run_id=RUN_ID, instrument="rtt")
    assert footer["result"]["cells"][0]["received"] > 0
    assert (footer["machine"]["hypervisor"], footer["machine"]["container"]) == ("uml", None)
    guest = near.facts()["guest"]
    assert isinstance(guest, dict)
    assert (guest["vcpus"], guest["nic"], guest["pinned"]) == (1, "tap", [0])


def test_a_load_ends_when_it_is_asked_to_and_what_is_refused_is_an_error(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1)
    out, log = tmp_path / "report.json", tmp_path / "log"
    load = instance.start(["load", "cpu", "--threads", "1", "--json"], directory=tmp_path, stdout=out, stderr=log)
    wait_until("the load is ready", lambda: b"ready" in log.read_bytes())
    assert load.terminate(PATIENCE_S) == 0, log.read_text()
    assert json.loads(out.read_text())["operations"] > 0
    with pytest.raises(PlatformFailed, match="no-such-command"):
        instance.start(["no-such-command"], directory=tmp_path, stdout=out, stderr=log)


def test_a_guest_too_small_to_boot_is_refused_with_the_size_that_does(platform: Platform) -> None:
    reason = platform.missing(Resources(memory_byte=16 << 20))
    assert reason is not None
    assert "16 MiB does not boot; give it 96 MiB" in reason
