"""The answer of a command as its JSON document has it, under the key `answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable


class Answered(TypedDict):
    """What a command found, as people read it."""

    text: Annotated[str, "the answer in sentences"]
    status: Annotated[str, "the answer in a word"]
    limits: Annotated[list[str], "what limits the answer"]
    advice: Annotated[list[str], "what to do next"]


def answered(text: Iterable[str], status: str, *, limits: Iterable[str] = (), advice: Iterable[str] = ()) -> Answered:
    """Return the answer; empty lines are left out.

    >>> answered(["B is 5 % slower than A.", ""], "worse", advice=["vtare ab -v"])["text"]
    'B is 5 % slower than A.'
    """
    return Answered(
        text=" ".join(filter(None, text)), status=status, limits=list(filter(None, limits)), advice=list(advice)
    )
