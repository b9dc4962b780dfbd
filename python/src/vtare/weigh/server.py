"""A command that is a server: in each run it is started in an instance, measured, and ended.

`vtare requests` asks it, or a client of the user's. Both run on this machine, whose network all platforms share.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vtare import stats
from vtare.ab.figures import COUNTED
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured
from vtare.errors import BadInput
from vtare.sentences import weigh as wording
from vtare.weigh.runner import MEMORY, START, RefusedThere, first_line, reading_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vtare.ab.commands import Command
    from vtare.ab.figures import Figure
    from vtare.weigh.runner import Running, WeighRunner

P50: Final = "p50"
P99: Final = "p99"
RATE: Final = "rate"
PORT: Final = "{port}"
_ADDRESS: Final = "127.0.0.1"
_BESIDE: Final = (reading_figure(MEMORY, "B"), reading_figure(START))
_MISSING: Final = {MEMORY: wording.MISSING[MEMORY], RATE: wording.NO_RATE}
_QUANTILES: Final = {P50: 0.5, P99: 0.99}
#: What vtare's own requests show, and what a client does: the first figure is the one that decides.
_OWN_FIGURES: Final = (
    reading_figure(P50), reading_figure(P99), replace(reading_figure(RATE, "/s"), more_is_better=True), *_BESIDE,
)  # fmt: skip
_CLIENT_FIGURES: Final = (COUNTED[0], *_BESIDE)
_ANSWERS_S: Final = 20.0
"""What a server has until its first reply."""
_FREE_S: Final = 5.0
"""What a port has until it is free again."""
_PAUSE_S: Final = 0.01
_MOST_PER_S: Final = 500.0
_RATE_SHARE: Final = 0.5
"""Of what a connection of the slowest platform carries: a queue grows there otherwise, and latency is its length."""
_ROUNDS: Final = 10
"""What there is to be time for: 8 show something."""
_FIRST_PER_S: Final = 100.0
_FIRST_REQUESTS: Final = 20
_LEAST_REQUESTS: Final = 5
"""A median of few in each of many rounds is better than one of many in two."""
_FASTEST_S: Final = 0.3
CONNECTIONS: Final = 4
_LONGEST_NS: Final = 1e15
_NEVER: Final = 1e300


@dataclass(frozen=True, slots=True)
class ServedCommand:
    """Where a command listens, what it is asked (None: GET / by HTTP), and the client that is timed instead."""

    port: int
    request: str | None = None
    client: Command | None = None
    #: The p99 in s that instances at once are to keep; None: nobody asks how many fit.
    density_s: float | None = None

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What is compared."""
        return _OWN_FIGURES if self.client is None else _CLIENT_FIGURES


class ServerRunner:
    """Measures the server on the platform that a command of `ab` names. See `Runner`."""

    def __init__(self, runner: WeighRunner, server: ServedCommand, words: Sequence[str], binary: Path) -> None:
        """Take what starts it, and its words.

        Raises:
            BadInput: somebody else answers on its port.
        """
        self.server = server
        self._runner = runner
        self._words = words
        self._binary = str(binary)
        #: Requests per second, and how many; until `settle`, few.
        self.per_s, self._requests = _FIRST_PER_S, _FIRST_REQUESTS
        if _listens(server.port):
            raise BadInput(wording.port_taken(server.port))

    def settle(self, first: Sequence[Measured], left_s: float) -> None:
        """Choose a rate that the slowest platform keeps, and how long to ask, by the first run on each.

        In what is left of the time there are to be enough rounds.
        """
        rates = [values[0] for run in first if RATE in run.readings and (values := run.readings[RATE].values)]
        self.per_s = max(1.0, min([_MOST_PER_S, *(_RATE_SHARE * rate / CONNECTIONS for rate in rates)]))
        took_s = sum(run.wall_ns for run in first) / 1e9 - len(first) * _FIRST_REQUESTS / _FIRST_PER_S
        steady_s = (left_s / _ROUNDS - took_s) / max(len(first), 1)
        self._requests = max(_LEAST_REQUESTS, min(stats.least_n(_QUANTILES[P99]), round(steady_s * self.per_s)))

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Start it, measure it, and end it.

        Raises:
            RefusedThere: it does not run there.
            OutOfTime: it still ran when the time was over.
        """
        ((name,),) = (command.words for command in commands)
        _wait_until_free(name, self.server.port)
        begin = time.monotonic_ns()
        with self._runner.running(name, self._words_at(self.server.port)) as (running,):
            if self.server.client is None:
                answer = self._ask(
                    [running], [self.server.port], requests=self._requests, per_s=self.per_s, seconds=_FASTEST_S
                )
                wall, took = 0.0, _figures(answer)
            else:
                answer = self._ask([running], [self.server.port], requests=0, per_s=self.per_s, seconds=0.0)
                wall, took = self._client(running, self.server.client), {}
            took[START] = answer["first_ns"] - running.begin_ns
            took[MEMORY] = running.most_memory()
        whole = time.monotonic_ns() - begin
        units = {figure.name: figure.unit for figure in self.server.figures}
        readings = {
            key: Reading(key, (), units[key], missing=_MISSING.get(key) or wording.too_few_replies(answer["failure"]))
            if value is None
            else Reading(key, (value,), units[key])
            for key, value in took.items()
        }
        return [Measured(begin, wall or whole, 0, 0, readings=readings)], MachineTime(None, None, None, None, whole)

    @property
    def until(self) -> float:
        """A run that still goes on then (`time.monotonic`) is ended."""
        return self._runner.until

    @until.setter
    def until(self, when: float) -> None:
        self._runner.until = when

    def p99_of(
        self, name: str, instances: int, per_s: float, beside: Callable[[], float]
    ) -> tuple[float | None, float]:
        """The p99 of many instances at once, each on its port and asked at this rate, and what `beside` gave then.

        It is None where too few replies came.

        Raises:
            RefusedThere: one does not run.
            OutOfTime: they still ran when the time was over.
        """
        ports = range(self.server.port, self.server.port + instances)
        for port in ports:
            _wait_until_free(name, port)
        wanted = stats.least_n(_QUANTILES[P99])
        requests = max(-(-wanted // instances), round(per_s))
        with self._runner.running(name, *map(self._words_at, ports)) as running:
            answer = self._ask(running, ports, requests=requests, per_s=per_s, seconds=0.0)
            return _figures(answer)[P99], beside()

    def _words_at(self, port: int) -> list[str]:
        return [word.replace(PORT, str(port)) for word in self._words]

    def _ask(
        self, running: Sequence[Running], ports: Sequence[int], *, requests: int, per_s: float, seconds: float
    ) -> dict[str, Any]:
        """What `vtare requests` printed about servers."""
        text = self.server.request
        words = [
            self._binary, "requests", *(f"{_ADDRESS}:{port}" for port in ports), f"--requests={requests}",
            f"--rate={per_s}", f"--seconds={seconds}", f"--connections={CONNECTIONS}", f"--wait={_ANSWERS_S}",
            *([] if text is None else [f"--request={text}"]),
        ]  # fmt: skip
        printed, code, reported = self._runner.beside(running, words)
        if code:
            reason = first_line(reported).removeprefix("vtare: ")
            raise RefusedThere(running[0].name, wording.no_reply(self.server.port, reason))
        answer: dict[str, Any] = json.loads(printed)
        if requests and not answer["latency_ns"]:
            raise RefusedThere(running[0].name, wording.no_reply(self.server.port, answer["failure"]))
        return answer

    def _client(self, running: Running, client: Command) -> float:
        """The wall time of the client in ns."""
        request = {"programs": [{"words": list(client.words)}], "most_s": self._runner.most_s}
        printed, _, reported = self._runner.beside(
            [running], [self._binary, "trials", "--request", json.dumps(request)]
        )
        answer = json.loads(printed or b"{}")
        (run,) = answer.get("programs") or [{"exit_code": None, "signal": None}]
        if run["exit_code"] != 0:
            how = f"exit code {run['exit_code']}" if run["signal"] is None else f"signal {run['signal']}"
            reason = answer.get("error") or first_line(reported) or wording.ended_with(how)
            raise RefusedThere(running.name, wording.client_failed(reason))
        return float(run["wall_ns"])


def _figures(answer: dict[str, Any]) -> dict[str, float | None]:
    """Latencies and the rate; a request without a reply is later than all that have one."""
    latencies = answer["latency_ns"]
    late = [_NEVER] * answer["failed"]
    figures: dict[str, float | None] = {}
    for name, probability in _QUANTILES.items():
        value = stats.quantile([*latencies, *late], probability).value
        figures[name] = value if value is not None and value < _LONGEST_NS else None
    figures[RATE] = answer["per_s"] or None
    return figures


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((_ADDRESS, port), timeout=1.0):
        return True
    return False


def _wait_until_free(name: str, port: int) -> None:
    """Wait until the server before it has let its port go: it would be measured in place of this one."""
    until = time.monotonic() + _FREE_S
    while _listens(port):
        if time.monotonic() > until:
            raise RefusedThere(name, wording.port_not_free(port))
        time.sleep(_PAUSE_S)
