"""One guest under QEMU: its process, its monitor and its control channel, from start to end."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot
from vtare.platforms.child import start_child
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.machine import GuestMachine, chosen_cpus, how, tail
from vtare.platforms.guest.qemu_command import GuestSpec, command
from vtare.platforms.lacks import library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.child import ProcessChild

_MONITOR_S: Final = 30.0
#: The longest file that QEMU writes, but for its guest's disk: the console, on which a kernel prints some kilobytes.
MOST_CONSOLE_BYTE: Final = 16 << 20


class QemuMachine(GuestMachine):
    """A guest in a QEMU process of the lab's own."""

    def __init__(self, spec: GuestSpec) -> None:
        """Start QEMU. It dies with the lab, so call this in the thread that lives longest.

        Raises:
            GuestFailed: its directory cannot be made or QEMU cannot be started.
        """
        super().__init__(spec)
        log = spec.directory / "log"
        try:
            spec.directory.mkdir(mode=0o700)
            if spec.disk is not None:
                spec.disk.make()
            most_byte = MOST_CONSOLE_BYTE if spec.disk is None else max(MOST_CONSOLE_BYTE, spec.disk.byte)
            self._process: ProcessChild = start_child(
                command(spec), directory=spec.directory, stdout=log, stderr=log, most_file_byte=most_byte
            )
        except OSError as error:
            raise GuestFailed(f"guest {spec.name}: {error}") from error

    @property
    def process(self) -> ProcessChild:
        """QEMU."""
        return self._process

    def pin(self, cpus: Sequence[int]) -> list[int]:
        """See `GuestMachine.pin`: by the threads that QEMU's monitor names."""
        threads = [int(cpu["thread-id"]) for cpu in self.ask("query-cpus-fast")]
        chosen = chosen_cpus(len(threads), cpus)
        for thread, cpu in zip(threads, chosen, strict=True):
            try:
                os.sched_setaffinity(thread, {cpu})
            except OSError as error:
                raise MachineCannot(
                    f"cannot pin a vCPU to CPU {cpu}: {error.strerror}; name a CPU of this host"
                ) from error
        return chosen

    def ask(self, question: str) -> Any:
        """Ask QEMU's monitor.

        Raises:
            MachineCannot: the library `qemu.qmp` is missing.
            GuestFailed: no answer.
        """
        if missing_monitor() is not None:
            raise MachineCannot(str(missing_monitor()))
        try:
            return asyncio.run(asyncio.wait_for(_ask(str(self.spec.monitor_socket), question), _MONITOR_S))
        except Exception as error:  # the library raises a whole family, and a time-out
            raise GuestFailed(f"guest {self.spec.name}: QEMU's monitor, asked {question}: {error!r}") from error

    def ended(self) -> str | None:
        """See `RunningGuest.ended`."""
        code = self._process.returncode
        return None if code is None else f"QEMU ended with {how(code)}"

    def end(self) -> None:
        """End the guest and remove its files. May be called twice."""
        self._process.kill()
        if self._agent is not None:
            self._agent.close()
        shutil.rmtree(self.spec.directory, ignore_errors=True)

    def last_words(self) -> str:
        """How QEMU ended, and what it and the guest's kernel reported last."""
        self._process.wait(0.5)
        reported = [text for path in (self.spec.directory / "log", self.spec.console) if (text := tail(path))]
        return "; ".join([self.ended() or "QEMU still runs", *reported])


def missing_monitor() -> str | None:
    """Why QEMU's monitor cannot be asked from here, or None."""
    reason = library("qemu.qmp", "qemu.qmp")
    return None if reason is None else f"{reason}, for pinned vCPUs"


async def _ask(path: str, question: str) -> Any:
    from qemu.qmp import QMPClient

    monitor = QMPClient()
    await monitor.connect(path)
    try:
        return await monitor.execute(question)
    finally:
        await monitor.disconnect()
