"""What Xen's own tools state: `xl` of the hypervisor and its domains, `xenstore-read` of a domain's console.

Read from their text, since `xl` is there wherever Xen is; libvirt's driver for Xen is a package more.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot, VtareError
from vtare.platforms.lacks import programs, together
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM: Final = "xl"
_TOOLS: Final = {PROGRAM: "xen-system-amd64", **dict.fromkeys(("xenstore-read", "xenstore-write"), "xenstore-utils")}
_KIND: Final = Path("sys/hypervisor/type")
_CAPABILITIES: Final = Path("proc/xen/capabilities")
_LOOP: Final = Path("dev/loop-control")
_BLKBACK: Final = Path("sys/bus/xen-backend/drivers/vbd")
_SETTINGS: Final = Path("etc/xen/xl.conf")
#: Where the files of this machine begin.
ROOT = Path("/")
_TOOL_S: Final = 60.0
_MEBIBYTE: Final = 1 << 20
_SAID_CHARACTERS: Final = 600


class XenError(VtareError):
    """One of Xen's tools failed: the message holds the command and what it reported."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Domain:
    """One line of `xl list`."""

    name: str
    number: int
    memory_byte: int
    vcpus: int
    state: str


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """What `xl info` states of the hypervisor. None is what it does not state.

    `dom0_gives_memory`: whether `xl` takes memory from dom0 where too little is free for a new domain.
    """

    version: str | None
    cpus: int | None
    free_memory_byte: int | None
    dom0_gives_memory: bool
    scheduler: str | None


def missing_dom0() -> str | None:
    """Why domains cannot be made from here, in words with the way out; None where they can. Starts nothing."""
    root = "needs root to make domains; run it with sudo" if os.geteuid() != 0 else None
    return together(programs(_TOOLS), _not_dom0(), root)


def _not_dom0() -> str | None:
    kind = _line(ROOT / _KIND)
    if kind != "xen":
        return (
            f"this machine does not run under Xen (/{_KIND}: {kind or 'not there'}); boot the entry with Xen, so that "
            "it is dom0"
        )
    if not (ROOT / _CAPABILITIES).exists():
        return f"there is no /{_CAPABILITIES}; run `mount -t xenfs xenfs /proc/xen`"
    if "control_d" not in (_line(ROOT / _CAPABILITIES) or ""):
        return "this machine is a guest of Xen (domU), which makes no domains; run the lab in dom0"
    return None


def missing_disks() -> str | None:
    """Why domains can have no disks from here, in words with the way out; None where they can."""
    return together(
        None if Path("/usr/sbin/losetup").exists() else programs({"losetup": "mount"}),
        *(
            f'there is no /{place}; run `modprobe {module}`, or give guests no disk (disk = "none")'
            for place, module in ((_LOOP, "loop"), (_BLKBACK, "xen-blkback"))
            # Its driver is there under Xen alone.
            if not (ROOT / place).exists() and (place == _LOOP or _line(ROOT / _KIND) == "xen")
        ),
    )


def in_dom0() -> bool:
    """Whether domains could stand beside this one: all that is looked at on machines without Xen."""
    return shutil.which(PROGRAM) is not None and "control_d" in (_line(ROOT / _CAPABILITIES) or "")


def ask_hypervisor() -> Hypervisor:
    """Ask the hypervisor what it is and has.

    Raises:
        MachineCannot: it cannot be asked.
    """
    try:
        facts = read_info(run((PROGRAM, "info")))
    except XenError as error:
        raise MachineCannot(f"{error}; start Xen's services: `service xen start`") from error
    settings = ROOT / _SETTINGS
    text = settings.read_text(encoding="utf-8", errors="replace") if settings.is_file() else ""
    return hypervisor_of(facts, text)


def read_info(text: str) -> dict[str, str]:
    """The lines `key : value` of `xl info`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def hypervisor_of(facts: Mapping[str, str], settings: str = "") -> Hypervisor:
    """What the facts of `xl info` and the text of `xl.conf` mean together."""
    free = _number(facts.get("free_memory"))
    return Hypervisor(
        version=facts.get("xen_version"),
        cpus=_number(facts.get("nr_cpus")),
        free_memory_byte=None if free is None else free * _MEBIBYTE,
        dom0_gives_memory=_dom0_gives_memory(facts.get("xen_commandline", ""), settings),
        scheduler=facts.get("xen_scheduler"),
    )


def _dom0_gives_memory(command_line: str, settings: str) -> bool:
    """xl.conf(5), `autoballoon`: by default ("auto") only where Xen's command line gives dom0 no amount of memory."""
    chosen = re.findall(r"^\s*autoballoon\s*=\s*[\"']?(\w+)", settings, re.MULTILINE)
    if chosen and chosen[-1] in ("on", "off", "1", "0"):
        return chosen[-1] in ("on", "1")
    return not any(word.startswith("dom0_mem=") for word in command_line.split())


def read_list(text: str) -> list[Domain]:
    """The lines of `xl list`; those that are none are skipped."""
    listed = []
    for line in text.splitlines():
        # A name may hold blanks.
        words = line.rsplit(None, 5)
        if len(words) == 6 and all(word.isdigit() for word in words[1:4]):
            number, memory, vcpus = (int(word) for word in words[1:4])
            listed.append(Domain(words[0].strip(), number, memory * _MEBIBYTE, vcpus, words[4]))
    return listed


def domains() -> list[Domain]:
    """All domains there are.

    Raises:
        XenError: they cannot be listed.
    """
    return read_list(run((PROGRAM, "list")))


def console_of(name: str) -> Path | None:
    """The terminal of a domain's console; None where there is no such domain yet, or no terminal."""
    try:
        number = int(run((PROGRAM, "domid", name)))
        text = run(("xenstore-read", f"/local/domain/{number}/console/tty")).strip()
    except (XenError, ValueError):
        return None
    return Path(text) if text.startswith("/") else None


def detach_loops(file: Path) -> None:
    """Free the loop devices that hold a file; none is fine.

    Raises:
        XenError: one could not be freed.
    """
    program = shutil.which("losetup")
    if program is None or not file.exists():
        return
    try:
        held = run_tool((program, "--associated", str(file), "--noheadings", "--output", "NAME"), timeout_s=_TOOL_S)
        for device in held.split():
            run_tool((program, "--detach", device), timeout_s=_TOOL_S)
    except ToolFailed as error:
        raise XenError(f"a loop device of {file} stays: {error.output or error.reason}") from error


def destroy(name: str) -> None:
    """Destroy a domain; one that is not there is fine.

    Raises:
        XenError: it is still there.
    """
    try:
        run((PROGRAM, "destroy", name))
    except XenError:
        if any(domain.name == name for domain in domains()):
            raise


def reason_in(reported: str) -> str:
    """What a tool of Xen reported, in one line: its errors without its own source places, the first of them first.

    Without what `xl` states while all is well, and without what follows from an earlier error.
    """
    lines = [" ".join(line.split()) for line in reported.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_CHATTER) and not any(word in line for word in _AFTERMATH)]
    errors = [line for line in lines if "error" in line.lower()]
    return "; ".join(dict.fromkeys(_PLACE.sub("", line) for line in errors or lines))[:_SAID_CHARACTERS]


#: As in `libxl: error: libxl_dom.c:586:libxl__build_dom: xc_dom_boot_mem_init failed: Cannot allocate memory`.
_PLACE: Final = re.compile(r"^\w+: error: (?:panic: )?[\w.]+:\d+: ?\w+: ?")
_CHATTER: Final = ("Parsing config", "Waiting for domain", "Action for shutdown", "Done. Exiting now")
#: Of the domain that could not be built.
_AFTERMATH: Final = ("cannot (re-)build domain", "Non-existant domain", "Unable to destroy", "Destruction of domain")


def run(words: Sequence[str]) -> str:
    """Run one of Xen's tools and return its output.

    Raises:
        XenError: it is missing, failed or hung.
    """
    try:
        return run_tool(words, timeout_s=_TOOL_S)
    except ToolFailed as error:
        reported = reason_in(error.output) or error.reason
        raise XenError(f"`{shlex.join(words)}`: {reported}") from error


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
