"""The entry point of `vtare-lab`: Ctrl-C while the libraries are loaded is as quiet as it is afterwards."""

from __future__ import annotations

import os
import resource
import sys
from typing import Final

#: What the libraries reserve, on a machine of two CPUs; below it they end the process on their own, without a reason.
_LEAST_ADDRESS_SPACE_BYTE: Final = 1 << 30
#: Where `sysctl`, `losetup` and others are, which ordinary users may run and often lack on PATH.
_ADMINISTRATORS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def main() -> None:
    """Load the command line and hand over to it."""
    if sys.stdout is None:
        sys.stderr.write(
            "vtare: standard output is closed, so the answer would be lost: send it somewhere, as `> FILE`\n"
        )
        sys.exit(2)
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join((*path, *(place for place in _ADMINISTRATORS if place not in path)))
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE_BYTE:
        sys.stderr.write(
            f"vtare: this process may take {limit >> 20} MiB of address space, its libraries want "
            f"{_LEAST_ADDRESS_SPACE_BYTE >> 20} MiB at least: raise the limit (`ulimit -v`)\n"
        )
        sys.exit(3)
    try:
        # Here, not above: it takes a second, in which people press Ctrl-C.
        from vtare.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("vtare: interrupted\n")
        sys.exit(130)
    except (ImportError, MemoryError, OSError, SystemError) as error:
        # What the command line itself cannot do it has named before: here its libraries could not be loaded.
        sys.stderr.write(
            f"vtare: the lab's libraries cannot be loaded ({error or 'no memory'}): raise the limits of this process "
            "(`ulimit -v`, `ulimit -n`), or install vtare again with `make install`\n"
        )
        sys.exit(3)


if __name__ == "__main__":
    main()
