"""Platforms: where runs execute. One file per kind of machine, each with its class and `leftovers()`.

What a platform is stands in `vtare.platforms.protocol`. A new one is one file and its line in `_KINDS`: its class is
made with the binary, the owner (which begins the name of everything it makes) and the settings that a plan gives it.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, VtareError
from vtare.platforms.protocol import (
    DEFAULT_RESOURCES,
    Instance,
    Leftover,
    Need,
    Platform,
    PlatformFailed,
    Resources,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site

__all__ = [
    "DEFAULT_RESOURCES",
    "FURNISHED",
    "PLATFORMS",
    "Instance",
    "Leftover",
    "Need",
    "Platform",
    "PlatformFailed",
    "Resources",
    "kind_of",
    "leftovers",
    "open_platform",
    "remove_leftovers",
    "unverified",
]

#: Kind of platform -> the class in the file of the same name.
_KINDS: Final = {
    "host": "HostPlatform",
    "netns": "NetnsPlatform",
    "docker": "DockerPlatform",
    "lxc": "LxcPlatform",
    "qemu": "QemuPlatform",
    "xen": "XenPlatform",
    "esxi": "EsxiPlatform",
    "virtualbox": "VirtualBoxPlatform",
    "ssh": "SshPlatform",
    "cloud": "CloudPlatform",
}
#: Every platform that a plan may name. Those that this version cannot start are skipped and counted.
PLATFORMS: Final = tuple(_KINDS)
#: Kinds whose instances have the programs of a machine. All others hold vtare's static binary and not a library more.
FURNISHED: Final = ("host", "netns", "ssh", "cloud", "esxi", "virtualbox")


class _NotYet:
    """A platform that plans may name and this version cannot start."""

    def __init__(self, name: str) -> None:
        self.name = name

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        return "this version of vtare cannot start it yet"

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        return Need()

    def start(
        self,
        instances: int,
        site: Site | None = None,
        resources: Resources = DEFAULT_RESOURCES,
        *,
        first: int = 0,
    ) -> Sequence[Instance]:
        raise BadInput(f"platform '{self.name}': {self.missing()}")

    def stop(self) -> None:
        pass


def open_platform(name: str, *, binary: Path, owner: str, settings: Mapping[str, str | int] | None = None) -> Platform:
    """Return the platform of this name. `owner` begins the name of everything it makes.

    `settings` are those of the plan's table `[platforms.NAME]`, whose `kind` is the kind where the name is not one.

    Raises:
        BadInput: there is no such platform, or its settings cannot be used.
    """
    kind = kind_of(name, settings)
    settings = {key: value for key, value in (settings or {}).items() if key != "kind"}
    if kind not in _KINDS:
        raise BadInput(f"platform '{name}' is not known to this version; wanted one of: {', '.join(PLATFORMS)}")
    module = f"{__name__}.{kind}"
    if find_spec(module) is None:
        return _NotYet(name)
    found: Platform = getattr(import_module(module), _KINDS[kind])(binary, owner, settings)
    return found


def kind_of(name: str, settings: Mapping[str, str | int] | None = None) -> str:
    """What kind of platform a name stands for: that of its table `[platforms.NAME]`, else the name itself."""
    return str((settings or {}).get("kind", name))


def unverified(name: str, settings: Mapping[str, str | int] | None = None) -> str | None:
    """Why what this platform gives has never been compared with the real thing; None where it has been run for real."""
    kind = kind_of(name, settings)
    module = f"{__name__}.{kind}"
    if kind not in _KINDS or find_spec(module) is None:
        return None
    found = getattr(import_module(module), "UNVERIFIED", None)
    return None if found is None else str(found)


def leftovers() -> tuple[Leftover, ...]:
    """Everything on this machine that a lab process made and left, in the order in which it must be removed.

    Raises:
        VtareError: what is there cannot be told.
    """
    return tuple(leftover for finder in _finders() for leftover in finder())


def remove_leftovers(*, elsewhere: bool = True) -> tuple[Leftover, ...]:
    """Remove what gone lab processes left, and return all that was found.

    Without `elsewhere`, before a measurement, only what takes something of this machine is looked for: another's may
    not be within reach, or its password not at hand. And a kind that cannot be listed or removed, such as that of a
    hypervisor whose tool is broken, is passed over: it is no reason not to measure on another.

    Raises:
        VtareError: something could not be listed or removed; what could be has been.
    """
    found: list[Leftover] = []
    remove = _remove_all if elsewhere else _try_to_remove_all
    with ExitStack() as stack:
        # Called in the reverse order. Each kind is looked at when those before it are gone: a namespace in which a
        # container still stands is kept.
        for finder in reversed(_finders(elsewhere=elsewhere)):
            stack.callback(remove, finder, found)
    return tuple(found)


def _remove_all(finder: Callable[[], Iterable[Leftover]], found: list[Leftover]) -> None:
    with ExitStack() as stack:
        of_kind = tuple(finder())
        found += of_kind
        for leftover in reversed(of_kind):
            if leftover.kept_because is None:
                stack.callback(leftover.remove)


def _try_to_remove_all(finder: Callable[[], Iterable[Leftover]], found: list[Leftover]) -> None:
    with suppress(VtareError, OSError):
        _remove_all(finder, found)


def _finders(*, elsewhere: bool = True) -> list[Callable[[], Iterable[Leftover]]]:
    """What tells the leftovers of each kind: instances before the bridges and namespaces in which they stand."""
    kinds = [kind for kind in _KINDS if kind != "netns" and find_spec(f"{__name__}.{kind}") is not None]
    modules = [import_module(f"{__name__}.{kind}") for kind in (*kinds, "openvswitch", "netns")]
    wanted = [module for module in modules if elsewhere or not getattr(module, "ELSEWHERE", False)]
    return [module.leftovers for module in wanted if hasattr(module, "leftovers")]
