"""One guest on this host, whatever runs it: what the lab asks of it, and how its agent is waited for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.guest.agent import Agent
from vtare.platforms.guest.channel import connect
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.child import ProcessChild
    from vtare.platforms.guest.cards import Network
    from vtare.platforms.guest.channel import Channel
    from vtare.platforms.guest.qemu_command import GuestSpec

_SOCKET_S: Final = 30.0
#: How much of what a guest reported last is passed on.
TAIL_BYTE: Final = 400


class RunningGuest(ABC):
    """A started guest. Its agent may be asked once `wait_ready` has returned."""

    def __init__(self, name: str, directory: Path, network: Network | None) -> None:
        """Take over what is being started under this name, with its card at this place where it has one."""
        self.name = name
        self.directory = directory
        self.network = network
        self._agent: Agent | None = None

    @property
    def agent(self) -> Agent:
        """The control channel. Raises GuestFailed where it was never opened."""
        if self._agent is None:
            raise GuestFailed(f"guest {self.name}: its control channel was never opened")
        return self._agent

    @property
    def process(self) -> ProcessChild | None:
        """The process of the lab's own that ends with the guest; None where there is none."""
        return None

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything."""
        return self._agent is not None and self._agent.lost is None and self.ended() is None

    def wait_ready(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the agent's first words and return them.

        Raises:
            GuestFailed: the guest was not made, ended, hangs, or could not set itself up.
        """
        if self._agent is None:
            self._agent = Agent(self._open_channel(), self.name, why_lost=self.last_words)
        hello = self._agent.hello(timeout_s)
        problems = hello.get("problems")
        if problems:
            texts = problems if isinstance(problems, list) else [problems]
            raise GuestFailed(f"guest {self.name}: {printable('; '.join(map(str, texts)))}")
        return hello

    @abstractmethod
    def ended(self) -> str | None:
        """How what runs the guest has ended, in words; None while it runs."""

    @abstractmethod
    def end(self) -> None:
        """End the guest and remove its files. May be called twice."""

    @abstractmethod
    def last_words(self) -> str:
        """How it stands with the guest, and what it reported last."""

    @abstractmethod
    def _open_channel(self) -> Channel:
        """Open the control channel, as soon as it is there. Raises GuestFailed where it does not come."""


class GuestMachine(RunningGuest):
    """A guest under QEMU."""

    def __init__(self, spec: GuestSpec) -> None:
        """Take over what is being started as `spec` states."""
        super().__init__(spec.name, spec.directory, spec.network)
        self.spec = spec

    @abstractmethod
    def pin(self, cpus: Sequence[int]) -> list[int]:
        """Keep vCPU n on the n-th of these CPUs, round and round; the CPUs in the order of the vCPUs.

        Raises:
            MachineCannot: a CPU is not there, or the library that it takes is missing.
            GuestFailed: what runs the guest does not answer.
        """

    def _open_channel(self) -> Channel:
        return connect(self.spec.agent_socket, _SOCKET_S, self._gone)

    def _gone(self) -> str | None:
        return None if self.ended() is None else f"guest {self.spec.name}: {self.last_words()}"


def chosen_cpus(vcpus: int, cpus: Sequence[int]) -> list[int]:
    """The CPU of each vCPU: these, round and round."""
    return [cpus[number % len(cpus)] for number in range(vcpus)]


def tail(path: Path) -> str:
    """The end of a log, as far as it can be read by a person; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTE))
            return readable(file.read(TAIL_BYTE))
    except OSError:
        return ""


def readable(reported: bytes) -> str:
    """What a person can read of a console's words: consoles colour and clear, too."""
    return printable(reported.decode(errors="replace"), TAIL_BYTE)


def how(code: int) -> str:
    """How a program ended, by its exit code as `subprocess` reports it."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
