"""Post alerts to a webhook: a program of its own, since what answers there may send anything, or nothing, for ever.

It reads one alert a line, posts them in order, and prints a line for each that was accepted. All of them have to be
within one deadline, which a signal enforces even where a call of the system's library blocks. Redirections are not
followed: an alert goes to the address that the operator named, and nowhere else.
"""

from __future__ import annotations

import http.client
import resource
import signal
import sys
import urllib.error
import urllib.request
from typing import Any, Final

DEADLINE_S: Final = 10
#: Far beyond what headers take that the library accepts.
_MOST_MEMORY_BYTE: Final = 1 << 30


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        raise urllib.error.URLError(f"redirected ({code}) to {newurl[:200]!r}, which is not followed: name that URL")


def main() -> int:
    """Post what stdin holds to the URL of the first argument; the exit code is 1 where one was not accepted."""
    # The default action ends the process wherever it is; a handler would wait for the next line of Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(DEADLINE_S)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTE, _MOST_MEMORY_BYTE))
    opener = urllib.request.build_opener(_NoRedirect)
    for line in sys.stdin.buffer.read().splitlines():
        request = urllib.request.Request(sys.argv[1], line, {"Content-Type": "application/json"}, method="POST")
        try:
            # What it answers beyond its status is not read.
            opener.open(request).close()
        except (OSError, ValueError, http.client.HTTPException, MemoryError) as error:
            sys.stderr.write(f"{_reason(error)}\n")
            return 1
        sys.stdout.write("accepted\n")
        sys.stdout.flush()
    return 0


def _reason(error: Exception) -> object:
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return error.reason
    return str(error).strip() or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
