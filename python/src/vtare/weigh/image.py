"""The files that a command has on every platform instead of this machine's: a directory, or an image that is unpacked.

An image is an archive of `docker save` or an OCI layout, or a name that docker or podman knows or can get: they save it
as such an archive. It is unpacked once, below the directory of this lab process.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput, MachineCannot
from vtare.platforms.podman import podman
from vtare.platforms.rooted import ROOT
from vtare.process import ToolFailed, run_tool
from vtare.sentences import weigh as wording
from vtare.weigh.layer import make_place, remove_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_ARCHIVE: Final = "archive"
#: In a layer: the name behind it is gone, or all that lower layers have in its directory.
_GONE: Final = ".wh."
_ALL_GONE: Final = ".wh..wh..opq"
_SAVE_S: Final = 600.0
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Root:
    """The files, what people call them, and the environment and working directory of the command there."""

    directory: Path
    name: str
    environment: Mapping[str, str] = field(default_factory=lambda: _ENVIRONMENT)
    workdir: str = "/"


@contextmanager
def given_root(rootfs: Path | None, image: str | None, show: Callable[[str], None]) -> Iterator[Root | None]:
    """Give the files of a directory or of an image; None where neither is named.

    Raises:
        BadInput: both are named, or it is none.
        MachineCannot: this user cannot offer it.
    """
    if rootfs is None and image is None:
        yield None
        return
    if rootfs is not None and image is not None:
        raise BadInput(wording.TWO_ROOTS)
    if os.geteuid() != 0:
        raise MachineCannot(wording.ROOT_NEEDS_ROOT)
    if rootfs is not None:
        if not rootfs.is_dir():
            raise BadInput(wording.no_root(rootfs))
        yield Root(rootfs.resolve(), str(rootfs))
        return
    assert image is not None
    show(wording.UNPACKING)
    place = make_place("image", 0)
    try:
        yield _unpacked(image, place)
    finally:
        remove_place(place)


def _unpacked(image: str, place: Path) -> Root:
    root, layout = place / ROOT, place / _ARCHIVE
    try:
        given = Path(image)
        if given.is_dir():
            layout = given
        else:
            archive = given if given.is_file() else _saved(image, place)
            layout.mkdir()
            _extract(archive, layout)
        config, layers = _read(layout)
        for layer in layers:
            _extract(layer, root, is_layer=True)
        about = json.loads(config.read_bytes()).get("config") or {}
        parted = [one.partition("=") for one in about.get("Env") or ()]
        environment = {**_ENVIRONMENT, **{name: value for name, equals, value in parted if name and equals}}
        workdir = about.get("WorkingDir") or "/"
        if not workdir.startswith("/") or "\0" in workdir + "".join((*environment, *environment.values())):
            raise LookupError
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise BadInput(wording.no_image(image, wording.NO_MANIFEST)) from error
    except tarfile.ReadError as error:
        raise BadInput(wording.no_image(image, wording.NO_ARCHIVE)) from error
    except (OSError, EOFError, tarfile.TarError, ValueError) as error:
        raise BadInput(wording.no_image(image, str(error))) from error
    if layout != given:
        shutil.rmtree(layout)
    return Root(root, image, environment, workdir)


def _saved(reference: str, place: Path) -> Path:
    """The archive of an image that docker or podman has, or can get."""
    archive = place / "saved.tar"
    reasons = {}
    for tool in ("docker", "podman"):
        words = podman if tool == "podman" else _docker
        if shutil.which(tool) is None:
            reasons[tool] = wording.NOT_INSTALLED
            continue
        try:
            try:
                run_tool(words("image", "inspect", "--", reference))
            except ToolFailed:
                run_tool(words("pull", "--", reference), timeout_s=_SAVE_S)
            run_tool(words("save", "--output", str(archive), "--", reference), timeout_s=_SAVE_S)
        except ToolFailed as error:
            reasons[tool] = error.reason
        else:
            return archive
    raise BadInput(wording.no_reference(reference, reasons))


def _docker(*words: str) -> list[str]:
    return ["docker", *words]


def _read(layout: Path) -> tuple[Path, list[Path]]:
    """The configuration of the one image in a directory, and its layers, the lowest first."""
    if (layout / "manifest.json").is_file():
        (one,) = json.loads(_file(layout, "manifest.json").read_bytes())
        return _file(layout, one["Config"]), [_file(layout, layer) for layer in one["Layers"]]
    index: dict[str, Any] = json.loads(_file(layout, "index.json").read_bytes())
    while "manifests" in index:
        chosen = [one for one in index["manifests"] if _is_ours(one.get("platform"))]
        if len(chosen) != 1:
            raise ValueError(wording.images_in(len(chosen)))
        index = json.loads(_blob(layout, chosen[0]).read_bytes())
    return _blob(layout, index["config"]), [_blob(layout, layer) for layer in index["layers"]]


def _is_ours(about: dict[str, str] | None) -> bool:
    """Whether an image is for this machine, as far as it states that."""
    machine = platform.machine()
    return about is None or (about["os"], about["architecture"]) == ("linux", _MACHINES.get(machine, machine))


def _blob(layout: Path, about: dict[str, Any]) -> Path:
    return _file(layout, "/".join(("blobs", *about["digest"].split(":"))))


def _file(layout: Path, name: str) -> Path:
    """A file of an image; a link leads to another one, as docker has for a layer that is there twice."""
    path = _below(layout, name).resolve()
    if not path.is_relative_to(layout.resolve()):
        raise ValueError(wording.leads_out(name))
    if not path.is_file():
        raise LookupError
    return path


def _below(top: Path, name: str) -> Path:
    """A path below a directory.

    Raises:
        ValueError: a link, or a name with dots, leads out of it.
    """
    parts = PurePosixPath(name.lstrip("/")).parts
    if not parts:
        return top
    path = top.joinpath(*parts)
    if ".." in parts or not path.parent.resolve().is_relative_to(top.resolve()):
        raise ValueError(wording.leads_out(name))
    return path


def _extract(archive: Path, target: Path, *, is_layer: bool = False) -> None:
    """Unpack an archive: links in it lead where they lead, but nothing is written through one that leads outside."""
    with tarfile.open(archive) as opened:
        # Each path is checked here. What newer versions of Python refuse instead are links that roots have.
        opened.extraction_filter = lambda member, _: member
        if is_layer:
            for member in opened:
                _remove_gone(member, target)
        for member in opened:
            path = _below(target, member.name)
            if path == target or (is_layer and path.name.startswith(_GONE)) or member.isdev():
                continue
            if os.path.lexists(path) and not (member.isdir() and path.is_dir() and not path.is_symlink()):
                _remove(path)
            # Else an absolute name would be one of this machine.
            member.name = str(path.relative_to(target))
            if member.islnk():
                path.parent.mkdir(parents=True, exist_ok=True)
                os.link(_below(target, member.linkname), path, follow_symlinks=False)
            else:
                opened.extract(member, target, numeric_owner=True)


def _remove_gone(member: tarfile.TarInfo, target: Path) -> None:
    path = _below(target, member.name)
    if path.name == _ALL_GONE:
        for below in list(path.parent.iterdir()) if path.parent.is_dir() else ():
            _remove(below)
    elif path.name.startswith(_GONE):
        gone = path.with_name(path.name.removeprefix(_GONE))
        if gone.name not in ("", ".", "..") and os.path.lexists(gone):
            _remove(gone)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
