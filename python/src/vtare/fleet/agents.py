"""Workers of Dask on the hosts of a file, started over SSH: agents, which measure on their own hosts.

Each is started when its host is first asked for something, and anew where it has ended. It ends with its connection.
"""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from vtare.errors import VtareError
from vtare.fleet.agent_requests import RESOURCE
from vtare.fleet.cluster import QUIET, WorkerLost
from vtare.fleet.own_scheduler import WORKER_OPTIONS, OwnScheduler
from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.processes import Processes
    from vtare.platforms.child import Child

#: What the host's Python runs; the first word is the program that SSH has brought there, the second a configuration.
_WORKER: Final = """
import os, runpy, sys
os.environ["DASK_CONFIG"] = sys.argv[2]
sys.argv[1:3] = []
runpy.run_module("distributed.cli.dask_worker", run_name="__main__", alter_sys=True)
"""
#: A host that is asked for nothing for so long ends its agent.
_LEASE_S: Final = 86_400.0


class Agents(OwnScheduler):
    """The agents of a fleet's hosts. `locks` keeps other campaigns from them."""

    #: An agent that has ended is started again when its host is asked whether it answers, so Dask waits for none.
    settings: ClassVar = {**OwnScheduler.settings, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}

    def __init__(self, on: str, hosts: Sequence[FleetHost], binary: Path, locks: Processes) -> None:
        """Start a scheduler; a host is reached when it is asked for something.

        Raises:
            BadInput: a package is not installed.
            MachineCannot: the scheduler does not start.
        """
        self.hosts = tuple(hosts)
        self._binary = binary
        self._locks = locks
        self._platforms: dict[str, Any] = {}
        self._agents: dict[str, Child] = {}
        #: The hosts of which an agent has answered since one was lost.
        self._answered: set[str] = set()
        self._reaching = {host.name: threading.Lock() for host in hosts}
        self._threads = ThreadPoolExecutor(len(self.hosts))
        try:
            self._start(on, "127.0.0.1")
        except BaseException:
            self.close(quickly=True)
            raise

    def hold(self, host: FleetHost) -> str | None:
        """See `Workers.hold`."""
        return self._locks.hold(host)

    def _ask(
        self, host: str, take: Callable[[object, Future[Any]], Any], work: Callable[..., bytes], *arguments: Any
    ) -> Future[Any]:
        if host in self._answered:
            return super()._ask(host, take, work, *arguments)
        # Reaching a host may take a minute, and others are not to wait for it.
        return self._threads.submit(self._ask_anew, host, take, work, *arguments)

    def lost(self, error: BaseException) -> bool:
        """See `Workers.lost`."""
        lost = super().lost(error)
        if lost:
            # Nobody knows of which host: all agents are looked at before they are asked again.
            self._answered.clear()
        return lost

    def close(self, *, quickly: bool) -> None:
        """See `Workers.close`."""
        self.hosts = tuple(host for host in self.hosts if host.name in self._answered)
        super().close(quickly=quickly)

    def _ask_anew(self, name: str, take: Callable[..., Any], work: Callable[..., bytes], *arguments: Any) -> Any:
        """Ask an agent that may have ended; it is then started again."""
        (host,) = (host for host in self.hosts if host.name == name)
        with self._reaching[name]:
            if not self._works(name):
                self._end_agent(name)
                try:
                    self._start_agent(host)
                except (VtareError, OSError) as error:
                    raise WorkerLost(str(error)) from error
            asked = super()._ask(name, take, work, *arguments)
            while True:
                with suppress(TimeoutError):
                    answer = asked.result(timeout=1.0)
                    self._answered.add(name)
                    return answer
                if self._agents[name].returncode is not None:
                    asked.cancel()
                    raise WorkerLost(f"its agent ended: {self._last(f'log-{name}')}")

    def _works(self, name: str) -> bool:
        """Whether an agent runs, and the scheduler knows it."""
        with suppress(OSError, ValueError, RuntimeError):
            return name in self._agents and self._agents[name].returncode is None and name in self._names()
        return False

    def _start_agent(self, host: FleetHost) -> None:
        place = Path(self._place.name) / host.name
        place.mkdir(exist_ok=True)
        configuration = place / "dask.yaml"
        configuration.write_text(json.dumps({"distributed": {"comm": self._certificates.agent(host.name)}}))
        words = [str(configuration), f"tls://{_address_towards(host)}:{self._port}"]
        words += [*WORKER_OPTIONS, "--resources", f"{RESOURCE}{host.name}=1"]
        before = ["env", *(f"{name}={value}" for name, value in QUIET.items()), str(host.agent), "-c", _WORKER]
        log = Path(self._place.name) / f"log-{host.name}"
        platform: Any = open_platform(host.name, binary=self._binary, owner=own_prefix(), settings=host.settings)
        self._platforms[host.name] = platform
        (instance,) = platform.start(1)
        instance.keep(_LEASE_S)
        self._agents[host.name] = instance.start(words, directory=place, stdout=log, stderr=log, before=before)

    def _end_workers(self) -> None:
        """Leave the hosts, and give them back."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for name in list(self._platforms):
            self._end_agent(name)
        self._locks.close(quickly=True)

    def _end_agent(self, name: str) -> None:
        self._agents.pop(name, None)
        if name in self._platforms:
            with suppress(VtareError, OSError):
                self._platforms.pop(name).stop()


def _address_towards(host: FleetHost) -> str:
    """This machine's address as the host sees it: that from which it is reached."""
    where = str(host.settings["host"]), int(host.settings.get("port", 22))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(where)
        return str(probe.getsockname()[0])
