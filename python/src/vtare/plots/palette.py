"""One colour, marker and line style per thing measured, the same in every figure.

The hues are those of Okabe and Ito (2008), which readers with a colour vision deficiency can distinguish; each has a
darker and a lighter form, so that it keeps a contrast of at least 3:1 on a white and on a near-black page. Members of
one family (as the three ways to read the CPU counter) share a hue and differ in marker and line style.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Hue:
    """A colour in its two forms, as `#rrggbb`: `light` is drawn on a light page, `dark` on a dark one."""

    name: str
    light: str
    dark: str

    @property
    def css(self) -> str:
        """The CSS variable that carries this colour, with the light form for pages that do not set it."""
        return f"var(--vt-{self.name},{self.light})"


INK: Final = Hue("ink", "#1b1f23", "#e8eaed")
MUTED: Final = Hue("muted", "#5b636c", "#a3abb5")
GRID: Final = Hue("grid", "#d3d7dc", "#3a4048")
SURFACE: Final = Hue("surface", "#fefefe", "#14171b")

BLUE: Final = Hue("blue", "#0072b2", "#58b4ec")
ORANGE: Final = Hue("orange", "#b06f00", "#f0b03c")
GREEN: Final = Hue("green", "#00805e", "#2fc79b")
VERMILLION: Final = Hue("vermillion", "#c9500a", "#ff8d52")
PURPLE: Final = Hue("purple", "#a64d83", "#e39ac6")
GREY: Final = Hue("grey", "#747c86", "#98a1ab")
TEAL: Final = Hue("teal", "#2b7f96", "#6cc7de")
WINE: Final = Hue("wine", "#8a2f4c", "#e0869f")

HUES: Final = (INK, MUTED, GRID, SURFACE, BLUE, ORANGE, GREEN, VERMILLION, PURPLE, GREY, TEAL, WINE)
"""Every colour a figure may use; `svg.py` turns exactly these into CSS variables."""


@dataclass(frozen=True, slots=True)
class Style:
    """How one thing is drawn everywhere. `line` is a matplotlib line style."""

    hue: Hue
    marker: str
    line: str | tuple[int, tuple[float, ...]]


_DASH: Final = (0, (4.0, 1.5))
_DOT: Final = (0, (1.2, 1.2))
_DASH_DOT: Final = (0, (4.0, 1.2, 1.0, 1.2))

_KNOWN: Final[dict[str, Style]] = {
    "usleep": Style(VERMILLION, "s", "-"),
    "clock_nanosleep": Style(ORANGE, "D", _DASH_DOT),
    "two_phase": Style(PURPLE, "^", _DASH),
    "adaptive": Style(GREEN, "o", "-"),
    "spin": Style(BLUE, "v", _DOT),
    "rdtsc": Style(BLUE, "v", "-"),
    "lfence_rdtsc": Style(BLUE, "s", _DASH),
    "rdtscp": Style(BLUE, "D", _DOT),
    "cntvct": Style(BLUE, "v", "-"),
    "isb_cntvct": Style(BLUE, "s", _DASH),
    "clock_monotonic": Style(ORANGE, "s", "-"),
    "clock_monotonic_raw": Style(ORANGE, "D", _DASH),
    "clock_monotonic_coarse": Style(ORANGE, "v", _DOT),
    "gettimeofday": Style(PURPLE, "^", "-"),
    "clock_monotonic_syscall": Style(VERMILLION, "s", "-"),
    "vtare": Style(GREEN, "o", "-"),
    "vtare_ordered": Style(GREEN, "D", _DASH),
    "published": Style(GREY, "o", "-"),
    "idle": Style(TEAL, "o", "-"),
    "cpu": Style(WINE, "s", "-"),
    "io": Style(ORANGE, "D", "-"),
    "nbd": Style(BLUE, "v", "-"),
    "host": Style(TEAL, "o", "-"),
    "netns": Style(GREEN, "D", _DASH),
    "docker": Style(BLUE, "s", _DOT),
    "lxc": Style(PURPLE, "^", _DASH_DOT),
    "qemu": Style(VERMILLION, "v", "-"),
    "yaz": Style(VERMILLION, "s", "-"),
    "kite": Style(ORANGE, "^", _DASH),
    "kite2": Style(ORANGE, "D", "-"),
    "pathload": Style(BLUE, "v", "-"),
    "pathchirp": Style(PURPLE, "^", "-"),
    "assolo": Style(PURPLE, "P", _DASH),
    "igi": Style(TEAL, "s", _DASH),
    "ptr": Style(TEAL, "D", "-"),
    "spruce": Style(WINE, "o", "-"),
    "abing": Style(WINE, "v", _DOT),
    "udpst": Style(BLUE, "P", _DASH),
    "adr": Style(GREY, "D", "-"),
    "pathrate": Style(GREY, "s", _DASH),
    "quantile:median": Style(BLUE, "o", "-"),
    "quantile:p99": Style(ORANGE, "s", _DASH),
    "quantile:p99.9": Style(VERMILLION, "^", _DASH_DOT),
    "sender_overhead_ns": Style(VERMILLION, "s", "-"),
    "wire_ns": Style(GREY, "o", "-"),
    "responder_overhead_ns": Style(ORANGE, "D", "-"),
    "responder_side_ns": Style(ORANGE, "D", "-"),
    "turnaround_ns": Style(BLUE, "v", "-"),
}

_SPARE_HUES: Final = (TEAL, WINE, BLUE, ORANGE, PURPLE, VERMILLION)
_SPARE_MARKERS: Final = ("o", "s", "D", "^", "v", "P")
_SPARE_LINES: Final = ("-", _DASH, _DOT, _DASH_DOT)
_NUMBER_HUES: Final = (WINE, BLUE, VERMILLION, GREEN, PURPLE, ORANGE)


def style_of(name: str) -> Style:
    """The style of a method, source, load or platform; a name not known here always gets the same spare style."""
    # A method with a preset (`yaz:small-spacing`) looks like the method.
    known = _KNOWN.get(name, _KNOWN.get(name.partition(":")[0]))
    if known is not None:
        return known
    if name.isdecimal():
        # Numbers near each other stand in one figure: CPUs, packets, loaded guests.
        number = int(name)
        place = number + 2 * (number // len(_NUMBER_HUES))
        marker, line = _SPARE_MARKERS[place % len(_SPARE_MARKERS)], _SPARE_LINES[place % len(_SPARE_LINES)]
        return Style(_NUMBER_HUES[number % len(_NUMBER_HUES)], marker, line)
    # A checksum, not hash(): the latter is salted per process and would change the colours from run to run.
    pick = zlib.crc32(name.encode())
    return Style(
        _SPARE_HUES[pick % len(_SPARE_HUES)],
        _SPARE_MARKERS[(pick >> 8) % len(_SPARE_MARKERS)],
        _SPARE_LINES[(pick >> 16) % len(_SPARE_LINES)],
    )


def css_colours() -> tuple[str, str]:
    """The declarations that set every figure colour, for a light and for a dark page."""
    light = "".join(f"--vt-{hue.name}:{hue.light};" for hue in HUES)
    dark = "".join(f"--vt-{hue.name}:{hue.dark};" for hue in HUES)
    return light, dark
