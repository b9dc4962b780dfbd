"""From a reason why something cannot be done to the command that changes it, on this distribution."""

from __future__ import annotations

import re
import shutil
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Final

from vtare.process import ToolFailed, run_tool

#: How messages name what is missing; the tests of doctor hold them to it.
_PROGRAM: Final = re.compile(r"the program '([^']+)' is missing(?:; install ([\w.+-]+)(?![\w:/]))?")
_COMMAND: Final = re.compile(r"`([^`]+)`")
_DAEMON: Final = re.compile(r"start one \(install ([\w.+-]+)\)")
_ROOT: Final = re.compile(r"needs root|run it with sudo")
_OF_ROOT: Final = ("apt-get", "modprobe", "mount")
_KVM: Final = re.compile(r"needs (?:KVM|/dev/kvm)")


class Ways:
    """The commands of this machine. Packages are looked up once, all together."""

    def __init__(self) -> None:
        """Know the programs and their packages."""
        lines = files("vtare").joinpath("data/packages.txt").read_text(encoding="utf-8").splitlines()
        rows = [line.split(":") for line in lines if line and not line.startswith("#")]
        #: Program -> Debian package.
        self.packages = {row[0]: row[1] for row in rows}

    def out_of(self, reason: str) -> str | None:
        """The command that removes this reason; None where there is none, and the reason itself names the way out."""
        program = _PROGRAM.search(reason)
        if program is not None:
            return self.install(self.packages.get(program[1], program[2]))
        daemon = _DAEMON.search(reason)
        if daemon is not None:
            return start_docker() if shutil.which("dockerd") else self.install(daemon[1])
        command = _COMMAND.search(reason)
        if command is not None and " " in command[1]:
            return f"sudo {command[1]}" if command[1].split()[0] in _OF_ROOT else command[1]
        if _KVM.search(reason):
            return kvm_command()
        return "sudo vtare ..." if _ROOT.search(reason) else None

    def install(self, package: str | None) -> str | None:
        """The command that installs a Debian package; None where this machine's sources do not have it."""
        if package is None or package not in self._candidates:
            return None
        return f"sudo apt-get install -y {package}"

    @cached_property
    def _candidates(self) -> frozenset[str]:
        """The packages of the table that apt can install here."""
        if shutil.which("apt-cache") is None:
            return frozenset()
        words = ["apt-cache", "policy", *sorted(set(self.packages.values()))]
        try:
            listed = run_tool(words, environment={"LC_ALL": "C"})
        except ToolFailed:
            return frozenset()
        return frozenset(re.findall(r"(?m)^(\S+):\n  Installed: .*\n  Candidate: (?!\(none\))", listed))


def start_docker() -> str:
    """What starts a daemon of Docker that is installed."""
    return "sudo systemctl start docker" if Path("/run/systemd/system").exists() else "sudo dockerd &"


def kvm_command(cpuinfo: str | None = None) -> str | None:
    """What loads KVM's module for this CPU; None where the CPU shows no virtualization."""
    if cpuinfo is None:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    for flag, module in (("vmx", "kvm_intel"), ("svm", "kvm_amd")):
        if re.search(rf"(?m)^flags\s*:.*\b{flag}\b", cpuinfo):
            return f"sudo modprobe {module}"
    return None
