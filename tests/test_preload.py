"""The preload library under real programs: the same results with it and without."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

FUNCTIONS = {
    *("clock_gettime", "gettimeofday", "timespec_get"),
    *("clock_nanosleep", "nanosleep", "usleep", "sleep", "thrd_sleep"),
}
C_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
# Each clock and each way to sleep at least once; the defaults first.
POLICIES = [
    ("auto", "adaptive"),
    ("unordered", "two_phase"),
    ("ordered", "spin"),
    ("os", "os"),
    ("unordered", "adaptive"),
]


def needed(tool: str, package: str) -> str:
    """The path of a program, or the test is skipped with the package that has it."""
    # An ordinary user's PATH may lack the directories of root's programs.
    found = shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"no {tool} on PATH (Debian: {package})")
    return found


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run to the end, output kept."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def under(vtare: Path, *words: str) -> list[str]:
    """The words that run a program under vtare: options, `--`, the program."""
    return [str(vtare), "exec", *words]


@pytest.fixture(scope="module")
def conformance(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The conformance program, built: its words on a command line."""
    compiler = needed("cc", "gcc")
    to = tmp_path_factory.mktemp("conformance")
    sources = root / "tests" / "preload"
    parts = sorted(str(part) for part in sources.glob("*.c") if part.name != "plugin.c")
    for command in (
        [compiler, *C_FLAGS, *parts, "-o", str(to / "conformance"), "-ldl"],
        [compiler, *C_FLAGS, "-shared", "-fPIC", str(sources / "plugin.c"), "-o", str(to / "plugin.so")],
    ):
        built = run(command)
        assert built.returncode == 0, built.stderr
    return [str(to / "conformance"), str(to / "plugin.so")]


@pytest.fixture(scope="module")
def without(conformance: list[str]) -> str:
    """What the conformance program prints on the system's own clock and sleeps."""
    plain = run(conformance)
    assert plain.returncode == 0, plain.stdout + plain.stderr
    assert len(plain.stdout.splitlines()) > 400
    return plain.stdout


@pytest.mark.parametrize(("clock", "sleep"), POLICIES)
def test_results_are_the_same_with_the_library(
    vtare: Path, conformance: list[str], without: str, clock: str, sleep: str
) -> None:
    loaded = run(under(vtare, "--clock", clock, "--sleep", sleep, "--", *conformance))
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert loaded.stdout.splitlines() == without.splitlines()


def test_results_are_the_same_while_they_are_counted(
    vtare: Path, conformance: list[str], without: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    loaded = run(under(vtare, f"--report={report}", "--clock", "unordered", "--", *conformance))
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.splitlines() == without.splitlines()
    document = json.loads(report.read_text(encoding="utf-8"))
    assert {f["name"] for f in document["functions"]} == FUNCTIONS
    assert all(f["calls"] > 0 for f in document["functions"])
    # A thousand threads sleep at once: there are fewer places to learn in, and the report shows that.
    assert document["sleeps_without_place"] > 0


def library_of(vtare: Path) -> Path:
    """The library that `vtare exec` puts under programs."""
    shown = run(under(vtare, "--", "sh", "-c", 'echo "$LD_PRELOAD"'), env={"PATH": os.environ["PATH"]})
    assert shown.returncode == 0, shown.stderr
    return Path(shown.stdout.strip())


def test_the_library_gives_out_the_functions_it_replaces_and_nothing_else(vtare: Path) -> None:
    names = run([needed("nm", "binutils"), "-D", "--defined-only", str(library_of(vtare))])
    assert {line.split()[-1] for line in names.stdout.splitlines()} == FUNCTIONS


def test_settings_it_does_not_know_leave_the_program_alone_and_are_named(vtare: Path) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(library_of(vtare)), "VTARE_EXEC": "clock=sundial"}
    said = run(["sh", "-c", "echo still here"], env=environment)
    assert (said.returncode, said.stdout) == (0, "still here\n")
    assert "`sundial` is unknown: use one of auto" in said.stderr


def test_a_library_that_was_preloaded_already_stays(vtare: Path) -> None:
    shown = run(under(vtare, "--", "sh", "-c", 'echo "$LD_PRELOAD"'), env={**os.environ, "LD_PRELOAD": "libm.so.6"})
    assert shown.stdout.startswith("libm.so.6:")


# --- the report ---

COUNTED = "import os, time\nfor _ in range(30): time.sleep(2e-4)\n"


@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("os._exit(5)", 5), ("os.kill(os.getpid(), 9)", 137), ("os.execv('/bin/sh', ['sh', '-c', 'exit 6'])", 6)],
)
def test_the_report_is_there_whatever_way_the_program_ends(vtare: Path, tmp_path: Path, end: str, code: int) -> None:
    report = tmp_path / "report.json"
    ended = run(under(vtare, f"--report={report}", sys.executable, "-S", "-c", COUNTED + end))
    assert ended.returncode == code, ended.stderr
    document = json.loads(report.read_text(encoding="utf-8"))
    by_name = {f["name"]: f for f in document["functions"]}
    slept = by_name["clock_nanosleep"]  # what time.sleep calls on Linux
    assert slept["calls"] == 30
    assert slept["lateness_ns"]["n"] == 30
    assert slept["lateness_ns"]["median"] is not None
    assert slept["lateness_ns"]["p99"] is None  # thirty sleeps do not carry it
    assert slept["time_ns"] > 0
    assert document["processes"] == (2 if "execv" in end else 1)


def test_a_report_counts_the_kernels_sleeps_too(vtare: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ended = run(under(vtare, f"--report={report}", "--sleep", "os", "--", sys.executable, "-S", "-c", COUNTED))
    assert ended.returncode == 0, ended.stderr
    by_name = {f["name"]: f for f in json.loads(report.read_text(encoding="utf-8"))["functions"]}
    slept = by_name["clock_nanosleep"]
    assert (slept["by_kernel"], slept["spin_ns"], slept["lateness_ns"]["n"]) == (30, 0, 30)


def test_a_signal_to_vtare_reaches_the_program_and_the_report_is_still_written(vtare: Path, tmp_path: Path) -> None:
    script = 'trap "exit 9" TERM; echo ready; while :; do sleep 0.01; done'
    command = under(vtare, f"--report={tmp_path / 'r.txt'}", "--", "sh", "-c", script)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 9
    assert "sleep function" in (tmp_path / "r.txt").read_text(encoding="utf-8")


# --- programs that the library cannot reach ---


def test_a_static_program_is_named_with_what_still_helps(vtare: Path, tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 4; }\n", encoding="utf-8")
    built = run([needed("cc", "gcc"), "-static", str(source), "-o", str(tmp_path / "static")])
    assert built.returncode == 0, built.stderr
    ended = run(under(vtare, "--", str(tmp_path / "static")))
    assert ended.returncode == 4
    assert "is a static program" in ended.stderr
    assert "slack still helps" in ended.stderr


def test_a_static_program_still_gets_the_timer_slack(vtare: Path, tmp_path: Path) -> None:
    source = tmp_path / "slack.c"
    text = '#include <stdio.h>\n#include <sys/prctl.h>\nint main(void) { printf("%d\\n", prctl(PR_GET_TIMERSLACK)); }\n'
    source.write_text(text, encoding="utf-8")
    built = run([needed("cc", "gcc"), "-static", str(source), "-o", str(tmp_path / "slack")])
    assert built.returncode == 0, built.stderr
    for words, slack in (([], "1\n"), (["--slack-ns", "70000"], "70000\n")):
        assert run(under(vtare, *words, "--", str(tmp_path / "slack"))).stdout == slack


def test_a_go_program_is_named(vtare: Path) -> None:
    ended = run(under(vtare, "--", needed("go", "golang-go"), "version"))
    assert ended.returncode == 0, ended.stderr
    assert "is a Go program" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a program of another user")
@pytest.mark.parametrize(
    ("owner", "group", "mode", "right"), [(65534, 0, 0o4755, "user id"), (0, 65534, 0o2755, "group id")]
)
def test_a_program_with_the_rights_of_others_is_named(
    vtare: Path, tmp_path: Path, owner: int, group: int, mode: int, right: str
) -> None:
    program = tmp_path / "true"
    shutil.copy(needed("true", "coreutils"), program)
    os.chown(program, owner, group)
    program.chmod(mode)
    ended = run(under(vtare, "--", str(program)))
    assert ended.returncode == 0, ended.stderr
    assert f"runs with the rights of {right} 65534" in ended.stderr


def test_a_32_bit_program_is_named_and_not_given_a_64_bit_library(vtare: Path, tmp_path: Path) -> None:
    program = tmp_path / "narrow"
    header = b"\x7fELF\x01\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIIIIIHHHHHH", 2, 3, 1, 0, 52, 0, 0, 52, 32, 0, 0, 0, 0
    )
    program.write_bytes(header)
    program.chmod(0o755)
    ended = run(under(vtare, "--", str(program)))
    assert "is a 32-bit program" in ended.stderr
    assert ended.returncode != 0  # it holds no code


# --- other people's programs ---


def test_pythons_own_tests_of_time_pass(vtare: Path) -> None:
    if run([sys.executable, "-c", "import test.test_time"]).returncode != 0:
        pytest.skip("this Python ships without its tests (Debian: libpython3-testsuite)")
    for clock in ("auto", "unordered"):
        ended = run(under(vtare, "--clock", clock, "--", sys.executable, "-m", "test", "test_time"))
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_openssl_speed_runs_unharmed(vtare: Path) -> None:
    command = [needed("openssl", "openssl"), "speed", "-seconds", "1", "-bytes", "1024", "sha256"]
    ended = run(under(vtare, "--clock", "unordered", "--", *command))
    assert ended.returncode == 0, ended.stderr
    assert "sha256" in ended.stdout


def test_iperf3_runs_unharmed_at_both_ends(vtare: Path) -> None:
    iperf3 = needed("iperf3", "iperf3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = under(vtare, "--clock", "unordered", "--", iperf3, "-s", "-1", "-p", port, "--forceflush")
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        while "listening" not in (line := serving.stdout.readline()):
            assert line, "the server has ended"
        client = [iperf3, "-c", "127.0.0.1", "-p", port, "-u", "-b", "10M", "-t", "1", "--json"]
        ended = run(under(vtare, "--clock", "unordered", "--", *client))
        assert ended.returncode == 0, ended.stdout
        assert json.loads(ended.stdout)["end"]["sum"]["packets"] > 0
        serving.stdout.read()
        assert serving.wait(timeout=60) == 0


def test_fping_runs_unharmed(vtare: Path) -> None:
    command = [needed("fping", "fping"), "-c", "5", "-p", "20", "-q", "127.0.0.1"]
    plain = run(command)
    if plain.returncode != 0:
        pytest.skip(f"this machine does not let fping work: {plain.stderr.strip()}")
    ended = run(under(vtare, "--clock", "unordered", "--", *command))
    assert ended.returncode == 0, ended.stderr
    assert "xmt/rcv/%loss = 5/5/0%" in ended.stderr
