"""`vtare weigh` with real sandboxes: what it measures, where a command does not run, and that nothing is left over."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import images
import pytest
from json_schemas import validate
from machines import wait_until

from vtare.kernel_files import kernel_text
from vtare.platforms.binary import not_static
from vtare.platforms.owner import owner_of, still_runs
from vtare.platforms.protocol import Resources
from vtare.platforms.rooted import PLACES, ROOT
from vtare.weigh import group
from vtare.weigh.launchers import LAUNCHERS, HostLauncher
from vtare.weigh.runner import RefusedThere, WeighRunner

pytestmark = pytest.mark.platform
HERE = ("--on", "host,bubblewrap")
#: Platforms beside the host on its kernel and its network.
SANDBOXES = [name for name, one in LAUNCHERS.items() if name != "host" and not one.IS_MACHINE]
#: A file of every guest.
IN_GUEST = "/run/request"


@pytest.fixture
def words(vtare: Path) -> list[str]:
    """The command, where it can make a sandbox."""
    if os.geteuid() != 0 or shutil.which("bwrap") is None:
        pytest.skip("needs root and bwrap (Debian: bubblewrap)")
    if (reason := not_static(vtare)) is not None:
        pytest.skip(reason)
    return [str(vtare), "weigh"]


def run(words: list[str], *more: str, directory: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*words, *more], cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert left() == []
    return done


def left() -> list[str]:
    """Places and control groups of runs that have ended; one that is still mounted cannot be gone."""
    names = [path.name for path in (PLACES / "weigh").glob("*")]
    groups = [one.name for one in group.leftovers() if one.kept_because is None]
    return [*(name for name in names if still_runs(owner_of(name) or name) is None), *groups]


#: Words of an instance that is entered; other tests have idle loads without an end.
INSTANCE = ("idle", "--seconds")


def running(*words: str) -> list[str]:
    """Processes with these words in their command."""
    lines = [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(os.getpid())]
    return [
        path.parent.name for path in lines if set(words) <= set((kernel_text(str(path).lstrip("/")) or "").split("\0"))
    ]


def test_a_command_is_measured_inside_with_its_directory_and_nothing_is_left(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "input").write_text("text")
    shell = "cp input output; sleep 0.03; test $(pwd) = $VTARE_TEST_PLACE"
    words = ["env", f"VTARE_TEST_PLACE={tmp_path}", *words]
    done = run(words, *HERE, "--rounds", "8", "--json", "--", shell, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document)
    assert document["ranking"] == ["bubblewrap"]
    for platform in document["platforms"]:
        assert not platform["start_by_difference"]
        for one in platform["runs"]:
            assert one["wall time"] >= 30e6
            assert one["start"] > 0
            assert one["stop"] > 0
            assert one["start"] + one["wall time"] < one["whole"]
            assert one["memory in all"] is None or 0 < one["memory in all"] < 100e6
            # Without control groups it is not known.
            assert one["CPU time outside"] is None if group._root() is None else one["CPU time outside"] > 0
    # On the host it runs as it is; the sandbox writes to a layer of its own.
    assert (tmp_path / "output").read_text() == "text"


def test_a_guest_has_the_host_s_files_and_environment_and_a_kernel_of_its_own(
    words: list[str], vtare: Path, tmp_path: Path
) -> None:
    if (reason := LAUNCHERS["qemu"].missing(vtare)) is not None:
        pytest.skip(reason)
    (tmp_path / "input").write_text("text")
    words = ["env", "VTARE_TEST_TEXT=a 'b' $c", *words]
    # What it writes is its own; that it ran inside, its errors show. It has the memory that it may take, and no more.
    within = "test $(awk '/MemTotal/ {print $2}' /proc/meminfo) -lt 524288"
    shell = 'test "$VTARE_TEST_TEXT" = "a \'b\' \\$c" && cp input output && '
    shell += f"{{ test ! -e {IN_GUEST} || {{ {within} && sleep 0.05; }}; }}"
    on = ("--on", "host,qemu", "--rounds", "1", "--memory", "512MiB", "--json")
    document = json.loads(run(words, *on, "--", shell, directory=tmp_path).stdout)
    validate(document)
    assert (document["refused"], document["absent"]) == ({}, {})
    host, guest = document["platforms"]
    assert (host["start_by_difference"], guest["start_by_difference"]) == (False, True)
    for one in guest["runs"]:
        assert one["wall time"] >= 50e6
        assert one["start"] > one["wall time"] / 100
        assert one["memory in all"] is None or one["memory in all"] > 50e6
        assert one["CPU time outside"] is None or one["CPU time outside"] > 0
    (tmp_path / "output").unlink()
    failing = f"test ! -e {IN_GUEST} || {{ uname -v >&2; ls / >/new; exit 3; }}"
    done = run(words, *on, "--", failing, directory=tmp_path)
    refused = json.loads(done.stdout)["refused"]
    assert refused.keys() == {"qemu"}
    assert refused["qemu"] != os.uname().version
    assert not Path("/new").exists()


def test_what_a_sandbox_writes_does_not_reach_the_host(words: list[str], tmp_path: Path) -> None:
    shell = f"test $$ -gt 50 || echo inside > {tmp_path}/inside"
    done = run(words, *HERE, "--rounds", "2", "--", shell, directory=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stderr


def test_a_command_that_fails_everywhere_is_an_error_with_its_words(words: list[str], tmp_path: Path) -> None:
    done = run(words, *HERE, "--", "echo 'no such input' >&2; exit 3", directory=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "fails on the host" in done.stderr
    assert "no such input" in done.stderr


def test_a_command_that_fails_on_a_platform_only_is_a_line(words: list[str], tmp_path: Path) -> None:
    shell = "test $$ -gt 50 || { echo 'too few processes' >&2; exit 1; }"
    done = run(words, *HERE, "--max-time", "5s", "--", shell, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bubblewrap: cannot run it: too few processes" in done.stdout


def test_a_card_of_this_machine_predicts_a_sandbox_that_is_not_weighed(words: list[str], tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    done = run(words, *HERE, "--write", f"card={card}", directory=tmp_path)
    if "perf_event" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    validate(json.loads(card.read_text()))
    done = run(words, "--on", "host", "--card", str(card), "--json", "--", "ls / >/dev/null", directory=tmp_path)
    document = json.loads(done.stdout)
    validate(document)
    (one,) = document["predicted"]["platforms"]
    assert one["name"] == "bubblewrap"
    assert one["unpriced"] == {}
    # The shell and one program.
    assert {cause["kind"]: cause["count"] for cause in one["causes"]}["program start"] == 2
    assert sum(cause["all_ns"]["value"] for cause in one["causes"]) == pytest.approx(one["longer_ns"]["value"])
    assert document["answer"]["text"].startswith("Predicted, not measured: against the host bubblewrap ")
    assert document["platforms"] == []


def test_what_makes_a_sandbox_slower_is_counted_and_explained_or_it_states_why(
    words: list[str], tmp_path: Path
) -> None:
    # Slower inside for a reason that no count explains.
    shell = "test $$ -gt 50 || sleep 0.2; ls / >/dev/null"
    done = run(words, *HERE, "--rounds", "12", "--json", "--", shell, directory=tmp_path)
    why = json.loads(done.stdout)["why"]
    validate(json.loads(done.stdout))
    if why["counts"] is None:
        assert list(why["missing"]) == ["host"]
        pytest.skip(why["missing"]["host"])
    assert why["missing"] == {}
    # The shell and one program.
    assert why["counts"]["program start"] == 2
    (one,) = why["platforms"]
    assert one["measured_ns"]["low"] > 0.15e9
    assert one["unexplained_ns"]["value"] > 0.1e9
    assert {cause["kind"] for cause in one["causes"]} > {"program start", "page fault", "file open"}
    assert one["unpriced"] == {}


@pytest.mark.parametrize("platform", ["host", *SANDBOXES])
def test_a_command_that_takes_more_memory_than_allowed_is_ended(
    platform: str, words: list[str], vtare: Path, tmp_path: Path
) -> None:
    if (reason := LAUNCHERS[platform].missing(vtare)) is not None:
        pytest.skip(reason)
    taker = "/usr/bin/python3 -c 'print(len(bytearray(600 << 20)))'"
    # Elsewhere than on the host, where it is the first that is measured.
    shell = taker if platform == "host" else f"{{ test $$ -gt 50 && test ! -e {IN_GUEST}; }} || {taker}"
    on = ("--on", "host,bubblewrap" if platform == "host" else f"host,{platform}")
    allowed = run(words, *on, "--memory", "2GiB", "--rounds", "1", "--", shell, directory=tmp_path)
    assert allowed.returncode == 0, allowed.stderr
    ended = run(words, *on, "--memory", "300MB", "--rounds", "1", "--", shell, directory=tmp_path)
    assert "It may need more memory than --memory 300 MB" in ended.stdout + ended.stderr
    assert ended.returncode == (2 if platform == "host" else 0), ended.stderr


@pytest.mark.parametrize("platform", [name for name in LAUNCHERS if name != "host"])
def test_an_image_has_its_files_environment_and_directory_everywhere(
    platform: str, words: list[str], vtare: Path, tmp_path: Path
) -> None:
    busybox = shutil.which("busybox")
    reason = LAUNCHERS[platform].missing(vtare) or (None if busybox else "needs busybox (Debian: busybox-static)")
    if reason is not None:
        pytest.skip(reason)
    archive = images.saved(tmp_path / "job.tar", images.layers(Path(str(busybox))))
    # Nothing of this machine is in it: not its directory, its environment, or a file that a layer took away.
    shell = 'test "$GREETING" = "from the image" && test $(pwd) = /job && test ! -e /gone && test -e /old/new'
    shell += f" && test ! -e {archive} && echo written > /job/mine"
    # A guest boots for each.
    rounds = "2" if LAUNCHERS[platform].IS_MACHINE else "8"
    options = (f"--on=host,{platform}", "--rounds", rounds, "--json")
    document = json.loads(run(words, *options, "--image", str(archive), "--", shell, directory=tmp_path).stdout)
    validate(document)
    assert (document["root"], document["ranking"], document["refused"]) == (str(archive), [platform], {})
    assert f"files of {archive}; the host by chroot" in " ".join(document["answer"]["limits"])
    # A directory, too, and what is written does not reach it.
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(str(busybox), root / "bin/busybox")
    done = run(words, *options, "--rootfs", str(root), "--", "busybox", "mkdir", "-p", "/made/a", directory=tmp_path)
    assert json.loads(done.stdout)["ranking"] == [platform], done.stderr
    assert os.listdir(root) == ["bin"]


@pytest.mark.parametrize("platform", SANDBOXES)
def test_an_instance_is_entered_and_many_are_started_at_once(
    platform: str, words: list[str], vtare: Path, tmp_path: Path
) -> None:
    if (reason := LAUNCHERS[platform].missing(vtare)) is not None:
        pytest.skip(reason)
    on = ("--on", f"host,{platform}", "--rounds", "2", "--burst", "4", "--json")
    done = run(words, *on, "--", "true", directory=tmp_path)
    document = json.loads(done.stdout)
    validate(document)
    assert [line for line in document["answer"]["limits"] if "not known" in line] == [], done.stderr
    host, own = document["platforms"]
    for figure in ("exec", "burst"):
        assert all(0 < one < 60e9 for one in (*host["starts"][figure], *own["starts"][figure]))
    # The last of several begins after one that is alone.
    assert max(own["starts"]["burst"]) > min(one["start"] for one in own["runs"])
    assert running(*INSTANCE) == []


def test_real_programs_of_the_host_begin_within_the_time_that_their_tool_took(vtare: Path) -> None:
    own = group.Group(0)
    try:
        runner = WeighRunner(vtare, vtare, ["true"], {"host": HostLauncher(Resources())}, {"host": own}, most_s=30.0)
        runner.until = time.monotonic() + 30.0
        begin = time.monotonic()
        with runner.instance("host") as tool:
            assert 0 < runner.enter("host", tool) < 1e9 * (time.monotonic() - begin)
            directory = Path(f"/proc/{tool}")
            assert directory.exists()
        assert not directory.exists()
        begin = time.monotonic()
        assert 0 < runner.burst("host", 5) < 1e9 * (time.monotonic() - begin)
        runner.until = time.monotonic() - 1.0
        with pytest.raises(RefusedThere, match="was not up"), runner.instance("host"):
            pass
    finally:
        own.close()


def test_the_host_beside_itself_is_one_more_host(words: list[str], tmp_path: Path) -> None:
    done = run(words, "--on", "host,host", "--rounds", "8", "--json", "--", "sleep 0.01", directory=tmp_path)
    assert json.loads(done.stdout)["ranking"] == ["host (2)"]


#: A server that answers as any program does; its port is in its command.
SERVER = ("/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "{port}")


def served(port: int) -> list[str]:
    """Processes of the server on this port, and not of what starts it."""
    return [one for one in running("http.server", str(port)) if one not in running("weigh")]


@pytest.fixture
def port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


@pytest.mark.parametrize("platform", SANDBOXES)
def test_a_server_is_started_asked_and_ended_on_each_platform(
    platform: str, words: list[str], vtare: Path, tmp_path: Path, port: int
) -> None:
    if (reason := LAUNCHERS[platform].missing(vtare)) is not None:
        pytest.skip(reason)
    options = ("--on", f"host,{platform}", "--server", str(port), "--rounds", "2", "--json")
    done = run(words, *options, "--", *SERVER, directory=tmp_path)
    document = json.loads(done.stdout)
    validate(document)
    assert done.returncode == 0, done.stdout
    assert (document["ranking"], document["refused"]) == ([platform], {})
    for one in document["platforms"]:
        for figures in one["runs"]:
            assert 0 < figures["p50"] <= (figures["p99"] or 1e12) < 5e12
            assert figures["rate"] > 10
            assert figures["start"] > 10e6
    assert served(port) == []


def test_a_client_is_timed_and_what_is_no_server_is_an_error(words: list[str], tmp_path: Path, port: int) -> None:
    (tmp_path / "client.py").write_text(
        f"import time, urllib.request; time.sleep(0.05); urllib.request.urlopen('http://127.0.0.1:{port}/').read()"
    )
    (tmp_path / "other.py").write_text(
        f"import socket; kept, here = [], socket.create_server(('127.0.0.1', {port}))\n"
        "while True: kept.append(here.accept()[0]); kept[-1].sendall(b'SSH-2.0-another')\n"
    )
    options = (*HERE, "--server", str(port), "--rounds", "2", "--json")
    document = json.loads(
        run(words, *options, "--client", "/usr/bin/python3 client.py", "--", *SERVER, directory=tmp_path).stdout
    )
    validate(document)
    assert all(figures["wall time"] > 50e6 for one in document["platforms"] for figures in one["runs"])
    for command, reason in (
        (("true",), "the server ended before it was measured"),
        (("sh", "-c", "echo no such route >&2; exit 3"), "no such route"),
        (("/usr/bin/python3", "other.py"), "its reply is not HTTP/1"),
    ):
        done = run(words, *HERE, "--server", str(port), "--", *command, directory=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr
    assert served(port) == []


def test_instances_of_a_server_are_added_until_the_time_ends(words: list[str], tmp_path: Path) -> None:
    first = 21_000 + os.getpid() % 10_000
    options = (*HERE, "--server", str(first), "--density", "2s", "--max-time", "30s", "--json")
    document = json.loads(run(words, *options, "--", *SERVER, directory=tmp_path).stdout)
    validate(document)
    host, sandbox = document["density"]["platforms"]
    assert (host["name"], sandbox["name"]) == ("host", "bubblewrap")
    for one in (host, sandbox):
        assert (one["reason"], one["levels"][0]["instances"]) == (None, 1)
        assert 0 < one["levels"][0]["p99_ns"] < 10e9
    assert served(first) == served(first + 1) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_what_measures_it(
    number: signal.Signals, words: list[str], tmp_path: Path, port: int
) -> None:
    command = ["env", "--default-signal=INT", *words, *HERE, "--server", str(port), "--", *SERVER]
    started = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    wait_until("the server runs", lambda: len(served(port)) > 0)
    # Only the program that people see: what it started ends by itself.
    started.send_signal(number)
    started.wait(timeout=60)
    assert started.returncode == {signal.SIGINT: 130, signal.SIGTERM: 130, signal.SIGKILL: -9}[number]
    wait_until("the server has ended", lambda: served(port) == [])
    if number == signal.SIGKILL:
        subprocess.run([*words[:-1], "clean"], check=True, timeout=60)
    assert left() == []


def test_an_interrupted_run_shows_what_is_known(words: list[str], tmp_path: Path) -> None:
    # A margin that is never decided in this time.
    # Who runs these tests in the background ignores Ctrl-C, and what they start would, too.
    command = ["env", "--default-signal=INT", *words, *HERE, "--margin", "0.01", "--", "sleep 0.1"]
    started = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    time.sleep(5)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "interrupted" in out
    assert left() == []


@pytest.mark.parametrize(
    ("by", "files"), [("the next", "these"), ("clean", "these"), ("clean", "an image"), ("clean", "an instance")]
)
def test_what_a_killed_run_left_is_removed(by: str, files: str, words: list[str], tmp_path: Path) -> None:
    given = []
    if files == "an image":
        sleeper = Path(shutil.which("busybox") or pytest.skip("needs busybox (Debian: busybox-static)"))
        given = ["--image", str(images.saved(tmp_path / "job.tar", images.layers(sleeper)))]
    command = [*words, *HERE, *given, "--", "busybox" if given else "env", "sleep", "97.125"]
    if files == "an instance":
        command = [*words, *HERE, "--rounds", "1", "--burst", "1000", "--", "true"]
    started = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    offered = "old/new" if given else "etc/passwd"
    wait_until("its files are offered", lambda: any((PLACES / "weigh").glob(f"*bubblewrap*/{ROOT}/{offered}")))
    command_words = INSTANCE if files == "an instance" else ("97.125",)
    wait_until("the command runs", lambda: len(running(*command_words)) > 0)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait(timeout=30)
    assert left() != []
    # Not every machine gives control groups; without them the command on the host goes on to its end.
    grouped = group.leftovers() != ()
    if by == "clean":
        subprocess.run([*words[:-1], "clean"], check=True, timeout=60)
    else:
        run(words, *HERE, "--rounds", "1", "--", "true", directory=tmp_path)
    assert left() == []
    if grouped:
        wait_until("its command has ended", lambda: running(*command_words) == [])
    for pid in running(*command_words):
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_nothing_is_left_after_clean(
    seed: int, words: list[str], vtare: Path, tmp_path: Path
) -> None:
    busybox = shutil.which("busybox") or pytest.skip("needs busybox (Debian: busybox-static)")
    archive = images.saved(tmp_path / "job.tar", images.layers(Path(busybox)))
    names = [name for name, one in LAUNCHERS.items() if one.missing(vtare) is None]
    options = ("--on", ",".join(names), "--image", str(archive), "--rounds", "2", "--burst", "3")
    started = subprocess.Popen([*words, *options, "--", "true"], cwd=tmp_path, start_new_session=True)
    # Within unpacking, the first runs, instances that are entered, or the burst.
    time.sleep(random.Random(seed).uniform(0.3, 16.0))
    os.killpg(started.pid, signal.SIGKILL)
    started.wait(timeout=30)
    subprocess.run([*words[:-1], "clean"], check=True, timeout=120)
    assert left() == []
    assert running(*INSTANCE) == []
    assert "vtare-weigh" not in (kernel_text("proc/self/mountinfo") or "")
    for tool in {"docker", "podman"} & set(names):
        listed = subprocess.run([tool, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True)
        assert [name for name in listed.stdout.split() if still_runs(owner_of(name) or name) is None] == []
    if "docker" in names:
        listed = subprocess.run(["docker", "images", "--format", "{{.Repository}}"], capture_output=True, text=True)
        assert [name for name in listed.stdout.split() if still_runs(owner_of(name) or name) is None] == []
