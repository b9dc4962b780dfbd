"""From a reason why something cannot be done to the command that changes it, on this distribution."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import sysconfig
from functools import cached_property
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from vtare.kernel_files import kernel_text
from vtare.process import ToolFailed, run_tool

#: How messages name what is missing; the tests of doctor hold them to it.
_PROGRAMS: Final = re.compile(r"the programs? ('[^;]+') (?:is|are) missing(?:; install ([\w.+-]+)(?![\w:/]))?")
_PIP: Final = re.compile(r"install it with `pip install ([^` ]+)`")
_COMMAND: Final = re.compile(r"run `([^`]+)`")
_DAEMON: Final = re.compile(r"start one \(install ([\w.+-]+)\)")
_ROOT: Final = re.compile(r"needs root|run it with sudo")
#: Commands in reasons that an ordinary user cannot carry out.
_OF_ROOT: Final = re.compile(r"modprobe |mount |ip netns |/usr/share/openvswitch/")
#: Where sudo finds programs.
_USUAL: Final = (Path("/usr/bin"), Path("/usr/local/bin"))
#: A daemon of Docker where no systemd starts one.
_DAEMON_WORDS: Final = "dockerd --iptables=false --storage-driver=vfs"
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
        """One line of commands that removes all that this reason names, as far as commands can.

        None where none can, and the reason itself names the way out.
        """
        daemon = _DAEMON.search(reason)
        packages = [
            self.packages.get(program.strip("'"), match[2])
            for match in _PROGRAMS.finditer(reason)
            for program in match[1].split(", ")
        ]
        if daemon is not None and shutil.which("dockerd") is None:
            packages.append(daemon[1])
        of_root = _line(
            self.install(*packages),
            start_docker() if daemon is not None else None,
            *(f"sudo {match[1]}" if _OF_ROOT.match(match[1]) else match[1] for match in _COMMAND.finditer(reason)),
            kvm_command() if _KVM.search(reason) else None,
        )
        return _line(
            of_root and for_this_user(of_root),
            *(pip_install(match[1]) for match in _PIP.finditer(reason)),
            again_as_root() if _ROOT.search(reason) else None,
        )

    def install(self, *packages: str | None) -> str | None:
        """The command that installs Debian packages; None where this machine's sources have none of them."""
        there = [package for package in dict.fromkeys(packages) if package is not None and package in self._candidates]
        if not there:
            return None
        update = "" if _lists_read() else "sudo apt-get update && "
        return f"{update}sudo apt-get install -y {' '.join(there)}"

    @cached_property
    def _candidates(self) -> frozenset[str]:
        """The packages of the table that apt can install here, or may after an update."""
        if shutil.which("apt-cache") is None:
            return frozenset()
        if not _lists_read():
            return frozenset(self.packages.values())
        words = ["apt-cache", "policy", *sorted(set(self.packages.values()))]
        try:
            listed = run_tool(words, environment={"LC_ALL": "C"})
        except ToolFailed:
            return frozenset()
        return frozenset(re.findall(r"(?m)^(\S+):\n  Installed: .*\n  Candidate: (?!\(none\))", listed))


def _lists_read() -> bool:
    """Whether apt knows what its sources have: a new container's has nothing yet."""
    return any(Path("/var/lib/apt/lists").glob("*_Packages*"))


def _has_systemd() -> bool:
    return Path("/run/systemd/system").exists()


def start_docker() -> str:
    """What starts a daemon of Docker that is installed."""
    if _has_systemd():
        return "sudo systemctl start docker"
    # The lab makes its own networks, and a container often has neither nftables nor overlayfs.
    return f"sudo sh -c '{_DAEMON_WORDS} >/var/log/dockerd.log 2>&1 &'"


def pip_install(package: str) -> str:
    """What installs a Python package for the Python that runs the lab, which need not be the one that `pip` is of."""
    if find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip install --python {sys.executable} {package}"
    # Debian's own Python refuses packages beside its own (PEP 668) unless told so.
    own = sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
    return f"{sys.executable} -m pip install {'--break-system-packages ' if own else ''}{package}"


def again_as_root() -> str:
    """What starts the lab as root, also where it is in a virtual environment, which sudo's PATH leaves out."""
    program = shutil.which("vtare")
    return for_this_user(
        f"sudo {program if program is not None and Path(program).parent not in _USUAL else 'vtare'} ..."
    )


def for_this_user(line: str) -> str:
    """A line of commands with `sudo`, as this user can carry it out: root needs none, and not every machine has it."""
    if os.geteuid() == 0:
        return line.replace("sudo ", "")
    if "sudo " in line and shutil.which("sudo") is None:
        # An ordinary user's PATH, which su keeps, is without the directories of root's programs.
        return f"su -c {shlex.quote('PATH=$PATH:/usr/sbin:/sbin; ' + line.replace('sudo ', ''))}"
    return line


def _line(*steps: str | None) -> str | None:
    """The commands one after the other, each once; None where there is none."""
    return " && ".join(dict.fromkeys(step for step in steps if step)) or None


def kvm_command(cpuinfo: str | None = None) -> str | None:
    """What loads KVM's module for this CPU; None where the CPU shows no virtualization."""
    if cpuinfo is None:
        cpuinfo = kernel_text("proc/cpuinfo") or ""
    for flag, module in (("vmx", "kvm_intel"), ("svm", "kvm_amd")):
        if re.search(rf"(?m)^flags\s*:.*\b{flag}\b", cpuinfo):
            return f"sudo modprobe {module}"
    return None
