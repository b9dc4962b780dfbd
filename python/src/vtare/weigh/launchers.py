"""How each platform starts a program on the host's files: with its directory, environment and network."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.errors import MachineCannot
from vtare.platforms import gvisor, open_platform
from vtare.platforms.lacks import programs, together
from vtare.platforms.podman import limit_options, podman
from vtare.platforms.protocol import Resources
from vtare.platforms.rooted import BINARY, ROOT, pinning
from vtare.process import PIPE, start
from vtare.weigh.layer import end_in, make_place, remove_place

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What an environment variable is called where every platform takes it.
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Launcher:
    """Starts programs on one platform. The class itself is the host. A place that it made is removed by `close`."""

    PLATFORM: ClassVar[str] = "host"
    #: Whether all that it runs stays in the control group that its tool is started in, where CPU time is counted and
    #: memory limited; else the tool itself limits it.
    STAYS: ClassVar[bool] = True
    #: Programs that it needs beyond those of the platform in campaigns, with their packages.
    TOOLS: ClassVar[dict[str, str]] = {}

    def __init__(self, resources: Resources) -> None:
        """Take the CPUs and the memory that programs and their platform may use (None: all)."""
        self._resources = resources
        self._place: Path | None = None

    @classmethod
    def missing(cls, binary: Path) -> str | None:
        """Why it does not work here; None where it does."""
        if cls.PLATFORM == "host":
            return None
        return together(programs(cls.TOOLS), open_platform(cls.PLATFORM, binary=binary, owner="vtare-weigh").missing())

    def open(self, at: int) -> None:
        """Make what it needs on this machine."""
        if self.PLATFORM != "host":
            self._place = make_place(self.PLATFORM, at)
            self._prepare(self._place)

    def words(self, program: Sequence[str]) -> list[str]:
        """The command that starts a program once and waits for it."""
        inside = program if self._place is None else self._words(self._place, program)
        return [*pinning(self._resources), *inside]

    def end(self) -> None:
        """End what a killed tool left running."""
        if self._place is not None:
            end_in(self._place)

    def close(self) -> None:
        """Remove all that it made."""
        if self._place is not None:
            remove_place(self._place)
            self._place = None

    def _prepare(self, place: Path) -> None:
        """Make what this platform needs in its place."""

    def _words(self, place: Path, program: Sequence[str]) -> list[str]:
        """The command that starts it inside a place."""
        return list(program)


class BubblewrapLauncher(Launcher):
    """A sandbox of bubblewrap."""

    PLATFORM = "bubblewrap"

    def _words(self, place: Path, program: Sequence[str]) -> list[str]:
        return [
            "bwrap", "--bind", str(place / ROOT), "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys",
            "--unshare-all", "--share-net", "--die-with-parent", "--chdir", os.getcwd(), "--", *program,
        ]  # fmt: skip


class NspawnLauncher(Launcher):
    """A container of systemd-nspawn."""

    PLATFORM = "nspawn"

    def _words(self, place: Path, program: Sequence[str]) -> list[str]:
        return [
            "env", "SYSTEMD_NSPAWN_LOCK=0", "SYSTEMD_NSPAWN_TMPFS_TMP=0", "systemd-nspawn", "--quiet", "--register=no",
            "--keep-unit", "--as-pid2", "--pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
            f"--directory={place / ROOT}", f"--machine={gvisor.sandbox_name(place)}", f"--chdir={os.getcwd()}",
            *(f"--setenv={name}" for name in _variables()), "--", *program,
        ]  # fmt: skip


class PodmanLauncher(Launcher):
    """A container of Podman."""

    PLATFORM = "podman"
    STAYS = False

    def _words(self, place: Path, program: Sequence[str]) -> list[str]:
        return podman(
            "run", "--rm", "--name", place.name, "--network", "host", *limit_options(self._resources),
            *(f"--env={name}" for name in _variables()), "--workdir", os.getcwd(),
            "--rootfs", str(place / ROOT), *program, runtime=shutil.which("crun"),
        )  # fmt: skip


class DockerLauncher(Launcher):
    """A container of Docker: of an image without files, with the directories of the host's root mounted in it."""

    PLATFORM = "docker"
    STAYS = False
    TOOLS: ClassVar[dict[str, str]] = {"docker": "docker-cli"}

    def _prepare(self, place: Path) -> None:
        process = start(["docker", "import", "-", place.name], stdin=PIPE, stdout=PIPE, stderr=PIPE)
        _, reported = process.communicate(_links())
        if process.returncode:
            raise MachineCannot(f"docker takes no image: {reported.decode(errors='replace').strip()}")

    def _words(self, place: Path, program: Sequence[str]) -> list[str]:
        pinned, most = self._resources.pinned, self._resources.memory_byte
        root = place / ROOT
        return [
            "docker", "run", "--rm", "--name", place.name, "--network", "host", "--workdir", os.getcwd(),
            *(f"--env={name}" for name in _variables()),
            *([] if pinned is None else [f"--cpuset-cpus={','.join(map(str, pinned))}"]),
            *([] if most is None else [f"--memory={most}", f"--memory-swap={most}"]),
            *(f"--volume={root / name}:/{name}" for name in _directories()), place.name, *program,
        ]  # fmt: skip


class GvisorLauncher(Launcher):
    """A sandbox of gVisor, on the host's network."""

    PLATFORM = "gvisor"

    def _words(self, place: Path, program: Sequence[str]) -> list[str]:
        bundle = gvisor.bundle(Path(program[0]), place / ROOT, None, Resources())
        bundle["process"] |= {
            "args": list(program),
            "cwd": os.getcwd(),
            "env": [f"{name}={os.environ[name]}" for name in _variables()],
        }
        # The program is on the host's files, and the network is the host's.
        bundle["mounts"] = [mount for mount in bundle["mounts"] if mount["destination"] != BINARY]
        spaces = bundle["linux"]["namespaces"]
        bundle["linux"]["namespaces"] = [space for space in spaces if space["type"] != "network"]
        file = place / "config.json"
        # It holds the environment.
        file.touch(mode=0o600)
        file.write_text(json.dumps(bundle))
        tool = [*gvisor.tool_words(place, None, "host"), "--ignore-cgroups"]
        return [*tool, "run", "--bundle", str(place), gvisor.sandbox_name(place)]


#: By the name of its platform, in the order in which they are measured where none is named.
LAUNCHERS: Final = {
    one.PLATFORM: one
    for one in (Launcher, DockerLauncher, PodmanLauncher, NspawnLauncher, BubblewrapLauncher, GvisorLauncher)
}


def _variables() -> list[str]:
    """The environment's variables, by name: their values, which may be secrets, are in no list of processes."""
    return [name for name in os.environ if _VARIABLE.fullmatch(name)]


def _directories() -> list[str]:
    """The directories of the host's root that hold files."""
    return sorted(
        entry.name
        for entry in Path("/").iterdir()
        if entry.is_dir() and not entry.is_symlink() and entry.name not in ("dev", "proc", "sys", "run")
    )


def _links() -> bytes:
    """The archive of an image with the symbolic links of the host's root and no file."""
    with io.BytesIO() as held:
        with tarfile.open(fileobj=held, mode="w") as archive:
            for entry in sorted(Path("/").iterdir()):
                if entry.is_symlink():
                    link = tarfile.TarInfo(entry.name)
                    link.type, link.linkname = tarfile.SYMTYPE, str(entry.readlink())
                    archive.addfile(link)
        return held.getvalue()
