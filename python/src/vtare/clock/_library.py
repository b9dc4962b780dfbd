"""Finding and loading `libvtare_clock`, at the first call that needs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import cffi

from vtare.clock._declarations import ABI_VERSION, DECLARATIONS
from vtare.errors import MachineCannot

LIBRARY_VARIABLE: Final = "VTARE_CLOCK_LIBRARY"
"""The environment variable that names the library's file, before all other places."""

SONAME: Final = f"libvtare_clock.so.{ABI_VERSION}"
PACKAGED: Final = Path(__file__).resolve().parent.parent / "_lib" / "libvtare_clock.so"

ffi: Final = cffi.FFI()
ffi.cdef(DECLARATIONS)


class LibraryMissing(MachineCannot, ImportError):
    """`libvtare_clock` is missing, cannot be loaded, or is another version; the message lists where it was sought."""


def open_library(asked: str | None, packaged: Path = PACKAGED) -> Any:
    """Load the library: the file `asked` for, else the one in the package, else the one the dynamic linker knows.

    Args:
        asked: The value of `VTARE_CLOCK_LIBRARY`, or None where it is not set.
        packaged: Where a wheel carries the library.

    Raises:
        LibraryMissing: None of them can be loaded, or the one found has another binary interface.
    """
    if asked:
        place, where = asked, f"{LIBRARY_VARIABLE}={asked}"
    elif packaged.is_file():
        place = where = str(packaged)
    else:
        place, where = SONAME, f"{SONAME}, asked of the dynamic linker since {packaged} does not exist"
    try:
        library: Any = ffi.dlopen(place)
        version = int(library.vtare_clock_abi_version())
    except (OSError, AttributeError) as error:
        raise LibraryMissing(
            f"cannot load libvtare_clock ({where}): {error}. Install vtare from its wheel, which carries the library; "
            f"or run `make install` and add its directory to the linker's path; or set {LIBRARY_VARIABLE} to the file"
        ) from None
    if version != ABI_VERSION:
        raise LibraryMissing(
            f"{where} has binary interface {version}, not {ABI_VERSION}: install library and package of one version"
        )
    return library


class Library:
    """The loaded library; loads it when a function of it is first asked for, and then gets out of the way."""

    def __getattr__(self, name: str) -> Any:
        """A function of the library. Kept as an attribute, so this runs once for each name."""
        if name.startswith("__"):
            raise AttributeError(name)
        library = self.__dict__.get("_opened")
        if library is None:
            library = self.__dict__["_opened"] = open_library(os.environ.get(LIBRARY_VARIABLE))
        function = self.__dict__[name] = getattr(library, name)
        return function


lib: Final = Library()
