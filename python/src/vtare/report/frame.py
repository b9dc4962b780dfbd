"""What every page has: the templates, their style, the lab's version."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import jinja2

from vtare.plots import css_colours
from vtare.plots.svg import PANEL_WIDTH_IN
from vtare.stats import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST_PX: Final = 1.3 * 96 * PANEL_WIDTH_IN
"""A figure wider than this has a row of its own; one column would make its text too small to read."""


@cache
def environment() -> jinja2.Environment:
    """The templates of the package, compiled once; what is not marked safe is escaped, unknown names are errors."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("vtare.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
    )
    # Of every page: the macros ask for it.
    made.globals["widest"] = _WIDEST_PX
    made.globals["verdict_words"] = WORDS
    made.globals["policy"] = policy
    return made


def policy(styles: Sequence[str], scripts: Sequence[str], *, connects: bool = False) -> str:
    """What a page may do: apply these styles, run these scripts by their hashes, and nothing that came with data."""
    sources = {"style-src": _hashes(styles), "script-src": _hashes(scripts), "img-src": "data:"}
    if connects:
        sources["connect-src"] = "'self'"
    return "; ".join(["default-src 'none'", *(f"{name} {allowed}" for name, allowed in sources.items())])


def _hashes(texts: Sequence[str]) -> str:
    return " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts)


def lab_version() -> str:
    """The version of the lab, for a page; a tree that runs without being installed has none."""
    try:
        return version("vtare")
    except PackageNotFoundError:
        return "not installed"


def template_text(name: str) -> str:
    """A template or asset as it lies in the package."""
    return (files("vtare.report") / "templates" / name).read_text(encoding="utf-8")


def stylesheet() -> str:
    """The style of every page, with the colours of the figures."""
    light, dark = css_colours()
    return template_text("style.css").replace("@LIGHT@", light).replace("@DARK@", dark)
