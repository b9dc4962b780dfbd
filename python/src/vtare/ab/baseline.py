"""A comparison that was kept, as what today's runs are compared with: on the same machine only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.commands import Command
from vtare.ab.trials import Measured
from vtare.ab.verdict import SCHEMA
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Facts of a machine between whose values runs are not compared.
_SAME: Final = ("kernel", "cpu_model", "cpus_allowed", "hypervisor", "container")


def read_baseline(file: Path, here: Mapping[str, Any]) -> tuple[Command, list[Measured]]:
    """Return the last command of a document of `vtare ab`, and its runs: the state that was accepted.

    `here` are the facts of this machine.

    Raises:
        BadInput: it is no such document, or of another machine.
    """
    try:
        document = json.loads(file.read_text())
        schema, found = document["schema"], document["machine"]
        runs = [Measured(**pair["runs"][-1]) for pair in document["pairs"]]
        text = document["commands"][-1]["text"]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"--against: {file}: found no document of `vtare ab --write json=FILE`: {error}") from error
    if schema != SCHEMA:
        raise BadInput(f"--against: {file}: found {schema}, expected {SCHEMA}")
    if differs := [f"{key} {found.get(key)}, here {here.get(key)}" for key in _SAME if found.get(key) != here.get(key)]:
        raise BadInput(
            f"--against: {file} is of another machine, expected this one: found {'; '.join(differs)}: make a new "
            "baseline here"
        )
    return Command((), f"{text} (baseline)"), runs
