"""Dependence of readings inside a run, against its closed form for AR(1) series."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from vtare.summary.dependence import figures


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, 0.97])
def test_an_ar1_series_has_the_numbers_of_its_closed_form(memory: float) -> None:
    rng = np.random.default_rng(6)
    found = [figures(lfilter([1.0], [1.0, -memory], rng.normal(size=20_000))[1000:]) for _ in range(20)]
    assert np.mean([one["lag1"] for one in found]) == pytest.approx(memory, abs=0.02)  # type: ignore[misc]
    closed = 19_000 * (1 - memory) / (1 + memory)
    assert np.median([one["n_effective"] for one in found]) == pytest.approx(closed, rel=0.15)  # type: ignore[type-var]


def test_what_cannot_be_estimated_is_missing() -> None:
    nothing = {"lag1": None, "n_effective": None}
    assert figures(np.array([])) == nothing
    assert figures(np.arange(9.0)) == nothing
    assert figures(np.full(100, 7.0)) == nothing


def test_readings_that_alternate_are_not_worth_more_than_their_number() -> None:
    assert figures(np.tile([1.0, 2.0], 500))["n_effective"] == 1000
