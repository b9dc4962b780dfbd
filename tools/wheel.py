"""Adds to the wheel what is built: programs, shared libraries, schemas of documents, the charts' script; its tag."""

from __future__ import annotations

import platform
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("vtare", "vtare-rpm")
LIBRARIES = ("libvtare_clock.so", "libvtare_preload.so")


def oldest_glibc(libraries: list[bytes]) -> int:
    """The minor version of glibc 2 that the shared libraries ask for."""
    return max(int(found) for library in libraries for found in re.findall(rb"GLIBC_2\.(\d+)", library))


class Built(BuildHookInterface[Any]):
    """Runs tools/build, as `make` does, tools/schemas and the maker of the charts' script."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, and the tag: any Python 3, and the glibc that the libraries load with (PEP 600)."""
        if version == "editable":
            return
        if shutil.which("cargo") is None:
            raise SystemExit("vtare needs cargo and rustc to be built, found none: install Rust, or run make")
        root = Path(self.root)
        self.made = tempfile.TemporaryDirectory(prefix="vtare-wheel-")
        made = Path(self.made.name)
        # First: the program that prints them is replaced by the one that is installed.
        subprocess.run([sys.executable, root / "tools/schemas", made / "schemas"], check=True)
        done = subprocess.run([root / "tools/build"], check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit(f"tools/build ended with exit code {done.returncode}; what cargo printed is above")
        built = root / done.stdout.strip()
        charts = runpy.run_path(str(root / "python/src/vtare/report/bundle.py"))["make_bundle"]()
        (made / "charts.js").write_text(charts, encoding="utf-8")
        glibc = oldest_glibc([(built / name).read_bytes() for name in LIBRARIES])
        build_data["tag"] = f"py3-none-manylinux_2_{glibc}_{platform.machine()}"
        build_data["shared_scripts"] = {str(built / name): name for name in PROGRAMS}
        build_data["force_include"].update({str(built / name): f"vtare/_lib/{name}" for name in LIBRARIES})
        build_data["force_include"][str(made / "schemas")] = "vtare/schemas"
        build_data["force_include"][str(made / "charts.js")] = "vtare/report/templates/charts.js"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel."""
        if version != "editable":
            self.made.cleanup()
