"""How each platform starts a program: on the host's files with its directory and environment, or on those of a root.

The network is the host's. On another root the host is a chroot of it, with the host's kernel and nothing else.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.errors import MachineCannot
from vtare.platforms import gvisor, open_platform
from vtare.platforms.guest.image import is_dynamic
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.lacks import programs, together
from vtare.platforms.podman import limit_options, podman
from vtare.platforms.protocol import Resources
from vtare.platforms.qemu import QemuPlatform
from vtare.platforms.rooted import BINARY, ROOT, descendants, pinning
from vtare.process import PIPE, run_tool, start
from vtare.sentences import weigh as wording
from vtare.weigh import guest
from vtare.weigh.layer import end_in, offer, remove_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.weigh.image import Root

#: What an environment variable is called where every platform takes it.
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


#: Where a guest looks for programs of an image; `vtare trials` gives them the image's own.
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Of a root ($1) makes an image ($2).
_IMPORT: Final = 'tar --create --numeric-owner --directory "$1" . | docker import - "$2"'


class Launcher(ABC):
    """Starts programs on one platform. A place that it made is removed by `close`."""

    PLATFORM: ClassVar[str]
    #: Whether all that it runs stays in the control group that its tool is started in, where CPU time is counted and
    #: memory limited; else the tool itself limits it.
    STAYS: ClassVar[bool] = True
    #: Whether it is a machine of its own: nothing enters it, its network is not the host's, and each run boots it, so
    #: that it is measured where it is named only.
    IS_MACHINE: ClassVar[bool] = False
    #: Settings of the platform in campaigns.
    SETTINGS: ClassVar[dict[str, str]] = {}
    #: Programs that it needs beyond those of the platform in campaigns, with their packages.
    TOOLS: ClassVar[dict[str, str]] = {}

    def __init__(self, resources: Resources, root: Root | None = None) -> None:
        """Take the CPUs and the memory that programs and their platform may use (None: all), and their files."""
        self._resources = resources
        self._root = root
        self._place: Path | None = None

    @classmethod
    def missing(cls, binary: Path) -> str | None:
        """Why it does not work here; None where it does."""
        if cls.PLATFORM == "host":
            return None
        platform = open_platform(cls.PLATFORM, binary=binary, owner="vtare-weigh", settings=cls.SETTINGS)
        return together(programs(cls.TOOLS), platform.missing())

    def open(self, at: int, binary: Path) -> None:
        """Make what it needs on this machine; the binary is given to a root that is not the host's."""
        if self.PLATFORM != "host" or self._root is not None:
            self._place = offer(self.PLATFORM, at, None if self._root is None else self._root.directory, binary)
            self._prepare(self._place)

    def words(self, program: Sequence[str], at: int = 0) -> list[str]:
        """The command that starts a program in a new instance and waits for it; those at once differ in `at`."""
        place = self._place
        inside = program if place is None else self._words(place, f"{place.name}-{at}" if at else place.name, program)
        return [*pinning(self._resources), *inside]

    def words_into(self, tool: int, program: Sequence[str]) -> list[str]:
        """The command that starts a program in the instance that runs, whose tool is this process."""
        inside = program if self._place is None else self._words_into(self._place, tool, program)
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

    def _prepare(self, place: Path) -> None:  # noqa: B027
        """Make what this platform needs in its place: most need nothing."""

    @abstractmethod
    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        """The command that starts it in an instance of this name, inside a place."""

    def _words_into(self, place: Path, tool: int, program: Sequence[str]) -> list[str]:
        """The command that starts it in the instance that runs: in the namespaces of its first program."""
        inside = descendants(tool)[:1]
        return [
            *self._clean,
            "nsenter",
            *(f"--target={one}" for one in inside),
            "--all",
            "--root",
            "--wd",
            "--",
            *program,
        ]

    @property
    def _directory(self) -> str:
        """Where programs start."""
        return os.getcwd() if self._root is None else self._root.workdir

    @property
    def _environment(self) -> list[str]:
        """The environment's variables, for tools that hand it on; of a root, `vtare trials` gives the command its own.

        By their names: the values, which may be secrets, are in no list of processes.
        """
        return [] if self._root is not None else [name for name in os.environ if _VARIABLE.fullmatch(name)]

    @property
    def _clean(self) -> list[str]:
        """The words before a tool that hands its own environment on: on a root there is none of this machine's."""
        return [] if self._root is None else ["env", "-i", f"PATH={os.environ.get('PATH', os.defpath)}"]


class HostLauncher(Launcher):
    """The host: it starts programs directly, or in a chroot of their root."""

    PLATFORM = "host"

    def _prepare(self, place: Path) -> None:
        for name in ("dev", "proc", "sys"):
            run_tool(("mount", "--bind", f"/{name}", str(place / ROOT / name)))

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        return [*self._clean, "unshare", f"--root={place / ROOT}", f"--wd={self._directory}", "--", *program]

    def _words_into(self, place: Path, tool: int, program: Sequence[str]) -> list[str]:
        return self._words(place, place.name, program)


class BubblewrapLauncher(Launcher):
    """A sandbox of bubblewrap."""

    PLATFORM = "bubblewrap"

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        return [
            *self._clean, "bwrap", "--bind", str(place / ROOT), "/", "--dev", "/dev", "--proc", "/proc",
            "--ro-bind", "/sys", "/sys", "--unshare-all", "--share-net", "--die-with-parent",
            "--chdir", self._directory, "--", *program,
        ]  # fmt: skip


class NspawnLauncher(Launcher):
    """A container of systemd-nspawn."""

    PLATFORM = "nspawn"

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        return [
            "env", "SYSTEMD_NSPAWN_LOCK=0", "SYSTEMD_NSPAWN_TMPFS_TMP=0", "systemd-nspawn", "--quiet", "--register=no",
            "--keep-unit", "--as-pid2", "--pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
            f"--directory={place / ROOT}", f"--machine={gvisor.sandbox_name(name)}", f"--chdir={self._directory}",
            *(f"--setenv={one}" for one in self._environment), "--", *program,
        ]  # fmt: skip


class PodmanLauncher(Launcher):
    """A container of Podman."""

    PLATFORM = "podman"
    STAYS = False

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        return podman(
            "run", "--rm", "--name", name, "--network", "host", *limit_options(self._resources),
            *(f"--env={one}" for one in self._environment), "--workdir", self._directory,
            "--rootfs", str(place / ROOT), *program, runtime=shutil.which("crun"),
        )  # fmt: skip

    def _words_into(self, place: Path, tool: int, program: Sequence[str]) -> list[str]:
        return podman("exec", "--workdir", self._directory, place.name, *program)


class DockerLauncher(Launcher):
    """A container of Docker.

    On the host's files: of an image without files, with the directories of the host's root mounted in it. Another root
    is its image.
    """

    PLATFORM = "docker"
    STAYS = False
    TOOLS: ClassVar[dict[str, str]] = {"docker": "docker-cli"}

    def _prepare(self, place: Path) -> None:
        words, given = ["docker", "import", "-", place.name], _links()
        if self._root is not None:
            words, given = ["sh", "-c", _IMPORT, "sh", str(place / ROOT), place.name], b""
        process = start(words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        _, reported = process.communicate(given)
        if process.returncode:
            raise MachineCannot(f"docker takes no image: {reported.decode(errors='replace').strip()}")

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        pinned, most = self._resources.pinned, self._resources.memory_byte
        root = place / ROOT
        volumes = _directories() if self._root is None else []
        return [
            "docker", "run", "--rm", "--name", name, "--network", "host", "--workdir", self._directory,
            *(f"--env={one}" for one in self._environment),
            *([] if pinned is None else [f"--cpuset-cpus={','.join(map(str, pinned))}"]),
            *([] if most is None else [f"--memory={most}", f"--memory-swap={most}"]),
            *(f"--volume={root / one}:/{one}" for one in volumes), place.name, *program,
        ]  # fmt: skip

    def _words_into(self, place: Path, tool: int, program: Sequence[str]) -> list[str]:
        return ["docker", "exec", "--workdir", self._directory, place.name, *program]


class GvisorLauncher(Launcher):
    """A sandbox of gVisor, on the host's network."""

    PLATFORM = "gvisor"

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        bundle = gvisor.bundle(Path(program[0]), place / ROOT, None, Resources())
        bundle["process"] |= {
            "args": list(program),
            "cwd": self._directory,
            "env": [f"{name}={os.environ[name]}" for name in self._environment],
        }
        bundle["root"]["path"] = str(place / ROOT)
        # The program is on the host's files, and the network is the host's.
        bundle["mounts"] = [mount for mount in bundle["mounts"] if mount["destination"] != BINARY]
        spaces = bundle["linux"]["namespaces"]
        bundle["linux"]["namespaces"] = [space for space in spaces if space["type"] != "network"]
        # Those at once may have programs of their own.
        directory = place / "bundles" / name
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "config.json"
        # It holds the environment.
        file.touch(mode=0o600)
        file.write_text(json.dumps(bundle))
        tool = [*gvisor.tool_words(place, None, "host"), "--ignore-cgroups"]
        return [*tool, "run", "--bundle", str(directory), gvisor.sandbox_name(name)]

    def _words_into(self, place: Path, tool: int, program: Sequence[str]) -> list[str]:
        runsc = gvisor.tool_words(place, None, "host")
        return [*runsc, "exec", "--cwd", self._directory, gvisor.sandbox_name(place.name), *program]


class QemuLauncher(Launcher):
    """A guest under QEMU: it has the host's files and environment, and no network."""

    PLATFORM = "qemu"
    IS_MACHINE = True
    SETTINGS: ClassVar[dict[str, str]] = {"kernel": guest.FLAVOUR}
    TOOLS: ClassVar[dict[str, str]] = {"busybox": "busybox-static"}

    def _prepare(self, place: Path) -> None:
        busybox = Path(shutil.which("busybox") or "busybox").resolve()
        if is_dynamic(busybox.read_bytes()):
            raise MachineCannot(wording.needs_static(str(busybox)))
        self._kernel = find_kernel(guest.FLAVOUR)
        self._accelerator = QemuPlatform(busybox, "vtare-weigh", self.SETTINGS).accelerator()
        (place / guest.INITRAMFS).write_bytes(guest.initramfs(self._kernel, busybox))
        # Too little memory is an error before the first run.
        self._words(place, place.name, [])

    def _words(self, place: Path, name: str, program: Sequence[str]) -> list[str]:
        directory = place / "guests" / name
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / guest.REQUEST
        # It holds the environment.
        file.touch(mode=0o600)
        environment = {name: os.environ[name] for name in self._environment} or {"PATH": _PATH}
        file.write_text(guest.request(program, self._directory, environment), errors="surrogateescape")
        return guest.words(self._accelerator, self._kernel, place, place / ROOT, directory, self._resources)


#: By the name of its platform, in the order in which they are measured where none is named.
LAUNCHERS: Final = {
    one.PLATFORM: one
    for one in (
        HostLauncher,
        DockerLauncher,
        PodmanLauncher,
        NspawnLauncher,
        BubblewrapLauncher,
        GvisorLauncher,
        QemuLauncher,
    )
}


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
