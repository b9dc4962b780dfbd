"""The files that `vtare weigh` runs a command on instead of this machine's: images unpacked, and what is none."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import images
import pytest

from vtare.errors import BadInput, MachineCannot
from vtare.process import ToolFailed
from vtare.weigh import image, layer
from vtare.weigh.image import Root, given_root


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where images are unpacked; as root, for whom alone they are."""
    monkeypatch.setattr(layer, "PLACES", tmp_path / "places")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_, **__: None)
    monkeypatch.setattr(os, "lchown", lambda *_, **__: None)
    return tmp_path / "places/weigh"


def unpacked(source: Path | str) -> tuple[Root, dict[str, str]]:
    """An image's facts and files; nothing is left of it then."""
    with given_root(None, str(source), lambda _: None) as root:
        assert root is not None
        held = images.unpacked(root.directory)
        assert oct(root.directory.parent.stat().st_mode)[-3:] == "700"
    assert not root.directory.parent.exists()
    return root, held


@pytest.mark.parametrize("make", [images.saved, images.oci])
def test_layers_lie_on_top_of_each_other_and_take_files_away(
    make: Callable[[Path, list[bytes]], Path], tmp_path: Path
) -> None:
    source = tmp_path / "image"
    if make is images.oci:
        source.mkdir()
    root, held = unpacked(make(source, images.layers()))
    assert held == images.LEFT
    assert root.workdir == images.WORKDIR
    assert root.environment["GREETING"] == "from the image"
    assert root.environment["PATH"].startswith("/")
    # What has no value is no variable.
    assert len(root.environment) == 2


def test_a_name_is_saved_by_who_has_it_or_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(words: list[str], **_: object) -> str:
        tool = "docker" if "docker" in words else "podman"
        asked.append(f"{tool} {next(word for word in words if word in ('inspect', 'pull', 'save'))}")
        if tool == "docker" or "inspect" in words:
            raise ToolFailed(words, "no daemon")
        if "save" in words:
            images.saved(Path(words[words.index("--output") + 1]), images.layers())
        return ""

    monkeypatch.setattr(image, "run_tool", run)
    monkeypatch.setattr(image.shutil, "which", lambda tool: tool)
    assert unpacked("job:1")[1] == images.LEFT
    assert asked == ["docker inspect", "docker pull", "podman inspect", "podman pull", "podman save"]
    monkeypatch.setattr(image.shutil, "which", lambda tool: tool if tool == "docker" else None)
    with pytest.raises(BadInput, match="docker: no daemon; podman: not installed"):
        unpacked("job:1")


@pytest.mark.parametrize(
    "tree", [{"out": "/", "out/tmp/vtare-escaped": b"1"}, {"../vtare-escaped": b"1"}, {"d/../../vtare-escaped": b"1"}]
)
def test_an_archive_writes_nothing_outside_of_its_root(tree: images.Tree, tmp_path: Path, places: Path) -> None:
    with pytest.raises(BadInput, match="leads out of it"):
        unpacked(images.saved(tmp_path / "image", [images.layer(tree)]))
    assert not list(places.iterdir())
    assert not list(tmp_path.rglob("*escaped"))
    assert not Path("/tmp/vtare-escaped").exists()


def test_an_absolute_name_is_one_of_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "absolute"
    held = unpacked(images.saved(tmp_path / "image", [images.layer({str(outside): b"1"})]))[1]
    assert held == {str(outside).lstrip("/"): "1"}
    assert not outside.exists()


def test_links_are_replaced_and_never_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    held = unpacked(images.saved(
        tmp_path / "image", [images.layer({"etc/file": str(outside)}), images.layer({"etc/file": b"theirs"})]
    ))[1]  # fmt: skip
    assert (held, outside.read_text()) == ({"etc/file": "theirs"}, "mine")


def test_hard_links_stay_inside_and_devices_are_left_out(tmp_path: Path) -> None:
    for target, is_inside in (("a", True), ("../../../../etc/passwd", False)):
        with io.BytesIO() as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                archive.addfile(tarfile.TarInfo("a"))
                for name, kind in (("b", tarfile.LNKTYPE), ("null", tarfile.CHRTYPE)):
                    entry = tarfile.TarInfo(name)
                    entry.type, entry.linkname = kind, target if kind == tarfile.LNKTYPE else ""
                    archive.addfile(entry)
            source = images.saved(tmp_path / "image", [file.getvalue()])
        if is_inside:
            assert unpacked(source)[1] == {"a": "", "b": ""}
        else:
            with pytest.raises(BadInput, match="leads out"):
                unpacked(source)


def test_what_is_no_image_states_why_and_leaves_nothing(tmp_path: Path, places: Path) -> None:
    text, empty, other = tmp_path / "text", tmp_path / "empty", tmp_path / "other"
    text.write_text("no archive")
    empty.mkdir()
    other.mkdir()
    torn = images.saved(tmp_path / "torn", images.layers())
    torn.write_bytes(torn.read_bytes()[:3000])
    bad = tmp_path / "bad"
    bad.write_bytes(images.layer({"manifest.json": json.dumps([{"Layers": []}]).encode()}))
    linked, looped = tmp_path / "linked", tmp_path / "looped"
    linked.mkdir()
    (linked / "index.json").symlink_to(text)
    looped.mkdir()
    (looped / "index.json").symlink_to("index.json")
    for source, reason in (
        (text, "no tar archive"),
        (empty, "no manifest"),
        (bad, "no manifest"),
        (torn, "torn' is no image"),
        (linked, "leads out"),
        (looped, "no manifest"),
        (images.oci(other, images.layers(), "other"), "0 images for this machine"),
    ):
        with pytest.raises(BadInput, match=reason):
            unpacked(source)
    assert not list(places.iterdir())


def test_a_directory_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with given_root(tmp_path, None, lambda _: None) as root:
        assert root is not None
        assert (root.directory, root.workdir) == (tmp_path, "/")
    with given_root(None, None, lambda _: None) as root:
        assert root is None
    with pytest.raises(BadInput, match="is no directory"), given_root(tmp_path / "none", None, lambda _: None):
        pass
    with pytest.raises(BadInput, match="exclude each other"), given_root(tmp_path, "job:1", lambda _: None):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineCannot, match="need root"), given_root(tmp_path, None, lambda _: None):
        pass


def test_a_root_gets_what_platforms_need_and_no_link_leads_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, binary, outside = tmp_path / "root", tmp_path / "binary", tmp_path / "outside"
    (root / "etc").mkdir(parents=True)
    outside.mkdir()
    (root / "tmp").symlink_to(outside)
    (root / "vtare").symlink_to(outside / "vtare")
    (root / "etc/hosts").symlink_to(outside / "hosts")
    binary.write_bytes(b"program")
    # Where nothing can be mounted, files are copied.
    monkeypatch.setattr(layer, "_overlay", lambda *_: False)
    place = layer.offer("bubblewrap", 1, root, binary)
    inside = place / "rootfs"
    assert sorted(path.name for path in inside.iterdir()) == ["dev", "etc", "proc", "sys", "tmp", "usr", "vtare"]
    assert (inside / "vtare").read_bytes() == b"program"
    assert not any(path.is_symlink() for path in (inside / "tmp", inside / "vtare", inside / "etc/hosts"))
    assert (list(outside.iterdir()), (root / "tmp").is_symlink()) == ([], True)
    layer.remove_place(place)
    assert not place.exists()
