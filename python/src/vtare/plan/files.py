"""Plans as files: shipped ones, and those of a path."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, instead_of
from vtare.stored.paths import read_named

if TYPE_CHECKING:
    from vtare.contract import Contract
    from vtare.plan.model import Plan

#: The largest plan that is read.
_MOST_BYTE: Final = 4 << 20
#: How `tomllib` states a position.
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def find_plan(name: str) -> Path:
    """Return the plan file for a path or for the name of a shipped plan (`quickstart`).

    Raises:
        BadInput: neither a file nor a shipped plan; the message lists the shipped ones.
    """
    path = Path(name)
    try:
        if path.is_file():
            return path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"plan '{name[:60]}...': cannot be a file: {reason}") from error
    shipped = shipped_plans()
    if name in shipped:
        return shipped[name]
    if path.is_dir():
        raise BadInput(f"plan '{name}' is a directory: name a file, such as {path / 'plan.toml'}")
    raise BadInput(f"plan '{name}': there is no such file or shipped plan{instead_of(name, sorted(shipped))}")


def shipped_plans() -> dict[str, Path]:
    """Return the plans that come with vtare: name -> file."""
    return {path.stem: path for path in sorted((Path(__file__).resolve().parents[1] / "plans").glob("*.toml"))}


def question_of(path: Path) -> str:
    """The question that a shipped plan asks, in one line. Nothing else in it is read or checked."""
    return " ".join(tomllib.loads(path.read_text("utf-8-sig"))["question"].split())


def load_plan(path: Path, *, contract: Contract | None = None) -> Plan:
    """Read and check one plan file.

    Raises:
        BadInput: unreadable file, broken TOML, or any key that cannot be used; the message states where and what.
    """
    try:
        text = read_named(path, _MOST_BYTE).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{path}: cannot read the plan: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text (byte {error.start}); save the plan as UTF-8") from error
    return parse_plan(text, source=path, contract=contract)


def parse_plan(text: str, *, source: Path, contract: Contract | None = None) -> Plan:
    """Check the text of a plan. `source` is only named in errors. See `load_plan`."""
    # Here, not above: the list of shipped plans needs neither factors nor platforms.
    from vtare.contract import load_contract
    from vtare.plan.reader import PlanReader

    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise BadInput(f"{source}: nested too deep; a plan needs four levels of tables and lists at most") from error
    except ValueError as error:
        # An integer of thousands of digits is no TOMLDecodeError.
        what, line, column = _stated(str(error), text)
        raise BadInput(f"{source}{line}{column}: not valid TOML: {what}") from error
    return PlanReader(source, contract or load_contract(), text).plan(table, text)


def _stated(error: str, text: str) -> tuple[str, str, str]:
    """What an error of `tomllib` states, and its line and column as messages begin; empty where it states none."""
    match = _PLACE.search(error)
    if match is None:
        return error, "", ""
    end = str(text.count("\n") + 1), str(len(text) - text.rfind("\n"))
    line, column = match.groups() if match[1] else end
    return error[: match.start()], f":{line}", f":{column}"
