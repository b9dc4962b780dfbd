"""The `podman` platform: an instance is a container of Podman, in whose empty root the static binary is mounted.

The container's first process is `vtare load idle`; every program of a run is started in it by `podman exec`. There is
no image: Podman takes the root directory as it is. Setting: `runtime`, the OCI runtime that makes the container: with
`runsc` it is a sandbox of gVisor, whose programs get signals from `runsc kill`.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.kernel_files import kernel_number
from vtare.platforms import network
from vtare.platforms.base import Forwards
from vtare.platforms.gvisor import too_old_for_a_namespace
from vtare.platforms.lacks import together
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import CONTAINER_RESOURCES, DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.rooted import (
    BINARY,
    ROOT,
    RootedInstance,
    RootedPlatform,
    ToolChild,
    missing_for_containers,
    places_left,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.platforms.network import Site

_UNIFIED: Final = Path("/sys/fs/cgroup/unified")
#: Where this kernel states no limit.
_ANY: Final = 1 << 22
_PERIOD_US: Final = 100_000
#: In the environment of every program that is started in a container: which start it was.
_START_VARIABLE: Final = "VTARE_START"
_GVISOR: Final = "runsc"
#: As on the platform gvisor: files of runs are on the disk, and the lab sees them.
_GVISOR_FLAGS: Final = ("net-raw", "file-access=shared", "overlay2=none")
#: The longest that a program in a sandbox of gVisor takes to appear among its processes.
_APPEARS_S: Final = 10.0


class PodmanInstance(RootedInstance):
    """One running container."""

    def __init__(self, root: Path, site: Site | None, index: int, about: Mapping[str, object], pid: int) -> None:
        """Take over a running container, whose root this is; `pid` is its first process, as this machine knows it."""
        super().__init__(root, site, index, about)
        self.pid = pid

    def _enter(self, program: Sequence[str], directory: Path, stdout: Path, stderr: Path) -> ToolChild:
        # The program is no descendant of `podman exec`, so it is marked.
        mark = f"{_START_VARIABLE}={secrets.token_hex(8)}"
        command = podman("exec", "--env", mark, "--workdir", str(directory), self.name, *program)
        return ToolChild(
            command, directory, stdout=stdout, stderr=stderr,
            deliver=lambda _, number: _signal_marked(mark.encode(), number),
        )  # fmt: skip


class PodmanGvisorInstance(PodmanInstance):
    """One running sandbox of gVisor: its processes are known to its own kernel alone."""

    def _enter(self, program: Sequence[str], directory: Path, stdout: Path, stderr: Path) -> ToolChild:
        before = self._processes()
        inside: set[int] = set()
        command = podman("exec", "--workdir", str(directory), self.name, *program)
        child = ToolChild(
            command, directory, stdout=stdout, stderr=stderr,
            deliver=lambda _, number: self._signal(inside, number),
        )  # fmt: skip
        deadline = time.monotonic() + _APPEARS_S
        while not inside and child.returncode is None and time.monotonic() < deadline:
            time.sleep(0.01)
            inside |= self._processes() - before
        return child

    def _processes(self) -> set[int]:
        with suppress(NetworkError, ValueError):
            return set(json.loads(network.run_tool((_GVISOR, "ps", "--format", "json", str(self._about["id"])))))
        return set()

    def _signal(self, inside: set[int], number: signal.Signals) -> bool:
        signalled = False
        for process in inside & self._processes():
            with suppress(NetworkError):
                words = ("kill", "--pid", str(process), str(self._about["id"]), number.name.removeprefix("SIG"))
                network.run_tool((_GVISOR, *words))
                signalled = True
        return signalled


class PodmanPlatform(RootedPlatform):
    """Containers of Podman, made by crun where no other runtime is named."""

    name: Final = "podman"
    FORWARDS = Forwards.CONTAINER
    OFFERED = CONTAINER_RESOURCES
    TOOLS: ClassVar[Mapping[str, str]] = {"podman": "podman", "conmon": "conmon"}
    SETTINGS: ClassVar[Mapping[str, Sequence[str]]] = {"runtime": ("crun", "runc", _GVISOR)}

    def _missing(self, resources: Resources) -> str | None:
        tried = self._is_gvisor and shutil.which(self._runtime) is not None
        return together(
            too_old_for_a_namespace() if tried else None,
            missing_for_containers({self._runtime: self._runtime, **self.TOOLS}, self._binary),
        )

    @property
    def forwards(self) -> Forwards | None:
        """See `BasePlatform.forwards`: gVisor's network stack takes the devices of its namespace for itself."""
        return None if self._is_gvisor else self.FORWARDS

    @property
    def _is_gvisor(self) -> bool:
        return self._runtime == _GVISOR

    @property
    def _runtime(self) -> str:
        return str(self._settings.get("runtime", "crun"))

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one container takes: its first process, conmon, and the process and conmon of each program."""
        return Need(memory_byte=8 << 20, processes=16, disk_byte=1 << 20)

    def _run(
        self, root: Path, site: Site | None, index: int, resources: Resources, about: dict[str, object]
    ) -> RootedInstance:
        name = root.parent.name
        inside = "none" if site is None else f"ns:/run/netns/{site.instance_namespace(index)}"
        limited = any(limit is not None for limit in (resources.vcpus, resources.memory_byte))
        flags = (*_GVISOR_FLAGS, *([] if limited else ["ignore-cgroups"])) if self._is_gvisor else ()
        network.run_tool(podman(
            *(word for flag in flags for word in ("--runtime-flag", flag)),
            "run", "--detach", "--name", name, "--hostname", "vtare-podman", "--network", inside,
            *limit_options(resources), "--volume", f"{self._binary}:{BINARY}:ro",
            # Else gVisor has a file system in memory there.
            *(["--volume", f"{root}/tmp:/tmp"] if self._is_gvisor else []),
            "--rootfs", str(root),
            # By its path: Podman has places of its own where it looks for a name, and this machine may have two.
            BINARY, "load", "idle", runtime=shutil.which(self._runtime),
        ))  # fmt: skip
        pid, identifier = network.run_tool(podman("inspect", name, "--format", "{{.State.Pid}} {{.Id}}")).split()
        version = network.run_tool(("podman", "--version")).strip()
        about |= {"runtime": self._runtime, "version": version, "id": identifier}
        kind = PodmanGvisorInstance if self._is_gvisor else PodmanInstance
        return kind(root, site, index, about, int(pid))

    @classmethod
    def remove(cls, place: Path) -> None:
        """Remove a container and its files; one that is gone is fine."""
        if (place / ROOT).exists():
            network.run_tool(podman("rm", "--force", "--ignore", "--time", "0", place.name))
        super().remove(place)


def podman(*words: str, runtime: str | None = None) -> list[str]:
    """The words of a command of Podman on this machine.

    crun refuses a machine that has control groups of both versions, so there it does not see those of version 2.
    """
    command = ["podman", "--cgroup-manager=cgroupfs", *([] if runtime is None else ["--runtime", runtime]), *words]
    if not _UNIFIED.is_dir():
        return command
    hide = f'umount {_UNIFIED} && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, "sh", *command]


def limit_options(resources: Resources) -> list[str]:
    """The options of `podman run` that limit a container."""
    # Podman asks for more than a process without CAP_SYS_RESOURCE may give; what it has, it may hand on.
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(
        resource.getrlimit(resource.RLIMIT_NPROC)[1] % (1 << 32), kernel_number("proc/sys/kernel/pid_max") or _ANY
    )
    options = [f"--ulimit=nofile={files[0]}:{files[1]}", f"--ulimit=nproc={most}:{most}"]
    if resources.vcpus is not None:
        options += [f"--cpu-period={_PERIOD_US}", f"--cpu-quota={_PERIOD_US * resources.vcpus}"]
    if resources.memory_byte is not None:
        options += [f"--memory={resources.memory_byte}", f"--memory-swap={resources.memory_byte}"]
    if resources.pinned is not None:
        options.append(f"--cpuset-cpus={','.join(map(str, resources.pinned))}")
    return options


def _signal_marked(mark: bytes, number: signal.Signals) -> bool:
    """Send a signal to the program that was started with this mark in its environment, and to all that it started."""
    signalled = False
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), number)
                    signalled = True
    return signalled


def leftovers() -> tuple[Leftover, ...]:
    """Containers that lab processes left, running or not."""
    return places_left(PodmanPlatform.name, PodmanPlatform.remove)
