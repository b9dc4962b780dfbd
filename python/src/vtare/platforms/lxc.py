"""The `lxc` platform: an instance is a container of liblxc, in whose empty root the static binary is mounted.

The container's first process is `vtare load idle`; every program of a run is started in it by `lxc-attach`. Its files
lie on this machine's disk, so runs' files are copied in and out as files. The network device is the lab's own pair of
virtual Ethernet devices, as LXC would make one, so that its host side stands behind the site's bridge.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards, Layer
from vtare.platforms.binary import digest, not_static
from vtare.platforms.child import PipedChild, start_piped
from vtare.platforms.intake import Incoming, open_below, put_regular, take_regular
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import owner_of, still_runs
from vtare.platforms.protocol import (
    CONTAINER_RESOURCES,
    DEFAULT_RESOURCES,
    Leftover,
    Need,
    PlatformFailed,
    Resources,
)
from vtare.platforms.sealed import sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site

#: Where containers lie: on the disk, so that what they write goes to one. Only root can make any here.
CONTAINERS: Final = Path("/var/lib/vtare/lxc")
_BINARY: Final = "vtare"
_TOOLS: Final = ("lxc-start", "lxc-attach", "lxc-stop", "lxc-info")
_PERIOD_US: Final = 100_000
_CGROUPS: Final = Path("/sys/fs/cgroup")


class AttachedChild(PipedChild):
    """`lxc-attach` and the program that it started in the container. It hands on the exit code but no signal."""

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program in the container; to all where there is none yet, or to kill it."""
        if self.process.poll() is not None:
            return
        inside = _descendants(self.pid)
        for pid in inside:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if not inside or number == signal.SIGKILL:
            super().send_signal(number)


class LxcInstance:
    """One running container."""

    def __init__(self, root: Path, site: Site | None, index: int, about: Mapping[str, object], pid: int) -> None:
        """Take over a running container, whose root this is; `pid` is its first process, as this machine knows it."""
        self._root = root
        self.pid = pid
        self._site = site
        self._index = index
        self._about = about
        self.name = root.parent.name

    @property
    def address(self) -> str | None:
        """Its address behind the site's bridge."""
        return None if self._site is None else self._site.instance_address(self._index)

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Copy the directory's files in and start the binary by `lxc-attach`. See `Instance.start`."""
        with self._inside(directory, make=True) as place:
            for path in directory.iterdir():
                if path.is_file() and path not in {stdout, stderr}:
                    put_regular(place, path.name, path.read_bytes(), path.stat().st_mode & 0o777)
        attach = [sealed("lxc-attach"), "-n", self.name, "-P", str(CONTAINERS), "--keep-env"]
        program = [f"/{_BINARY}", *arguments]
        process = start_piped([*attach, "--", *program], directory=directory)
        return AttachedChild(process, stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Copy out what is expected. See `Instance.fetch`."""
        with self._inside(directory) as place:
            for name, most_byte in expected.items():
                with Incoming(directory, name, most_byte, f"container {self.name}") as incoming:
                    take_regular(place, incoming, f"container {self.name}")
                    incoming.keep()

    def facts(self) -> Mapping[str, object]:
        """What the container was given, and facts of its network device."""
        inside = "" if self._site is None else self._site.instance_namespace(self._index)
        device = {"device": network.interface_facts(inside, "eth0")} if inside else {}
        return {"container": dict(self._about), **device}

    def capture_interface(self) -> str | None:
        """The bridge port in front of it."""
        return None if self._site is None else self._site.port(self._index)

    @contextmanager
    def _inside(self, directory: Path, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a directory in the container."""
        try:
            place = open_below(self._root, directory.absolute(), make=make)
        except OSError as error:
            raise PlatformFailed(
                f"container {self.name}: {directory}: {error.strerror}: it is no directory of the container"
            ) from error
        try:
            yield place
        finally:
            os.close(place)


class LxcPlatform(BasePlatform[LxcInstance]):
    """Containers of liblxc, by its tools."""

    name: Final = "lxc"
    LAYER = Layer.CONTAINER
    FORWARDS = Forwards.CONTAINER
    WORDS = "a container"
    OFFERED = CONTAINER_RESOURCES

    def _missing(self, resources: Resources) -> str | None:
        for tool in _TOOLS:
            if shutil.which(tool) is None:
                return f"the program '{tool}' is missing; install lxc"
        if os.geteuid() != 0:
            return "needs root to make containers; run it with sudo"
        return not_static(self._binary) or network.missing_tools()

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one container takes: measured at 1.1 MiB, with its own first process and the one that minds it."""
        return Need(memory_byte=2 << 20, processes=3, disk_byte=1 << 20)

    def _make(self, index: int, site: Site | None, resources: Resources) -> LxcInstance:
        name = f"{self._owner}-lxc-{index}" if site is None else f"{site.instance_namespace(index)}-lxc"
        place = CONTAINERS / name
        root = place / "rootfs"
        self._removals.callback(_remove, name)
        if site is not None:
            self._removals.callback(network.detach, site, index)
        for made in (root, *(root / part for part in ("proc", "sys", "dev", "tmp", "etc"))):
            made.mkdir(parents=True, exist_ok=True)
        (root / "tmp").chmod(0o1777)
        (place / "config").write_text(_config(root, self._binary, resources), encoding="utf-8")
        words = ("lxc-start", "-n", name, "-P", str(CONTAINERS), "-d", "-o", str(place / "log"), "-l", "ERROR")
        try:
            network.run_tool((*words, "--", f"/{_BINARY}", "load", "idle"))
        except NetworkError as error:
            raise NetworkError(f"{error}: {_last_words(place / 'log')}") from error
        pid = int(network.run_tool(("lxc-info", "-n", name, "-P", str(CONTAINERS), "-p", "-H")))
        if site is not None:
            inside = site.instance_namespace(index)
            network.carry_out(network.adopt(inside, pid))
            network.carry_out(network.plug_in(site, index))
            network.wait_forwarding([(inside, "eth0"), (site.namespace, site.port(index))])
        about = {
            "engine": "lxc",
            "version": network.run_tool(("lxc-start", "--version")).strip(),
            "vcpus": resources.vcpus,
            "memory_limit_byte": resources.memory_byte,
            "pinned": None if resources.pinned is None else ",".join(map(str, resources.pinned)),
            "binary_sha256": digest(self._binary),
        }
        return LxcInstance(root, site, index, about, pid)


def leftovers() -> tuple[Leftover, ...]:
    """Containers that lab processes left, running or not."""
    if not CONTAINERS.is_dir():
        return ()
    found = []
    for place in sorted(CONTAINERS.iterdir()):
        owner = owner_of(place.name)
        if owner is not None:
            found.append(Leftover("container", place.name, still_runs(owner), partial(_remove, place.name)))
    return tuple(found)


def _remove(name: str) -> None:
    """Kill a container and remove its files; one that is gone is fine."""
    place = CONTAINERS / name
    if (place / "config").exists():
        try:
            network.run_tool(("lxc-stop", "-n", name, "-P", str(CONTAINERS), "-k"))
        except NetworkError as error:
            if "is not running" not in str(error) and place.exists():
                raise
    shutil.rmtree(place, ignore_errors=True)
    if place.exists():
        raise NetworkError(f"container {name}: {place} could not be removed")


def _config(root: Path, binary: Path, resources: Resources) -> str:
    lines = {
        "lxc.uts.name": "vtare-lxc",
        "lxc.rootfs.path": f"dir:{root}",
        "lxc.mount.auto": "proc:mixed sys:ro",
        # Mounted, not copied: 128 containers share its pages, and it is the same file by all means.
        "lxc.mount.entry": f"{binary} {_BINARY} none bind,ro,create=file 0 0",
        "lxc.net.0.type": "empty",
        # The loopback device, which is all that it has.
        "lxc.net.0.flags": "up",
        "lxc.init.cwd": "/",
        "lxc.tty.max": "0",
        "lxc.pty.max": "0",
        "lxc.autodev": "1",
    }
    return "".join(f"{key} = {value}\n" for key, value in (lines | _limits(resources)).items())


def _limits(resources: Resources) -> dict[str, str]:
    """The limits as the cgroups of this machine take them: one hierarchy, or one for each controller."""
    unified = (_CGROUPS / "cgroup.controllers").exists()
    kind = "lxc.cgroup2" if unified else "lxc.cgroup"
    found = {}
    if resources.pinned is not None:
        found[f"{kind}.cpuset.cpus"] = ",".join(map(str, resources.pinned))
    if resources.memory_byte is not None:
        found[f"{kind}.memory.{'max' if unified else 'limit_in_bytes'}"] = str(resources.memory_byte)
    if resources.vcpus is not None:
        quota = _PERIOD_US * resources.vcpus
        if unified:
            found[f"{kind}.cpu.max"] = f"{quota} {_PERIOD_US}"
        else:
            found[f"{kind}.cpu.cfs_period_us"] = str(_PERIOD_US)
            found[f"{kind}.cpu.cfs_quota_us"] = str(quota)
    return found


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs, except those that still run the same program as it."""
    try:
        tool = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return []
    found = []
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                for child in map(int, task.read_text(encoding="ascii").split()):
                    waiting.append(child)
                    with suppress(OSError):
                        if not os.path.samestat(os.stat(f"/proc/{child}/exe"), tool):
                            found.append(child)
    return found


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return lines[0][:300] if lines else "it states no more"
