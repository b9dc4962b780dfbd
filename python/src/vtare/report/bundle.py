"""The script that draws charts: Vega, Vega-Lite and vega-embed from vl-convert, made when the wheel is built.

The build runs this file by itself, so it imports nothing of the lab.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

BUILT: Final = Path(__file__).parent / "templates" / "charts.js"
_VEGA_LITE: Final = "6.4"
"""The version of Vega-Lite that Altair writes."""


@cache
def bundle() -> str:
    """The script, with `vegaEmbed` as its one global name; a tree that is not built needs vl-convert for it."""
    return BUILT.read_text(encoding="utf-8") if BUILT.is_file() else make_bundle()


def make_bundle() -> str:
    """Make the script; the same text every time."""
    import vl_convert

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_VEGA_LITE)
    if "</script" in made or "<!--" in made:
        raise AssertionError("vl-convert's bundle holds text that would end the script element it stands in")
    # It is a module: in a plain script its names would be those of the page.
    return f'(() => {{"use strict";{made}}})();'
