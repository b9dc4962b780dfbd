"""Builds the Rust half into the wheel: the static binaries `vtare` and `vtare-rpm` and the shared libraries.

Everything declarative is in pyproject.toml. Here is what needs the machine or the workspace: the version (written in
Cargo.toml only), the build of the Rust half by tools/build, and the wheel's tag.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools_rust import Binding, RustBin, RustExtension
from setuptools_rust.build import _BuiltModule, build_rust

ROOT = Path(__file__).parent


class AnyPythonWheel(bdist_wheel):
    """A wheel for every Python 3 on this machine's architecture: the Rust parts never touch the interpreter."""

    def get_tag(self) -> tuple[str, str, str]:
        """The tag `py3-none-PLATFORM`, where setuptools would name this interpreter and its ABI."""
        _, _, platform = super().get_tag()
        return "py3", "none", platform

    def write_wheelfile(self, wheelfile_base: str, *args: str) -> None:
        """The last file before all are packed: everybody may use what the wheel installs, whatever the umask."""
        super().write_wheelfile(wheelfile_base, *args)
        for path in Path(wheelfile_base).parent.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


class BuildPython(build_py):
    """Adds what the package lacks in the tree: the plans, which stand at its root, and the schemas of documents."""

    def build_package_data(self) -> None:
        """The package's data, `plans/*.toml` as `vtare/plans/*.toml`, and the schemas as `vtare/schemas/*.json`."""
        super().build_package_data()
        folder = Path(self.build_lib) / "vtare" / "plans"
        self.mkpath(str(folder))
        for plan in sorted((ROOT / "plans").glob("*.toml")):
            self.copy_file(str(plan), str(folder / plan.name))
        subprocess.run([sys.executable, ROOT / "tools" / "schemas", folder.with_name("schemas")], check=True)


class BuildRust(build_rust):
    """Takes the artefacts from tools/build, as `make` does: other commands would compile all of it again.

    Shared libraries keep their own names: they are for the dynamic linker, not for this interpreter.
    """

    def build_extension(self, ext: RustExtension) -> tuple[list[_BuiltModule], Path | None]:
        """The file of one artefact: (its name in the package, its path)."""
        if isinstance(ext, RustBin):
            return [_BuiltModule(ext.name, str(artefacts() / ext.name))], None
        return [_BuiltModule(ext.name, str(artefacts() / f"{ext.name.rpartition('.')[2]}.so"))], None

    def get_dylib_ext_path(self, ext: RustExtension, target_fname: str) -> str:
        """The library's path in the package, ending in plain `.so`."""
        named = Path(super().get_dylib_ext_path(ext, target_fname))
        return str(named.with_name(named.name.partition(".")[0] + ".so"))


@cache
def artefacts() -> Path:
    """Builds the program and the libraries; the directory that holds them."""
    if shutil.which("cargo") is None:
        raise SystemExit("vtare needs cargo and rustc to be built, found none: install Rust, or run make")
    built = subprocess.run([ROOT / "tools" / "build"], check=False, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        raise SystemExit(f"tools/build ended with exit code {built.returncode}; what cargo printed is above")
    return ROOT / built.stdout.strip()


def version() -> str:
    """The workspace's version, the only place where it is written."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


def library(crate: str) -> RustExtension:
    """The shared library of a crate, package data under `vtare/_lib`."""
    manifest = f"crates/{crate}/Cargo.toml"
    name = tomllib.loads((ROOT / manifest).read_text(encoding="utf-8"))["lib"]["name"]
    return RustExtension(f"vtare._lib.lib{name}", path=manifest, binding=Binding.NoBinding)


# A fresh directory for every build: setuptools' own `build/` would keep modules that were deleted since.
scratch = tempfile.TemporaryDirectory(prefix="vtare-wheel-")

setup(
    version=version(),
    cmdclass={"bdist_wheel": AnyPythonWheel, "build_py": BuildPython, "build_rust": BuildRust},
    options={"build": {"build_base": scratch.name}},
    rust_extensions=[
        RustBin("vtare", path="crates/vtare/Cargo.toml"),
        RustBin("vtare-rpm", path="crates/responsiveness/Cargo.toml"),
        library("capi"),
        library("preload"),
    ],
)
