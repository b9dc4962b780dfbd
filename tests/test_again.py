"""A failed test is run again alone, few are and many are not, and what fails each time fails the run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Tool = Callable[[str], ModuleType]

# Answers as `cargo test` does: first with the text of the file `first`, alone with the exit code in the file `alone`.
CARGO = """
import pathlib, sys
place = pathlib.Path(__file__).parent
with (place / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if "--exact" in sys.argv:
    sys.exit(int((place / "alone").read_text()))
print((place / "first").read_text(), end="")
sys.exit(101)
"""

ONE = "test slow ... ok\ntest late ... FAILED\nerror: test failed, to rerun pass `-p vtare --test rtt`\n"


class Cargo:
    """A stand-in for cargo in a directory of its own."""

    def __init__(self, place: Path, again: Path, first: str, alone: int) -> None:
        self.place, self.again = place, again
        (place / "cargo.py").write_text(CARGO)
        (place / "first").write_text(first)
        (place / "alone").write_text(str(alone))

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run it under tools/again."""
        stand_in = [sys.executable, str(self.place / "cargo.py"), "test", "--workspace", "--no-fail-fast"]
        return subprocess.run([str(self.again), *stand_in], capture_output=True, text=True, check=False)

    def calls(self) -> list[str]:
        """The arguments of each call."""
        return (self.place / "calls").read_text().splitlines()


@pytest.fixture
def again(root: Path) -> Path:
    """The tool."""
    return root / "tools" / "again"


def test_what_passes_alone_is_shown_as_unsteady(tmp_path: Path, again: Path) -> None:
    cargo = Cargo(tmp_path, again, ONE, 0)
    outcome = cargo.run()
    assert outcome.returncode == 0
    assert "UNSTEADY: late " in outcome.stdout
    assert cargo.calls() == ["test --workspace --no-fail-fast", "test -p vtare --test rtt -- --exact late"]


def test_what_fails_each_time_fails_the_run(tmp_path: Path, again: Path) -> None:
    cargo = Cargo(tmp_path, again, ONE, 101)
    outcome = cargo.run()
    assert outcome.returncode == 101
    assert "FAILED: late, each time. To repeat it: " in outcome.stdout
    assert outcome.stdout.rstrip().endswith("test -p vtare --test rtt -- --exact late")
    assert len(cargo.calls()) == 3
    # What it printed is shown once.
    assert outcome.stdout.count("test late ... FAILED") == 1


def test_a_test_that_is_left_out_by_default_is_repeated_with_the_option_that_takes_it(tool: Tool) -> None:
    again = tool("again")
    command = ["cargo", "test", "--locked", "--workspace", "--lib", "--bins", "--tests", "--", "--ignored"]
    one = again.alone(command, ("-p", "vtare", "--lib", "slow::one"))
    assert one == ["cargo", "test", "--locked", "-p", "vtare", "--lib", "--", "--ignored", "--exact", "slow::one"]


def test_many_failures_and_a_broken_build_are_not_run_again(tmp_path: Path, again: Path) -> None:
    many = "".join(f"test t{number} ... FAILED\n" for number in range(7)) + ONE.splitlines()[-1] + "\n"
    for place, first, said in (
        ("many", many, "7 failed tests"),
        ("build", "error: could not compile\n", "0 failed tests"),
    ):
        directory = tmp_path / place
        directory.mkdir()
        cargo = Cargo(directory, again, first, 0)
        outcome = cargo.run()
        assert outcome.returncode == 101
        assert said in outcome.stdout
        assert len(cargo.calls()) == 1


def test_a_target_that_dies_without_a_failed_test_is_not_run_again(tmp_path: Path, again: Path) -> None:
    cargo = Cargo(tmp_path, again, "error: test failed, to rerun pass `-p vtare --lib`\n", 0)
    assert cargo.run().returncode == 101
    assert len(cargo.calls()) == 1


@pytest.mark.parametrize(("tests", "code"), [(6, 0), (7, 1)])
def test_tests_that_the_machine_spoiled_are_listed_and_must_be_few(
    tmp_path: Path, again: Path, tests: int, code: int
) -> None:
    (tmp_path / "cargo.py").write_text(
        "import os\n"
        "with open(os.environ['VTARE_SPOILED_FILE'], 'a') as file:\n"
        f"    for number in range({tests}):\n"
        "        file.write(f'rtt::t{number}: it stalled\\n' * 2)\n"
    )
    outcome = subprocess.run(
        [str(again), sys.executable, str(tmp_path / "cargo.py")], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == code
    assert outcome.stdout.count("SPOILED: rtt::t") == tests
    assert f"{tests} tests skipped because this machine spoiled them" in outcome.stdout
