"""`vtare status --live`, `--quiet` and colours without a terminal."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from vtare.campaign.journal import Journal
from vtare.campaign.status import read_state
from vtare.campaign.store import read_store
from vtare.terminal.live import follow, view
from vtare.terminal.logs import be_quiet, is_quiet, start_logging
from vtare.terminal.progress import bar


def _console() -> Console:
    return Console(file=io.StringIO(), width=160, force_terminal=True, color_system=None, highlight=False)


def _shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_view_has_the_bar_and_the_runs_of_each_experiment(store_of_four: Path) -> None:
    _, runs, _ = read_store(store_of_four)
    with Journal(store_of_four / "journal.sqlite") as journal:
        journal.forget(runs[0].run_id)
    console = _console()
    console.print(view(store_of_four, read_state(store_of_four), 125.0))
    text = _shown(console)
    assert "[=================>      ] 75 % 2 min 05 s left" in text
    assert text.splitlines()[1].split() == ["experiment", "done", "failed", "skipped", "pending", "not", "needed"]


def test_it_ends_with_the_campaign(store_of_four: Path) -> None:
    console = _console()
    follow(console, store_of_four, lambda: read_state(store_of_four))
    assert "100 %" in _shown(console)


def test_the_bar_is_that_of_the_binary() -> None:
    assert [bar(done, 24) for done in (0, 1, 24)] == [" " * 24, ">" + " " * 23, "=" * 23 + ">"]


def test_quiet_keeps_what_goes_wrong() -> None:
    try:
        be_quiet()
        assert is_quiet()
        assert logging.getLogger("vtare").isEnabledFor(logging.WARNING)
    finally:
        start_logging()
    assert not is_quiet()


@pytest.mark.parametrize(
    ("set_to", "coloured"),
    [({}, False), ({"CLICOLOR_FORCE": "1"}, True), ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False)],
)
@pytest.mark.parametrize("console", ["stdout()", "for_tables(stdout())"])
def test_clicolor_force_colours_a_pipe_unless_no_color_forbids_it(
    console: str, set_to: dict[str, str], coloured: bool
) -> None:
    code = "from vtare.cli.options import stdout; from vtare.terminal.tables import for_tables; "
    code += f"from rich.text import Text; {console}.print(Text('a', style='bold'))"
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CLICOLOR_FORCE")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment | set_to
    )
    assert ("\x1b[" in done.stdout) == coloured


def test_live_without_a_terminal_is_refused(store_of_four: Path) -> None:
    line = [sys.executable, "-m", "vtare.cli", "status", str(store_of_four), "--live"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--live needs a terminal: leave --live out" in done.stderr
