"""A comparison that was kept, as what today's runs are compared with: on the same machine only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vtare.ab.commands import Command
from vtare.ab.trials import Weighed
from vtare.ab.verdict import SCHEMA, facts
from vtare.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path


def read_baseline(file: Path, *, machine: dict[str, Any] | None = None) -> tuple[Command, list[Weighed]]:
    """Return the last command of a document of `vtare ab`, and its runs: the state that was accepted.

    Raises:
        BadInput: it is no such document, or of another machine.
    """
    try:
        document = json.loads(file.read_text())
        schema, found = document["schema"], document["machine"]
        runs = [Weighed(**pair["runs"][-1], printed=None) for pair in document["pairs"]]
        text = document["commands"][-1]["text"]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"--against: {file}: found no document of `vtare ab --write json=FILE`: {error}") from error
    if schema != SCHEMA:
        raise BadInput(f"--against: {file}: found {schema}, expected {SCHEMA}")
    here = facts() if machine is None else machine
    if differs := [f"{key} {found.get(key)}, here {here[key]}" for key in here if found.get(key) != here[key]]:
        raise BadInput(
            f"--against: {file} is of another machine, expected this one: found {'; '.join(differs)}: make a new "
            "baseline here"
        )
    return Command((), f"{text} (baseline)"), runs
