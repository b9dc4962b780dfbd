"""Instances whose root is a directory of this machine, in which the static binary is mounted.

A tool starts every program of a run in there and hands on its output and its exit code. The files of such an instance
lie on this machine's disk, so runs' files are copied in and out as files.
"""

from __future__ import annotations

import os
import shutil
import signal
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.errors import PlatformFailed
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Layer, Nearby
from vtare.platforms.binary import digest, not_static
from vtare.platforms.child import PipedChild, start_piped
from vtare.platforms.intake import Incoming, open_below, put_regular, take_regular
from vtare.platforms.lacks import programs, together
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import Leftover, owner_of, still_runs
from vtare.platforms.protocol import Resources
from vtare.process import code_of_shell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site

#: Where instances lie, by kind: on the disk, so that what they write goes to one. Only root can make any here.
PLACES: Final = Path("/var/lib/vtare")
ROOT: Final = "rootfs"
BINARY: Final = "/vtare"


class ToolChild(PipedChild):
    """A tool and the program that it started in an instance. The tool hands on the exit code but no signal."""

    def __init__(
        self, command: Sequence[str], directory: Path, *, stdout: Path, stderr: Path,
        deliver: Callable[[int, signal.Signals], bool],
    ) -> None:  # fmt: skip
        """Start the tool. `deliver` sends a signal to the program; False where there is none yet.

        Raises:
            OSError: the tool cannot be started, or a file cannot be opened.
        """
        super().__init__(start_piped(command, directory=directory), stdout=stdout, stderr=stderr)
        self._deliver = deliver

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`: such tools report a signal as a shell does."""
        code = super().returncode
        return None if code is None else code_of_shell(code)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program in the instance; to the tool too where there is none yet, or to kill it."""
        if self.process.poll() is None and (not self._deliver(self.pid, number) or number == signal.SIGKILL):
            super().send_signal(number)


class RootedInstance(Nearby, ABC):
    """One instance. What kind it is decides how a program is started in it."""

    def __init__(self, root: Path, site: Site | None, index: int, about: Mapping[str, object]) -> None:
        """Take over an instance whose root this is."""
        self._root = root
        self._site = site
        self._index = index
        self._about = about
        self.name = root.parent.name

    @property
    def address(self) -> str | None:
        """Its address behind the site's bridge."""
        return None if self._site is None else self._site.instance_address(self._index)

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Copy the directory's files in and start the binary by the tool. See `Instance.start`."""
        copy_in(self._root, self.name, directory, {stdout, stderr})
        return self._enter([BINARY, *arguments], directory, stdout, stderr)

    @abstractmethod
    def _enter(self, program: Sequence[str], directory: Path, stdout: Path, stderr: Path) -> ToolChild:
        """Start a program in this directory of the instance."""

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Copy out what is expected. See `Instance.fetch`."""
        copy_out(self._root, self.name, directory, expected)

    def facts(self) -> Mapping[str, object]:
        """What the container was given, and facts of its network device."""
        inside = "" if self._site is None else self._site.instance_namespace(self._index)
        device = {"device": network.interface_facts(inside, "eth0")} if inside else {}
        return {"container": dict(self._about), **device}

    def capture_interface(self) -> str | None:
        """The bridge port in front of it."""
        return None if self._site is None else self._site.port(self._index)


class ProgramInstance(RootedInstance):
    """An instance every program of which is a sandbox of its own: they share its root and its network namespace."""

    def __init__(
        self, root: Path, site: Site | None, index: int, about: Mapping[str, object],
        words: Callable[[Path], Sequence[str]],
    ) -> None:  # fmt: skip
        """Make sandboxes by these words, those for a program in this directory, behind which the program comes."""
        super().__init__(root, site, index, about)
        self._words = words

    def _enter(self, program: Sequence[str], directory: Path, stdout: Path, stderr: Path) -> ToolChild:
        command = [*self._words(directory), "--", *program]
        return ToolChild(command, directory, stdout=stdout, stderr=stderr, deliver=to_descendants)


class RootedPlatform(BasePlatform[RootedInstance]):
    """Sandboxes whose tool takes a root directory and a network namespace, both of which the lab has made before."""

    LAYER = Layer.CONTAINER
    WORDS = "a container"
    #: Program -> Debian package.
    TOOLS: ClassVar[Mapping[str, str]]

    def _missing(self, resources: Resources) -> str | None:
        return missing_for_containers(self.TOOLS, self._binary)

    def _make(self, index: int, site: Site | None, resources: Resources) -> RootedInstance:
        inside = None if site is None else site.instance_namespace(index)
        name = f"{inside or f'{self._owner}-{index}'}-{self.name}"
        if site is not None:
            self._removals.callback(network.detach, site, index)
        place = PLACES / self.name / name
        self._removals.callback(self.remove, place)
        root = make_root(place)
        if site is not None and inside is not None:
            network.carry_out(network.attach(site, index))
            network.wait_forwarding([(inside, "eth0"), (site.namespace, site.port(index))])
        about: dict[str, object] = {
            "engine": self.name,
            "vcpus": resources.vcpus,
            "memory_limit_byte": resources.memory_byte,
            "pinned": None if resources.pinned is None else ",".join(map(str, resources.pinned)),
            "binary_sha256": digest(self._binary),
        }
        return self._run(root, site, index, resources, about)

    @abstractmethod
    def _run(
        self, root: Path, site: Site | None, index: int, resources: Resources, about: dict[str, object]
    ) -> RootedInstance:
        """Run what an instance is made of; `about` becomes its facts."""

    @classmethod
    def remove(cls, place: Path) -> None:
        """End what runs in an instance and remove its files; one that is gone is fine."""
        remove_files(place)


def copy_in(root: Path, name: str, directory: Path, outputs: set[Path]) -> None:
    """Copy the files of a directory to the same path below a root, but for those that programs' output goes to.

    Raises:
        PlatformFailed: there is something else in the instance of this name.
    """
    with _inside(root, name, directory, make=True) as place:
        for path in directory.iterdir():
            if path.is_file() and path not in outputs:
                put_regular(place, path.name, path.read_bytes(), path.stat().st_mode & 0o777)


def copy_out(root: Path, name: str, directory: Path, expected: Mapping[str, int]) -> None:
    """Copy what is expected of a directory below a root here. See `Instance.fetch`."""
    with _inside(root, name, directory) as place:
        for file, most_byte in expected.items():
            with Incoming(directory, file, most_byte, f"container {name}") as incoming:
                take_regular(place, incoming, f"container {name}")
                incoming.keep()


@contextmanager
def _inside(root: Path, name: str, directory: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a directory below a root."""
    try:
        place = open_below(root, directory.absolute(), make=make)
    except OSError as error:
        raise PlatformFailed(
            f"container {name}: {directory}: {error.strerror}: it is no directory of the container"
        ) from error
    try:
        yield place
    finally:
        os.close(place)


def missing_for_containers(tools: Mapping[str, str], binary: Path) -> str | None:
    """Why these tools (program -> package) cannot make containers of the binary here; None where they can."""
    if os.geteuid() == 0:
        return together(network.missing_tools(tools), not_static(binary))
    return together(
        programs({**tools, **network.TOOLS}), not_static(binary), "needs root to make containers; run it with sudo"
    )


def make_root(place: Path) -> Path:
    """Make the root of an instance in its place: the directories that a kernel and a program need, and no file."""
    root = place / ROOT
    for made in (root, *(root / part for part in ("proc", "sys", "dev", "tmp", "etc"))):
        made.mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    return root


def remove_files(place: Path) -> None:
    """Remove the files of an instance that has ended.

    Raises:
        NetworkError: some are still there.
    """
    shutil.rmtree(place, ignore_errors=True)
    if place.exists():
        raise NetworkError(f"container {place.name}: {place} could not be removed")


def places_left(kind: str, remove: Callable[[Path], None]) -> tuple[Leftover, ...]:
    """Instances of a kind that lab processes left, running or not."""
    directory = PLACES / kind
    if not directory.is_dir():
        return ()
    owned = ((place, owner_of(place.name)) for place in sorted(directory.iterdir()))
    return tuple(
        Leftover("container", place.name, still_runs(owner), partial(remove, place)) for place, owner in owned if owner
    )


def pinning(resources: Resources) -> list[str]:
    """The words in front of a tool that keep all that it starts on the CPUs asked for."""
    return [] if resources.pinned is None else ["taskset", "-c", ",".join(map(str, resources.pinned))]


def to_descendants(tool: int, number: signal.Signals) -> bool:
    """Send a signal to the processes that a tool has started, and theirs, except those that run the tool's program."""
    inside = descendants(tool)
    for pid in inside:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(inside)


def descendants(pid: int) -> list[int]:
    """The processes that a tool has started, and theirs, except those that run the tool's program."""
    try:
        tool = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return []
    others = []
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                for child in map(int, task.read_text(encoding="ascii").split()):
                    waiting.append(child)
                    with suppress(OSError):
                        if not os.path.samestat(os.stat(f"/proc/{child}/exe"), tool):
                            others.append(child)
    return others
