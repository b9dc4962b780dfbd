"""The clock library as users get it: installed, found by pkg-config, compiled against, run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from native import Installed, need, run
from witnesses import witnesses

pytestmark = pytest.mark.e2e

NATIVE = Path(__file__).resolve().parent / "native"


def ended_well(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


def agreed(result: subprocess.CompletedProcess[str]) -> None:
    """An example that compared its clock with the system's."""
    ended_well(result)
    assert re.search(
        r"^source \w+, stated error \d+\.?\d* ns: 0 of 1000 readings outside$", result.stdout, re.MULTILINE
    )


def test_install_puts_everything_in_its_place(installed: Installed) -> None:
    files = {str(path.relative_to(installed.prefix)) for path in installed.prefix.rglob("*") if not path.is_dir()}
    assert {
        "bin/vtare",
        "lib/libvtare_clock.so",
        "lib/libvtare_clock.a",
        "include/vtare_clock.h",
        "include/vtare_clock.hpp",
        "lib/pkgconfig/vtare_clock.pc",
    } <= files
    assert not [name for name in files if name.endswith(".partial")]
    assert f"prefix={installed.prefix}\n" in (installed.lib / "pkgconfig/vtare_clock.pc").read_text(encoding="utf-8")


def test_the_soname_names_the_binary_interface_and_the_link_leads_to_it(installed: Installed) -> None:
    shown = run([need("readelf", "binutils"), "-d", str(installed.library)]).stdout
    soname = re.search(r"SONAME.*\[(.*)\]", shown)
    assert soname
    assert soname[1] == "libvtare_clock.so.1"
    assert os.readlink(installed.library) == soname[1]


def test_destdir_is_put_before_the_prefix_and_not_into_the_files(
    root: Path, installed: Installed, tmp_path: Path
) -> None:
    # The libraries of the other installation stand for freshly built ones: where they are put is looked at here.
    tool = [str(root / "tools/install-libraries"), str(installed.lib), str(tmp_path), "/opt/a b&c"]
    ended_well(run(["sh", "-c", 'umask 077; exec "$@"', "sh", *tool]))
    to = tmp_path / "opt" / "a b&c"
    # Whoever may not write there may use it, whatever the umask of the one who installs.
    assert {path.stat().st_mode & 0o055 for path in to.rglob("*") if path.is_dir()} == {0o055}
    assert {path.stat().st_mode & 0o044 for path in to.rglob("*")} == {0o044}
    assert (to / "lib/libvtare_clock.so").is_file()
    lines = (to / "lib/pkgconfig/vtare_clock.pc").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "prefix=/opt/a b&c"
    assert "@" not in "".join(lines)


def test_only_names_of_vtare_are_exported(installed: Installed) -> None:
    listed = run([need("nm", "binutils"), "-D", "--defined-only", "--format=posix", str(installed.library)]).stdout
    names = {line.split()[0].partition("@")[0] for line in listed.splitlines()}
    header = (installed.prefix / "include/vtare_clock.h").read_text(encoding="utf-8")
    plain = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    assert names == set(re.findall(r"(vtare_\w+)\([^;{]*\)[^;{]*;", plain))


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("source", ["examples/c/agree.c", "examples/cpp/agree.cpp"])
def test_the_examples_agree_with_the_system_clock(
    root: Path, installed: Installed, tmp_path: Path, source: str, static: bool
) -> None:
    program = installed.build(root / source, tmp_path, static=static)
    agreed(installed.start(program))


def test_the_python_example_agrees_with_the_system_clock(root: Path, installed: Installed) -> None:
    pytest.importorskip("cffi")
    command = [sys.executable, str(root / "examples/python/agree.py")]
    agreed(run(command, PYTHONPATH=str(root / "python/src"), VTARE_CLOCK_LIBRARY=str(installed.library)))


@pytest.mark.parametrize("language", ["c", "cpp", "java", "python", "rust"])
def test_a_lease_and_a_commit_hold_beside_a_witness_that_lies(
    root: Path, installed: Installed, tmp_path: Path, request: pytest.FixtureRequest, language: str
) -> None:
    environment = {"LD_LIBRARY_PATH": str(installed.lib), "VTARE_CLOCK_LIBRARY": str(installed.library)}
    match language:
        case "java":
            command = ["java", "-cp", request.getfixturevalue("classes"), "Lease"]
        case "python":
            command = [sys.executable, str(root / "examples/python/lease.py")]
            environment["PYTHONPATH"] = str(root / "python/src")
        case "rust":
            manifest = ["--manifest-path", str(root / "Cargo.toml"), "--package", "vtare-witness"]
            command = [need("cargo", "rustup"), "run", "--quiet", "--locked", *manifest, "--example", "lease"]
        case _:
            command = [str(installed.build(root / f"examples/{language}/lease.{language}", tmp_path))]
    with witnesses(0, 0, -3_600_000_000_000) as addresses:
        before_ns = time.time_ns()
        done = run(command, VTARE_WITNESSES=addresses, **environment)
        after_ns = time.time_ns()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 hosts, of which 1 may be wrong" in done.stdout
    assert "the lease held" in done.stdout
    committed_ns = int(done.stdout.partition("committed at ")[2].split()[0])
    assert before_ns <= committed_ns <= after_ns
    # Nobody is left to ask.
    alone = run(command, VTARE_WITNESSES=addresses, **environment)
    assert alone.returncode != 0
    assert "hosts stated UTC" in alone.stderr


@pytest.fixture(scope="module")
def jna(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JNA jar: named by JNA_JAR, from Debian's package, or fetched by Maven as the binding's pom asks."""
    need("javac", "openjdk-17-jdk-headless")
    places = [os.environ.get("JNA_JAR", ""), "/usr/share/java/jna.jar"]
    for place in places:
        if place and Path(place).is_file():
            return Path(place)
    to = tmp_path_factory.mktemp("jna")
    maven = need("mvn", "maven, or libjna-java for the jar alone")
    pom = root / "bindings/java/pom.xml"
    result = run([maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={to}"])
    found = sorted(to.glob("jna-*.jar"))
    if result.returncode != 0 or not found:
        pytest.skip(f"Maven could not fetch JNA (Debian: libjna-java has it too): {result.stdout[-300:]}")
    return found[0]


@pytest.fixture(scope="module")
def classes(root: Path, jna: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled binding and its example."""
    to = tmp_path_factory.mktemp("classes")
    sources = [*(root / "bindings/java/src").rglob("*.java"), *(root / "examples/java").glob("*.java")]
    options = ["-Xlint:all", "-Werror", "--release", "17", "-cp", str(jna), "-d", str(to)]
    ended_well(run(["javac", *options, *map(str, sources)]))
    return f"{jna}:{to}"


def test_the_java_example_agrees_with_the_system_clock(installed: Installed, classes: str) -> None:
    result = run(["java", f"-Dvtare.clock.library={installed.library}", "-cp", classes, "Agree"])
    agreed(result)
    assert "unknown sleep policy `nap`: choose one of adaptive" in result.stdout


def test_java_names_the_library_it_does_not_find(classes: str, tmp_path: Path) -> None:
    lacking = tmp_path / "none.so"
    result = run(["java", f"-Dvtare.clock.library={lacking}", "-cp", classes, "Agree"])
    assert result.returncode == 1
    assert f"cannot load libvtare_clock ({lacking})" in result.stderr
    assert "make install" in result.stderr


CASES = ["allocation", "cancelled", "checked", "fork", "handler", "interrupted", "refused", "threads"]


@pytest.mark.parametrize("case", CASES)
def test_the_library_behaves_as_its_header_states(installed: Installed, tmp_path: Path, case: str) -> None:
    ended_well(installed.start(installed.build(NATIVE / f"{case}.c", tmp_path)))


@pytest.mark.parametrize("case", ["fork", "handler", "refused", "threads"])
def test_the_static_library_behaves_as_its_header_states(installed: Installed, tmp_path: Path, case: str) -> None:
    ended_well(installed.start(installed.build(NATIVE / f"{case}.c", tmp_path, static=True)))


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_the_cpp_header_keeps_its_promises(installed: Installed, tmp_path: Path, standard: str) -> None:
    ended_well(installed.start(installed.build(NATIVE / "timer.cpp", tmp_path, standard=f"-std={standard}")))


@pytest.mark.parametrize(("value", "expected"), [("load", "started"), ("", "idle"), ("later", "idle")])
def test_the_clock_starts_at_load_where_asked(installed: Installed, tmp_path: Path, value: str, expected: str) -> None:
    program = installed.build(NATIVE / "at_load.c", tmp_path)
    ended_well(installed.start(program, expected, VTARE_CLOCK_START=value))


def test_every_native_test_is_run() -> None:
    assert {path.stem for path in NATIVE.glob("*.c*")} == {*CASES, "at_load", "timer"}
