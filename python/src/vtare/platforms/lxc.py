"""The `lxc` platform: an instance is a container of liblxc, in whose empty root the static binary is mounted.

The container's first process is `vtare load idle`; every program of a run is started in it by `lxc-attach`. Its files
lie on this machine's disk, so runs' files are copied in and out as files. The network device is the lab's own pair of
virtual Ethernet devices, as LXC would make one, so that its host side stands behind the site's bridge.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards, Layer
from vtare.platforms.binary import digest
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import CONTAINER_RESOURCES, DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.rooted import (
    BINARY,
    PLACES,
    RootedInstance,
    ToolChild,
    make_root,
    missing_for_containers,
    places_left,
    remove_files,
    to_descendants,
)
from vtare.platforms.sealed import sealed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.platforms.network import Site

CONTAINERS: Final = PLACES / "lxc"
_TOOLS: Final = dict.fromkeys(("lxc-start", "lxc-attach", "lxc-stop", "lxc-info"), "lxc")
_PERIOD_US: Final = 100_000
_CGROUPS: Final = Path("/sys/fs/cgroup")


class LxcInstance(RootedInstance):
    """One running container."""

    def __init__(self, root: Path, site: Site | None, index: int, about: Mapping[str, object], pid: int) -> None:
        """Take over a running container, whose root this is; `pid` is its first process, as this machine knows it."""
        super().__init__(root, site, index, about)
        self.pid = pid

    def _enter(self, program: Sequence[str], directory: Path, stdout: Path, stderr: Path) -> ToolChild:
        attach = [sealed("lxc-attach"), "-n", self.name, "-P", str(CONTAINERS), "--keep-env", "--", *program]
        return ToolChild(attach, directory, stdout=stdout, stderr=stderr, deliver=to_descendants)


class LxcPlatform(BasePlatform[LxcInstance]):
    """Containers of liblxc, by its tools."""

    name: Final = "lxc"
    LAYER = Layer.CONTAINER
    FORWARDS = Forwards.CONTAINER
    WORDS = "a container"
    OFFERED = CONTAINER_RESOURCES

    def _missing(self, resources: Resources) -> str | None:
        return missing_for_containers(_TOOLS, self._binary)

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one container takes: measured at 1.1 MiB, with its own first process and the one that minds it."""
        return Need(memory_byte=2 << 20, processes=3, disk_byte=1 << 20)

    def _make(self, index: int, site: Site | None, resources: Resources) -> LxcInstance:
        name = f"{self._owner}-lxc-{index}" if site is None else f"{site.instance_namespace(index)}-lxc"
        place = CONTAINERS / name
        self._removals.callback(_remove, name)
        if site is not None:
            self._removals.callback(network.detach, site, index)
        root = make_root(place)
        (place / "config").write_text(_config(root, self._binary, resources), encoding="utf-8")
        words = ("lxc-start", "-n", name, "-P", str(CONTAINERS), "-d", "-o", str(place / "log"), "-l", "ERROR")
        try:
            network.run_tool((*words, "--", BINARY, "load", "idle"))
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
    return places_left("lxc", lambda place: _remove(place.name))


def _remove(name: str) -> None:
    """Kill a container and remove its files; one that is gone is fine."""
    place = CONTAINERS / name
    if (place / "config").exists():
        try:
            network.run_tool(("lxc-stop", "-n", name, "-P", str(CONTAINERS), "-k"))
        except NetworkError as error:
            if "is not running" not in str(error) and place.exists():
                raise
    remove_files(place)


def _config(root: Path, binary: Path, resources: Resources) -> str:
    lines = {
        "lxc.uts.name": "vtare-lxc",
        "lxc.rootfs.path": f"dir:{root}",
        "lxc.mount.auto": "proc:mixed sys:ro",
        # Mounted, not copied: 128 containers share its pages, and it is the same file by all means.
        "lxc.mount.entry": f"{binary} {BINARY[1:]} none bind,ro,create=file 0 0",
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
    limits = {}
    if resources.pinned is not None:
        limits[f"{kind}.cpuset.cpus"] = ",".join(map(str, resources.pinned))
    if resources.memory_byte is not None:
        limits[f"{kind}.memory.{'max' if unified else 'limit_in_bytes'}"] = str(resources.memory_byte)
    if resources.vcpus is not None:
        quota = _PERIOD_US * resources.vcpus
        if unified:
            limits[f"{kind}.cpu.max"] = f"{quota} {_PERIOD_US}"
        else:
            limits[f"{kind}.cpu.cfs_period_us"] = str(_PERIOD_US)
            limits[f"{kind}.cpu.cfs_quota_us"] = str(quota)
    return limits


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return lines[0][:300] if lines else "it states no more"
