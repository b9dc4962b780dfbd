"""The host platform: the binary runs as a plain process, on this machine or on one server of a topology."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from vtare.errors import BadInput, bad_value
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Layer, Nearby
from vtare.platforms.child import Child, start_child
from vtare.platforms.netns import start_in_namespace
from vtare.platforms.owner import Leftover, own_prefix, owner_of, still_runs
from vtare.process import PIPE, start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Resources
    from vtare.process import Process

#: Directories of worker processes, which hold what one measurement leaves: `vtare-PID-START-work-...`.
_WORK: Final = "work"
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class HostInstance(Nearby):
    """This machine, or a namespace that stands for one. Files are shared with the program: `fetch` has nothing to do.

    `address` is where others reach it, `interface` the device that has this address: None where a run needs none.
    """

    def __init__(
        self,
        binary: Path,
        namespace: str | None = None,
        address: str | None = None,
        interface: str | None = None,
        *,
        stays: bool = False,
    ) -> None:
        """Use this `vtare` binary. `stays`: the namespace is not the lab's own, and outlasts it."""
        self._stays = stays
        self._binary = binary
        self._namespace = namespace
        self._address = address
        self._interface = interface
        self._keeper: Process | None = None
        self.name = namespace or "host"

    @classmethod
    def at(cls, binary: Path, site: Site | None) -> Self:
        """The server of a topology that is this site; this machine itself where there is none."""
        return cls(binary) if site is None else cls(binary, site.namespace, site.address, site.bridge)

    def stands_at(self, address: str, interface: str | None) -> None:
        """See `Server.stands_at`."""
        self._address, self._interface = address, interface

    @property
    def address(self) -> str | None:
        """See `Instance.address`."""
        return self._address

    def start(
        self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path, before: Sequence[str] = ()
    ) -> Child:
        """Start the binary as a process that dies with this one. See `Server.start`."""
        if self._namespace is not None:
            return start_in_namespace(
                self._namespace, self._binary, arguments,
                directory=directory, stdout=stdout, stderr=stderr, before=before,
            )  # fmt: skip
        return start_child([*before, str(self._binary), *arguments], directory=directory, stdout=stdout, stderr=stderr)

    def run(self, words: Sequence[str]) -> str:
        """See `Server.run`."""
        inside = () if self._namespace is None else ("ip", "netns", "exec", self._namespace)
        return network.run_tool((*inside, *words))

    def undo_with(self, commands: Sequence[Sequence[str]]) -> None:
        """See `Server.undo_with`: a process beside the lab does it when its input ends.

        A namespace of the lab's own is removed with all that is in it.
        """
        if self._namespace is not None and not self._stays:
            return
        inside = "" if self._namespace is None else f"ip netns exec {shlex.quote(self._namespace)} "
        earlier, self._keeper = self._keeper, None
        if commands:
            script = "; ".join(["cat >/dev/null", *(inside + shlex.join(words) for words in commands)])
            # A session of its own: Ctrl-C is for the lab.
            self._keeper = start(["sh", "-c", script], stdin=PIPE, session=True)
        if earlier is not None:
            earlier.kill()
            earlier.communicate()

    def undo(self) -> None:
        """Undo what is changed here. May be called twice."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.communicate()

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Do nothing: the program wrote to `directory` itself."""

    def facts(self) -> Mapping[str, object]:
        """Facts of its device; nothing of the machine itself, whose facts are in each run's footer."""
        return {} if self._interface is None else {"device": network.device_facts(self._interface, self.run)}

    def capture_interface(self) -> str | None:
        """The device on which the process has its address."""
        return self._interface


class HostPlatform(BasePlatform[HostInstance]):
    """The bare host: always there, one instance, nothing to start or stop.

    `namespace` of its settings is a network namespace that exists, in which programs are then started.
    """

    name: Final = "host"
    LAYER = Layer.HOST
    FURNISHED = True
    TRIED_WITH_ALL = False
    WORDS = "the host"

    def _checked(self, settings: dict[str, str | int]) -> dict[str, str | int]:
        namespace = settings.get("namespace")
        others = super()._checked({key: value for key, value in settings.items() if key != "namespace"})
        if namespace is not None and not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):
            raise BadInput(f"platform 'host': namespace {bad_value(namespace, 'the name of a network namespace')}")
        return others if namespace is None else {**others, "namespace": namespace}

    def _missing(self, resources: Resources) -> str | None:
        namespace = self._settings.get("namespace")
        if namespace is None or Path("/run/netns", str(namespace)).exists():
            return None
        return f"there is no network namespace {namespace}; run `ip netns add {namespace}`"

    def _make(self, index: int, site: Site | None, resources: Resources) -> HostInstance:
        # The host is one machine, or one server of a topology.
        if index:
            raise ValueError(f"the host is one machine, {index + 1} instances were asked for")
        namespace = self._settings.get("namespace")
        if site is None and namespace is not None:
            made = HostInstance(self._binary, str(namespace), stays=True)
        else:
            made = HostInstance.at(self._binary, site)
        self._removals.callback(made.undo)
        return made


def work_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory for what a worker process does once; where it is killed, `leftovers` finds it."""
    return tempfile.TemporaryDirectory(prefix=f"{own_prefix()}-{_WORK}-", ignore_cleanup_errors=True)


def remove_work_directories() -> None:
    """Remove those that processes have left which are gone."""
    for leftover in leftovers():
        if leftover.kept_because is None:
            leftover.remove()


def leftovers() -> tuple[Leftover, ...]:
    """Directories of worker processes, recognised by their names."""
    directories = []
    for directory in sorted(Path(tempfile.gettempdir()).glob(f"vtare-*-{_WORK}-*")):
        owner = owner_of(directory.name)
        if owner is not None:
            remove = partial(shutil.rmtree, directory, ignore_errors=True)
            directories.append(Leftover("directory", directory.name, still_runs(owner), remove))
    return tuple(directories)
