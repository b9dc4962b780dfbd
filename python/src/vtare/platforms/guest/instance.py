"""The part of an instance that is the same for all guests: programs and files over the control channel, and facts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from vtare.errors import MachineCannot
from vtare.platforms import network
from vtare.platforms.base import Nearby
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.machine import RunningGuest
from vtare.platforms.intake import Incoming, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.child import Child, ProcessChild
    from vtare.platforms.guest.agent import Agent

MEBIBYTE: Final = 1 << 20
#: What each flavour's kernel needs to unpack itself and the initramfs: below, it ends with "deadlocked on memory".
LEAST_MEMORY: Final = {"cloud": 96 * MEBIBYTE, "generic": 128 * MEBIBYTE}
#: What a guest has where a plan gives it nothing: `rtt`, which locks its memory, was ended in 96 MiB now and then.
GIVEN_MEMORY: Final = {flavour: byte + 32 * MEBIBYTE for flavour, byte in LEAST_MEMORY.items()}
#: Seconds on a real machine, ten emulated; a busy host gets far more before a guest counts as hung.
READY_S: Final = 180.0
#: Guests that boot at the same time: more only make each other slow.
_AT_ONCE: Final = 4
_EARLY: Final = "-early"
_SETTLE_S: Final = 30.0
_LOOK_S: Final = 0.2


_Made = TypeVar("_Made", bound=RunningGuest)
_Wanted = TypeVar("_Wanted")
_Ready = TypeVar("_Ready")


class GuestInstance(Nearby, Generic[_Made]):
    """One guest that is ready."""

    def __init__(self, machine: _Made, facts: dict[str, Any]) -> None:
        """Take over a guest that is ready; `facts` state what it is made of."""
        self._machine = machine
        self._facts = facts
        self._files = GuestFiles(machine.agent)
        self.name = machine.name

    @property
    def address(self) -> str | None:
        """Its address behind the site's bridge."""
        place = self._machine.network
        return None if place is None else place.address

    @property
    def directory(self) -> Path:
        """Where its files lie; what runs it states in `log` there why it ended."""
        return self._machine.directory

    @property
    def emulator(self) -> ProcessChild:
        """The process that ends with the guest: QEMU, or `xl create`.

        Raises:
            GuestFailed: libvirt runs it.
        """
        process = self._machine.process
        if process is None:
            raise GuestFailed(f"guest {self.name}: its emulator is libvirt's, not the lab's")
        return process

    def last_words(self) -> str:
        """How what runs it ended, and what that and the guest's kernel reported last."""
        return self._machine.last_words()

    def ask(self) -> None:
        """Have the guest state something: it lives.

        Raises:
            GuestFailed: it is gone, or hangs.
        """
        self._machine.agent.facts()

    @property
    def alive(self) -> bool:
        """Whether the guest still runs and can be asked."""
        return self._machine.alive

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Start the guest's own binary. See `Instance.start`."""
        return self._files.start(arguments, directory=directory, stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Bring back files that programs in the guest left in `directory`. See `Instance.fetch`."""
        self._files.fetch(directory, expected)

    def facts(self) -> dict[str, object]:
        """What the guest is made of and its host-side device."""
        place = self._machine.network
        device = {} if place is None else {"device": network.interface_facts(place.site.namespace, place.port)}
        return {"guest": dict(self._facts), **device}

    def capture_interface(self) -> str | None:
        """The host's end of its card: a port of the site's bridge."""
        place = self._machine.network
        return None if place is None else place.port


def start_in_turn(
    wanted: Iterable[_Wanted], create: Callable[[_Wanted], _Made], ready: Callable[[_Made], _Ready]
) -> list[_Ready]:
    """Create a guest for each, four at a time, and give what `ready` makes of them when it has waited for them."""
    started: list[_Ready] = []
    rest = list(wanted)
    while rest:
        booting = [create(one) for one in rest[:_AT_ONCE]]
        started += [ready(machine) for machine in booting]
        rest = rest[_AT_ONCE:]
    return started


class GuestFiles:
    """Starts programs in a guest with the files they need, and brings back what they leave."""

    def __init__(self, agent: Agent) -> None:
        """Use this channel."""
        self._agent = agent
        self._outputs: set[Path] = set()
        self._put: dict[Path, tuple[int, int]] = {}

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Put every file of `directory` that is new or changed into the guest and start the program there.

        Raises:
            GuestFailed: the guest does not do it.
            OSError: a file here cannot be read or written.
        """
        # What programs print is collected here and is no file of theirs.
        self._outputs |= {stdout, stderr}
        for path in sorted(directory.iterdir()):
            facts = path.stat()
            version = (facts.st_mtime_ns, facts.st_size)
            if path.is_file() and path not in self._outputs and self._put.get(path) != version:
                self._agent.put(path, path.read_bytes())
                self._put[path] = version
        return self._agent.start(arguments, directory=directory, stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Bring the expected files of the guest's `directory` here, each whole or not at all. See `Instance.fetch`.

        Raises:
            GuestFailed: the guest does not give one, or gives more than its most bytes.
            OSError: a file here cannot be written.
        """
        for name, most_byte in expected.items():
            with Incoming(directory, name, most_byte, f"guest {self._agent.name}") as incoming:
                self._agent.get(directory / name, incoming)
                incoming.keep()


def settled_facts(agent: Agent, name: str, clock_source: str | None) -> dict[str, Any]:
    """The guest's facts once its kernel keeps time by the clock source wanted, or by one that it will stay with.

    A kernel begins with `tsc-early` and changes over about a second after it has booted: in the middle of a
    measurement, if nobody waits.

    Raises:
        MachineCannot: the kernel does not take the clock source that is wanted.
        GuestFailed: no answer.
    """
    deadline = time.monotonic() + _SETTLE_S
    while True:
        facts = agent.facts()
        source = printable(facts.get("clock_source"))
        if source == clock_source or (clock_source is None and not source.endswith(_EARLY)):
            return facts
        if time.monotonic() > deadline:
            there = printable(facts.get("clock_sources_available") or "none")
            wanted = clock_source or "one that it stays with"
            raise MachineCannot(f"guest {name}: its kernel keeps time by {source}, not {wanted}; it offers {there}")
        time.sleep(_LOOK_S)
