"""What a command prints on a terminal, for tests and for the tools that show it."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios


def on_a_terminal(command: str, columns: int = 80, **environment: str) -> str:
    """What a command prints on a terminal of that many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    words = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen(["sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=words)
    os.close(theirs)
    found = b""
    try:
        while more := os.read(ours, 1 << 16):
            found += more
    except OSError as error:
        # A terminal whose last program has ended answers so.
        if error.errno != errno.EIO:
            raise
    finally:
        os.close(ours)
        process.wait()
    return found.decode().replace("\r\n", "\n")


def settled(text: str) -> str:
    """The lines that stay on a terminal: without progress that was written over, and without colours."""
    lines = (line.split("\r")[-1].rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines())
    return "\n".join(lines).strip("\n") + "\n"
