"""`--write FORM=FILE`: where a command keeps its answer, checked before it begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vtare.cli.options import stdout
from vtare.errors import BadInput, bad_value

if TYPE_CHECKING:
    from collections.abc import Collection


def read_form(text: str, forms: Collection[str], *, printed: bool) -> tuple[str, str]:
    """The form and the file of an option; `-` is stdout, where the answer is `printed`.

    Raises:
        BadInput: there is no such form, or the file cannot be written.
    """
    form, _, file = text.partition("=")
    if form not in forms or not file:
        raise BadInput(f"--write {bad_value(text, 'FORM=FILE')}, FORM one of {', '.join(forms)}")
    if file == "-" and not printed:
        raise BadInput(f"--write {bad_value(text, 'a file with --json')}, which prints one document alone")
    place = Path(file).parent
    if file != "-" and (Path(file).is_dir() or not os.access(place, os.W_OK | os.X_OK)):
        why = f"{file} is a directory" if Path(file).is_dir() else f"the directory {place} cannot be written"
        raise BadInput(f"--write '{text}': {why}: name another file")
    return form, file


def write_form(file: str, text: str) -> None:
    """Write it whole, or print it."""
    from vtare.process import write_whole

    if file == "-":
        stdout().print(text, end="")
    else:
        write_whole(Path(file), text.encode())
