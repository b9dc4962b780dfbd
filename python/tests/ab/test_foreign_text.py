"""What others wrote is bounded, checked and cleaned: outputs, names, documents; and errors that nobody foresaw."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from simulated_trials import MACHINE, A, B, SimulatedTrials, compared, none, quiet

from vtare import cli
from vtare.ab import trials as trials_of
from vtare.ab.baseline import read_baseline
from vtare.ab.commands import Command, read_commands
from vtare.ab.compare import Asked, compare
from vtare.ab.designs import warm_up
from vtare.ab.figures import COUNTED, Reader, read_metric
from vtare.ab.formats import FORMATS
from vtare.ab.publish import FORMS
from vtare.ab.trials import MachineTime, Measured
from vtare.ab.verdict import Outcome, document, read_limit
from vtare.cli import app
from vtare.errors import BadInput, MachineCannot
from vtare.terminal.ab import show_compared, shown_progress

HOSTILE = "x\x1b]0;owned\x07\n::error::all is lost | <b>`cat`</b>\u202e"


def kept(tmp_path: Path, **changes: Any) -> Path:
    found = document(Outcome(compared(1.0, quiet, most_pairs=6), 7, MACHINE))
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps({**found, **changes}))
    return file


def pairs_with(**values: Any) -> list[dict[str, Any]]:
    run = {**document(Outcome(compared(1.0, quiet, most_pairs=6), 7, MACHINE))["pairs"][0]["runs"][0], **values}
    return [{"runs": [{key: value for key, value in run.items() if value != "none"}]}]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"schema": "vtare.ab/9"}, "it has the schema 'vtare.ab/9'"),
        ({"schema": [1]}, "it has the schema"),
        ({"machine": []}, "'machine' is .*not of the type dict"),
        ({"commands": []}, "'commands' is empty"),
        ({"commands": [{"text": 7}]}, "'text' is 7"),
        ({"pairs": {}}, "'pairs' is"),
        ({"pairs": []}, "it has no pairs"),
        ({"pairs": [7]}, "'runs' is None"),
        ({"pairs": [{"runs": [7]}]}, "a run is 7"),
        ({"pairs": pairs_with(wall_ns="1")}, "'wall_ns' of a run is '1'"),
        ({"pairs": pairs_with(wall_ns=None)}, "'wall_ns' of a run is None"),
        ({"pairs": pairs_with(wall_ns=-1)}, "'wall_ns' of a run is -1"),
        ({"pairs": pairs_with(wall_ns=True)}, "'wall_ns' of a run is True"),
        ({"pairs": pairs_with(wall_ns="none")}, "wall_ns missing"),
        ({"pairs": pairs_with(readings={})}, "a run has readings"),
        ({"pairs": pairs_with(minor_faults=[])}, r"'minor_faults' of a run is \[\]"),
    ],
)
def test_a_damaged_baseline_is_refused_with_the_cause(tmp_path: Path, changes: dict[str, Any], cause: str) -> None:
    with pytest.raises(BadInput, match=f"--against: .*{cause}"):
        read_baseline(kept(tmp_path, **changes), MACHINE)


def test_bytes_that_are_no_baseline_are_refused(tmp_path: Path) -> None:
    whole = kept(tmp_path).read_bytes()
    rng = random.Random(4)
    file = tmp_path / "damaged.json"
    contents = [b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema": NaN}', b'{"a": ' + b"1" * 5000 + b"}"]
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randint(0, 40)] = rng.randbytes(rng.randint(0, 8))
        contents.append(bytes(damaged))
    for content in contents:
        file.write_bytes(content)
        with suppress(BadInput):
            _, runs = read_baseline(file, MACHINE)
            assert all(np.isfinite(run.wall_ns) for run in runs)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for place in (fifo, tmp_path, tmp_path / "missing"):
        with pytest.raises(BadInput, match="--against"):
            read_baseline(place, MACHINE)


def test_hostile_names_reach_neither_a_terminal_nor_the_lines_of_ci(tmp_path: Path) -> None:
    (hostile, _) = read_commands([f"echo {HOSTILE}", "true"])
    before, _ = read_baseline(kept(tmp_path, commands=[{"text": HOSTILE}]), MACHINE)
    for command in (hostile, before):
        assert all(char.isprintable() or char == "\ufffd" for char in command.text)
        assert "\n" not in command.text
    document_of = json.dumps({"results": [{"command": HOSTILE, "mean": 1.0}, {"command": "y", "mean": 2.0}]})
    names = [reading.name for reading in read_metric("t=hyperfine").read(document_of)]
    found = compare(
        SimulatedTrials(1.2, quiet, none, 3),
        (A, replace(B, text=HOSTILE)),
        [replace(COUNTED[0], name=names[0]), *COUNTED[1:]],
        Asked(margin=0.02, most_pairs=8, design="interleaved"),
        rng=np.random.default_rng(1),
    )
    outcome = Outcome(found, 7, MACHINE, (read_limit("slower by 5 %"),))
    for form in ("md", "github", "junit"):
        text = FORMS[form](outcome)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert not any(line.startswith("::error::") for line in text.splitlines())
        # Inside backticks a tag is text; in an annotation nothing is a tag.
        assert form == "github" or "<b>" not in re.sub(r"``.*?``", "", text)
    page = FORMS["md"](outcome)
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    # A bar inside a name does not end its cell.
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
    assert "`` x" in page


def test_an_output_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_of, "MOST_PRINTED_BYTE", 1000)
    file = tmp_path / "out"
    file.write_bytes(b"x" * 1000)
    assert len(trials_of._output(A, file)) == 1000
    file.write_bytes(b"x" * 1001)
    with pytest.raises(BadInput, match=r"a: it printed more than .* tail -n 100"):
        trials_of._output(A, file)
    file.write_bytes(b"x" * 5000 + "ü".encode() * 100)
    assert trials_of._end(file).endswith("ü" * 100)


@pytest.mark.parametrize("text", ["true [/b]", "[bold]", "[link=x]y[/link]", "\\[red]"])
def test_a_command_that_looks_like_markup_is_shown_as_it_is(text: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=300, markup=False, highlight=False)
    with shown_progress(console) as show:
        show(f"8 runs of {text}")
    found = compared(1.2, quiet, most_pairs=8)
    show_compared(console, replace(found, commands=(A, replace(B, text=text))), verbose=True)
    assert isinstance(console.file, io.StringIO)
    assert f"B: {text}" in console.file.getvalue()


class Leaving(SimulatedTrials):
    """Programs of which some leave processes behind: those at the places in `void`."""

    void: frozenset[int] = frozenset()
    halted: frozenset[int] = frozenset()
    at = 0

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        runs, beside = super().run(commands, cpus)
        self.at += 1
        left, stopped = 2 * (self.at in self.void), 300_000_000 * (self.at in self.halted)
        return [replace(run, left_behind=left, stopped_ns=stopped) for run in runs], beside


def test_runs_that_were_stopped_are_void_and_named_apart() -> None:
    trials = Leaving(1.2, quiet, none, 1)
    trials.void, trials.halted = frozenset({5}), frozenset({9, 13})
    found = compare(trials, (A, B), COUNTED, Asked(margin=0.02, design="interleaved"), rng=np.random.default_rng(1))
    assert (found.void, found.halted) == (3, 2)
    assert not any(pair.is_void for pair in found.pairs)
    text = FORMS["md"](Outcome(found, 7, MACHINE))
    assert "2 pairs were left out: a command, or this machine, was stopped meanwhile." in text
    assert "1 pair was left out: processes of a command still ran in the background" in text
    trials.halted = frozenset(range(3, 1000))
    for design in ("interleaved", "sequential"):
        trials.at = 0
        asked = Asked(margin=0.02, design=design, most_pairs=20)  # type: ignore[arg-type]
        with pytest.raises(MachineCannot, match="8 times in a row, a command or this machine was stopped"):
            compare(trials, (A, B), COUNTED, asked, rng=np.random.default_rng(1))


def test_runs_that_leave_processes_behind_are_void() -> None:
    trials = Leaving(1.0, quiet, none, 1)
    trials.void = frozenset({1})
    with pytest.raises(BadInput, match=r"a: 2 of its processes still run in the background .*`wait`"):
        warm_up(trials, (A, B), lambda text: None)
    trials = Leaving(1.2, quiet, none, 1)
    trials.void = frozenset({5, 9})
    found = compare(trials, (A, B), COUNTED, Asked(margin=0.02, design="interleaved"), rng=np.random.default_rng(1))
    assert found.void == 2
    assert not any(pair.is_void for pair in found.pairs)
    assert document(Outcome(found, 7, MACHINE))["void_pairs"] == 2
    assert "2 pairs were left out" in FORMS["md"](Outcome(found, 7, MACHINE))
    trials = Leaving(1.2, quiet, none, 1)
    trials.void = frozenset(range(3, 1000))
    for design in ("interleaved", "sequential"):
        trials.at = 0
        asked = Asked(margin=0.02, design=design, most_pairs=20)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="8 times in a row"):
            compare(trials, (A, B), COUNTED, asked, rng=np.random.default_rng(1))


def test_a_builtin_of_the_shell_goes_to_the_shell_or_is_named() -> None:
    assert read_commands(["ulimit -n", "true"])[0].words == ("sh", "-c", "ulimit -n")
    with pytest.raises(BadInput, match=r"'ulimit' is a builtin of the shell .* 'ulimit -n'"):
        read_commands(["ulimit", "-n", "--", "true"])


def test_limits_that_can_never_be_crossed_are_refused_before_a_command_runs(tmp_path: Path) -> None:
    program = tmp_path / "vtare"
    program.write_text('#!/bin/sh\necho \'{"machine": {}}\'\nread -r request\necho "$request" >>"$0.asked"\n')
    program.chmod(0o755)
    words = ["ab", "--binary", str(program), "--judge", "wall", "--fail-if", "slow by 5 %", "--", "true", "--", "true"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, BadInput)
    assert "'slow by 5 %' is no limit" in str(done.exception)
    assert not Path(f"{program}.asked").exists()


@pytest.mark.parametrize("how", [*FORMATS, "json:a[*].b", r"all:([0-9.,]+)", "json:x"])
def test_hostile_outputs_are_read_or_refused_and_never_a_traceback(how: str) -> None:
    rng = random.Random(how)
    directory = Path(__file__).parent / "benchmarks"
    seeds = [file.read_bytes() for file in sorted(directory.glob(f"{how}*"))] or [b'{"a": [{"b": 1}], "x": 2.5}']
    values = [b"null", b"NaN", b"1e999", b"-1", b'"\\u001b"', b"[]", b"{}", b"9" * 400, b"\xff", b"true", b"", b"\x1b["]
    for _ in range(300):
        damaged = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(damaged) + 1)
            damaged[at : at + rng.randint(0, 30)] = rng.choice([*values, rng.randbytes(4)])
        reader = Reader([read_metric(f"t={how}")])
        with suppress(BadInput):
            readings = reader.read(bytes(damaged).decode(errors="replace"), "A")
            assert all(np.isfinite(reading.values).all() for reading in readings.values())


def test_an_error_that_nobody_foresaw_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> int:
        raise RuntimeError("no such \x1b]0;case")

    monkeypatch.setattr(cli, "app", fail)
    for words in (["vtare-lab", "ab"], ["vtare-lab", "ab", "--json"]):
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 70
        printed = capsys.readouterr()
        assert "internal error: RuntimeError: no such" in printed.err
        assert "report it" in printed.err
        assert "\x1b" not in printed.err
        if "--json" in words:
            assert json.loads(printed.out)["exit_code"] == 70


def test_a_process_that_fails_unforeseen_ends_with_70() -> None:
    code = (
        "import sys\nfrom vtare import cli\ndef fail(**_): raise KeyError('gone')\ncli.app = fail\n"
        "sys.argv = ['vtare-lab', 'ab']\nfrom vtare.start import main\nmain()"
    )
    place = os.pathsep.join([str(Path(cli.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": place}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "internal error: KeyError: 'gone'" in done.stderr
