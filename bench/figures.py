"""The figures of benchmarks: in the text that is printed, and with `--json` as one document with a name for each.

`figure` records a value and returns it, to be formatted where it is printed. Programs that a benchmark starts record
theirs in the same file, a JSON object a line: VTARE_BENCH_FIGURES names it (bench/figures/src/lib.rs: from Rust).
"""

from __future__ import annotations

import argparse
import atexit
import json
import math
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

FILE = "VTARE_BENCH_FIGURES"
HERE = Path(__file__).resolve().parent
#: Exit codes of programs that failed.
_ENDED_EARLY: list[int] = []
#: Results that a page keeps: the newest of each command, and of these the newest.
MOST_RESULTS = 6
#: What the head of a result begins with, before its command.
DATED = r"## \d{4}-\d\d-\d\d \d\d:\d\d UTC: "
Value = TypeVar("Value", int, float, int | None, float | None)


def figure(name: str, value: Value, unit: str = "", interval: tuple[float, float] | None = None) -> Value:
    """Record a figure and return its value; the unit of counts and ratios is empty, what is missing is None or NaN."""
    if file := os.environ.get(FILE):
        missing = value is None or math.isnan(value)
        record = {"name": name, "unit": unit, "value": None if missing else value, "interval": interval}
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")
    return value


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, `--json` among them, which keeps stdout for the document and sends all else to stderr."""
    parser.add_argument("--json", action="store_true", help="print one JSON document with all figures by name")
    parser.add_argument("--write", action="store_true", help="keep what is printed in RESULTS.md as well, newest first")
    found = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    if found.json and found.write:
        parser.error("--json and --write are two forms of one run: use one of them")
    if found.write:
        _keep_what_is_printed()
    if found.json:
        handle, os.environ[FILE] = tempfile.mkstemp(prefix="vtare-bench-")
        os.close(handle)
        stdout = os.dup(1)
        os.dup2(2, 1)
        atexit.register(_document, stdout, Path(os.environ[FILE]))
    return found


def programs(text: str | None, *commands: list[str]) -> int:
    """Run programs in turn, or the first alone with the words after the script; the exit code."""
    parser = argparse.ArgumentParser(
        description=text,
        usage="%(prog)s [--json | --write] [WORD...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    given = sys.argv[1:]
    words = [word for word in given if word not in ("--json", "--write", "-h", "--help")]
    sys.argv[1:] = [word for word in given if word not in words]
    parsed(parser)
    # The results that are kept name all of them.
    sys.argv[1:] = given
    for command in [[*commands[0], *words]] if words else commands:
        if code := subprocess.run(command, cwd=HERE, check=False).returncode:
            _ENDED_EARLY.append(code)
            return code
    return 0


def cargo(package: str, *words: str) -> list[str]:
    """The command that runs a benchmark in Rust."""
    return ["cargo", "run", "--quiet", "--release", "--locked", "-p", package, "--", *words]


def _end(number: int, _: object) -> None:
    """End as by Ctrl-C: what was started ends with it."""
    _ENDED_EARLY.append(128 + number)
    sys.exit(128 + number)


def _keep_what_is_printed() -> None:
    """Copy all that this benchmark and its programs print; at the end it is a part of RESULTS.md beside the script."""
    handle, name = tempfile.mkstemp(prefix="vtare-bench-")
    os.close(handle)
    copier = subprocess.Popen(["tee", name], stdin=subprocess.PIPE)
    assert copier.stdin is not None
    terminal = os.dup(1)
    os.dup2(copier.stdin.fileno(), 1)
    load = os.getloadavg()[0]

    def keep() -> None:
        sys.stdout.flush()
        os.dup2(terminal, 1)
        copier.communicate()
        script = Path(sys.argv[0]).resolve()
        command = shlex.join([str(script.relative_to(HERE.parent)), *(w for w in sys.argv[1:] if w != "--write")])
        facts = f"{os.cpu_count()} CPUs, {platform.release()}, load average {load:.1f} before, commit {_commit()[:8]}"
        head = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {command}"
        printed = Path(name).read_text(encoding="utf-8")
        Path(name).unlink()
        # What ended early is no result: an exception that nobody caught leaves its trace there.
        if _ENDED_EARLY or getattr(sys, "last_value", None) is not None:
            return
        file = script.parent / "RESULTS.md"
        file.write_text(with_results(file.read_text("utf-8") if file.exists() else "", head, facts, printed), "utf-8")

    atexit.register(keep)


def with_results(page: str, head: str, facts: str, printed: str) -> str:
    """The page with one more result before those of other commands, and what people wrote behind them."""
    title, *sections = re.split(r"^(?=## )", page or "# Results\n\n", flags=re.MULTILINE)
    written = [one for one in sections if re.match(DATED, one)]
    command = re.sub(DATED, "", f"## {head}")
    earlier = [one for one in written if re.sub(DATED, "", one.partition("\n")[0]) != command]
    lines = "".join(f"    {line}".rstrip() + "\n" for line in printed.splitlines())
    new = f"## {head}\n\n{facts}\n\n{lines}\n"
    others = [one for one in sections if one not in written]
    return (title + new + "".join(earlier[: MOST_RESULTS - 1]) + "".join(others)).rstrip() + "\n"


def _commit() -> str:
    """The commit of this tree, empty where it is none."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _document(stdout: int, file: Path) -> None:
    """Print the document."""
    figures = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.unlink()
    machine = {"system": platform.platform(), "cpus": os.cpu_count(), "load_average": os.getloadavg()[0]}
    document = {"schema": "vtare-bench/1", "benchmark": str(Path(sys.argv[0]).resolve().relative_to(HERE)),
                "machine": machine, "commit": _commit() or None,
                "date": datetime.now(UTC).isoformat(timespec="seconds"), "figures": figures}  # fmt: skip
    with os.fdopen(stdout, "w", encoding="utf-8") as out:
        out.write(json.dumps(document, indent=1) + "\n")
