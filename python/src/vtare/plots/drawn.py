"""Drawings, made at once or by other processes while the rest of a report is worked out."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec

import matplotlib as mpl

from vtare.plots.palette import GRID, INK, MUTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    import polars as pl

_P = ParamSpec("_P")

_STYLE: Final[dict[str, Any]] = {
    "svg.hashsalt": "vtare",
    "svg.fonttype": "none",
    # Carried by matplotlib itself, so the layout is the same on every machine.
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.color": INK.light,
    "axes.labelcolor": INK.light,
    "axes.edgecolor": MUTED.light,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.axisbelow": True,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": GRID.light,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED.light,
    "ytick.color": MUTED.light,
    "xtick.labelcolor": INK.light,
    "ytick.labelcolor": INK.light,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": True,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished figure: what the fields mean is in `Drawing`."""

    svg: str
    inline: str
    width_px: float
    text: str
    data: pl.DataFrame


class Drawing:
    """A figure, finished or being drawn in another process; its fields wait until it is finished.

    `svg` stands alone as a file; `inline` is the same for an HTML page, without declarations and with the page's font;
    `width_px` is its natural width. `text` describes what is drawn, for readers who cannot see it. `data` is what is
    drawn, as a table with full precision.
    """

    def __init__(
        self, name: str, picture: Picture | Future[Drawing], again: Callable[[], Drawing] | None = None
    ) -> None:
        """Name a finished picture, or one that is being drawn elsewhere; `again` draws it here where that fails."""
        self.name = name
        self._picture = picture
        self._again = again

    @property
    def _finished(self) -> Picture:
        if isinstance(self._picture, Future):
            try:
                drawing = self._picture.result()
            except (BrokenExecutor, EOFError, OSError):
                if self._again is None:
                    raise
                drawing = self._again()
            self._picture, self._again = drawing._finished, None
        return self._picture

    @property
    def svg(self) -> str:
        """The figure as a file of its own."""
        return self._finished.svg

    @property
    def inline(self) -> str:
        """The figure for an HTML page."""
        return self._finished.inline

    @property
    def width_px(self) -> float:
        """The natural width."""
        return self._finished.width_px

    @property
    def text(self) -> str:
        """What is drawn, in words."""
        return self._finished.text

    @property
    def data(self) -> pl.DataFrame:
        """What is drawn, as a table."""
        return self._finished.data


def style_context() -> Any:
    """The look of every vtare figure, as a context manager: figures are made and saved inside it."""
    # The stubs list every option by name; matplotlib itself checks these when they are set.
    return mpl.rc_context(_STYLE)  # type: ignore[arg-type]


_executor: Executor | None = None


def drawn(function: Callable[_P, Drawing]) -> Callable[_P, Drawing]:
    """Let a function that draws work in vtare's style and, inside `drawn_by`, in another process.

    It takes the figure's name as the argument `name`.
    """

    def here(*args: _P.args, **kwargs: _P.kwargs) -> Drawing:
        with style_context():
            return function(*args, **kwargs)

    @wraps(function)
    def draw(*args: _P.args, **kwargs: _P.kwargs) -> Drawing:
        if _executor is not None:
            # Processes that cannot be started (no memory, no right to this Python) draw nothing.
            with suppress(BrokenExecutor, EOFError, OSError):
                return Drawing(
                    str(kwargs["name"]), _executor.submit(draw, *args, **kwargs), partial(here, *args, **kwargs)
                )
        return here(*args, **kwargs)

    return draw


@contextmanager
def drawn_by(executor: Executor) -> Iterator[None]:
    """Leave to it what is drawn inside."""
    global _executor
    _executor = executor
    try:
        yield
    finally:
        _executor = None
