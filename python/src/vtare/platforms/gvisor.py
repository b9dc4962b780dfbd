"""The `gvisor` platform: an instance is a sandbox of gVisor, whose own kernel answers the system calls inside it.

`runsc` runs it from an OCI bundle that the lab writes: the first process is `vtare load idle`, and every program of a
run is started by `runsc exec`. Settings: `traps`, how gVisor intercepts system calls (what it calls its platform), and
`network`: its own network stack, which takes over the addresses of the lab's virtual Ethernet device, or the host's.
Where none is named, `traps` is what this version of gVisor chooses, and `network` is `netstack` where that works.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from vtare.errors import MachineCannot
from vtare.platforms import network
from vtare.platforms.lacks import together
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import OWNER_VARIABLE, Leftover, own_prefix
from vtare.platforms.protocol import CONTAINER_RESOURCES, DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.rooted import (
    BINARY,
    ROOT,
    RootedInstance,
    RootedPlatform,
    ToolChild,
    pinning,
    places_left,
)
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.platforms.network import Site

_TOOL: Final = "runsc"
_NEW: Final = "one from https://gvisor.dev/docs/user_guide/install"
_KVM: Final = Path("/dev/kvm")
_PERIOD_US: Final = 100_000
#: Names of gVisor's platforms in `runsc flags`, which the version of 2022 in Debian 12 has but for one.
_TRAPS: Final = ("systrap", "ptrace", "kvm")
#: As Docker gives a container, but for those for devices, files' capabilities and other roots.
_CAPABILITIES: Final = tuple(f"CAP_{name}" for name in (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "NET_RAW", "SETGID", "SETUID",
))  # fmt: skip


class GvisorInstance(RootedInstance):
    """One running sandbox."""

    def __init__(
        self, root: Path, site: Site | None, index: int, about: Mapping[str, object], tool: Sequence[str]
    ) -> None:
        """Take over a running sandbox, which this command of `runsc` knows."""
        super().__init__(root, site, index, about)
        self._tool = tool

    def _enter(self, program: Sequence[str], directory: Path, stdout: Path, stderr: Path) -> ToolChild:
        # Where `runsc` writes which process it is inside.
        started = self._root.parent / f"pid-{secrets.token_hex(8)}"
        words = [
            "exec",
            "--internal-pid-file",
            str(started),
            "--cwd",
            str(directory),
            sandbox_name(self._root.parent.name),
            *program,
        ]
        return ToolChild(
            [*self._tool, *words], directory, stdout=stdout, stderr=stderr,
            deliver=lambda _, number: self._signal(started, number),
        )  # fmt: skip

    def _signal(self, started: Path, number: signal.Signals) -> bool:
        with suppress(OSError, ValueError, NetworkError):
            process = str(int(started.read_text(encoding="ascii")))
            name = sandbox_name(self._root.parent.name)
            network.run_tool((*self._tool, "kill", "--pid", process, name, number.name.removeprefix("SIG")))
            return True
        return False


class GvisorPlatform(RootedPlatform):
    """Sandboxes of gVisor, by `runsc`."""

    name: Final = "gvisor"
    WORDS = "a sandbox of gVisor"
    OFFERED = CONTAINER_RESOURCES
    TOOLS: ClassVar[Mapping[str, str]] = {_TOOL: f"{_TOOL}, or {_NEW}"}
    SETTINGS: ClassVar[Mapping[str, Sequence[str]]] = {"traps": _TRAPS, "network": ("netstack", "host")}

    def _missing(self, resources: Resources) -> str | None:
        reason = super()._missing(resources)
        traps = self._settings.get("traps")
        if traps == "kvm" and not _KVM.exists():
            reason = together(reason, f"gVisor's platform kvm needs {_KVM}, which is not there")
        if shutil.which(_TOOL) is None:
            return reason
        known = _known_traps(_flags())
        if traps is not None and traps not in known:
            return together(reason, f"this version of {_TOOL} has no platform '{traps}', only {', '.join(known)}")
        netstack = self._settings.get("network") == "netstack"
        return together(reason, too_old_for_a_namespace() if netstack else None)

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one sandbox takes: measured at 46 MiB with its gofer, and threads of the Go runtime."""
        return Need(memory_byte=64 << 20, processes=64, disk_byte=1 << 20)

    def _run(
        self, root: Path, site: Site | None, index: int, resources: Resources, about: dict[str, object]
    ) -> RootedInstance:
        place = root.parent
        known = _known_traps(_flags())
        traps = str(self._settings.get("traps", known[0]))
        stack = str(self._settings.get("network", "host" if _is_old(known) else "netstack"))
        inside = None if site is None else f"/run/netns/{site.instance_namespace(index)}"
        reached = "none" if site is None else "host" if stack == "host" else "sandbox"
        tool = tool_words(place, traps, reached)
        limited = any(limit is not None for limit in (resources.vcpus, resources.memory_byte))
        tool += [] if limited else ["--ignore-cgroups"]
        (root / BINARY[1:]).touch()
        (place / "config.json").write_text(json.dumps(bundle(self._binary, root, inside, resources)))
        words = [*pinning(resources), *tool, "run", "--detach", "--bundle", str(place), sandbox_name(place.name)]
        _start(words, place / "log", traps)
        about |= {"version": _version(), "traps": traps, "network": None if site is None else stack}
        return GvisorInstance(root, site, index, about, tool)

    @classmethod
    def remove(cls, place: Path) -> None:
        """End a sandbox and remove its files; one that is gone is fine."""
        if (place / "state").is_dir():
            tool = (_TOOL, "--root", str(place / "state"))
            with suppress(NetworkError):
                network.run_tool((*tool, "delete", "--force", sandbox_name(place.name)))
            # `runsc` pins an empty network namespace there, and leaves it.
            pinned = place / "state" / "null-netns"
            if os.path.ismount(pinned):
                network.run_tool(("umount", str(pinned)))
        super().remove(place)


def tool_words(place: Path, traps: str | None, network: str) -> list[str]:
    """`runsc` with its own options, for the sandbox of a place; `traps` None: this version's choice."""
    flags = _flags()
    words = [_TOOL, "--root", str(place / "state"), f"--platform={traps or _known_traps(flags)[0]}"]
    words += ["--file-access=shared", "--net-raw", f"--network={network}"]
    # A file of a run is on the disk, as on other platforms, and the lab sees it.
    return words + (["--overlay2=none"] if "-overlay2 " in flags else [])


def sandbox_name(name: str) -> str:
    """What `runsc` calls the sandbox of a place: short, since a socket on this machine has it in its own name."""
    return f"vtare-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _start(words: Sequence[str], log: Path, traps: str) -> None:
    """Run `runsc run`. What it starts keeps its output open, which therefore goes to a file."""
    command = ("sh", "-c", 'log="$1"; shift; exec "$@" </dev/null >"$log" 2>&1', "sh", str(log), *words)
    try:
        run_tool(command, environment={OWNER_VARIABLE: own_prefix()})
    except ToolFailed as error:
        reported = " ".join(log.read_text(encoding="utf-8", errors="replace").split())[-300:] if log.exists() else ""
        message = f"gVisor (platform {traps}) does not start: {error.reason}; {reported or 'it reports no more'}"
        # Where its platform kvm does not start once, it never does on this machine.
        raise (MachineCannot if traps == "kvm" else NetworkError)(message) from error


def bundle(binary: Path, root: Path, namespace: str | None, resources: Resources) -> dict[str, Any]:
    """The `config.json` of an OCI bundle."""
    limits: dict[str, Any] = {}
    if resources.vcpus is not None:
        limits["cpu"] = {"period": _PERIOD_US, "quota": _PERIOD_US * resources.vcpus}
    if resources.memory_byte is not None:
        limits["memory"] = {"limit": resources.memory_byte}
    mounted = [("/proc", "proc"), ("/sys", "sysfs"), ("/dev", "tmpfs")]
    kinds = ("pid", "ipc", "uts", "mount")
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [BINARY, "load", "idle"],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
        },
        "root": {"path": ROOT},
        # One name for all: the report distinguishes machines by their host name, and this is one.
        "hostname": "vtare-gvisor",
        "mounts": [
            *({"destination": place, "type": kind, "source": kind} for place, kind in mounted),
            {"destination": BINARY, "type": "bind", "source": str(binary), "options": ["bind", "ro"]},
            # Else gVisor has a file system in memory there.
            {"destination": "/tmp", "type": "bind", "source": str(root / "tmp"), "options": ["bind", "rw"]},
        ],
        "linux": {
            "cgroupsPath": f"/{root.parent.name}",
            "resources": limits,
            "namespaces": [
                *({"type": kind} for kind in kinds),
                {"type": "network"} | ({} if namespace is None else {"path": namespace}),
            ],
        },
    }


@cache
def _flags() -> str:
    """What `runsc flags` prints: its options with their values."""
    return run_tool(("sh", "-c", f"exec {_TOOL} flags 2>&1"))


def _known_traps(flags: str) -> list[str]:
    """The platforms of gVisor that this version has, its own choice first."""
    (line,) = (line for line in flags.splitlines() if "specifies which platform to use" in line)
    return [name for name in _TRAPS if name in line]


def _is_old(known: Sequence[str]) -> bool:
    """Whether a version with these platforms is from before 2023, as that of Debian 12 is."""
    return _TRAPS[0] not in known


def too_old_for_a_namespace() -> str | None:
    """Why this machine's `runsc` cannot run its network stack in a namespace that was made before, if it cannot."""
    if not _is_old(_known_traps(_flags())):
        return None
    return f"this version of {_TOOL} runs its network stack in no namespace that was made before; install {_NEW}"


@cache
def _version() -> str:
    return run_tool((_TOOL, "--version")).partition("\n")[0].strip()


def leftovers() -> tuple[Leftover, ...]:
    """Sandboxes that lab processes left, running or not."""
    return places_left(GvisorPlatform.name, GvisorPlatform.remove)
