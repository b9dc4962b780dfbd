"""Commands answer at once: what a command does not need is not loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
HEAVY = (
    "altair",
    "asyncssh",
    "docker",
    "jinja2",
    "matplotlib",
    "numpy",
    "pandas",
    "polars",
    "pydantic",
    "scipy",
)
"""Libraries that take longer to load than a command should take in all."""


#: What else a command does not need: parts of the lab, and what draws tables.
UNUSED = {
    ("run", "--help"): ("rich", "vtare.campaign", "vtare.cli.results", "vtare.plan", "vtare.platforms"),
    ("run", "--stoer", "x"): ("rich", "vtare.campaign", "vtare.cli.results", "vtare.plan", "vtare.platforms"),
    ("plan",): ("vtare.campaign", "vtare.contract", "vtare.instruments", "vtare.platforms"),
    ("papers",): ("vtare.campaign", "vtare.contract", "vtare.plan", "vtare.platforms"),
    ("status", "no-such-store"): ("vtare.campaign.executor", "vtare.topology.links", "vtare.summary"),
}


def loaded_by(*arguments: str, cwd: Path, of: tuple[str, ...] = HEAVY) -> set[str]:
    """Those of some libraries and modules that the lab has loaded when this command ends."""
    program = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('loaded:', *(name for name in {of!r} if name in sys.modules)))\n"
        "from vtare.start import main\n"
        f"sys.argv = ['vtare', *{arguments!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd, env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1]
    assert last.startswith("loaded:"), done.stderr
    return set(last.split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("run", "--help"), ("run", "--stoer", "x"), ("plan",), ("status", "no-such-store")],
)
def test_commands_that_read_no_data_load_no_heavy_library(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert loaded_by(*arguments, cwd=tmp_path) == set()


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_state_of_a_campaign_is_read_without_the_libraries_that_read_its_design(
    form: tuple[str, ...], store_of_four: Path, tmp_path: Path
) -> None:
    assert loaded_by("status", str(store_of_four), *form, cwd=tmp_path) == set()


@pytest.mark.parametrize("arguments", UNUSED)
def test_a_command_loads_its_own_part_of_the_lab_only(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert loaded_by(*arguments, cwd=tmp_path, of=UNUSED[arguments]) == set()


def test_a_misspelt_command_is_told_the_nearest_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vtare.start", "repor"],
        cwd=tmp_path, env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Did you mean 'report'?" in done.stderr


def test_a_design_takes_random_numbers_and_nothing_else(tmp_path: Path) -> None:
    assert loaded_by("plan", "quickstart", cwd=tmp_path) == {"numpy"}


def test_the_list_of_papers_reads_no_table_and_computes_nothing(tmp_path: Path) -> None:
    assert loaded_by("papers", cwd=tmp_path) == set()


def test_programs_of_administrators_are_found_without_their_folders_on_path(tmp_path: Path) -> None:
    program = (
        "import atexit, os, sys\nfrom vtare.start import main\n"
        "atexit.register(lambda: print(os.environ['PATH']))\nsys.argv = ['vtare', '--version']\nmain()\n"
    )
    for given in ("/usr/bin:/bin", "/usr/sbin:/usr/bin"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path, env={"PYTHONPATH": str(SOURCES), "PATH": given}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        path = done.stdout.split()[-1].split(":")
        assert path[:2] == given.split(":")
        assert sorted({"/usr/local/sbin", "/usr/sbin", "/sbin"} & set(path)) == [
            "/sbin",
            "/usr/local/sbin",
            "/usr/sbin",
        ]
        assert len(path) == len(set(path))


def test_a_closed_standard_output_is_refused_and_the_answer_not_lost_in_silence(tmp_path: Path) -> None:
    program = f"exec '{sys.executable}' -c 'from vtare.start import main; main()' plan >&-"
    done = subprocess.run(
        ["sh", "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "standard output is closed" in done.stderr
    assert "> FILE" in done.stderr


def test_a_comparison_of_programs_is_judged_without_the_libraries_that_take_longest() -> None:
    program = (
        "import sys\n"
        "import simulated_trials as simulated\n"
        "one = simulated.compared(1.0, simulated.quiet)\n"
        "print(len(one.pairs), one.primary[0].high is not None, *({'numpy.ma', 'scipy'} & set(sys.modules)))\n"
    )
    paths = f"{SOURCES}:{SOURCES.parents[1] / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    pairs, judged, *loaded = done.stdout.split()
    assert int(pairs) > 2, done.stderr
    assert (judged, loaded) == ("True", [])
