"""The lab's log: lines on stderr, at the level that was asked for, that command no terminal."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vtare
from vtare.process import ToolFailed, run_tool
from vtare.terminal.logs import start_logging


@pytest.fixture(autouse=True)
def usual_level() -> Iterator[None]:
    yield
    start_logging()


def test_what_goes_wrong_names_vtare_and_what_is_done_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging()
    # Twice: a line is written once all the same.
    start_logging()
    log = logging.getLogger("vtare.campaign.somewhere")
    log.info("4 runs into %s", "s")
    log.warning("left out: run 1")
    log.debug("not asked for")
    logging.getLogger("elsewhere").info("of another library")
    assert capsys.readouterr().err == "4 runs into s\nvtare: left out: run 1\n"


def test_verbose_shows_each_tool_with_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(verbose=True)
    assert run_tool(("printf", "hello")) == "hello"
    with pytest.raises(ToolFailed, match="`sh -c 'echo no >&2; exit 3'`: no") as refused:
        run_tool(("sh", "-c", "echo no >&2; exit 3"))
    assert (refused.value.code, refused.value.output) == (3, "no\n")
    shown = capsys.readouterr().err
    assert "vtare.process: printf hello: exit code 0 in " in shown
    assert "exit 3': exit code 3 in " in shown


def test_programs_are_started_by_one_module() -> None:
    source = Path(vtare.__file__).parent
    starts = re.compile(r"^\s*(import|from) subprocess\b|\bos\.(posix_spawn|exec|fork|system|popen)", re.MULTILINE)
    using = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if starts.search(path.read_text(encoding="utf-8"))
    ]
    # The watchdog is a program by itself, which imports nothing of the lab and forks its freezer.
    assert sorted(using) == ["fleet/watchdog.py", "process.py"]


def test_a_tool_that_is_missing_or_hangs_has_no_exit_code(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="No such file") as missing:
        run_tool((str(tmp_path / "none"),))
    with pytest.raises(ToolFailed, match="timed out") as hung:
        run_tool(("sleep", "60"), timeout_s=0.05)
    assert (missing.value.code, hung.value.code) == (None, None)


def test_a_line_cannot_command_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging()
    logging.getLogger("vtare").error("a guest reported %s", "\x1b[2J\x07")
    assert capsys.readouterr().err == "vtare: a guest reported \ufffd[2J\ufffd\n"
