"""The hosts of a fleet: the file that names them (`hosts.toml`), and hosts that are only simulated."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput, bad_value, instead_of
from vtare.platforms import open_platform
from vtare.platforms.endpoint_names import refusal
from vtare.stored.paths import read_named
from vtare.topology.named_hosts import (
    HOST_KEYS,
    HOST_NAME,
    RESPONDER,
    ROLES,
    ROUTER_KEYS,
    SENDER,
    THIS_MACHINE,
    HostSpec,
    host_kinds,
)

if TYPE_CHECKING:
    from vtare.platforms.protocol import Settings

#: The largest file of hosts that is read.
_MOST_BYTE: Final = 4 << 20
HOSTS_SCHEMA: Final = "vtare.hosts/1"
#: What a host can be where its table states no roles.
USUAL_ROLES: Final = (SENDER, RESPONDER)
#: How many hosts a dry run may have.
MOST_SIMULATED: Final = 4096
#: Keys of a host's table that are no settings of its platform.
_SPEC_KEYS: Final = tuple(key for key in (*HOST_KEYS, *ROUTER_KEYS) if key != "platform")


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host: its name, the roles that it can have, and how it is reached.

    `settings` are those of a plan's table `[platforms.NAME]`; `spec` has its address for measurements and its devices.
    `agent` is the Python there that runs an agent, None where the host has none.
    """

    name: str
    roles: tuple[str, ...] = USUAL_ROLES
    settings: Settings = field(default_factory=dict)
    spec: HostSpec = field(default_factory=lambda: HostSpec(THIS_MACHINE))
    agent: str | None = None

    @property
    def reached_at(self) -> str:
        """How it is reached, in words."""
        settings = self.settings
        if "host" not in settings:
            return f"namespace {settings['namespace']}" if "namespace" in settings else "this machine"
        return f"{settings['kind']} {settings['user']}@{settings['host']}" if "user" in settings else (
            f"{settings['kind']} {settings['host']}"
        )  # fmt: skip


def have_agents(hosts: Sequence[FleetHost]) -> bool:
    """Whether these hosts have agents: all of them do, or none."""
    return any(host.agent is not None for host in hosts)


def simulated_hosts(number: int) -> tuple[FleetHost, ...]:
    """Hosts that can have every role, of which none exists."""
    width = len(str(number))
    return tuple(FleetHost(f"h{i:0{width}}", ROLES) for i in range(1, number + 1))


def hosts_of(text: str) -> tuple[FleetHost, ...]:
    """Read what names hosts: the path of a file, or `HOST,USER@HOST:PORT,...`, which are reached over SSH.

    Raises:
        BadInput: as `load_hosts`; a name is none, or stands twice.
    """
    path = Path(text)
    if path.suffix == ".toml" or path.exists():
        return load_hosts(path)
    tables: dict[str, dict[str, Any]] = {}
    for word in (part.strip() for part in text.split(",")):
        # An address of IPv6 stands in brackets where a port follows; the platform reads the account in `host`.
        parts = re.fullmatch(r"(?P<at>(?:[^@]*@)?)\[?(?P<host>[^\[\]]*?)\]?(?::(?P<port>\d+))?", word)
        if parts is None or not parts["host"]:
            raise _not_hosts(text, f"'{word}' is no host")
        host, port = parts["host"], parts["port"]
        if ":" in host and "[" not in word:
            host, port = f"{host}:{port}" if port else host, None
        table: dict[str, Any] = {"host": f"{parts['at']}{host}"}
        if port:
            table["port"] = int(port)
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", host) + (f"-{port}" if port else "")
        if name in tables:
            raise _not_hosts(text, f"'{word}' is named twice")
        tables[name] = table
    return _HostsReader(Path(text)).hosts({"schema": HOSTS_SCHEMA, "hosts": tables})


def _not_hosts(text: str, what: str) -> BadInput:
    return BadInput(f"'{text}': {what}. Write host,user@host:port, or the path of a file of hosts")


def load_hosts(path: Path) -> tuple[FleetHost, ...]:
    """Read a file of hosts.

    Raises:
        BadInput: it cannot be read, or names no hosts, or a key or value is wrong.
    """
    try:
        table = tomllib.loads(read_named(path, _MOST_BYTE).decode("utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{path}: cannot read the hosts: {error.strerror or error}; name a file of hosts") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from error
    return _HostsReader(path).hosts(table)


class _HostsReader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def _error(self, where: str, what: str) -> BadInput:
        return BadInput(f"{self._path}: {where}: {what}")

    def _bad_value(self, where: str, value: object, use: str | Iterable[str]) -> BadInput:
        return BadInput(f"{self._path}: {where} {bad_value(value, use)}")

    def hosts(self, table: Mapping[str, Any]) -> tuple[FleetHost, ...]:
        self._known(table, ("schema", "hosts"), "the file")
        if table.get("schema") != HOSTS_SCHEMA:
            raise self._bad_value("schema", table.get("schema"), f"'{HOSTS_SCHEMA}'")
        hosts = table.get("hosts")
        if not isinstance(hosts, dict) or not hosts:
            raise self._bad_value("hosts", hosts, "a table [hosts.NAME] for each host")
        made = tuple(self._host(name, entry) for name, entry in hosts.items())
        for one, other in ((a, b) for i, a in enumerate(made) for b in made[:i]):
            if one.settings == other.settings:
                raise self._error(
                    f"hosts.{one.name}",
                    f"is the same machine as hosts.{other.name}, and two runs would be on it at once; leave one out",
                )
            if (one.agent is None) != (other.agent is None):
                bare, agent = (one, other) if one.agent is None else (other, one)
                raise self._bad_value(
                    f"hosts.{bare.name}.agent", None, f"the path of a Python, as hosts.{agent.name} has: all or none"
                )
        return made

    def _host(self, name: str, table: Any) -> FleetHost:
        where = f"hosts.{name}"
        if not HOST_NAME.fullmatch(name):
            raise self._error(where, "a name has letters, digits, '-', '_' and '.', 63 at most")
        if not isinstance(table, dict):
            raise self._bad_value(where, table, 'a table with `host`, or kind = "host"')
        for key, value in table.items():
            if key != "roles" and (isinstance(value, bool) or not isinstance(value, str | int)):
                raise self._bad_value(f"{where}.{key}", value, "a text or an integer")
            if key in _SPEC_KEYS and (reason := refusal(key, value)) is not None:
                raise self._error(f"{where}.{key}", reason)
        spec = {key: str(table[key]) for key in _SPEC_KEYS if key in table}
        settings = {key: value for key, value in table.items() if key not in (*_SPEC_KEYS, "roles", "agent")}
        settings.setdefault("kind", "ssh")
        if settings["kind"] not in host_kinds():
            raise self._bad_value(f"{where}.kind", settings["kind"], host_kinds())
        if settings["kind"] == "ssh" and "host" not in settings:
            raise self._bad_value(f"{where}.host", None, 'the address of the machine, or kind = "host"')
        try:
            open_platform(name, binary=Path("vtare"), owner="vtare", settings=settings)
        except BadInput as error:
            raise self._error(where, str(error)) from error
        agent = table.get("agent")
        if agent is not None and (settings["kind"] != "ssh" or not isinstance(agent, str)):
            raise self._bad_value(f"{where}.agent", agent, "the path of a Python, on a host of kind 'ssh'")
        roles = self._roles(table.get("roles", list(USUAL_ROLES)), f"{where}.roles")
        return FleetHost(name, roles, settings, HostSpec(name, **spec), agent)

    def _roles(self, found: Any, where: str) -> tuple[str, ...]:
        if not isinstance(found, list) or not found or any(role not in ROLES for role in found):
            raise self._bad_value(where, found, f"a list of: {', '.join(ROLES)}")
        return tuple(role for role in ROLES if role in found)

    def _known(self, table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in keys:
                raise self._error(where, f"unknown key '{key}'{instead_of(key, keys)}")
