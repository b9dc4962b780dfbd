"""The pytest fixture `vtare_ab`: a test fails where a function is shown to be slower than another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.ab.compare import Compared


@pytest.fixture
def vtare_ab() -> Callable[..., Compared]:
    """Return `vtare_ab(before, after, fail_if="slower by 5 %", margin=0.05, most_s=60)`: see `compare_calls`.

    It fails the test where the limit is crossed by the whole interval, and skips it where it is too noisy to know.
    """

    def judged(
        before: Callable[[], Any], after: Callable[[], Any], *, fail_if: str = "slower by 5 %", **asked: Any
    ) -> Compared:
        # Loaded by the test that asks for it: pytest loads this file in every session.
        from vtare.ab.calls import compare_calls
        from vtare.ab.verdict import margin_of, read_limit, sentence

        limit = read_limit(fail_if)
        compared = compare_calls(before, after, **{"margin": margin_of([limit]), **asked})
        text = sentence(compared, compared.primary[0])
        if limit.crossed(compared.primary):
            pytest.fail(f"{limit.text}: {text}", pytrace=False)
        if compared.primary[0].is_open:
            pytest.skip(text)
        return compared

    return judged
