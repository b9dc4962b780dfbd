"""What every topology does, so that whoever uses one does not ask which it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Server
    from vtare.topology.link_counter import CountingPlace
    from vtare.topology.path import PathSpec


class Topology(ABC):
    """What is made for runs and removed after them. As a context manager it removes itself on every way out."""

    def make(self) -> None:
        """Make the topology, ready for use. What a failed attempt has made is removed again.

        Raises:
            NetworkError: a step failed.
            PlatformFailed, MachineCannot: a guest could not be started, or a machine not be reached.
        """
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    @abstractmethod
    def _make(self) -> None:
        """The same, but what a failed attempt has made stays."""

    @abstractmethod
    def remove(self) -> None:
        """Remove everything. May be called twice."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What it is made of."""

    def __enter__(self) -> Self:
        """Make the topology and return it."""
        self.make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove it."""
        self.remove()


class Hosts(Topology):
    """Two hosts, `sender` and `responder`, and what is between them: a plain link, or a path that takes a shape."""

    #: Whether it is all on this machine, whose programs the hosts then have.
    HERE: ClassVar[bool] = True

    @property
    @abstractmethod
    def inward(self) -> str:
        """The device towards the sender, on what joins both hosts."""

    @property
    @abstractmethod
    def outward(self) -> str:
        """The device towards the responder, on what joins both hosts: there is the bottleneck of a path."""

    @abstractmethod
    def site(self, side: str) -> Site | None:
        """Where the instances of a side, `sender` or `responder`, are attached; None where none are made."""

    @abstractmethod
    def server(self, side: str, binary: Path) -> Server:
        """The host of a side, or of a role beside the two, where this `vtare` binary is started."""

    @abstractmethod
    def shape(self, path: PathSpec) -> None:
        """Set capacity, delay and loss of the path; earlier ones are replaced.

        Raises:
            MachineCannot: it must stay as it is.
            NetworkError: a step failed; NetworkRefused where a kernel has no such shaper.
        """

    @abstractmethod
    def counted(self, binary: Path) -> list[CountingPlace]:
        """Where what comes to the bottleneck and leaves it is counted."""

    def unshape(self) -> None:
        """Leave a path that is not the lab's own as its owners have it. May be called twice."""

    def keep(self, seconds: float) -> None:
        """Let what was started run on for so long, should nothing come from the lab any more."""

    @property
    def lost(self) -> bool:
        """Whether a connection to one of the hosts was lost."""
        return False
