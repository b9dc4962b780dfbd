"""The answer of a command as its JSON document has it, under the key `answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable


class Advised(TypedDict):
    """What to do, as the program has it too."""

    text: Annotated[str, "what to do, or why"]
    command: Annotated[str | None, "the command that does it; null where there is none"]


class Answered(TypedDict):
    """What a command found, as people read it."""

    text: Annotated[str, "the answer in sentences"]
    status: Annotated[str, "the answer in a word"]
    limits: Annotated[list[str], "what limits the answer"]
    advice: Annotated[list[Advised], "what to do next"]


def answered(
    text: Iterable[str],
    status: str,
    *,
    limits: Iterable[str] = (),
    advice: Iterable[tuple[str, str | None]] = (),
) -> Answered:
    """Return the answer; empty lines are left out. Advice is what to do and the command that does it.

    >>> answered(["B is 5 % slower than A.", ""], "worse", advice=[("See all figures", "vtare ab -v")])["text"]
    'B is 5 % slower than A.'
    """
    return Answered(
        text=" ".join(filter(None, text)),
        status=status,
        limits=list(filter(None, limits)),
        advice=[Advised(text=what, command=command) for what, command in advice],
    )
