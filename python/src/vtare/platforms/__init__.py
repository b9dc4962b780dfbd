"""Platforms: where runs execute. One file per kind of machine, with its class and, where it needs it, `leftovers()`.

What the lab asks of a platform is in `vtare.platforms.protocol`, what all share in `vtare.platforms.base`. A new one
is one file and its line in `KINDS` (docs/internals/add-a-platform.md).
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput, VtareError, instead_of
from vtare.platforms.base import BasePlatform
from vtare.platforms.owner import Leftover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


#: Kind of platform -> the class in the file of the same name. A new platform is that file and its line here.
KINDS: Final = {
    "host": "HostPlatform",
    "netns": "NetnsPlatform",
    "docker": "DockerPlatform",
    "lxc": "LxcPlatform",
    "podman": "PodmanPlatform",
    "nspawn": "NspawnPlatform",
    "bubblewrap": "BubblewrapPlatform",
    "gvisor": "GvisorPlatform",
    "qemu": "QemuPlatform",
    "uml": "UmlPlatform",
    "xen": "XenPlatform",
    "esxi": "EsxiPlatform",
    "virtualbox": "VirtualBoxPlatform",
    "ssh": "SshPlatform",
    "cloud": "CloudPlatform",
}


def platform_class(name: str, settings: Mapping[str, str | int] | None = None) -> type[BasePlatform[Any]] | None:
    """The class of a platform's kind, with its traits; None where this version knows no such kind."""
    kind = kind_of(name, settings)
    if kind not in KINDS:
        return None
    loaded: type[BasePlatform[Any]] = getattr(import_module(f"{__name__}.{kind}"), KINDS[kind])
    return loaded


def kinds_with(has: Callable[[type[BasePlatform[Any]]], object]) -> tuple[str, ...]:
    """The kinds of platform whose class has a trait."""
    return tuple(kind for kind in KINDS if (platform := platform_class(kind)) is not None and has(platform))


def open_platform(
    name: str, *, binary: Path, owner: str, settings: Mapping[str, str | int] | None = None
) -> BasePlatform[Any]:
    """Return the platform of this name. `owner` begins the name of everything it makes.

    `settings` are those of the plan's table `[platforms.NAME]`, whose `kind` is the kind where the name is not one.

    Raises:
        BadInput: there is no such platform, or its settings cannot be used.
    """
    platform = platform_class(name, settings)
    if platform is None:
        kind = kind_of(name, settings)
        raise BadInput(f"unknown platform '{kind}'{instead_of(kind, KINDS)}")
    given = {key: value for key, value in (settings or {}).items() if key != "kind"}
    return platform(binary, owner, given)


def kind_of(name: str, settings: Mapping[str, str | int] | None = None) -> str:
    """What kind of platform a name stands for: that of its table `[platforms.NAME]`, else the name itself."""
    return str((settings or {}).get("kind", name))


def unverified(name: str, settings: Mapping[str, str | int] | None = None) -> str | None:
    """Why what this platform gives was never compared with the real thing; None where it was run for real."""
    platform = platform_class(name, settings)
    return None if platform is None else platform.UNVERIFIED


def leftovers() -> tuple[Leftover, ...]:
    """Everything on this machine that a lab process made and left, in the order in which it must be removed.

    Raises:
        VtareError: what is there cannot be listed.
    """
    return tuple(leftover for finder in _finders() for leftover in finder())


def remove_leftovers(
    *, elsewhere: bool = True, more: Sequence[Callable[[], Iterable[Leftover]]] = ()
) -> tuple[Leftover, ...]:
    """Remove what gone lab processes left, and return all that was found; `more` find what platforms do not know.

    Without `elsewhere`, before a measurement, only what takes something of this machine is looked for: another's may
    not be within reach, or its password not at hand. And a kind that cannot be listed or removed, such as that of a
    hypervisor whose tool is broken, is passed over: it is no reason not to measure on another.

    Raises:
        VtareError: something could not be listed or removed; what could be has been.
    """
    removed: list[Leftover] = []
    remove = _remove_all if elsewhere else _try_to_remove_all
    with ExitStack() as stack:
        # Called in the reverse order. Each kind is looked at when those before it are gone: a namespace in which a
        # container still stands is kept.
        for finder in reversed((*_finders(elsewhere=elsewhere), *more)):
            stack.callback(remove, finder, removed)
    return tuple(removed)


def _remove_all(finder: Callable[[], Iterable[Leftover]], removed: list[Leftover]) -> None:
    with ExitStack() as stack:
        of_kind = tuple(finder())
        removed += of_kind
        for leftover in reversed(of_kind):
            if leftover.kept_because is None:
                stack.callback(leftover.remove)


def _try_to_remove_all(finder: Callable[[], Iterable[Leftover]], found: list[Leftover]) -> None:
    with suppress(VtareError, OSError):
        _remove_all(finder, found)


def _finders(*, elsewhere: bool = True) -> list[Callable[[], Iterable[Leftover]]]:
    """What finds the leftovers of each kind: instances before the bridges and namespaces that hold them."""
    kinds = kinds_with(lambda kind: elsewhere or not kind.ELSEWHERE)
    names = (*(kind for kind in kinds if kind != "netns"), "openvswitch", "netns")
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return [module.leftovers for module in modules if hasattr(module, "leftovers")]
