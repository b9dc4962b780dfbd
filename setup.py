"""Builds the Rust half into the wheel: the static binary `vtare` and the shared libraries.

Everything declarative is in pyproject.toml. Here stands what needs the machine or the workspace: the version (written
in Cargo.toml only), the host's triple, and the wheel's tag.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools_rust import Binding, RustBin, RustExtension
from setuptools_rust.build import build_rust

ROOT = Path(__file__).parent
STATIC = "-C target-feature=+crt-static"
# Build profiles other than `release`; Cargo.toml says why.
PROFILES = {"preload": "preload"}


class AnyPythonWheel(bdist_wheel):
    """A wheel for every Python 3 on this machine's architecture: the Rust parts never touch the interpreter."""

    def get_tag(self) -> tuple[str, str, str]:
        """The tag `py3-none-PLATFORM`, where setuptools would name this interpreter and its ABI."""
        _, _, platform = super().get_tag()
        return "py3", "none", platform


class BuildPython(build_py):
    """Copies the plans into the package: they stand at the root of the tree, where people look for them."""

    def build_package_data(self) -> None:
        """The package's data, and `plans/*.toml` as `vtare/plans/*.toml`."""
        super().build_package_data()
        folder = Path(self.build_lib) / "vtare" / "plans"
        self.mkpath(str(folder))
        for plan in sorted((ROOT / "plans").glob("*.toml")):
            self.copy_file(str(plan), str(folder / plan.name))


class BuildRust(build_rust):
    """Builds shared libraries under their own names: they are for the dynamic linker, not for this interpreter."""

    def get_dylib_ext_path(self, ext: RustExtension, target_fname: str) -> str:
        """The library's path in the package, ending in plain `.so`."""
        named = Path(super().get_dylib_ext_path(ext, target_fname))
        return str(named.with_name(named.name.partition(".")[0] + ".so"))


def version() -> str:
    """The workspace's version, the only place where it is written."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


def target() -> str:
    """The triple to build for: `CARGO_BUILD_TARGET`, else this machine's own.

    It is always named. With a named target cargo keeps RUSTFLAGS away from build scripts and procedural macros, which
    cannot be built with a static C library.
    """
    if chosen := os.environ.get("CARGO_BUILD_TARGET"):
        return chosen
    try:
        text = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"vtare needs rustc and cargo to be built, found none ({error}): install Rust, or run make"
        ) from None
    found = re.search(r"^host: (\S+)$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"rustc -vV names no host:\n{text}")
    return found[1]


def static_environment() -> dict[str, str]:
    """The environment for the binary's build: the caller's flags are kept, the static C library is added."""
    return {**os.environ, "RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} {STATIC}".strip()}


def libraries() -> list[RustExtension]:
    """The shared libraries, package data under `vtare/_lib`: ordinary dynamic ones, so without the binary's flag."""
    crates = [name for name in ("capi", "preload") if (ROOT / "crates" / name / "Cargo.toml").is_file()]
    return [
        RustExtension(
            f"vtare._lib.lib{library_name(crate)}",
            path=f"crates/{crate}/Cargo.toml",
            binding=Binding.NoBinding,
            args=["--target", target(), "--profile", PROFILES.get(crate, "release")],
            cargo_manifest_args=["--locked"],
        )
        for crate in crates
    ]


def library_name(crate: str) -> str:
    """The name that cargo gives a crate's library: that under `[lib]`, else the package's."""
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["lib"].get("name", manifest["package"]["name"].replace("-", "_")))


# A fresh directory for every build: setuptools' own `build/` would keep modules that were deleted since.
scratch = tempfile.TemporaryDirectory(prefix="vtare-wheel-")

setup(
    version=version(),
    cmdclass={"bdist_wheel": AnyPythonWheel, "build_py": BuildPython, "build_rust": BuildRust},
    options={"build": {"build_base": scratch.name}},
    rust_extensions=[
        RustBin(
            "vtare",
            path="crates/vtare/Cargo.toml",
            args=["--bin", "vtare", "--target", target()],
            cargo_manifest_args=["--locked"],
            env=static_environment(),
        ),
        *libraries(),
    ],
)
