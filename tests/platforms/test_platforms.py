"""Every platform that runs here, for real: it measures, is limited, hands files over, ends, and leaves nothing."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import PATIENCE_S, Sshd, wait_until

from vtare.campaign.programs import CounterPrograms
from vtare.contract import check_samples_file
from vtare.design import Run
from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms import kinds_with, leftovers, open_platform
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Instance, Platform, Resources
from vtare.platforms.rooted import ToolChild
from vtare.topology.links import TwoHosts

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

#: What vtare calls the container that it finds itself in.
CONTAINERS = {
    "docker": "docker",
    "lxc": "lxc",
    "podman": "podman",
    "nspawn": "systemd-nspawn",
    "bubblewrap": "bubblewrap",
    "gvisor": "gvisor",
}
#: With podman on gVisor's runtime, whose programs are reached in another way.
KINDS = (*kinds_with(lambda kind: kind.TRIED_WITH_ALL), "podman-gvisor")
EXPECTED = {"samples.parquet": 16 << 20}
RUN = {
    "schema": "vtare.run/1",
    "run_id": "0123456789abcdef",
    "instrument": "timer",
    "seed": 1,
    "parameters": {"source": ["clock_monotonic"], "samples": 2000},
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def platform(
    kind: str, request: pytest.FixtureRequest, static_vtare: Path, monkeypatch: pytest.MonkeyPatch, namespaces: None
) -> Iterator[Platform]:
    settings: dict[str, str | int] = {}
    if kind == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker_host"))
    if kind == "ssh":
        machine: Sshd = request.getfixturevalue("sshd")
        settings = machine.settings()
    if kind == "podman-gvisor":
        kind, settings = "podman", {"runtime": "runsc"}
    opened = open_platform(kind, binary=static_vtare, owner=own_prefix(), settings=settings)
    reason = opened.missing()
    if reason is not None:
        pytest.skip(reason)
    yield opened
    opened.stop()
    left = [leftover.name for leftover in leftovers() if own_prefix() in leftover.name and kind in leftover.name]
    assert [name for name in left if not name.endswith("-ssh")] == []


def measure(instance: Instance, directory: Path) -> dict[str, object]:
    (directory / "run.json").write_text(json.dumps({**RUN, "output": str(directory / "samples.parquet")}))
    log = directory / "log"
    child = instance.start(["measure", str(directory / "run.json")], directory=directory, stdout=log, stderr=log)
    assert child.wait(PATIENCE_S) == 0, log.read_text()
    instance.fetch(directory, EXPECTED)
    return check_samples_file(directory / "samples.parquet", run_id=str(RUN["run_id"]), instrument="timer")


def test_an_instance_measures_and_its_files_come_back(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1)
    machine = measure(instance, tmp_path)["machine"]
    assert isinstance(machine, dict)
    if platform.name in CONTAINERS:
        about = instance.facts()["container"]
        assert isinstance(about, dict)
        expected = "gvisor" if about.get("runtime") == "runsc" else CONTAINERS[platform.name]
        assert machine["container"] == expected
    json.dumps(dict(instance.facts()))


@pytest.fixture(scope="module")
def programs(static_vtare: Path) -> CounterPrograms:
    """Each built once for all platforms."""
    return CounterPrograms(static_vtare)


@pytest.mark.parametrize("language", ["c", "java"])
def test_the_counter_in_another_language_is_brought_in_and_counts_there(
    platform: Platform, programs: CounterPrograms, language: str, tmp_path: Path
) -> None:
    parameters = {"batches": 1, "calls": 3, "max_exponent": 1, "unit_ms": 0.05, "language": language}
    run = Run(0, 1, 1, str(RUN["run_id"]), "e", "counter", None, {}, parameters)
    (instance,) = platform.start(1)
    try:
        with programs.beside(run, platform.name, platform.name, tmp_path) as placed:
            document = {**RUN, "instrument": "counter", "parameters": placed.parameters}
            (tmp_path / "run.json").write_text(
                json.dumps({**document, "output": str(tmp_path / "samples.parquet")}), encoding="utf-8"
            )
            log = tmp_path / "log"
            words = ["measure", str(tmp_path / "run.json")]
            child = instance.start(words, directory=tmp_path, stdout=log, stderr=log)
            code = child.wait(PATIENCE_S)
            if code == 3 and "has no line nonvoluntary_ctxt_switches" in log.read_text():
                pytest.skip(f"{language}: the kernel of this gVisor counts no switches of a thread")
            assert code == 0, log.read_text()
    except MachineCannot as error:
        pytest.skip(str(error))
    instance.fetch(tmp_path, EXPECTED)
    footer = check_samples_file(tmp_path / "samples.parquet", run_id=run.run_id, instrument="counter")
    cells = footer["result"]["cells"]
    assert [(cell["language"], cell["argument"], cell["runtime_ns"]["n"]) for cell in cells] == [
        (language, 1, 3),
        (language, 2, 3),
    ]
    assert list(tmp_path.glob("counter-program")) == []


def test_a_load_runs_until_it_is_ended_and_shows_what_it_did(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1)
    out, log = tmp_path / "report.json", tmp_path / "log"
    load = instance.start(["load", "cpu", "--threads", "1", "--json"], directory=tmp_path, stdout=out, stderr=log)
    wait_until("the load is ready", lambda: log.exists() and b"ready" in log.read_bytes())
    assert load.wait(0.2) is None
    assert load.returncode is None
    assert load.terminate(PATIENCE_S) == 0, log.read_text()
    assert json.loads(out.read_text())["operations"] > 0


def test_programs_that_fail_or_are_killed_state_so(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1)
    log = tmp_path / "log"
    wrong = instance.start(["no-such-command"], directory=tmp_path, stdout=log, stderr=log)
    assert wrong.wait(PATIENCE_S) == 2
    assert "no-such-command" in log.read_text()
    load = instance.start(["load", "idle"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "err")
    wait_until("the load is ready", lambda: b"ready" in (tmp_path / "err").read_bytes())
    assert load.kill() == -signal.SIGKILL
    assert load.returncode == -signal.SIGKILL


def test_only_what_is_expected_comes_back(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1)
    (tmp_path / "key").write_text("secret")
    (tmp_path / "samples.parquet").write_text("brought in")
    child = instance.start(["--version"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "out")
    assert child.wait(PATIENCE_S) == 0
    (tmp_path / "key").unlink()
    instance.fetch(tmp_path, EXPECTED)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "samples.parquet"]
    if platform.name == "netns":
        return
    with pytest.raises(PlatformFailed, match=r"samples\.parquet has 10 B or more, 9 B are the most"):
        instance.fetch(tmp_path, {"samples.parquet": 9})
    with pytest.raises(PlatformFailed, match="none"):
        instance.fetch(tmp_path, {"none": 9})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "samples.parquet"]


@pytest.mark.parametrize("kind", ["docker", "lxc", "podman", "gvisor"], indirect=True)
def test_a_container_gets_the_limits_that_were_asked_for(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1, None, Resources(vcpus=1, memory_byte=128 << 20, pinned=(0,)))
    machine = measure(instance, tmp_path)["machine"]
    assert isinstance(machine, dict)
    about = instance.facts()["container"]
    assert isinstance(about, dict)
    assert about["pinned"] == "0"
    assert about["memory_limit_byte"] == 128 << 20
    # gVisor's own kernel schedules on as many CPUs as it likes: tests/platforms/test_gvisor.py.
    if platform.name != "gvisor":
        assert machine["cpus_allowed"] == [0]


@pytest.mark.parametrize(
    "kind",
    ["netns", "docker", "lxc", "podman", "nspawn", "bubblewrap", "gvisor", "podman-gvisor"],
    indirect=True,
)
def test_instances_behind_two_bridges_answer_each_other(
    platform: Platform, wait_for_reply: Callable[[Instance, Instance, Path], None], tmp_path: Path
) -> None:
    with TwoHosts(own_prefix()) as hosts:
        far, near = platform.start(1, hosts.responder)[0], platform.start(1, hosts.sender)[0]
        try:
            wait_for_reply(near, far, tmp_path)
            assert near.capture_interface() == "port0"
        finally:
            platform.stop()


@pytest.mark.parametrize("kind", ["lxc"], indirect=True)
def test_lxc_takes_the_sealed_copy_of_its_tool_for_one_of_its_own(platform: Platform, tmp_path: Path) -> None:
    (instance,) = platform.start(1)
    log = tmp_path / "log"
    child = instance.start(["load", "idle"], directory=tmp_path, stdout=tmp_path / "out", stderr=log)
    try:
        wait_until("the program runs", lambda: b"ready" in log.read_bytes().splitlines())
        assert isinstance(child, ToolChild)
        # Had LXC made a copy of its own, it would run as that.
        assert Path(f"/proc/{child.pid}/exe").readlink().name == "memfd:vtare-lxc-attach (deleted)"
    finally:
        assert child.terminate(PATIENCE_S) == 0


@pytest.fixture
def wait_for_reply() -> Callable[[Instance, Instance, Path], None]:
    def check(near: Instance, far: Instance, directory: Path) -> None:
        key = directory / "key"
        key.write_text("00" * 32 + "\n")
        key.chmod(0o600)
        serve = ["serve", "--listen", f"{far.address}:8462", "--key-file", str(key), "--json"]
        answer = directory / "serve.json"
        responder = far.start(serve, directory=directory, stdout=answer, stderr=directory / "serve.log")
        try:
            wait_until("the responder listens", lambda: b"\n" in answer.read_bytes())
            words = ["rtt", f"{far.address}:8462", "--count", "50", "--key-file", str(key), "--json"]
            out, log = directory / "rtt.json", directory / "rtt.log"
            child = near.start(words, directory=directory, stdout=out, stderr=log)
            assert child.wait(PATIENCE_S) == 0, log.read_text()
            told = json.loads(out.read_text())
            assert told["cells"][0]["received"] > 0
        finally:
            responder.terminate()

    return check
