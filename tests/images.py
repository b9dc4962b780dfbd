"""Images of a busybox, made by hand as `docker save` and OCI tools write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

#: A file (its content), a link (`-> TARGET`), a directory (None).
Tree = Mapping[str, bytes | str | None]

ENVIRONMENT = ["GREETING=from the image", "touch"]
WORKDIR = "/job"


def layer(tree: Tree) -> bytes:
    """The archive of a layer."""
    with io.BytesIO() as held:
        with tarfile.open(fileobj=held, mode="w") as archive:
            for name, content in tree.items():
                entry = tarfile.TarInfo(name)
                entry.mode = 0o755
                if content is None:
                    entry.type = tarfile.DIRTYPE
                elif isinstance(content, str):
                    entry.type, entry.linkname = tarfile.SYMTYPE, content
                else:
                    entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
        return held.getvalue()


def layers(*programs: Path) -> list[bytes]:
    """The layers of an image with programs; the second one takes files of the first one away."""
    placed = {f"bin/{program.name}": program.read_bytes() for program in programs}
    first: Tree = {".": None, "bin": None, "job": None, "etc": None, **placed, "bin/sh": "/bin/busybox"}
    files: Tree = {"old/one": b"1", "old/two": b"2", "gone": b"3"}
    return [layer({**first, **files}), layer({"old/new": b"4", "old/.wh..wh..opq": b"", ".wh.gone": b""})]


#: What is left of their files.
LEFT = {"old/new": "4"}


def config() -> bytes:
    """The configuration of an image."""
    return json.dumps({"config": {"Env": ENVIRONMENT, "WorkingDir": WORKDIR}, "os": "linux"}).encode()


def saved(target: Path, contents: list[bytes]) -> Path:
    """An archive as docker saves it."""
    manifest = [
        {"Config": "config.json", "RepoTags": None, "Layers": [f"{at}/layer.tar" for at in range(len(contents))]}
    ]
    files = {f"{at}/layer.tar": content for at, content in enumerate(contents)}
    target.write_bytes(layer({**files, "config.json": config(), "manifest.json": json.dumps(manifest).encode()}))
    return target


def oci(target: Path, contents: list[bytes], machine: str | None = None) -> Path:
    """A directory in the layout of OCI, its layers compressed, for this machine and another one."""

    def blob(content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        path = target / "blobs/sha256" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    own = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    about = {"config": blob(config()), "layers": [blob(gzip.compress(one)) for one in contents]}
    image = blob(json.dumps(about).encode())
    other = {**image, "platform": {"os": "linux", "architecture": "none"}}
    ours = {**image, "platform": {"os": "linux", "architecture": machine or own}}
    both = blob(json.dumps({"manifests": [other, ours]}).encode())
    (target / "index.json").write_text(json.dumps({"manifests": [both]}))
    return target


def unpacked(root: Path) -> dict[str, str]:
    """The files of an unpacked image."""
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
