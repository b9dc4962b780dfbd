"""The `docker` platform: an instance is a container of an empty image, in which the static binary is mounted.

The container's first process is `vtare load idle`; every program of a run is started in it by the daemon (`exec`), and
runs under all that the daemon imposes. Files go in and out as archives. The network device is the lab's own pair of
virtual Ethernet devices, as the daemon would make one, so that its host side stands behind the site's bridge.
"""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards, Layer, Nearby
from vtare.platforms.binary import digest, not_static
from vtare.platforms.docker_exec import ExecChild
from vtare.platforms.intake import PIECE_BYTE, Incoming, printable
from vtare.platforms.lacks import library, together
from vtare.platforms.owner import OWNER_VARIABLE, Leftover, owner_of, still_runs
from vtare.platforms.protocol import CONTAINER_RESOURCES, DEFAULT_RESOURCES, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site

_BINARY: Final = "/vtare"
_TIMEOUT_S: Final = 120
_SOCKET: Final = "unix:///var/run/docker.sock"


class DockerInstance(Nearby):
    """One running container."""

    def __init__(
        self, client: Any, name: str, owner: str, site: Site | None, index: int, about: dict[str, Any], pid: int
    ) -> None:
        """Take over a running container of this name; `pid` is its first process, as the daemon's machine knows it."""
        self._client = client
        self.pid = pid
        self._owner = owner
        self._site = site
        self._index = index
        self._about = about
        self.name = name

    @property
    def address(self) -> str | None:
        """Its address behind the site's bridge."""
        return None if self._site is None else self._site.instance_address(self._index)

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Copy the directory's files in and start the binary by the daemon's `exec`. See `Instance.start`."""
        packed = _packed(directory)
        with _failures(f"container {self.name}"):
            self._client.put_archive(self.name, "/", packed)
            made = self._client.exec_create(
                self.name, [_BINARY, *arguments], workdir=str(directory), environment={OWNER_VARIABLE: self._owner}
            )
            return ExecChild(self._client, made["Id"], stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Copy out what is expected. See `Instance.fetch`."""
        for name, most_byte in expected.items():
            source = f"container {self.name}"
            with Incoming(directory, name, most_byte, source) as incoming:
                with _failures(f"{source}: {name}"):
                    chunks, _ = self._client.get_archive(self.name, str(directory / name))
                    with closing(chunks):
                        _unpack(chunks, incoming, source)
                incoming.keep()

    def facts(self) -> Mapping[str, object]:
        """What the container was given, and facts of its network device."""
        device = {} if self._site is None else {"device": network.interface_facts(self._inside(), "eth0")}
        return {"container": dict(self._about), **device}

    def capture_interface(self) -> str | None:
        """The bridge port in front of it."""
        return None if self._site is None else self._site.port(self._index)

    def _inside(self) -> str:
        return "" if self._site is None else self._site.instance_namespace(self._index)


class DockerPlatform(BasePlatform[DockerInstance]):
    """Containers of the Docker daemon that DOCKER_HOST names, else of the machine's."""

    name: Final = "docker"
    LAYER = Layer.CONTAINER
    FORWARDS = Forwards.CONTAINER
    WORDS = "a container"
    OFFERED = CONTAINER_RESOURCES
    _client: Any = None

    def _missing(self, resources: Resources) -> str | None:
        daemon = _missing_daemon()
        if daemon is None:
            try:
                self._connect()
            except MachineCannot as error:
                daemon = str(error)
        return together(daemon, not_static(self._binary), network.missing_tools())

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one container takes: measured at 4.4 MiB and a dozen threads with the process that minds it."""
        return Need(memory_byte=8 << 20, processes=16, disk_byte=1 << 20)

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[DockerInstance]:
        with _failures("docker"):
            self._make_image(self._connect())
            return super()._make_all(indices, site, resources)

    def _connect(self) -> Any:
        if self._client is None:
            self._client = _connect()
        return self._client

    @property
    def _image(self) -> str:
        return f"{self._owner}-image"

    def _make_image(self, client: Any) -> None:
        self._removals.callback(self._remove_image)
        if not client.images(name=self._image):
            client.import_image_from_data(_empty_root(), repository=self._image, tag="latest")

    def _remove_image(self) -> None:
        # Another platform of this lab process may still have containers of it: the last one removes it.
        with _failures(f"image {self._image} could not be removed"), suppress(_library().errors.APIError):
            self._client.remove_image(f"{self._image}:latest")

    def _make(self, index: int, site: Site | None, resources: Resources) -> DockerInstance:
        client = self._connect()
        name = f"{self._owner}-docker-{index}" if site is None else f"{site.instance_namespace(index)}-docker"
        given: dict[str, Any] = {"network_mode": "none", "binds": [f"{self._binary}:{_BINARY}:ro"]}
        if resources.vcpus is not None:
            given |= {"cpu_period": 100_000, "cpu_quota": 100_000 * resources.vcpus}
        if resources.memory_byte is not None:
            given |= {"mem_limit": resources.memory_byte, "memswap_limit": resources.memory_byte}
        if resources.pinned is not None:
            given["cpuset_cpus"] = ",".join(map(str, resources.pinned))
        self._removals.callback(_remove_container, client, name)
        if site is not None:
            self._removals.callback(network.detach, site, index)
        client.create_container(
            f"{self._image}:latest",
            [_BINARY, "load", "idle"],
            name=name,
            # One name for all: the report distinguishes machines by their host name, and this is one.
            hostname="vtare-docker",
            user=f"{os.getuid()}:{os.getgid()}",
            host_config=client.create_host_config(**given),
            labels={OWNER_VARIABLE: self._owner},
        )
        client.start(name)
        about = client.inspect_container(name)
        pid = int(about["State"]["Pid"])
        if site is not None:
            inside = site.instance_namespace(index)
            network.carry_out(network.adopt(inside, pid))
            network.carry_out(network.plug_in(site, index))
            network.wait_forwarding([(inside, "eth0"), (site.namespace, site.port(index))])
        version = client.version()
        facts = {
            "engine": "docker",
            "version": version.get("Version"),
            "storage_driver": about.get("Driver"),
            "runtime": about["HostConfig"].get("Runtime"),
            "cpu_quota_us": about["HostConfig"].get("CpuQuota") or None,
            "memory_limit_byte": about["HostConfig"].get("Memory") or None,
            "pinned": about["HostConfig"].get("CpusetCpus") or None,
            "binary_sha256": digest(self._binary),
        }
        return DockerInstance(client, name, self._owner, site, index, facts, pid)


def leftovers() -> tuple[Leftover, ...]:
    """Containers and images that lab processes left in the daemon; none where no daemon can be reached."""
    try:
        client = _connect()
    except MachineCannot:
        return ()
    with _failures("docker: what it holds cannot be listed"):
        return tuple(_found_in(client))


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Make what the daemon refuses, and a connection to it that fails, a failure of this platform alone."""
    docker = _library()
    try:
        yield
    except (docker.errors.DockerException, docker.api.client.requests.exceptions.RequestException) as error:
        raise PlatformFailed(f"{what}: {printable(error)}") from error


def _found_in(client: Any) -> Iterator[Leftover]:
    for container in client.containers(all=True, filters={"name": "vtare-"}):
        name = str(container["Names"][0]).lstrip("/")
        owner = owner_of(name)
        if owner is not None:
            yield Leftover("container", name, still_runs(owner), partial(_remove_container, client, name))
    for image in client.images():
        for tag in image.get("RepoTags") or ():
            owner = owner_of(tag.partition(":")[0])
            if owner is not None:
                yield Leftover("image", tag, still_runs(owner), partial(_remove_tag, client, tag))


def _remove_container(client: Any, name: str) -> None:
    """Remove a container; one that is gone, or that another process removes, is fine."""
    docker = _library()
    with _failures(f"container {name} could not be removed"):
        try:
            client.remove_container(name, force=True, v=True)
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if "is already in progress" not in str(error):
                raise


def _remove_tag(client: Any, tag: str) -> None:
    with _failures(f"image {tag} could not be removed"), suppress(_library().errors.NotFound):
        client.remove_image(tag)


def _library() -> Any:
    try:
        import docker
    except ImportError as error:
        raise MachineCannot("the Python package 'docker' is missing; install it with `pip install docker`") from error
    return docker


def _place() -> str:
    return os.environ.get("DOCKER_HOST", _SOCKET)


def _missing_daemon() -> str | None:
    """Why no daemon can be asked, or None; asks none."""
    where = _place()
    if not where.startswith("unix://"):
        daemon = f"DOCKER_HOST is {where}: use a daemon of this machine, such as {_SOCKET}"
    elif Path(where.removeprefix("unix://")).exists():
        daemon = None
    else:
        daemon = f"no Docker daemon at {where}; start one (install docker.io) or set DOCKER_HOST"
    return together(daemon, library("docker", "docker"))


def _connect() -> Any:
    docker = _library()
    reason = _missing_daemon()
    if reason is not None:
        raise MachineCannot(reason)
    where = _place()
    try:
        return docker.APIClient(base_url=where, version="auto", timeout=_TIMEOUT_S)
    except docker.errors.DockerException as error:
        raise MachineCannot(f"the Docker daemon at {where} does not answer: {error}") from error


def _empty_root() -> bytes:
    """The archive of an image without a single file: the directories that a kernel and a program need."""
    with io.BytesIO() as held:
        with tarfile.open(fileobj=held, mode="w") as archive:
            for name, mode in (("proc", 0o555), ("sys", 0o555), ("dev", 0o755), ("tmp", 0o1777), ("etc", 0o755)):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, mode
                archive.addfile(entry)
        return held.getvalue()


def _packed(directory: Path) -> bytes:
    """An archive of the files of a directory, under its own path, with the directories on the way to it."""
    with io.BytesIO() as held:
        with tarfile.open(fileobj=held, mode="w") as archive:
            for way in (*reversed(directory.parents), directory):
                if way.name:
                    entry = tarfile.TarInfo(str(way).lstrip("/"))
                    about = way.stat()
                    entry.type, entry.mode = tarfile.DIRTYPE, about.st_mode & 0o7777
                    entry.uid, entry.gid = about.st_uid, about.st_gid
                    archive.addfile(entry)
            for path in sorted(directory.iterdir()):
                if path.is_file():
                    archive.add(path, arcname=str(path).lstrip("/"))
        return held.getvalue()


class _Chunks(io.RawIOBase):
    """What comes in chunks, to be read as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            self._rest = next(self._chunks, None) or b""
            if not self._rest:
                return b""
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def _unpack(chunks: Iterator[bytes], incoming: Incoming, source: str) -> None:
    """Take the one file of an archive that comes in chunks.

    Raises:
        PlatformFailed: it holds something else than a regular file, or too long a one, or is damaged.
    """
    name = incoming.path.name
    try:
        with tarfile.open(fileobj=_Chunks(chunks), mode="r|", bufsize=PIECE_BYTE) as packed:
            entry = packed.next()
            content = packed.extractfile(entry) if entry is not None and entry.isreg() else None
            if entry is None or content is None:
                kind = "a symbolic link" if entry is not None and entry.issym() else "something else"
                raise PlatformFailed(f"{source}: {name} is {kind}, not a regular file")
            incoming.announce(entry.size)
            while piece := content.read(PIECE_BYTE):
                incoming.write(piece)
            if incoming.byte != entry.size:
                raise PlatformFailed(f"{source}: {name}: {incoming.byte} B came, the daemon sent {entry.size} B")
    except tarfile.TarError as error:
        raise PlatformFailed(f"{source}: {name} came in no archive ({printable(error)})") from error
