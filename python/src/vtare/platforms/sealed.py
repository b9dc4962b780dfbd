"""A tool that would copy itself into sealed memory at each start gets such a copy made once, by the lab.

`lxc-attach` does so before its `main`, so that a container cannot write to the tool through `/proc/self/exe`
(CVE-2019-5736). The kernel refuses the seals (EBUSY) while anything else holds one of the pages, as happens once in
some thousand starts; LXC 5.0 then frees what it never allocated, and the start is lost (`munmap_chunk(): invalid
pointer`). A tool that finds itself sealed leaves it at that: it cannot fail there, and is as safe.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Final

#: What LXC looks for: these and no others.
SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
#: The kernel waits 0.15 s by itself before it refuses.
_TRIES: Final = 20


@cache
def sealed(tool: str) -> str:
    """A path at which children of this process can start a sealed copy of a program of PATH.

    The tool's own name where there is no such program or this kernel gives no such memory: it then does what it can.
    """
    path = shutil.which(tool)
    if path is None:
        return tool
    try:
        return f"/proc/{os.getpid()}/fd/{_copy(Path(path))}"
    except OSError:
        return tool


def _copy(program: Path) -> int:
    """A descriptor of the copy; it stays open, and children do not inherit it.

    Raises:
        OSError: the program cannot be read, or there is no memory that can be sealed.
    """
    content = program.read_bytes()
    for left in reversed(range(_TRIES)):
        descriptor = os.memfd_create(f"vtare-{program.name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except OSError as error:
            os.close(descriptor)
            if error.errno != errno.EBUSY or not left:
                raise
        else:
            return descriptor
    raise AssertionError("the last try returns or raises")
