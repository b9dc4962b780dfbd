"""The answer of a command as its JSON document has it, under the key `answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable


class Answered(TypedDict):
    """`text` in sentences, `status` in a word, what limits it, and what to do next."""

    text: str
    status: str
    limits: list[str]
    advice: list[str]


def answered(text: Iterable[str], status: str, *, limits: Iterable[str] = (), advice: Iterable[str] = ()) -> Answered:
    """Return the answer; empty lines are left out.

    >>> answered(["B is 5 % slower than A.", ""], "worse", advice=["vtare ab -v"])["text"]
    'B is 5 % slower than A.'
    """
    return Answered(
        text=" ".join(filter(None, text)), status=status, limits=list(filter(None, limits)), advice=list(advice)
    )
