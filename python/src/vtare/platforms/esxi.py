"""The `esxi` platform: machines on an ESXi host, made from a template over vSphere's interface and reached over SSH.

A plan names it: `[platforms.NAME]` with `kind = "esxi"`, `server` (an ESXi host or a vCenter), `account`, `template`,
and what `vtare.platforms.ssh` needs to get into the machines. The password comes from the file that `password_file`
names, else from the environment, VTARE_ESXI_PASSWORD. Further settings: `server_port`; `thumbprint` or `ca_file` to
identify the server, or `tls = "insecure"`; `run_on`, `datastore`, `network` where they are not to be the template's.

A machine is noted before it is made (`vtare.platforms.notes`), and `vtare clean` deletes those of gone lab processes.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput, MachineCannot, PlatformFailed, bad_value
from vtare.platforms.esxi_machine import CARDS, Order, VmTemplate, address_of, is_marked
from vtare.platforms.lacks import together
from vtare.platforms.notes import PlatformNotes
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import Resources, Settings
from vtare.platforms.reached import MadePlatform, unnamed
from vtare.platforms.vsphere import HTTPS_PORT, VsphereServer, missing_library, password_of, plain_thumbprint, session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.ssh import SshInstance
    from vtare.platforms.vsphere import Vsphere

_SERVER: Final = ("server", "account", "password_file", "thumbprint", "ca_file", "tls")
_ORDER: Final = ("template", "run_on", "datastore", "network")
_TLS: Final = ("checked", "insecure")
_LARGEST_PORT: Final = 65_535
_MEBIBYTE: Final = 1 << 20
_NOTES: Final = PlatformNotes("esxi")


class EsxiPlatform(MadePlatform):
    """Machines of an ESXi host or a vCenter, made for a run and deleted after it."""

    name: Final = "esxi"
    WORDS = "a machine on ESXi"
    #: A machine's clock source is its own kernel's choice.
    OFFERED = frozenset({"vcpus", "memory_byte", "pinned", "nic"})
    ELSEWHERE = True
    OWN = (*_SERVER, *_ORDER)

    def __init__(self, binary: Path, owner: str, settings: Settings | None = None) -> None:
        """Use this binary; the settings state where and from what machines are made. See `BasePlatform`."""
        given = dict(settings or {})
        if "interface" in given:
            raise BadInput("platform 'esxi': interface: ESXi has no place for vtare's capture; leave it out")
        self._port = _port(given.pop("server_port", HTTPS_PORT))
        super().__init__(binary, owner, given)
        self._own = {key: _text(key, value) for key, value in self._settings.items()}
        # Two tables of one plan may name two servers.
        self._token = secrets.token_hex(4)

    def _missing(self, resources: Resources) -> str | None:
        """Logs in to see whether the template is there."""
        if resources.nic is not None and resources.nic not in CARDS:
            return f"ESXi has no network card '{resources.nic}': use one of: {', '.join(CARDS)}"
        if resources.memory_byte is not None and resources.memory_byte % (4 * _MEBIBYTE):
            return f"ESXi gives memory in steps of 4 MiB, not {resources.memory_byte} B"
        reason = together(
            unnamed(self._own, ("server", "account", "template")), missing_library(), self._reached.missing()
        )
        if reason is not None:
            return reason
        return self._look(resources)

    def _look(self, resources: Resources) -> str | None:
        """Why the server gives no such machines, or None."""
        try:
            password_of(self._server())
            with session(self._server()) as vsphere:
                self._place(vsphere).refuse_beyond(1, resources)
        except (MachineCannot, PlatformFailed) as error:
            return str(error)
        return None

    def _make_machines(self, indices: range, resources: Resources) -> Sequence[SshInstance]:
        with session(self._server()) as vsphere:
            place = self._place(vsphere)
            place.refuse_beyond(len(indices), resources)
            made = [self._one(vsphere, place, resources, index) for index in indices]
            # They start beside each other; each is waited for once all have been started.
            return [
                self._reached.reach(name, address_of(machine, name), place.facts(machine)) for name, machine in made
            ]

    def _one(self, vsphere: Vsphere, place: VmTemplate, resources: Resources, index: int) -> tuple[str, Any]:
        name = f"{self._owner}-esxi-{self._token}-{index}"
        mark = secrets.token_hex(16)
        _NOTES.write(name, {"mark": mark, "server": vsphere.server.document()})
        self._removals.callback(_delete, name)
        return name, place.make(name, mark, resources)

    def _place(self, vsphere: Vsphere) -> VmTemplate:
        own = self._own
        return VmTemplate(vsphere, Order(own["template"], own.get("run_on"), own.get("datastore"), own.get("network")))

    def _server(self) -> VsphereServer:
        own = self._own
        return VsphereServer(
            own["server"],
            own["account"],
            self._port,
            own.get("password_file"),
            own.get("thumbprint"),
            own.get("ca_file"),
            own.get("tls") == "insecure",
        )


def leftovers() -> tuple[Leftover, ...]:
    """Machines of which gone lab processes have left a note."""
    return _NOTES.leftovers("ESXi machine", _delete)


def _delete(name: str) -> None:
    """Stop and delete the machine of a note with its files, and then the note; one that is gone is fine."""
    note = _NOTES.read(name)
    if note is None:
        return
    with session(VsphereServer(**note["server"])) as vsphere:
        from pyVmomi import vim

        machines = vsphere.find(vim.VirtualMachine, name)
        if not machines and vsphere.makes_machines():
            raise PlatformFailed(
                f"{vsphere.server.host}: there is no machine {name}, but the server is making one, which it may be; "
                "run `vtare clean` again when it is done"
            )
        for machine in machines:
            if not is_marked(machine, str(note["mark"])):
                raise PlatformFailed(
                    f"{vsphere.server.host}: the machine {name} is not the one that was noted; it stays. "
                    "Delete it by hand if it is yours"
                )
            if str(machine.runtime.powerState) != "poweredOff":
                vsphere.wait(machine.PowerOffVM_Task(), f"stop {name}")
            vsphere.wait(machine.Destroy_Task(), f"delete {name}")
    _NOTES.drop(name)


def _port(value: str | int) -> int:
    if not isinstance(value, int) or not 0 < value <= _LARGEST_PORT:
        raise BadInput(f"platform 'esxi': server_port {bad_value(value, f'1 to {_LARGEST_PORT}')}")
    return value


def _text(key: str, value: str | int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"platform 'esxi': {key} {bad_value(value, 'a string')}")
    if key == "tls" and value not in _TLS:
        raise BadInput(f"platform 'esxi': tls {bad_value(value, _TLS)}")
    if key == "thumbprint" and plain_thumbprint(value) is None:
        raise BadInput(
            f"platform 'esxi': thumbprint {bad_value(value, 'the SHA-256 of the certificate, 64 hexadecimal digits')}"
        )
    return value
