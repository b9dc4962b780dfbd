"""Find the `vtare` binary, the program that measures."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from vtare.contract import Contract, schema_of
from vtare.errors import BadInput
from vtare.process import ToolFailed


def binary_and_contract(option: Path | None = None) -> tuple[Path, Contract]:
    """Return the binary (see `find_binary`) and what its instruments take, which it must answer itself.

    Raises:
        BadInput: there is none, or it is another program.
    """
    program = find_binary(option)
    try:
        return program, schema_of(program)
    except (ToolFailed, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{program}: not the vtare binary: `{program} schema` did not print the schema of run.json ({error}); name "
            "the vtare binary with --binary PATH"
        ) from error


def find_binary(option: Path | None = None) -> Path:
    """Return the binary: `--binary`, then `$VTARE_BINARY`, then beside this Python, then on PATH.

    Raises:
        BadInput: none is there, or the named one cannot be executed.
    """
    for origin, named in (("--binary", option), ("VTARE_BINARY", os.environ.get("VTARE_BINARY"))):
        if named:
            return _executable(Path(named), origin)
    beside = Path(sys.executable).parent / "vtare"
    if _is_executable(beside):
        return beside
    program = shutil.which("vtare")
    if program is not None:
        return Path(program).absolute()
    raise BadInput(
        f"the vtare binary was not found: not beside {sys.executable}, not on PATH; "
        "install vtare with `make install` in a clone of it, or name the binary with --binary PATH or VTARE_BINARY=PATH"
    )


def _executable(path: Path, origin: str) -> Path:
    if not path.is_file():
        raise BadInput(f"{origin}: {path}: no such file; name the vtare binary")
    if not _is_executable(path):
        raise BadInput(f"{origin}: {path}: not executable; run `chmod +x {path}` or name the vtare binary")
    return path.absolute()


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
