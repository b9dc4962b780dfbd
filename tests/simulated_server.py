"""A server of planted latencies on three platforms, and what `vtare weigh` makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, compare
from vtare.weigh.server import ServedCommand, ServerRunner
from vtare.weigh.weighing import Weighed

#: What replies take on each platform, in units of the host's.
FACTORS = {"host": 1.0, "bubblewrap": 1.0, "gvisor": 3.0}


class PlantedServer:
    """Plays what starts servers and the programs beside them: replies take 100 us times the factor of the platform."""

    most_s = 60.0

    def __init__(self, *, failed: int = 0, code: int = 0, run: dict[str, Any] | None = None) -> None:
        self.started: list[list[str]] = []
        self.asked: list[Sequence[str]] = []
        self.running_now = 0
        self._failed = failed
        self._code = code
        self._run = run
        self._rng = np.random.default_rng(1)

    @contextmanager
    def running(self, name: str, *commands: Sequence[str]) -> Iterator[list[Any]]:
        self.started += map(list, commands)
        self.running_now += len(commands)
        yield [SimpleNamespace(name=name, begin_ns=1000, most_memory=lambda: 5_000_000) for _ in commands]
        self.running_now -= len(commands)

    def beside(self, running: Sequence[Any], words: Sequence[str]) -> tuple[bytes, int, str]:
        self.asked.append(words)
        noisy = FACTORS[running[0].name] * float(np.exp(self._rng.normal(0, 0.01)))
        if words[1] == "trials":
            run = self._run or {"exit_code": 0, "signal": None, "wall_ns": 5e7 * noisy}
            return json.dumps({"programs": [run]}).encode(), 0, "no route\n"
        if self._code:
            return b"", self._code, "vtare: Connection refused (os error 111)\n"
        count = int(next(word for word in words if word.startswith("--requests=")).partition("=")[2])
        count *= len(running)
        latencies = (1e5 * noisy * (1 + np.arange(count) / max(count, 1))).astype(int).tolist()
        answer = {
            "first_ns": 1000 + int(2e6 * noisy), "status": 200, "bytes": 9, "latency_ns": latencies,
            "failed": self._failed, "failure": "it answered with status 503" if self._failed else None,
            "per_s": 8000.0 / noisy,
        }  # fmt: skip
        return json.dumps(answer).encode(), 0, ""


def runner_of(planted: Any, server: ServedCommand) -> ServerRunner:
    return ServerRunner(planted, server, ["serve", "--port={port}"], Path("vtare"))


def weighed_server(server: ServedCommand, planted: PlantedServer | None = None) -> Weighed:
    """What weigh makes of the planted server."""
    planted = planted or PlantedServer()
    runner = runner_of(planted, server)
    commands = [Command((name,), name) for name in FACTORS]
    runner.settle([runner.run([command])[0][0] for command in commands], 60.0)
    asked = Asked(design="interleaved", most_pairs=40)
    compared = compare(runner, commands, server.figures, asked, rng=np.random.default_rng(2))
    assert planted.running_now == 0
    return Weighed(compared, {}, {}, frozenset(), server=runner)
