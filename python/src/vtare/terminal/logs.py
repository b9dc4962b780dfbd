"""The lab's log: what the modules under `vtare` log goes to stderr, a line a record.

INFO states what a command does, WARNING and ERROR what goes wrong, DEBUG (`-v`) each run and each tool that is called.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from vtare.stored.paths import plain_text

_NAME: Final = "vtare"


class _Stderr(logging.Handler):
    """Writes to what is `sys.stderr` at that moment: a progress bar puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class _Lines(logging.Formatter):
    """`vtare: ` before what goes wrong; of DEBUG, which module states it. Nothing in it can command a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        text = plain_text(record.getMessage())
        if record.levelno >= logging.WARNING:
            return f"vtare: {text}"
        return text if record.levelno >= logging.INFO else f"{record.name}: {text}"


def be_quiet() -> None:
    """From now on log what goes wrong only."""
    logging.getLogger(_NAME).setLevel(logging.WARNING)


def is_quiet() -> bool:
    """Whether neither progress nor notices are wanted."""
    return logging.getLogger(_NAME).getEffectiveLevel() >= logging.WARNING


def start_logging(*, verbose: bool = False) -> None:
    """Send the lab's log to stderr: from INFO on, or from DEBUG on. May be called again to change that."""
    logger = logging.getLogger(_NAME)
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        handler = _Stderr()
        handler.setFormatter(_Lines())
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    # A home that cannot be written costs matplotlib a cache, and is nobody's concern.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
