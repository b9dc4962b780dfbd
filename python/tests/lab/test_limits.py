"""Limits of the process, of names and of rights: each ends with a message and its exit code, and loses nothing."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.files import Files
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.errors import MachineCannot
from vtare.plan.model import Plan
from vtare.platforms import owner

pytestmark = pytest.mark.attack

Lab = Callable[..., subprocess.CompletedProcess[str]]
NOBODY = 65534


def apart(*arguments: object, prepare: Callable[[], None]) -> Any:
    """Run the lab as a process of its own, prepared by a call before it starts."""
    command = [sys.executable, "-m", "vtare.start", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, preexec_fn=prepare)


#: Where a report lands does not depend on its figures, which take most of the time.
UNDRAWN = """
from functools import partial
from importlib import import_module
build = import_module("vtare.report.build")
build.content_of = partial(build.content_of, figures=False)
"""
#: Carries out commands twice: as root on a copy, which loads all modules (another user may not be able to read them),
#: then as a user without rights.
AS_NOBODY = """
import contextlib, io, json, os, sys
from pathlib import Path
from vtare import cli
from vtare.campaign.store import Store
from vtare.errors import BadInput

def tidy(store):
    try:
        with Store.open(Path(store)) as opened:
            opened.tidy()
    except BadInput as error:
        sys.stderr.write(str(error))
        sys.exit(2)

def run(words):
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.argv = ["vtare-lab", *words]
        try:
            tidy(words[1]) if words[0] == "resume" else cli.main()
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()

commands, store, copy = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
for words in {(words[0], *words[2:3]): words for words in commands}.values():
    run([word.replace("{store}", copy) for word in words])
os.umask(0o022)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(json.dumps([run([word.replace("{store}", store) for word in words]) for words in commands]))
"""


def as_nobody(store: Path, *commands: list[str], **environment: str) -> list[subprocess.CompletedProcess[str]]:
    """Run commands on a store as a user who is not root, who may read and write everything."""
    copy = store.with_name("copy")
    settings = {**os.environ, **environment}
    command = [sys.executable, "-c", UNDRAWN + AS_NOBODY, json.dumps(commands), store, copy]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [subprocess.CompletedProcess(words, *ended) for words, ended in zip(commands, found, strict=True)]


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory in reach of every user: those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="vtare-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def public_store(store_of_four: Path, public: Path) -> Path:
    """The store of four runs, which everybody may read, and a copy on which `as_nobody` tries its commands first."""
    shutil.copytree(store_of_four, public / "copy")
    return Path(shutil.copytree(store_of_four, public / "store"))


@pytest.fixture
def store_of_nobody(public_store: Path) -> Path:
    """The same, owned by the user that `as_nobody` becomes."""
    if os.geteuid() == 0:
        for path in (public_store, *public_store.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    return public_store


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "{long}"],
        ["report", "{long}/x"],
        ["resume", "{long}", "--binary", "{fake}"],
        ["verify", "{long}"],
        ["compare", "{long}", "{long}"],
        ["plan", "{long}"],
        ["plan", "a\0b"],
        ["run", "{long}", "--binary", "{fake}"],
        ["run", "quickstart", "--binary", "{long}"],
        ["run", "quickstart", "--store", "{long}", "--binary", "{fake}"],
        ["overhead", "{long}", "--sender-capture", "{long}"],
        ["papers", "--store", "{long}"],
    ],
)
def test_a_name_that_is_too_long_is_refused(lab_command: Lab, fake: Any, arguments: list[str]) -> None:
    done = lab_command(*(word.format(long="x" * 300, fake=fake.path) for word in arguments))
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


def test_another_program_is_no_binary(lab_command: Lab, tmp_path: Path, tiny_plan: Plan) -> None:
    (tmp_path / "plan.toml").write_text(tiny_plan.text)
    for program in ("/bin/true", "/bin/echo"):
        done = lab_command("run", tmp_path / "plan.toml", "--store", tmp_path / "s", "--binary", program)
        assert done.returncode == 2
        assert f"{program}: not the vtare binary" in done.stderr
        assert not (tmp_path / "s").exists()


def test_a_journal_that_may_not_be_written_is_named(store_of_nobody: Path) -> None:
    (store_of_nobody / "journal.sqlite").chmod(0o400)
    (done,) = as_nobody(store_of_nobody, ["resume", "{store}"])
    assert "Traceback" not in done.stderr
    assert done.returncode == 2
    assert "journal.sqlite: cannot write the journal" in done.stderr


def test_a_run_that_may_not_be_read_is_named_and_not_measured_again(store_of_nobody: Path) -> None:
    run = sorted((store_of_nobody / "runs").iterdir())[0]
    run.chmod(0)
    try:
        done, checked, shown = as_nobody(
            store_of_nobody, ["resume", "{store}"], ["verify", "{store}"], ["report", "{store}"]
        )
    finally:
        run.chmod(0o755)
    for ended, code in ((done, 2), (checked, 2), (shown, 1)):
        assert "Traceback" not in ended.stderr
        assert ended.returncode == code, ended.stderr
        assert run.name in ended.stderr
        assert "Permission denied" in ended.stderr
    assert verify(store_of_nobody).sound


@pytest.mark.fault
def test_a_limit_of_open_files_ends_with_3_and_loses_nothing(tmp_path: Path, tiny_plan: Plan, fake: Any) -> None:
    (tmp_path / "plan.toml").write_text(tiny_plan.text)
    arguments = ("run", tmp_path / "plan.toml", "--store", tmp_path / "s", "--binary", fake.path)
    for limit in (6, 9, 12, 15):
        done = apart(*arguments, prepare=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 2, 3), done.stderr
        if (tmp_path / "s").exists():
            assert verify(tmp_path / "s").conditions.damaged == {}
            shutil.rmtree(tmp_path / "s")


@pytest.mark.fault
@pytest.mark.attack
@pytest.mark.parametrize("limit", [100 << 20, 400 << 20, 600 << 20, 800 << 20, 1200 << 20])
def test_a_limit_of_memory_ends_with_3(store_of_four: Path, limit: int) -> None:
    done = apart("report", store_of_four, prepare=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert "Traceback" not in done.stderr
    # Where a library ends the process itself, a signal did; a report is whole or not there.
    assert done.returncode in (0, 3, -6), done.stderr
    assert done.returncode != 3 or "ulimit -v" in done.stderr
    assert (store_of_four / "report.html").exists() == (done.returncode == 0)


@pytest.mark.fault
def test_memory_that_runs_out_in_a_command_ends_with_3(
    store_of_four: Path, lab_command: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("vtare.campaign.status.read_state", full)
    done = lab_command("status", store_of_four)
    assert done.returncode == 3
    assert "may not take the memory that it needs (see `ulimit -v`)" in done.stderr


@pytest.mark.fault
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_limit_that_a_run_reaches_stops_the_campaign_and_keeps_what_was_measured(
    tmp_path: Path, tiny_plan: Plan, run_campaign: Any, number: int
) -> None:
    class Limited(Files):
        left = 6

        def make_directory(self, path: Path) -> None:
            Limited.left -= 1
            if Limited.left < 0:
                raise OSError(number, os.strerror(number))
            super().make_directory(path)

    with Store.create(tmp_path / "s", tiny_plan, 7, files=Limited()) as store:
        with pytest.raises(MachineCannot, match="then `vtare resume"):
            run_campaign(store)
        assert len(store.journal.entries()) == 4
    with Store.open(tmp_path / "s") as store:
        assert run_campaign(store).done == 8


@pytest.mark.fault
def test_a_store_that_may_not_be_written_is_reported_into_the_cache(public_store: Path, public: Path) -> None:
    cache = public / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    before = sorted(path.name for path in public_store.iterdir())
    if os.geteuid() != 0:
        public_store.chmod(0o555)
    commands = [
        ["report", "{store}"],
        ["report", "{store}", "--format", "svg", "--only", "medians"],
        ["papers", "--store", "{store}"],
    ]
    for done in as_nobody(public_store, *commands, XDG_CACHE_HOME=str(cache)):
        assert done.returncode == 0, done.stderr
        assert "cannot be written (Permission denied); files made from it are in" in done.stderr
    place = next((cache / "vtare" / "stores").iterdir())
    assert {"report.html", "summary.parquet", "figures"} == {path.name for path in place.iterdir()}
    out = cache / "own.html"
    refused, named = as_nobody(
        public_store, ["report", "{store}"], ["report", "{store}", "--out", str(out)], XDG_CACHE_HOME="/proc/nothing"
    )
    assert refused.returncode == 2
    assert "cannot write the report: Permission denied; choose another place with --out" in refused.stderr
    assert named.returncode == 0, named.stderr
    assert out.is_file()
    assert sorted(path.name for path in public_store.iterdir()) == before


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB in memory, mounted for this test."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "vtare-test", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.fault
def test_a_full_disk_gets_no_half_file_and_the_report_goes_to_the_cache(
    store_of_four: Path,
    full_disk: Path,
    tmp_path: Path,
    lab_command: Lab,
    undrawn: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = full_disk / "store"
    shutil.copytree(store_of_four, store)
    with (full_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 4096)
    before = sorted(path.name for path in store.iterdir())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = lab_command("report", store)
    assert done.returncode == 0, done.stderr
    assert "cannot be written (No space left on device)" in done.stderr
    monkeypatch.setenv("XDG_CACHE_HOME", str(full_disk / "cache"))
    refused = lab_command("report", store)
    assert refused.returncode == 2
    assert "No space left on device; choose another place with --out" in refused.stderr
    assert {path.name for path in store.iterdir()} - set(before) <= {"journal.sqlite-shm", "journal.sqlite-wal"}
    assert not list(full_disk.rglob("*.partial"))


@pytest.mark.parametrize("offset_s", [-3, 1_000_000])
def test_a_live_lab_is_recognised_from_another_time_namespace(offset_s: int) -> None:
    own = owner.own_prefix()
    code = (
        "from vtare.platforms.owner import still_runs\n"
        f"print(still_runs({own!r}))\n"
        f"print(still_runs('vtare-{os.getpid()}-1'))"
    )
    command = ["unshare", "--time", f"--boottime={offset_s}", "--fork", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("this user may not make a time namespace")
    assert done.stdout.splitlines() == [f"process {os.getpid()}, which made it, still runs", "None"], done.stderr


def test_a_start_that_cannot_be_compared_keeps_what_a_process_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_boot_offset", lambda: None)
    assert "its start cannot be compared" in str(owner.still_runs(f"vtare-{os.getpid()}-1"))
    assert owner.still_runs("vtare-4194399-1") is None


@pytest.mark.fault
@pytest.mark.usefixtures("hangup_ends")
def test_a_report_that_is_ended_half_way_leaves_no_half_file(store_of_four: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        command = [
            sys.executable, "-c",
            UNDRAWN + "import os, signal, sys\n"
            "from vtare import cli, stored\n"
            "from vtare.stored import outputs\n"
            f"def end(descriptor): os.kill(os.getpid(), {int(number)})\n"
            "outputs.os.fsync = end\n"
            f"sys.argv = ['vtare-lab', 'report', {str(store_of_four)!r}]\n"
            "cli.main()",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 130
        assert "Traceback" not in done.stderr
        assert not list(store_of_four.glob(".*.partial"))
