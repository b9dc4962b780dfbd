from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import Context
from click.testing import CliRunner

from vtare import start
from vtare.cli import app
from vtare.cli.examples import EXAMPLES
from vtare.plan.model import Plan
from vtare.sentences.words import duration

Lab = Callable[..., subprocess.CompletedProcess[str]]


def apart(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The lab as a process of its own, behind a pipe."""
    environment = {name: value for name, value in os.environ.items() if name != "VTARE_BINARY"}
    command = [sys.executable, "-m", "vtare.cli", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def lab(lab_command: Lab, undrawn: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """The command line in this process, in a directory of its own."""
    monkeypatch.delenv("VTARE_BINARY", raising=False)
    monkeypatch.chdir(tmp_path)
    return lab_command


@pytest.fixture
def plan_file(tmp_path: Path, tiny_plan: Plan) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(tiny_plan.text.replace("blocks = 2", "blocks = 1"))
    return path


def test_run_measures_and_leaves_one_json_document_and_a_report(tmp_path: Path, plan_file: Path, fake: Any) -> None:
    done = apart("run", plan_file, "--store", "s", "--binary", fake.path, "--json", "--seed", 5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document.items() >= {"schema": "vtare.campaign/1", "store": "s", "total": 4, "done": 4, "failed": 0}.items()
    assert (tmp_path / document["report"]).read_text().lstrip().lower().startswith("<!doctype html>")
    assert "4 runs into s, seed 5" in done.stderr
    # Nothing moves in a pipe without --verbose.
    assert len(done.stderr.splitlines()) == 1


def test_failing_cells_end_with_1_and_status_shows_why_and_resume_mends_it(
    tmp_path: Path, plan_file: Path, fake: Any, lab: Lab
) -> None:
    fake.behave(fail='"spin"')
    store = tmp_path / "s"
    done = lab("run", plan_file, "--store", store, "--binary", fake.path, "--verbose")
    assert done.returncode == 1
    assert "2 of 4 runs done" in done.stdout
    assert "2 failed" in done.stdout
    assert "cannot open the counter device" in done.stderr
    shown = lab("status", store)
    assert "4 runs: 2 done, 2 failed" in shown.stdout
    assert "method spin: the instrument ended with exit code 4: cannot open the counter device" in shown.stdout
    assert f"resume with: vtare resume {store}" in shown.stdout
    listed = json.loads(lab("status", store, "--json").stdout)
    assert (listed["done"], listed["failed"], len(listed["runs"])) == (2, 2, 2)
    fake.behave()
    again = lab("resume", store, "--binary", fake.path)
    assert again.returncode == 0, again.stderr
    assert "4 of 4 runs done" in again.stdout


def test_drawn_seed_is_logged_in_the_store(tmp_path: Path, plan_file: Path, fake: Any, lab: Lab) -> None:
    done = lab("run", plan_file, "--store", tmp_path / "s", "--binary", fake.path)
    assert done.returncode == 0, done.stderr
    seed = int(done.stderr.split("seed ")[1].split()[0])
    assert json.loads(lab("status", tmp_path / "s", "--json").stdout)["seed"] == seed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "nowhere", "--binary", "{fake}"],
            "vtare: plan 'nowhere': there is no such file or shipped plan: use one of: ",
        ),
        (["run", "{plan}", "--binary", "{fake}", "--store", "{plan}/s"], "cannot make a store here"),
        (["run", "{plan}", "--binary", "nothing"], "vtare: --binary: nothing: no such file"),
        (["resume", "nowhere", "--binary", "{fake}"], "vtare: nowhere: no such store"),
        (["status", "nowhere"], "vtare: nowhere: no such store"),
        (["report", "nowhere"], "vtare: nowhere: no such store"),
        (["papers", "nowhere"], "nowhere"),
        (
            ["papers", "--write", "pages", "--claims"],
            "--write writes a page for each paper: leave out",
        ),
        (["status", "{plan}"], "tiny.toml is a file: name the directory that a campaign left"),
        (["plan", "."], "plan '.' is a directory: name a file, such as plan.toml"),
        (["plan", "quickstart", "--seed", "-1"], "vtare: --seed: '-1' is not a whole number of 0 or more"),
        (["plan", "quickstart", "--seed", "x"], "vtare: --seed: 'x' is not a whole number of 0 or more"),
        (["plan", "quickstart", "--shift", "5"], "vtare: unknown option '--shift': see `vtare plan show --help`"),
        (["serve-report", ".", "--port", "70000"], "vtare: --port: '70000' is not a whole number from 0 to 65535"),
        (
            ["compare", "a", "b", "--margin", "x"],
            "vtare: --margin: 'x' is not a percentage above 0 and below 100",
        ),
        (["compare", "a", "b", "--margin", "100"], "vtare: --margin: '100' is not a percentage above 0"),
        (["fly"], "vtare: unknown command 'fly'. `vtare help --all` lists the commands"),
    ],
)
def test_bad_input_ends_with_2_one_message_and_no_traceback(
    tmp_path: Path, plan_file: Path, fake: Any, arguments: list[str], message: str, lab: Lab
) -> None:
    filled = [argument.format(fake=fake.path, plan=plan_file) for argument in arguments]
    done = lab(*filled)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_with_json_an_error_is_one_document_too(lab: Lab) -> None:
    done = lab("plan", "show", "--json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["schema"], document["exit_code"]) == ("vtare.error/1", 2)
    assert document["error"] == "PLAN is missing: see `vtare plan show --help`"
    assert document["error"] in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [("--help", 0), ("plan quickstart --json", 0), ("plan x", 2)])
def test_a_reader_that_has_gone_is_no_error(arguments: str, code: int) -> None:
    # As with `| head`, of stdout and of stderr.
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "vtare.cli", *arguments.split()]
    try:
        stdout_closed = subprocess.run(
            command, stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False, text=True
        )
        both_closed = subprocess.run(command, stdout=writer, stderr=writer, timeout=120, check=False)
    finally:
        os.close(writer)
    assert (stdout_closed.returncode, both_closed.returncode) == (code, code), stdout_closed.stderr
    assert stdout_closed.stderr.count("\n") == (1 if code else 0)


def test_an_output_that_cannot_be_written_is_named() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "vtare.cli", "plan"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "vtare: cannot write to standard output: No space left on device\n"


def test_bad_plan_ends_with_2_and_makes_no_store(tmp_path: Path, plan_file: Path, fake: Any, lab: Lab) -> None:
    plan_file.write_text(plan_file.read_text().replace("samples = 300", "sample = 300"))
    done = lab("run", plan_file, "--store", tmp_path / "s", "--binary", fake.path)
    assert done.returncode == 2
    assert (
        "tiny.toml:12:36: experiment[0].parameters.sample: unknown key 'sample'. Did you mean 'samples'?" in done.stderr
    )
    assert not (tmp_path / "s").exists()


def test_campaign_of_which_this_machine_can_do_nothing_ends_with_3(
    tmp_path: Path, plan_file: Path, fake: Any, lab: Lab
) -> None:
    fake.behave(cannot="sleep")
    done = lab("run", plan_file, "--store", tmp_path / "s", "--binary", fake.path, "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert (document["skipped"], document["done"], document["report"]) == (4, 0, None)
    # Why, once, and not for each run.
    shown = lab("status", tmp_path / "s").stdout.splitlines()
    assert [line.startswith("skipped: 4 runs, the first in block 1: sleep, load ") for line in shown[1:]] == [True]
    again = lab("run", plan_file, "--store", tmp_path / "t", "--binary", fake.path)
    assert [line for line in again.stdout.splitlines() if line.startswith("skipped: 4 runs: ")] != []


def test_plan_shows_design_and_time_without_a_binary(plan_file: Path, lab: Lab) -> None:
    shown = lab("plan", plan_file, "--seed", 1)
    assert shown.returncode == 0, shown.stderr
    assert "1 block of 4 cells: 4 runs, about" in shown.stdout
    assert "factor method: usleep, spin (baseline usleep)" in shown.stdout
    assert "  target_ns = 1 ms\n" in shown.stdout
    assert "Block 1, in order of execution" in shown.stdout
    document = json.loads(lab("plan", "quickstart", "--json").stdout)
    assert (document["runs"], document["blocks"], document["seed"]) == (150, 5, None)
    listed = lab("plan")
    assert "quickstart-quick: What does reading the clock cost" in listed.stdout
    assert listed.stdout == lab("plan", "list").stdout
    rows = json.loads(lab("plan", "list", "--json").stdout)["plans"]
    assert [f"{row['name']}: {row['question']}" for row in rows] == listed.stdout.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "option"),
    [
        (
            "plan quickstart --power --spread 4",
            "plan power quickstart --spread 4",
            "power",
        ),
        (
            "plan quickstart --missing --json",
            "plan check quickstart --json",
            "missing",
        ),
        ("plan --schema", "plan schema", "schema"),
        ("plan quickstart --seed 3", "plan show quickstart --seed 3", None),
    ],
)
def test_old_options_of_plan_are_subcommands_and_name_them(
    old: str, new: str, option: str | None, lab: Lab, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTARE_BINARY", str(fake.path))
    before, now = lab(*old.split()), lab(*new.split())
    assert (before.returncode, before.stdout) == (now.returncode, now.stdout) != (0, "")
    assert before.returncode == 0
    assert before.stderr == (f"`vtare plan --{option}` is now `vtare {' '.join(new.split()[:2])}`\n" if option else "")
    assert now.stderr == ""
    assert lab(*old.split(), "--quiet").stderr == ""


def test_old_names_of_report_do_the_same_and_name_it(store_of_four: Path, lab: Lab, tmp_path: Path) -> None:
    before = lab("plot", store_of_four, "--out", tmp_path / "old", "--format", "csv")
    now = lab("report", store_of_four, "--out", tmp_path / "new", "--format", "csv")
    assert (before.returncode, now.returncode, now.stderr) == (0, 0, ""), before.stderr
    assert before.stderr == "`vtare plot` is now `vtare report --format svg`\n"
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("old", "new")]
    assert files[0] == files[1] != []
    assert all((tmp_path / "old" / name).read_text() == (tmp_path / "new" / name).read_text() for name in files[0])
    for name in ("plot", "serve-report"):
        assert name not in apart("--help").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--port 1", "--port belongs to --live: add it, or leave --port out"),
        ("--every 3s", "--every belongs to --live: add it, or leave --every out"),
        ("--only gaps", "--only belongs to --format svg, png or csv: add it, or leave --only out"),
        ("--live --out x", "--live: no file is written. Leave --out and --format out"),
        ("--format html --format svg", "--format: html is a report and svg a figure. Write one after the other"),
        ("--format html --format md", "--format: html and md are two reports. Write one after the other"),
        ("--format pdf", "--format: 'pdf' is not one of html, md, latex, json, svg, png, csv"),
    ],
)
def test_options_of_report_that_do_not_go_together_are_refused(
    store_of_four: Path, words: str, message: str, lab: Lab
) -> None:
    done = lab("report", store_of_four, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"vtare: {message}")


def test_help_and_version_name_the_program() -> None:
    assert "resume" in apart("--help").stdout
    # As it is typed, by the way of the binary.
    assert "Usage: vtare run " in apart("run", "--help").stdout
    assert apart("--version").stdout.startswith("vtare-lab ")


def test_an_interrupt_while_the_libraries_are_loaded_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Loading:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "vtare.cli", Loading())
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "vtare: interrupted\n"


def test_published_tables_have_a_row_a_line_in_a_pipe() -> None:
    shown = apart("papers", "batalla_jain_index").stdout
    assert "k_strongly_loaded" in shown
    assert max(map(len, shown.splitlines())) > 120


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 s"), (0.37, "0.4 s"), (41.6, "42 s"), (185, "3 min 05 s"), (7620, "2 h 07 min")]
)
def test_duration_is_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("command", EXAMPLES)
def test_each_command_has_two_examples_that_it_accepts(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"]).output
    for line, what in EXAMPLES[command]:
        assert f"    vtare {line}\n        {what}\n" in shown
        name, *words = shlex.split(line)
        assert name == command
        found = app.get_command(Context(app), command)
        assert found is not None
        assert found.make_context(command, words) is not None


def test_no_command_is_without_examples() -> None:
    assert list(EXAMPLES) == app.list_commands(Context(app))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plna"], "unknown command 'plna'. Did you mean 'plan'?"),
        (["plan", "x", "--sede", "4"], "unknown option '--sede'. Did you mean '--seed'?"),
        (["run"], "PLAN is missing: see `vtare run --help`"),
        (["compare", "a", "b", "--margin"], "Option '--margin' requires an argument"),
        (["status", "a", "b"], "Got unexpected extra argument (b): see `vtare status --help`"),
    ],
)  # fmt: skip
def test_a_command_line_that_cannot_be_read_is_one_message_and_one_document(
    words: list[str], message: str, lab: Lab
) -> None:
    """As the binary's: `vtare_line` of crates/vtare/src/usage.rs."""
    done = lab(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"vtare: {message}\n")
    done = lab(*words, "--json")
    if words[-1] != "--margin":
        assert (done.returncode, done.stderr) == (2, f"vtare: {message}\n")
        assert json.loads(done.stdout) == {"schema": "vtare.error/1", "error": message, "exit_code": 2}


def test_without_a_command_the_lab_lists_them() -> None:
    done = apart()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: vtare [OPTIONS] COMMAND")
