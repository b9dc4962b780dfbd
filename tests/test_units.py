"""The units of systemd in `examples/`: accepted, closed off, and run by a real systemd in a container."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNITS = {name: ROOT / f"examples/{name}/vtare-{name}.service" for name in ("serve", "watch")}
UNITS["clock"] = ROOT / "examples/serve/vtare-clock.service"
#: Of /usr, what is not this machine's own.
USR = ("bin", "lib", "lib64", "sbin", "share")
PROGRAM = "/usr/local/bin/vtare"
#: By `systemd-analyze security`, 0 (closed off) to 10.
MOST_EXPOSURE = 2.0
# nspawn's own filter keeps these from every process inside; systemd on a real machine does not.
CALLS_BEYOND_NSPAWN = "@memlock landlock_create_ruleset landlock_add_rule landlock_restrict_self"


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def complaints(unit: Path) -> list[str]:
    """What systemd finds wrong in this unit; it looks at others of this machine, too."""
    return [line for line in analyze("verify", unit).stderr.splitlines() if unit.name in line]


def test_a_unit_with_an_unknown_key_and_no_program_is_complained_of(tmp_path: Path) -> None:
    unit = tmp_path / "vtare-broken.service"
    unit.write_text("[Service]\nPrivateTemp=yes\nExecStart=/nonexistent/vtare\n")
    assert any("PrivateTemp" in line for line in complaints(unit))
    assert any("/nonexistent/vtare" in line for line in complaints(unit))


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    copy = tmp_path / UNITS[name].name
    # Neither the manual page nor the program is installed where this runs.
    copy.write_text(re.sub(r"(?m)^Documentation=.*\n", "", UNITS[name].read_text()).replace(PROGRAM, "/bin/true"))
    assert complaints(copy) == []


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_leaves_little_exposed(name: str) -> None:
    done = analyze("security", "--offline=true", "--no-pager", UNITS[name])
    if "--offline" in done.stderr:
        pytest.skip("this systemd-analyze rates running units only: older than systemd 250")
    found = re.search(r"Overall exposure level for .*: ([0-9.]+) ", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSURE


def test_a_unit_that_closes_nothing_off_is_rated_exposed(tmp_path: Path) -> None:
    unit = tmp_path / "open.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    found = re.search(r"level for .*: ([0-9.]+) ", analyze("security", "--offline=true", "--no-pager", unit).stdout)
    assert found is None or float(found[1]) > MOST_EXPOSURE


@pytest.mark.e2e
@pytest.mark.parametrize("name", UNITS)
def test_the_unit_asks_for_options_that_there_are(name: str, vtare: Path) -> None:
    words = next(line for line in UNITS[name].read_text().splitlines() if line.startswith("ExecStart=")).split()
    assert words[:2] == [f"ExecStart={PROGRAM}", name]
    help_text = subprocess.run([vtare, name, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(word in help_text for word in words if word.startswith("--"))


# Runs inside: starts all, uses them, ends them, and prints what was seen as one JSON document.
CHECK = """
import json, os, shutil, subprocess, time, urllib.request

def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout

run("ip", "link", "set", "lo", "up")
units = ("vtare-serve", "vtare-watch")
seen = {"start": subprocess.run(["systemctl", "start", *units], capture_output=True, text=True).stderr}
end = time.monotonic() + 90
seen["rounds"] = ""
while time.monotonic() < end and 'outcome="measured"} 1' not in seen["rounds"]:
    time.sleep(0.5)
    try:
        seen["rounds"] = urllib.request.urlopen("http://127.0.0.1:9462/metrics", timeout=5).read().decode()
    except OSError as error:
        seen["rounds"] = str(error)
pid = run("systemctl", "show", "-P", "MainPID", "vtare-serve").strip()
with open(f"/proc/{pid}/status") as status:
    seen["status"] = dict(line.strip().split(":\t", 1) for line in status if ":\t" in line)
key = "/var/lib/private/vtare-serve/key"
seen["rtt"] = json.loads(run("/usr/local/bin/vtare", "rtt", "127.0.0.1", "--key-file", key, "--count", "50", "--json"))
os.makedirs("/etc/vtare")
shutil.copy(key, "/etc/vtare/key")
seen["start"] += subprocess.run(["systemctl", "start", "vtare-clock"], capture_output=True, text=True).stderr
time.sleep(1)
units = *units, "vtare-clock"
seen["active"] = run("systemctl", "is-active", *units).split()
seen["page"] = os.path.getsize("/run/vtare/utc")
run("systemctl", "stop", *units)
seen["results"] = run("systemctl", "show", "-P", "Result", *units).split()
with open("/serve.log") as log:
    seen["log"] = log.read()
with open("/seen.json", "w") as out:
    json.dump(seen, out)
"""


def system(root: Path, vtare: Path) -> None:
    """The root of a system that has systemd, the binary and the lab: /usr is this machine's, all else is new."""
    places = (
        "usr/local/bin",
        "etc/systemd/system",
        "var/lib",
        "run",
        "tmp",
        "proc",
        "sys",
        "dev",
        "opt/python",
        "opt/site",
    )
    for part in (*places, *(f"usr/{part}" for part in USR)):
        (root / part).mkdir(parents=True, exist_ok=True)
    for part in ("bin", "sbin", "lib", "lib64"):
        (root / part).symlink_to(f"usr/{part}")
    etc = root / "etc"
    (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n")
    (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (etc / "nsswitch.conf").write_text("passwd: files systemd\ngroup: files systemd\n")
    (etc / "machine-id").write_text("")
    shutil.copy("/usr/lib/os-release", etc / "os-release")
    shutil.copy(vtare, root / PROGRAM[1:])
    paths = "LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/site"
    python = f"/usr/bin/env {paths} PYTHONDONTWRITEBYTECODE=1 /opt/python/bin/python3"
    lab = root / "usr/local/bin/vtare-lab"
    lab.write_text(f'#!/bin/sh\nexec {python} -m vtare.start "$@"\n')
    lab.chmod(0o755)
    (root / "check.py").write_text(CHECK)
    units = etc / "systemd/system"
    for unit in UNITS.values():
        shutil.copy(unit, units)
    (units / "vtare-serve.service.d").mkdir()
    (units / "vtare-serve.service.d/log.conf").write_text("[Service]\nStandardError=append:/serve.log\n")
    (units / "vtare-clock.service.d").mkdir()
    (units / "vtare-clock.service.d/witness.conf").write_text("[Service]\nEnvironment=VTARE_WITNESSES=127.0.0.1\n")
    (units / "check.service").write_text(
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n"
        f"ExecStart={python} /check.py\n"
        "ExecStopPost=/bin/systemctl exit 0\nStandardOutput=file:/check.log\nStandardError=file:/check.log\n"
    )


@pytest.mark.platform
def test_the_units_run_and_measure_under_a_real_systemd(tmp_path: Path, vtare: Path) -> None:
    nspawn = shutil.which("systemd-nspawn")
    if nspawn is None or not Path("/lib/systemd/systemd").is_file():
        pytest.skip("systemd or systemd-nspawn is not installed (Debian: systemd, systemd-container)")
    if os.geteuid() != 0:
        pytest.skip("needs root to start a container; run it with sudo")
    root = tmp_path / "root"
    system(root, vtare)
    bound = {f"/usr/{part}": f"/usr/{part}" for part in USR} | {
        sys.base_prefix: "/opt/python", sysconfig.get_path("purelib"): "/opt/site",
    }  # fmt: skip
    command = [
        nspawn, "--quiet", "--register=no", "--keep-unit", "--boot", "--private-network", f"--directory={root}",
        *(f"--bind-ro={outside}:{inside}" for outside, inside in bound.items()),
        f"--system-call-filter={CALLS_BEYOND_NSPAWN}", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
        "--console=pipe", f"--machine=vtare-units-{os.getpid()}", "systemd.unit=check.service",
    ]  # fmt: skip
    done = subprocess.run(
        command, env={**os.environ, "SYSTEMD_NSPAWN_CHECK_OS_RELEASE": "0"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", timeout=180, check=False,
    )  # fmt: skip
    if not (root / "seen.json").exists():
        log = root / "check.log"
        pytest.fail(f"{done.stderr}\n{log.read_text() if log.exists() else 'the check did not start'}")
    seen = json.loads((root / "seen.json").read_text())
    assert seen["start"] == ""
    assert seen["active"] == ["active"] * 3
    assert seen["page"] > 0
    assert 'vtare_rounds_total{outcome="measured"} 1' in seen["rounds"]
    status = seen["status"]
    assert [status[name] for name in ("CapBnd", "CapEff", "NoNewPrivs")] == ["0" * 16, "0" * 16, "1"]
    assert status["Uid"].split()[0] != "0"
    cell = seen["rtt"]["cells"][0]
    assert cell["lost"] == 0
    assert cell["rtt_ns"]["median"] > 0
    # All that the responder gives up by itself it also gives up here.
    assert "confined: no new privileges, no files" in seen["log"]
    assert "mlock" not in seen["log"]
    assert seen["results"] == ["success"] * 3
