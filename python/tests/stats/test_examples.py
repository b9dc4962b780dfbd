"""Every public function of vtare.stats has an example, and every example is true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

from vtare import stats

MODULES = [f"vtare.stats.{found.name}" for found in pkgutil.iter_modules(stats.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_every_example_gives_what_it_shows(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_array_has_its_shape_in_its_docstring() -> None:
    found = {}
    for name in stats.__all__:
        one = getattr(stats, name)
        annotations = " ".join(map(str, inspect.get_annotations(one).values())) if callable(one) else ""
        if re.search(r"FloatArray|NDArray|ndarray", annotations):
            found[name] = "shape (" in (one.__doc__ or "")
    assert len(found) > 10
    assert [name for name, stated in found.items() if not stated] == []


def test_every_public_function_has_an_example() -> None:
    functions = {name: one for name in stats.__all__ if inspect.isfunction(one := getattr(stats, name))}
    assert len(functions) > 40
    assert [name for name, one in functions.items() if ">>>" not in (one.__doc__ or "")] == []
