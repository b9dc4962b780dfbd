"""Gives the tests the same surroundings everywhere: variables, home, locale, time zone, umask.

Both `conftest.py` files call `seal` when they are loaded, so a test sees what is set here and what it sets itself.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Final

from hypothesis import settings

# `make test` tries the same few cases everywhere; `make test-all` draws many new ones (--hypothesis-profile=thorough).
# No test depends on how fast the machine is.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("thorough", deadline=None)
settings.load_profile("same")

#: Variables that choose compilers, packages and places for files, and steer the tests.
KEPT: Final = (
    "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "VIRTUAL_ENV", "CC", "DEBIAN_FRONTEND", "DOCKER_HOST", "JNA_JAR",
    "VTARE_BLESS", "VTARE_FAULTS", "VTARE_FAULT_SEED", "VTARE_FLEET_SEEDS", "VTARE_HYPERVISOR_PLAN",
    "VTARE_HYPERVISOR_STORE", "VTARE_REAL_HOME", "VTARE_SCREENSHOTS",
    "VTARE_SPOILED_FILE", "VTARE_TEST_PREFIX", "VTARE_VIRTUALBOX_ROOT",
)  # fmt: skip
KEPT_PREFIXES: Final = (
    "CARGO", "RUST", "GO", "JAVA", "PYTEST", "PIP_", "SSL_", "OPENBLAS_",
)  # fmt: skip
KEPT_SUFFIXES: Final = ("_proxy", "_PROXY", "CA_BUNDLE")

SET: Final = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "xterm"}

#: Where compilers keep what they downloaded; by default below the real home.
TOOL_HOMES: Final = {
    "CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup", "GOPATH": "go", "GOCACHE": ".cache/go-build",
}  # fmt: skip

HOME: Final = Path(__file__).resolve().parent.parent / "build" / "home"


def seal() -> None:
    """Replaces the environment of this process, and so of every program that a test starts."""
    real = Path(os.environ.get("VTARE_REAL_HOME") or Path.home())
    kept = {name: value for name, value in os.environ.items() if _is_kept(name)}
    tools = {name: str(real / place) for name, place in TOOL_HOMES.items() if (real / place).is_dir()}
    HOME.mkdir(parents=True, exist_ok=True)
    os.environ.clear()
    os.environ.update(tools | kept | SET | {"HOME": str(HOME), "VTARE_REAL_HOME": str(real)})
    # Ordinary users often lack these on PATH.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    time.tzset()
    os.umask(0o022)
    # Collections at the usual times took 2.1 s of the 28 s of test_declared_figures.py, since tests keep many objects.
    gc.set_threshold(50_000, 20, 20)


def _is_kept(name: str) -> bool:
    return name in KEPT or name.startswith(KEPT_PREFIXES) or name.endswith(KEPT_SUFFIXES)
