"""The entry point of `vtare-lab`: Ctrl-C while the libraries are loaded is as quiet as it is afterwards."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and hand over to it."""
    try:
        # Here, not above: it takes a second, in which people press Ctrl-C.
        from vtare.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("vtare: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
