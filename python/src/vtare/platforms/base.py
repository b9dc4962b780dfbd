"""What all platforms share: their traits, the check of settings, and how instances are made and removed.

A platform is a subclass of `BasePlatform` in a file of its own, and the line in `vtare.platforms.KINDS` that names it.
docs/internals/add-a-platform.md makes one step by step.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import ExitStack
from enum import Enum, IntEnum
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from vtare.errors import BadInput, bad_value, instead_of
from vtare.platforms.protocol import DEFAULT_RESOURCES, Instance, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Settings

_LOG = logging.getLogger(__name__)
InstanceT = TypeVar("InstanceT", bound=Instance)


class Layer(IntEnum):
    """How much lies between a program of an instance and the hardware; the report compares layers."""

    HOST = 0
    #: The host's kernel, isolated: containers and namespaces.
    CONTAINER = 1
    #: A kernel of its own.
    MACHINE = 2


class Forwards(Enum):
    """How instances forward frames between two interfaces (`vtare.topology.forwarding`)."""

    #: They are network namespaces.
    NAMESPACE = "namespace"
    #: They have a network namespace: that of the process `pid` of the instance.
    CONTAINER = "container"
    #: Their own kernel forwards between two network cards (`QemuPlatform.boot`).
    MACHINE = "machine"


class Nearby:
    """What is the same for all instances that the lab reaches without a connection."""

    #: See `Instance.lost`.
    lost: Final = False

    def keep(self, seconds: float) -> None:
        """Do nothing: what was started ends with the lab."""


class BasePlatform(ABC, Generic[InstanceT]):
    """A kind of machine that can be started; see `vtare.platforms.protocol.Platform`. Making one starts nothing."""

    #: Its level in plans.
    name: str
    #: What lies between a program and the hardware.
    LAYER: ClassVar[Layer]
    #: Whether each instance boots: then another boot id is no sign that a machine was started anew.
    BOOTS: ClassVar[bool] = False
    #: Whether an instance has the programs of its machine; else it holds vtare's static binary alone.
    FURNISHED: ClassVar[bool] = False
    #: Whether instances are machines that may be hardware: they are reached, and not made.
    REACHED: ClassVar[bool] = False
    #: Whether instances and what is left of them take nothing of this machine.
    ELSEWHERE: ClassVar[bool] = False
    #: How instances forward frames; None where they cannot.
    FORWARDS: ClassVar[Forwards | None] = None
    #: Why what this platform gives was never compared with the real thing; None where it was run for real.
    UNVERIFIED: ClassVar[str | None] = None
    #: Whether the tests of all platforms (tests/platforms/test_platforms.py) start one: it takes seconds at most.
    TRIED_WITH_ALL: ClassVar[bool] = True
    #: One instance in messages: "a container has no model of its network card to choose".
    WORDS: ClassVar[str]
    #: Fields of `Resources` that a plan may choose.
    OFFERED: ClassVar[frozenset[str]] = frozenset()
    #: Settings of a plan's table `[platforms.NAME]`, each with the values that it may have.
    SETTINGS: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, binary: Path, owner: str, settings: Settings | None = None) -> None:
        """Use this binary; `owner` begins the name of everything that is made.

        Raises:
            BadInput: a setting is unknown or has a wrong value.
        """
        self._binary = binary
        self._owner = owner
        self._settings: dict[str, str | int] = self._checked(dict(settings or {}))
        #: What removes that which was made; called in the reverse order.
        self._removals = ExitStack()

    @property
    def forwards(self) -> Forwards | None:
        """How instances with these settings forward frames."""
        return self.FORWARDS

    def _checked(self, settings: dict[str, str | int]) -> dict[str, str | int]:
        """The settings, each known and of a value that it may have."""
        for key, value in settings.items():
            if key not in self.SETTINGS:
                raise BadInput(f"platform '{self.name}': unknown setting '{key}'{instead_of(key, self.SETTINGS)}")
            if value not in self.SETTINGS[key]:
                raise BadInput(f"platform '{self.name}': {key} {bad_value(value, self.SETTINGS[key])}")
        return settings

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        """Why this machine cannot give such instances, and the way out; None where it can."""
        reason = resources.beyond(self.OFFERED)
        return self._missing(resources) if reason is None else f"{self.WORDS} {reason}"

    @abstractmethod
    def _missing(self, resources: Resources) -> str | None:
        """The same, of resources that are all in `OFFERED`."""

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one idle instance takes of this machine, rounded up."""
        return Need()

    def start(
        self,
        instances: int,
        site: Site | None = None,
        resources: Resources = DEFAULT_RESOURCES,
        *,
        first: int = 0,
    ) -> Sequence[InstanceT]:
        """Start `instances` instances, from the index `first`, behind the site's bridge where one is given.

        Returns once a program can be started in each.

        Raises:
            PlatformFailed, NetworkError, MachineCannot: one could not be started; `stop` removes what was made.
        """
        if self.UNVERIFIED is not None:
            _log_unverified(self.name, self.UNVERIFIED)
        return self._make_all(range(first, first + instances), site, resources)

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[InstanceT]:
        """Make the instances with these indices: one after the other, unless a platform has a faster way."""
        return [self._make(index, site, resources) for index in indices]

    @abstractmethod
    def _make(self, index: int, site: Site | None, resources: Resources) -> InstanceT:
        """Make one instance. What removes it goes into `self._removals` before it is there."""

    def stop(self) -> None:
        """Remove all that was made, whatever part of it fails. May be called twice, and after a failed `start`."""
        self._removals.pop_all().close()


@cache
def _log_unverified(name: str, reason: str) -> None:
    """Log it once for each platform."""
    _LOG.warning("platform %s is UNVERIFIED: %s. Every record states it.", name, reason)
