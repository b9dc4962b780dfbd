"""Campaigns whose store is on S3, against a server that speaks its protocol: `make s3-server` installs it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import end_daemon, sleeps_plan, wait_until

from vtare.campaign.executor import Campaign
from vtare.campaign.objects import ObjectStore, at_work, fetch, named, place_of
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.errors import BadInput, CampaignStopped
from vtare.plan.files import parse_plan

pytestmark = pytest.mark.e2e

PLAN = sleeps_plan(3, "0.3 s")
RUN = "0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    python = Path(sys.prefix) / "s3-server" / "bin" / "python"
    if not python.is_file():
        pytest.skip("there is no server that speaks S3: make s3-server")
    pytest.importorskip("obstore", reason="the Python package 'obstore' is missing")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    words = [str(python), "-c", "from moto.server import main; main()", "-p", str(port)]
    with log.open("wb") as file:
        daemon = subprocess.Popen(words, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        wait_until("the server listens", lambda: b"Running on" in log.read_bytes() or daemon.poll() is not None)
        url = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
        yield url
    finally:
        end_daemon(daemon)


@pytest.fixture
def account(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What names the server, and a machine's own state."""
    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1",
        "XDG_STATE_HOME": str(tmp_path / "first"), "PYTHONPATH": str(Path(__file__).parents[1] / "python" / "src"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)


def lab(*words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vtare.start", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def marks(store: ObjectStore) -> list[str]:
    return [run_id for run_id, names in store.listed().items() if "files.sha256" in names]


def test_another_machine_goes_on_with_the_campaign_of_a_killed_lab(
    account: None, vtare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, url = tmp_path / "plan.toml", "s3://bucket/killed"
    plan.write_text(PLAN)
    objects = ObjectStore(url, tmp_path / "unused")
    first = lab("run", plan, "--store", url, "--binary", vtare)
    wait_until("a run was put", lambda: bool(marks(objects)) or first.poll() is not None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "second"))
    path = place_of(url)
    with pytest.raises(BadInput, match=f"process {first.pid} on .* runs a campaign"), at_work(path):
        pass
    first.kill()
    first.communicate()
    put = set(marks(objects))
    assert 0 < len(put) < 9
    status, errors = lab("status", url, "--json").communicate()
    assert (json.loads(status)["store"], json.loads(status)["total"]) == (url, 9), errors
    with at_work(path) as files, Store.open(path, files=files) as store, StopRequest() as stop:
        result = Campaign(store, vtare, stop).run()
    # The lab was killed before it put the rows of some of these runs.
    assert (result.done, result.set_aside, 0 < result.adopted <= len(put)) == (9, 0, True)
    assert len(marks(objects)) == 9
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "third"))
    fetch(place_of(url))
    checked = verify(place_of(url))
    assert (checked.sound, len(checked.conditions.whole), checked.total) == (True, 9, 9)
    assert objects.get("lock.json") is None


def test_only_runs_with_their_mark_and_right_checksums_are_fetched(account: None, tmp_path: Path) -> None:
    path = place_of("s3://bucket/marks")
    store = ObjectStore("s3://bucket/marks", path)
    assert named(f"see {path}") == "see s3://bucket/marks"
    with pytest.raises(BadInput, match="no such store; make one with"):
        fetch(path)
    (path / "runs").mkdir(parents=True)
    store.put(f"runs/{RUN}/samples.parquet", b"samples")
    store.put("runs/../../escaped/files.sha256".replace("..", "%2E%2E"), b"")
    store.fetch_runs(store.listed())
    assert list((path / "runs").iterdir()) == []
    store.put(f"runs/{RUN}/files.sha256", b"0" * 64 + b"  samples.parquet\n")
    store.fetch_runs(store.listed())
    assert list((path / "runs").iterdir()) == []
    right = subprocess.run(["sha256sum"], input=b"samples", capture_output=True, check=True).stdout[:64]
    store.put(f"runs/{RUN}/files.sha256", right + b"  samples.parquet\n")
    store.fetch_runs(store.listed())
    assert sorted(found.name for found in (path / "runs" / RUN).iterdir()) == ["files.sha256", "samples.parquet"]
    store.remove_mark(RUN)
    assert marks(store) == []


def test_a_lock_is_taken_over_from_a_lab_that_is_gone_on_this_machine_alone(account: None, tmp_path: Path) -> None:
    first, second = (ObjectStore("s3://bucket/locks", tmp_path / name) for name in ("first", "second"))
    first.lock()
    first.check_lock()
    state = json.loads(first.get("lock.json") or b"")
    for change in ({"boot": "another"}, {"pid": 1}):
        first.put("lock.json", json.dumps({**state, **change}).encode())
        with pytest.raises(BadInput, match=r"remove the lock with `aws s3 rm s3://bucket/locks/lock.json`"):
            second.lock()
    with pytest.raises(CampaignStopped, match="the lock of this campaign was removed"):
        first.check_lock()
    first.put("lock.json", json.dumps({**state, "owner": "vtare-4194303-1"}).encode())
    second.lock()
    first.unlock()
    second.check_lock()
    second.unlock()
    assert first.get("lock.json") is None


def test_what_was_not_put_is_put_when_its_campaign_goes_on(account: None, vtare: Path, tmp_path: Path) -> None:
    plan = parse_plan(PLAN.replace("blocks = 3", "blocks = 1"), source=tmp_path / "plan.toml")
    path = place_of("s3://bucket/later")
    with at_work(path) as files, Store.create(path, plan, 5, files=files) as made, StopRequest() as stop:
        assert Campaign(made, vtare, stop).run().done == 3
    store = ObjectStore("s3://bucket/later", path)
    for run_id in marks(store)[:2]:
        store.remove_mark(run_id)
    with at_work(path):
        assert len(marks(store)) == 3
    with pytest.raises(BadInput, match="already holds a campaign"), at_work(path) as files:
        Store.create(path, plan, 5, files=files)


def test_a_bucket_that_is_not_there_is_named_with_what_to_check(account: None) -> None:
    with pytest.raises(BadInput, match="use s3://BUCKET/NAME"):
        place_of("s3://bucket")
    with pytest.raises(CampaignStopped, match="see that the bucket is there"):
        ObjectStore("s3://nowhere/name", Path("unused")).put("plan.toml", b"")
