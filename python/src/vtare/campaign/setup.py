"""What a run takes place in: the protocol that one host, two hosts and forwarding guests follow, and what a run gets.

A `Setup` lives as long as consecutive runs need one of its kind: the executor closes it before it enters another. What
it makes for one run is a `RunSetup`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from vtare.errors import VtareError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vtare.campaign.background import Neighbours
    from vtare.campaign.children import Helper
    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan.model import Experiment
    from vtare.platforms.protocol import Instance, Server

#: What may pass around the measurement itself: starts, ends, files.
AROUND_S: Final = 180.0
WantedT = TypeVar("WantedT")
_LOG = logging.getLogger(__name__)


class RunSetup:
    """What one run has: the instance that measures, the one with the load, and what works beside them."""

    def __init__(
        self,
        sender: Instance,
        loaded: Instance,
        beside: Neighbours | None = None,
        file_server: Server | None = None,
    ) -> None:
        """`sender` measures, the load runs in `loaded`; `beside` are the instances in the background.

        `file_server` is the server on which `loaded` stands, which may serve files; None where there is none.
        """
        self.sender = sender
        self.loaded = loaded
        self.beside = beside
        self.file_server = file_server

    def parameters(self, planned: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """The plan's parameters, with those that the lab provides."""
        return dict(planned)

    def begins(self, longest_s: float) -> None:
        """The run begins, and is ended after `longest_s` at the latest: nothing of it may stay longer."""

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Write the facts of the setup into the run's directory; start what works beside the run and end it.

        Raises:
            RunFailed: a helper could not start, or ended badly.
            Interrupted: a stop was requested while they started.
        """
        yield ()

    def check(self, directory: Path) -> None:
        """Check what helpers left.

        Raises:
            RunFailed: a file is missing or damaged.
        """

    def cause(self) -> str | None:
        """What the setup itself knows of why a run failed; None where it knows nothing."""
        return None


class Setup(ABC, Generic[WantedT]):
    """One kind of setup of a campaign. Made once; nothing of it is there before `entered` and after `close`."""

    @abstractmethod
    def wanted(self, run: Run, experiment: Experiment | None) -> WantedT:
        """What a run's factors ask for; `experiment` is None for a control run."""

    @abstractmethod
    def missing(self, wanted: WantedT) -> str | None:
        """Why this machine cannot give that, and the way out; None where it can."""

    @abstractmethod
    def entered(self, wanted: WantedT, directory: Path) -> AbstractContextManager[RunSetup]:
        """Have it ready for one run, whose files are in `directory`.

        Raises:
            MachineCannot: this machine cannot give it.
            NetworkError, PlatformFailed: it could not be made; what a failed attempt has made is removed.
        """

    def lost(self) -> bool:
        """Whether a connection to one of its hosts was lost."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Remove all that is kept between runs. May be called twice."""


def close_quietly(close: Callable[[], None]) -> None:
    """Remove what another run used. Where that fails, it is no failure of the next run: it is reported and left."""
    try:
        close()
    except (VtareError, OSError) as error:
        _LOG.warning("%s; `vtare clean` removes what is left", error)
