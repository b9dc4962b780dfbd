"""The `ssh` platform: an instance is a machine that stands somewhere and lets this user in.

A plan names it: `[platforms.NAME]` with `kind = "ssh"`, `host`, and where the user's own SSH configuration lacks
them, `user`, `port`, `key_file`, `known_hosts`, `host_key_alias` (the name under which `known_hosts` has the machine's
key, where that is not `host`: machines made from one template have one key); `address` is its address for measurements
where that is another than `host`, `interface` the network device to capture on, `directory` where to work (default
/tmp). With several hosts, parted by commas, each is one instance.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, MachineCannot, PlatformFailed, bad_value, instead_of
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.binary import digest, not_static
from vtare.platforms.endpoint_names import refusal
from vtare.platforms.intake import Incoming, printable
from vtare.platforms.lacks import together
from vtare.platforms.notes import PlatformNotes
from vtare.platforms.owner import Leftover, own_prefix, owner_of, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources, Settings
from vtare.platforms.remote import Login, Machine, missing_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site

_TEXTS: Final = ("host", "user", "key_file", "known_hosts", "host_key_alias", "address", "interface", "directory")
_NOTES: Final = PlatformNotes("ssh")
_LARGEST_PORT: Final = 65_535
#: Names of the notes of machines that this process is connected to.
_open: Final[set[str]] = set()
#: What a connection takes here.
CONNECTION: Final = Need(memory_byte=4 << 20, processes=1)


class SshInstance:
    """One machine, reached over one connection."""

    def __init__(self, machine: Machine, address: str, interface: str | None, facts: Settings) -> None:
        """Take over a connection."""
        self._machine = machine
        self._address = address
        self._interface = interface
        self._facts = facts
        self._about: Mapping[str, object] | None = None
        self.name = str(machine.login)

    def describe(self, name: str, about: Mapping[str, object], interface: str | None) -> None:
        """Take a name, facts and the host-side interface from a platform that has made this machine."""
        self.name = name
        self._about = about
        self._interface = interface

    def stands_at(self, address: str, interface: str | None) -> None:
        """See `Server.stands_at`."""
        self._address, self._interface = address, interface

    @property
    def address(self) -> str | None:
        """Its address for measurements."""
        return self._address

    def start(
        self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path, before: Sequence[str] = ()
    ) -> Child:
        """Copy the directory's files there and start the binary. See `Server.start`.

        They lie elsewhere there: paths in arguments and in JSON files are translated.
        """
        here, there = str(directory), self._there(directory)
        files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
        translated = {
            name: content.replace(here.encode(), there.encode()) if name == "run.json" else content
            for name, content in files.items()
        }
        self._machine.put(translated, there)
        words = [word.replace(here, there) for word in arguments]
        return self._machine.start(words, directory=there, stdout=stdout, stderr=stderr, before=before)

    def run(self, words: Sequence[str]) -> str:
        """See `Server.run`."""
        # A shell that nobody logged in to may lack the tools of the administrator.
        code, text = self._machine.run(f"PATH=$PATH:/usr/sbin:/sbin {shlex.join(words)}")
        if code != 0:
            raise network.refusal(words, code, f"on {self._machine.login}: {printable(text)}")
        return text

    @property
    def lost(self) -> bool:
        """See `Instance.lost`."""
        return self._machine.lost

    def keep(self, seconds: float) -> None:
        """See `Instance.keep`."""
        self._machine.keep(seconds)

    def undo_with(self, commands: Sequence[Sequence[str]]) -> None:
        """See `Server.undo_with`."""
        lines = ["PATH=$PATH:/usr/sbin:/sbin", *map(shlex.join, commands)]
        self._machine.put({"undo": ("\n".join(lines) + "\n").encode()}, self._machine.directory)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Copy back what is expected. See `Instance.fetch`."""
        for name, most_byte in expected.items():
            with Incoming(directory, name, most_byte, str(self._machine.login)) as incoming:
                self._machine.get(self._there(directory), incoming)
                incoming.keep()

    def facts(self) -> Mapping[str, object]:
        """How it was reached, and the hash of the binary on it; of a machine that was made, what it is made of."""
        guest = {} if self._about is None else {"guest": dict(self._about)}
        return {"remote": dict(self._facts), **guest}

    def capture_interface(self) -> str | None:
        """The network device that the plan names, on the machine itself, or that its platform knows on the host."""
        return self._interface

    def _there(self, directory: Path) -> str:
        return f"{self._machine.directory}/{directory.name}"


class SshPlatform(BasePlatform[SshInstance]):
    """Machines that are there already. Whether one accepts this user is found out in `start`."""

    name: Final = "ssh"
    LAYER = Layer.MACHINE
    FURNISHED = True
    REACHED = True
    ELSEWHERE = True
    WORDS = "a machine over SSH"
    #: Whether a note is kept of each machine until it is left: one that is made for a run has a note of its own.
    noted = True

    def _checked(self, settings: dict[str, str | int]) -> dict[str, str | int]:
        return _checked(settings)

    def _missing(self, resources: Resources) -> str | None:
        named = "host" in self._settings
        return together(
            None if named else 'names no machine; add `[platforms.ssh]` with `host = "..."` to the plan',
            missing_library(),
            not_static(self._binary),
        )

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What a connection takes here."""
        return CONNECTION

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[SshInstance]:
        refuse_site(site)
        hosts = [host.strip() for host in str(self._settings["host"]).split(",")]
        if indices.stop > len(hosts):
            raise PlatformFailed(f"platform ssh has {len(hosts)} machines, {indices.stop} were asked for")
        return [self._one(hosts[index], index) for index in indices]

    def _make(self, index: int, site: Site | None, resources: Resources) -> SshInstance:
        return self._make_all(range(index, index + 1), site, resources)[0]

    def _one(self, host: str, number: int) -> SshInstance:
        text = {key: str(value) for key, value in self._settings.items()}
        user, _, name = host.rpartition("@")
        port = self._settings.get("port")
        login = Login(
            host=name,
            user=user or text.get("user"),
            port=None if port is None else int(port),
            key_file=text.get("key_file"),
            known_hosts=text.get("known_hosts"),
            host_key_alias=text.get("host_key_alias"),
        )
        place = f"{text.get('directory', '/tmp').rstrip('/')}/{self._owner}-ssh-{id(self):x}-{number}"
        machine = Machine(login, place, self._owner)
        self._removals.callback(self._leave, machine)
        if self.noted:
            _end_earlier(login)
            _open.add(_name(machine))
            _NOTES.write(_name(machine), {"directory": place, **asdict(login)})
        machine.open(self._binary)
        facts = {"host": str(login), "binary_sha256": digest(self._binary)}
        return SshInstance(machine, text.get("address", name), text.get("interface"), facts)

    def _leave(self, machine: Machine) -> None:
        _open.discard(_name(machine))
        if machine.close() and self.noted:
            _NOTES.drop(_name(machine))


def _name(machine: Machine) -> str:
    """The name of a machine's note."""
    return PurePosixPath(machine.directory).name


def _end_earlier(login: Login) -> None:
    """End what is left on a machine by connections that were cut, and by lab processes that are gone."""
    for name in _NOTES.names():
        owner = owner_of(name)
        gone = owner is not None and (owner == own_prefix() or still_runs(owner) is None)
        if gone and name not in _open and _noted(name) == login:
            _remove(name)


def _noted(name: str) -> Login | None:
    """How to reach the machine of a note; None where there is none (any more)."""
    note = _NOTES.read(name)
    if note is None:
        return None
    note.pop("directory", None)
    return Login(**note)


def leftovers() -> tuple[Leftover, ...]:
    """What gone lab processes may have left on machines of which they kept a note."""
    return _NOTES.leftovers("directory on another machine", _remove)


def _remove(name: str) -> None:
    """End what runs from the directory of a note and remove it, then the note; one that is gone is fine."""
    note, login = _NOTES.read(name), _noted(name)
    if note is None or login is None:
        return
    machine = Machine(login, str(note["directory"]), str(owner_of(name)))
    machine.reach()
    if not machine.close():
        raise PlatformFailed(f"{login}: {machine.directory} could not be removed; run `vtare clean` again")
    _NOTES.drop(name)


def refuse_site(site: Site | None) -> None:
    """A machine over SSH is no part of a topology of the lab.

    Raises:
        MachineCannot: it was asked for behind a bridge of the lab.
    """
    if site is not None:
        raise MachineCannot(
            "a machine over SSH stands behind no bridge of the lab; name the far end with `peer` and run "
            "`vtare serve` there"
        )


def _checked(settings: dict[str, str | int]) -> dict[str, str | int]:
    for key, value in settings.items():
        if key == "port":
            if not isinstance(value, int) or not 0 < value <= _LARGEST_PORT:
                raise BadInput(f"platform 'ssh': port {bad_value(value, f'1 to {_LARGEST_PORT}')}")
        elif key not in _TEXTS:
            raise BadInput(f"platform 'ssh': unknown setting '{key}'{instead_of(key, (*_TEXTS, 'port'))}")
        elif not isinstance(value, str) or not value.strip():
            raise BadInput(f"platform 'ssh': {key} {bad_value(value, 'a string')}")
        else:
            _check_names(key, value)
    return settings


def _check_names(key: str, value: str) -> None:
    """Refuse what could be an option or words for a shell; `host` may name several machines, each with an account."""
    for one in value.split(",") if key == "host" else [value]:
        user, at, name = one.strip().rpartition("@") if key == "host" else ("", "", one)
        reason = refusal(key, name) or (refusal("user", user) if at else None)
        if reason is not None:
            raise BadInput(f"platform 'ssh': {key}: {reason}")
