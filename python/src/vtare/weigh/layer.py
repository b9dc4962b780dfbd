"""A root as a platform sees it, the host's or another: read-only, with a layer of the platform's own on top.

It is mounted once a platform, in a directory whose name states the lab process that made it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot, VtareError
from vtare.kernel_files import kernel_text
from vtare.platforms import gvisor, podman
from vtare.platforms.host import remove_work_directories
from vtare.platforms.intake import open_below, put_regular
from vtare.platforms.owner import own_prefix
from vtare.platforms.rooted import BINARY, PLACES, ROOT, places_left, remove_files
from vtare.process import ToolFailed, run_tool
from vtare.weigh import group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtare.platforms.owner import Leftover

_KIND: Final = "weigh"
#: File systems that hold files of programs and of users.
_FILES: Final = frozenset(
    {"9p", "btrfs", "ext2", "ext3", "ext4", "f2fs", "nfs", "nfs4", "overlay", "tmpfs", "virtiofs", "xfs", "zfs"}
)
#: What a platform makes for itself, and where containers of others lie.
_OWN: Final = ("dev", "proc", "run", "sys")
#: What programs and platforms need in any root, with its mode: by `usr` nspawn recognises one.
_NEEDED: Final = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "tmp": 0o1777, "usr": 0o755}
#: What the same network needs.
_NETWORK: Final = ("hosts", "resolv.conf")
#: Options of `ps` that list containers by their names.
_NAMED: Final = ("--all", "--quiet", "--filter")
_COPY_S: Final = 600.0
_TRIES: Final = 3
_OTHERS: Final = (*(f"/{name}" for name in _OWN), "/var/lib/containers", "/var/lib/docker", str(PLACES))


def make_place(platform: str, at: int) -> Path:
    """Make a directory of one platform, with an empty root; `remove_place` removes it."""
    place = PLACES / _KIND / f"{own_prefix()}-{platform}-{at}"
    # Programs of an image may take the rights of their owner: no other user may start them here.
    place.mkdir(mode=0o700, parents=True)
    (place / ROOT).mkdir()
    return place


def offer(platform: str, at: int, root: Path | None, binary: Path) -> Path:
    """Make the directory of one platform, with a root in it; `remove_place` removes it.

    Without a root it is the host's; another one gets the binary, which the host's files have already.

    Raises:
        MachineCannot: it cannot be made.
    """
    place = make_place(platform, at)
    try:
        if root is None:
            _offer_host(place)
        else:
            _offer_root(root, place, binary)
    except (OSError, ToolFailed) as error:
        remove_place(place)
        files = root or "this machine's files"
        raise MachineCannot(f"cannot offer {files} to {platform}: {error}") from error
    except BaseException:
        remove_place(place)
        raise
    return place


def _offer_host(place: Path) -> None:
    _offer(Path("/"), place, 0)
    for number, mounted in enumerate(_mounted_files(), 1):
        if (place / ROOT / mounted.relative_to("/")).is_dir():
            _offer(mounted, place, number)


def _offer_root(root: Path, place: Path, binary: Path) -> None:
    target = place / ROOT
    if not _overlay(root, place, target, 0):
        # Such as where it lies on an overlay.
        run_tool(("cp", "--archive", "--reflink=auto", f"{root}/.", str(target)), timeout_s=_COPY_S)
    for name, mode in _NEEDED.items():
        path = target / name
        # A link here could lead to one of this machine's directories.
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            path.mkdir()
            path.chmod(mode)
    _put(target, "/", Path(BINARY).name, binary, 0o755)
    for name in _NETWORK:
        _put(target, "/etc", name, Path("/etc", name), 0o644)


def _put(root: Path, directory: str, name: str, source: Path, mode: int) -> None:
    """Write a file of this machine into a root; one that is not there, or has no directory there, is left out."""
    if not source.is_file():
        return
    with suppress(NotADirectoryError, FileNotFoundError):
        place = open_below(root, Path(directory))
        try:
            put_regular(place, name, source.read_bytes(), mode)
        finally:
            os.close(place)


def _offer(lower: Path, place: Path, number: int) -> None:
    """Mount a file system of this machine at its place below the root, with a layer for what is written."""
    target = place / ROOT / lower.relative_to("/")
    if _overlay(lower, place, target, number):
        return
    # Such as where the file system is itself an overlay.
    if lower == Path("/"):
        _offer_directories(target)
    else:
        _bind(lower, target)


def _overlay(lower: Path, place: Path, target: Path, number: int) -> bool:
    """Mount files with a layer on top; whether this machine can."""
    upper, work = (place / f"{name}{number}" for name in ("upper", "work"))
    upper.mkdir()
    work.mkdir()
    # As the root of a file system is seen by users that are not root.
    shutil.copymode(lower, upper)
    if not set(str(lower)) & set(":,\\"):
        with suppress(ToolFailed):
            options = f"lowerdir={lower},upperdir={upper},workdir={work}"
            run_tool(("mount", "-t", "overlay", "vtare-weigh", "-o", options, str(target)))
            return True
    return False


def _offer_directories(root: Path) -> None:
    for entry in sorted(Path("/").iterdir()):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(entry.readlink())
        elif entry.is_dir():
            target.mkdir()
            if entry.name == "tmp":
                run_tool(("mount", "-t", "tmpfs", "-o", "mode=1777", "vtare-weigh", str(target)))
            elif entry.name not in _OWN:
                _bind(entry, target)


def _bind(lower: Path, target: Path) -> None:
    run_tool(("mount", "--bind", str(lower), str(target)))
    run_tool(("mount", "-o", "remount,bind,ro", str(target)))


def _mounts() -> Iterator[tuple[Path, str]]:
    """Every mount of this process: where it is, and the kind of file system, those below others behind them."""
    for line in (kernel_text("proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        # The kernel writes blanks and backslashes as octal numbers.
        where = left.split()[4].encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
        yield Path(where), right.split()[0]


def _mounted_files() -> list[Path]:
    return [
        where
        for where, kind in dict(_mounts()).items()
        if kind in _FILES and where != Path("/") and not any(where.is_relative_to(other) for other in _OTHERS)
    ]


def remove_place(place: Path) -> None:
    """End what runs in the place of a platform, and remove it; one that is gone is fine.

    Raises:
        VtareError: some of it is still there.
    """
    end_in(place)
    if _platform(place) == "docker":
        with suppress(ToolFailed):
            run_tool(("docker", "rmi", "--force", place.name))
    for where, _ in reversed(list(_mounts())):
        if where.is_relative_to(place):
            try:
                run_tool(("umount", str(where)))
            except ToolFailed:
                run_tool(("umount", "--lazy", str(where)))
    if any(where.is_relative_to(place) for where, _ in _mounts()):
        raise MachineCannot(f"{place} is still mounted. Unmount it: umount --recursive {place / ROOT}")
    if os.path.lexists(place):
        remove_files(place)


def end_in(place: Path) -> None:
    """End the containers or sandboxes of this place that were not ended by their own tool."""
    platform = _platform(place)
    if platform == "podman":
        for _ in range(_TRIES):
            # One that is just being made or removed is refused.
            with suppress(ToolFailed):
                named = run_tool(podman.podman("ps", *_NAMED, f"name=^{place.name}(-[0-9]+)?$")).split()
                run_tool(podman.podman("rm", "--force", "--ignore", "--time", "0", place.name, *named))
                return
    elif platform == "docker":
        with suppress(ToolFailed):
            for one in run_tool(("docker", "ps", *_NAMED, f"name=^{place.name}(-[0-9]+)?$")).split():
                with suppress(ToolFailed):
                    run_tool(("docker", "rm", "--force", one))
    elif platform == "gvisor" and (place / "state").is_dir():
        tool = gvisor.tool_words(place, None, "host")
        with suppress(ToolFailed):
            for one in run_tool((*tool, "list", "-quiet")).split():
                with suppress(ToolFailed):
                    run_tool((*tool, "delete", "--force", one))


def _platform(place: Path) -> str:
    return place.name.rsplit("-", 2)[1]


def leftovers() -> tuple[Leftover, ...]:
    """What killed runs left; what still runs in a control group ends first."""
    return (*group.leftovers(), *places_left(_KIND, remove_place))


def remove_leftovers() -> None:
    """Remove what killed runs left; what cannot be removed now is no reason not to measure."""
    remove_work_directories()
    for leftover in leftovers():
        if leftover.kept_because is None:
            with suppress(VtareError, OSError):
                leftover.remove()
