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


def on_a_terminal(command: str, near: tuple[str, ...] = (), columns: int = 80, **environment: str) -> str:
    """What a command prints on a terminal of that many columns. The words `near` stand in front of it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    words = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen([*near, "sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=words)
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
    """The lines that stay on a terminal once progress has been written over, without colours."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b", text):
        if piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\r":
            column = 0
        elif not piece.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
        elif piece.endswith("A"):
            row = max(0, row - int(piece[2:-1] or 1))
        elif piece.endswith("K"):
            lines[row] = "" if piece == "\x1b[2K" else lines[row][:column]
        elif piece.endswith("J"):
            lines[row:] = [lines[row][:column]]
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"
