"""The programs and both libraries are built once: cargo is never given words that compile shared crates again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

# Leaves what cargo would, and its own words and flags in a file.
CARGO = """#!/bin/sh
printf '%s|%s\\n' "${RUSTFLAGS-none}" "$*" >>"$CALLS"
built=$CARGO_TARGET_DIR/any-machine/release
mkdir -p "$built"
for name in vtare vtare-rpm libvtare_clock.so libvtare_clock.a libvtare_preload.so; do
  echo "$name GLIBC_2.17" >"$built/$name"
done
# A program that prints its schemas.
case "$*" in *debug-assertions*) printf '#!/bin/sh\necho "{}"\n' >"$built/vtare"; chmod 755 "$built/vtare";; esac
"""


class Stand:
    """A PATH whose cargo only notes what it is asked."""

    def __init__(self, place: Path) -> None:
        self.calls_file = place / "calls"
        cargo = place / "bin" / "cargo"
        cargo.parent.mkdir()
        cargo.write_text(CARGO, encoding="utf-8")
        cargo.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name not in ("RUSTFLAGS", "CARGO")}
        self.environment = {
            **kept,
            "PATH": f"{cargo.parent}:{os.environ['PATH']}",
            "CALLS": str(self.calls_file),
            "CARGO_TARGET_DIR": str(place / "target"),
            "CARGO_BUILD_TARGET": "any-machine",
        }

    def run(self, *command: str, cwd: Path) -> str:
        """What the command prints, which must succeed."""
        ended = subprocess.run(command, cwd=cwd, env=self.environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def calls(self) -> list[tuple[str, list[str], list[str]]]:
        """Of each call of cargo: RUSTFLAGS, its words, and the words after `--`, which reach the last step only."""
        found = []
        for line in self.calls_file.read_text(encoding="utf-8").splitlines():
            flags, _, words = line.partition("|")
            cargo, _, rustc = words.partition(" -- ")
            found.append((flags, cargo.split(), rustc.split()))
        return found


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    """A stand-in for cargo."""
    return Stand(tmp_path)


def after(words: list[str], option: str) -> set[str]:
    """The values of an option in a list of words."""
    return {value for name, value in pairwise(words) if name == option}


def test_shared_crates_are_compiled_with_one_set_of_flags_and_features(root: Path, stand: Stand) -> None:
    printed = stand.run(str(root / "tools/build"), cwd=root)
    assert printed.strip() == str(stand.calls_file.parent / "target/any-machine/release")
    program, rpm, libraries = stand.calls()
    for flags, words, _ in (program, libraries):
        assert flags == "none"
        assert {"--release", "--locked"} <= set(words)
        assert after(words, "--target") == {"any-machine"}
        # Features of shared crates are those of all packages that are named.
        assert "vtare" in after(words, "--package")
    assert after(libraries[1], "--package") == {"vtare", "vtare-capi", "vtare-preload"}
    assert program[2] == ["-C", "target-feature=+crt-static", "-C", "panic=abort"]
    assert libraries[2] == []
    assert (rpm[0], after(rpm[1], "--package"), rpm[2]) == ("none", {"vtare-responsiveness"}, program[2])


def test_the_wheel_takes_what_make_has_built(root: Path, stand: Stand, tmp_path: Path) -> None:
    stand.run(str(root / "tools/build"), cwd=root)
    by_make = stand.calls()
    stand.run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path), cwd=root)
    schemas = [call for call in stand.calls() if "debug-assertions=on" in call[2]]
    assert [call for call in stand.calls() if call not in schemas] == by_make * 2
    # The next build puts the real program in the place of the one that prints schemas.
    assert (len(schemas), stand.calls().index(schemas[0])) == (1, len(by_make))
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{platform.machine()}.whl")
    scripts = f"{'-'.join(wheel.name.split('-')[:2])}.data/scripts"
    built = [
        f"{scripts}/vtare",
        f"{scripts}/vtare-rpm",
        "vtare/_lib/libvtare_clock.so",
        "vtare/_lib/libvtare_preload.so",
    ]
    with zipfile.ZipFile(wheel) as archive:
        for name in built:
            assert archive.read(name).decode() == f"{Path(name).name} GLIBC_2.17\n"


def test_on_a_new_machine_the_packages_of_the_lab_are_installed_before_its_wheel(root: Path, tmp_path: Path) -> None:
    words = ["make", "-n", "build", f"VENV={tmp_path / 'none'}"]
    steps = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout
    packages, wheel = (steps.index(part) for part in ("requirements/run.txt", "install --force-reinstall --no-deps"))
    assert packages < wheel
