"""One guest under QEMU: its process, its monitor and its control channel, from start to end."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vtare.errors import MachineCannot
from vtare.platforms.child import start_child
from vtare.platforms.guest.agent import Agent, GuestFailed, connect
from vtare.platforms.guest.qemu_command import GuestSpec, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.child import ProcessChild

_SOCKET_S = 30.0
_MONITOR_S = 30.0
_SAID_BYTE = 400


class QemuMachine:
    """A started guest. Its agent may be asked once `wait_ready` has returned."""

    def __init__(self, spec: GuestSpec) -> None:
        """Start QEMU. It dies with the lab, so call this in the thread that lives longest.

        Raises:
            GuestFailed: its directory cannot be made or QEMU cannot be started.
        """
        self.spec = spec
        log = spec.directory / "log"
        try:
            spec.directory.mkdir(mode=0o700)
            self._process: ProcessChild = start_child(command(spec), directory=spec.directory, stdout=log, stderr=log)
        except OSError as error:
            raise GuestFailed(f"guest {spec.name}: {error}") from error
        self._agent: Agent | None = None

    @property
    def process(self) -> ProcessChild:
        """QEMU."""
        return self._process

    @property
    def agent(self) -> Agent:
        """The control channel. Raises GuestFailed where it was never opened."""
        if self._agent is None:
            raise GuestFailed(f"guest {self.spec.name}: its control channel was never opened")
        return self._agent

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything."""
        return self._process.returncode is None and self._agent is not None and self._agent.lost is None

    def wait_ready(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the agent's first words and return them.

        Raises:
            GuestFailed: the guest ended, hangs, or could not set itself up.
        """
        if self._agent is None:
            channel = connect(self.spec.agent_socket, _SOCKET_S, self._gone)
            self._agent = Agent(channel, self.spec.name, why_lost=self.last_words)
        hello = self._agent.hello(timeout_s)
        if hello.get("problems"):
            raise GuestFailed(f"guest {self.spec.name}: {'; '.join(hello['problems'])}")
        return hello

    def pin(self, cpus: Sequence[int]) -> list[int]:
        """Keep vCPU n on the n-th of these CPUs, round and round; the CPUs in the order of the vCPUs.

        Raises:
            MachineCannot: a CPU is not there, or the monitor's library is missing.
            GuestFailed: QEMU does not answer.
        """
        threads = [int(cpu["thread-id"]) for cpu in self.ask("query-cpus-fast")]
        chosen = [cpus[number % len(cpus)] for number in range(len(threads))]
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

    def end(self) -> None:
        """End the guest and remove its files. May be called twice."""
        self._process.kill()
        if self._agent is not None:
            self._agent.close()
        shutil.rmtree(self.spec.directory, ignore_errors=True)

    def last_words(self) -> str:
        """How QEMU ended, and what it and the guest's kernel said last."""
        code = self._process.wait(0.5)
        how = "QEMU still runs" if code is None else f"QEMU ended with {_how(code)}"
        said = [text for path in (self.spec.directory / "log", self.spec.console) if (text := _tail(path))]
        return "; ".join([how, *said])

    def _gone(self) -> str | None:
        return None if self._process.returncode is None else f"guest {self.spec.name}: {self.last_words()}"


def missing_monitor() -> str | None:
    """Why QEMU's monitor cannot be asked from here, or None."""
    with suppress(ModuleNotFoundError):
        if find_spec("qemu.qmp") is not None:
            return None
    return "pinning vCPUs needs the Python library qemu.qmp; run `pip install qemu.qmp`"


async def _ask(path: str, question: str) -> Any:
    from qemu.qmp import QMPClient

    monitor = QMPClient()
    await monitor.connect(path)
    try:
        return await monitor.execute(question)
    finally:
        await monitor.disconnect()


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _tail(path: Any) -> str:
    try:
        text = path.read_bytes()[-_SAID_BYTE:].decode(errors="replace")
    except OSError:
        return ""
    # Consoles colour and clear: only what can be read is passed on.
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
