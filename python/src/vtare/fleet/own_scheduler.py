"""A scheduler of Dask that a campaign starts for itself, on the machine of the lab.

It talks to workers over TLS, with certificates that are made for this campaign: nobody else can connect, and a worker
can ask it for little (`guarded_scheduler`). It is started again where it ends, and ends with the lab.
"""

from __future__ import annotations

import ctypes
import math
import signal
import socket
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from vtare.errors import BadInput, MachineCannot
from vtare.fleet.certificates import Certificates
from vtare.fleet.cluster import PATIENT, Cluster
from vtare.platforms.host import remove_work_directories, work_directory
from vtare.process import start, where_the_lab_is

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vtare.process import Process

#: Those of a worker, beside its scheduler and its resource.
WORKER_OPTIONS: Final = (
    *("--protocol", "tls", "--nthreads", "1", "--no-nanny", "--no-dashboard"),
    *("--memory-limit", "0", "--death-timeout", "60"),
)
_STARTING_S: Final = 60.0
_PR_SET_PDEATHSIG: Final = 1
# Loaded before any fork: the forked child must not import or look up anything.
_PRCTL: Final = ctypes.CDLL(None).prctl
_END: Final = int(signal.SIGTERM)


class OwnScheduler(Cluster):
    """Workers of a scheduler that is the campaign's own."""

    connect_s = 5
    #: The environment of the scheduler.
    settings: ClassVar[Mapping[str, str]] = PATIENT

    def _start(self, on: str, host: str) -> None:
        """Start the scheduler and connect to it; `host` is its name in addresses.

        Raises:
            BadInput: a package is not installed.
            MachineCannot: the scheduler does not start.
        """
        self._on = on
        self._begin(on)
        try:
            self._certificates = Certificates()
        except ImportError as error:
            raise BadInput(
                f"--on {on} needs the package 'cryptography': install it with pip install cryptography"
            ) from error
        remove_work_directories()
        self._place = work_directory()
        self._port = _free_port()
        self._address = f"tls://{host}:{self._port}"
        self._scheduler = self._start_scheduler()
        self._client = self._first_client()
        # Its settings are `PATIENT`: it gives up no worker that sends nothing.
        self.freeze_s = math.inf

    def _submit(self, host: str, work: Callable[..., bytes], *arguments: Any) -> Any:
        """See `Cluster._submit`."""
        if self._scheduler.poll() is not None:
            self._scheduler = self._start_scheduler()
        return super()._submit(host, work, *arguments)

    def close(self, *, quickly: bool) -> None:
        """End workers and scheduler."""
        if hasattr(self, "_client"):
            super().close(quickly=quickly)
        self._allow()
        self._end_workers()
        if hasattr(self, "_scheduler"):
            end(self._scheduler)
            self._place.cleanup()

    def _end_workers(self) -> None:
        """End what runs the workers. May be called twice."""
        raise NotImplementedError

    def _start_scheduler(self) -> Process:
        words = [sys.executable, "-m", "vtare.fleet.guarded_scheduler", str(self._port)]
        return start(
            words,
            environment={**environment(self._certificates.scheduler()), **self.settings, **where_the_lab_is()},
            stderr=self._log("scheduler"),
            session=True,
            before=end_with_the_lab,
        )

    def _log(self, name: str) -> Any:
        return (Path(self._place.name) / name).open("ab")

    def _first_client(self) -> Any:
        deadline = time.monotonic() + _STARTING_S
        while True:
            try:
                return self._new_client()
            except (OSError, ValueError) as error:
                if self._scheduler.poll() is not None or time.monotonic() > deadline:
                    raise MachineCannot(
                        f"--on {self._on}: the scheduler of Dask did not start ({error}): {self._last('scheduler')}"
                    ) from error
                time.sleep(0.5)

    def _security(self) -> dict[str, Any]:
        return {"security": import_module("distributed.security").Security(**self._certificates.client())}

    def _last(self, log: str) -> str:
        lines = (Path(self._place.name) / log).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no reason was printed"


def environment(settings: Mapping[str, Any], prefix: str = "DASK_DISTRIBUTED__COMM__") -> dict[str, str]:
    """Dask's settings of connections, as its programs read them from their environment."""
    variables = {}
    for key, value in settings.items():
        name = prefix + key.replace("-", "_").upper()
        variables.update(environment(value, f"{name}__") if isinstance(value, dict) else {name: str(value)})
    return variables


def end(process: Process) -> None:
    """End a program that the lab has started, if it still runs."""
    if process.poll() is None:
        process.terminate()
        process.communicate()


def end_with_the_lab() -> None:
    """In a new process: end when the lab does, however it ends."""
    _PRCTL(_PR_SET_PDEATHSIG, _END)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
