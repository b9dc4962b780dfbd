"""Stands in for a program that cannot run here: answers its commands from a transcript, in order (README.md)."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

#: In the environment: the transcript, where the state is kept, and what `{ADDRESS}` stands for.
TRANSCRIPT, STATE, ADDRESS = "REPLAY_TRANSCRIPT", "REPLAY_STATE", "REPLAY_ADDRESS"
_NAME = re.compile(r"vtare-[a-z0-9-]+")
#: A command that the transcript does not have next.
ASTRAY = 99


@dataclass
class Entry:
    """One command and what comes of it."""

    words: list[str]
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    code: int = 0


def entries(text: str) -> list[Entry]:
    """The commands of a transcript."""
    found: list[Entry] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Entry(line[2:].split()))
        elif line.startswith("= "):
            found[-1].code = int(line[2:])
        elif line.startswith("! "):
            found[-1].err.append(line[2:])
        elif found and not line.startswith("#"):
            found[-1].out.append(line)
    return found


def main(program: str, words: list[str]) -> int:
    """Answer one command."""
    state = Path(os.environ[STATE])
    done = (state / "done").read_text().splitlines() if (state / "done").exists() else []
    known = entries(Path(os.environ[TRANSCRIPT]).read_text())
    given = [program, *words]
    name = (state / "name").read_text() if (state / "name").exists() else None
    if name is None:
        name = next((word for word in given if _NAME.fullmatch(word)), None)
        if name is not None:
            (state / "name").write_text(name)
    stands_for = {"{NAME}": name or "{NAME}", "{ADDRESS}": os.environ.get(ADDRESS, "{ADDRESS}")}

    def filled(text: str) -> str:
        for key, value in stands_for.items():
            text = text.replace(key, value)
        return text

    wanted = [filled(word) for word in known[len(done)].words] if len(done) < len(known) else ["nothing more"]
    if given != wanted:
        sys.stderr.write(f"replay: found `{' '.join(given)}`, the transcript goes on with `{' '.join(wanted)}`\n")
        return ASTRAY
    entry = known[len(done)]
    (state / "done").write_text("".join(f"{line}\n" for line in [*done, " ".join(given)]))
    sys.stdout.write("".join(f"{filled(line)}\n" for line in entry.out))
    sys.stderr.write("".join(f"{filled(line)}\n" for line in entry.err))
    return entry.code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).name, sys.argv[2:]))
