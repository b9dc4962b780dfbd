"""Pipes and devices in place of the files and stores that commands are given: none is waited for or read for ever."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import pytest
from click import Command, Context, Group

from vtare.cli import app
from vtare.fleet.hosts import load_hosts
from vtare.plan.files import load_plan
from vtare.stored.paths import read_named

pytestmark = [pytest.mark.attack, pytest.mark.thorough]

#: Parameter of a command -> a command line in which `@` stands for the file.
LINES: Final = {
    "run plan": "run @",
    "run store": "run quickstart-quick --store @",
    "run on": "run quickstart-quick --store STORE --on @",
    "run binary": "run quickstart-quick --store STORE --binary @",
    "resume store": "resume @",
    "resume on": "resume STORE --on @",
    "resume binary": "resume STORE --binary @",
    "retry store": "retry @",
    "retry on": "retry STORE --on @",
    "retry binary": "retry STORE --binary @",
    "verify store": "verify @",
    "status store": "status @",
    "report store": "report @",
    "report after": "report @ @",
    "report out": "report STORE --out @",
    "compare before": "compare @ @",
    "compare after": "compare @ @",
    "compare more_before": "compare --before @ @ @",
    "compare more_after": "compare --after @ @ @",
    "compare over_time": "compare --over-time @",
    "compare out": "compare STORE STORE --out @",
    "plan show plan": "plan show @",
    "plan show binary": "plan show quickstart-quick --binary @",
    "plan show on": "plan show quickstart-quick --on @",
    "plan check plan": "plan check @",
    "plan check binary": "plan check quickstart-quick --binary @",
    "plan check on": "plan check quickstart-quick --on @",
    "plan schema binary": "plan schema --binary @",
    "plan power plan": "plan power @",
    "plan power pilot": "plan power quickstart-quick --pilot @",
    "overhead samples": "overhead @ --sender-capture @",
    "overhead sender_capture": "overhead @ --sender-capture @",
    "overhead responder_capture": "overhead @ --responder-capture @",
    "fleet what": "fleet @",
    "fleet hosts": "fleet check @",
    "fleet binary": "fleet HOSTS --binary @",
    "ab against": "ab --against @ -- true",
    "ab binary": "ab --binary @ -- true -- true",
    "weigh binary": "weigh --on host,host --binary @ -- true",
    "weigh card": "weigh --on host,host --card @ -- true",
    "weigh rootfs": "weigh --on host,host --rootfs @ -- true",
    "watch plan": "watch @ --rounds 1 --store STORE",
    "watch store": "watch quickstart-quick --rounds 1 --store @",
    "watch binary": "watch quickstart-quick --rounds 1 --store STORE --binary @",
    "papers store": "papers --store @",
    "papers out": "papers --store STORE --out @",
    "papers write": "papers --write @",
    "doctor binary": "doctor --binary @",
}
#: Kinds of values that may name a file.
NAMED: Final = {"directory", "file", "fleet", "plan", "store"}


#: A command that reads for longer never ends.
LONGEST_S: Final = 60.0


class Hung(BaseException):
    """A command waits, or reads for ever; nothing of the lab catches it."""


def commands() -> dict[str, Command]:
    """All commands by the words that start them, with subcommands."""
    made: dict[str, Command] = {}
    context = Context(app)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        below = command.commands if isinstance(command, Group) else {}
        made |= {name: command, **{f"{name} {of}": one for of, one in below.items()}}
    return made


def test_every_path_of_the_lab_s_command_line_has_its_line_here() -> None:
    found = {
        f"{name} {parameter.name}"
        for name, command in commands().items()
        for parameter in command.params
        if parameter.type.name in NAMED
    }
    assert found | {"compare before", "compare after"} == set(LINES)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_no_command_waits_for_a_pipe_or_reads_a_device(
    tmp_path: Path,
    kind: str,
    record_property: Callable[[str, object], None],
    lab_command: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o700)
    file = {"pipe": pipe, "device": Path("/dev/zero")}[kind]

    def hung(number: int, frame: FrameType | None) -> NoReturn:
        raise Hung

    def wrong(name: str) -> str | None:
        place = tmp_path / name.replace(" ", "-")
        place.mkdir()
        words = LINES[name].replace("@", str(file)).replace("STORE", str(place / "store"))
        monkeypatch.chdir(place)
        signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
        # Where a library waits outside of Python, no handler is called: this ends the process.
        faulthandler.dump_traceback_later(2 * LONGEST_S, exit=True)
        try:
            done = lab_command(*words.split())
        except Hung:
            return f"{name}: it hung"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
        if done.returncode in (2, 3) and "Traceback" not in done.stderr and done.stderr.strip():
            return None
        return f"{name}: exit code {done.returncode}: {done.stdout[-200:]}{done.stderr[-300:]}"

    before = signal.signal(signal.SIGALRM, hung)
    try:
        assert [text for text in map(wrong, LINES) if text] == []
    finally:
        signal.signal(signal.SIGALRM, before)
    record_property("attack", f"ATTACK a {kind} in place of {len(LINES)} files of the lab: survived, none hung")


def test_files_that_are_named_are_bounded_and_inputs_of_the_process_are_read(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(400 << 20)
    for read in (load_plan, load_hosts):
        with pytest.raises(Exception, match="larger than 4 MiB"):
            read(large)
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    assert read_named(Path(f"/dev/fd/{reader}")) == b"text"
    os.close(reader)
    link = tmp_path / "link"
    (tmp_path / "file").write_bytes(b"here")
    link.symlink_to("file")
    assert read_named(link) == b"here"
    with pytest.raises(OSError, match="no regular file"):
        read_named(tmp_path)
