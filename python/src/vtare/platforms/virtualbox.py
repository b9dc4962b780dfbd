"""The `virtualbox` platform: clones of a machine of this host's VirtualBox, by VBoxManage, reached over SSH.

A plan names it: `[platforms.NAME]` with `kind = "virtualbox"`, `template` (a machine that is switched off, runs sshd
and the Guest Additions, and gets an address that this host can reach), and what `vtare.platforms.ssh` needs to get in.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, PlatformFailed, bad_value
from vtare.platforms.intake import printable
from vtare.platforms.lacks import programs, together
from vtare.platforms.owner import Leftover, owner_of, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources, Settings
from vtare.platforms.reached import MadePlatform, unnamed
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.ssh import SshInstance

PROGRAM: Final = "VBoxManage"
#: Model of a network card -> VirtualBox's name of it.
CARDS: Final = {
    "virtio": "virtio",
    "e1000": "82540EM",
    "82540EM": "82540EM",
    "82543GC": "82543GC",
    "82545EM": "82545EM",
    "pcnet": "Am79C973",
    "Am79C973": "Am79C973",
    "Am79C970A": "Am79C970A",
}
_MEBIBYTE: Final = 1 << 20
#: VBoxHeadless beside the guest's memory, rounded up from what VirtualBox's documentation suggests to leave free.
_OWN_MEMORY: Final = 256 * _MEBIBYTE
_OWN_THREADS: Final = 32
_ANSWER_S: Final = 60.0
_CLONE_S: Final = 1800.0
_ADDRESS_S: Final = 600.0
_LOOK_S: Final = 1.0
_ADDRESS: Final = "/VirtualBox/GuestInfo/Net/0/V4/IP"
_LISTED: Final = re.compile(r'^"(?P<name>.*)" \{[0-9a-f-]+\}$', re.MULTILINE)
_FACT: Final = re.compile(r'^"?(?P<key>[^"=]+)"?=(?:"(?P<text>.*)"|(?P<plain>.*))$', re.MULTILINE)


class VirtualBoxPlatform(MadePlatform):
    """Clones of one machine, made for a run and deleted after it."""

    name: Final = "virtualbox"
    WORDS = "a machine under VirtualBox"
    #: VirtualBox has no vCPUs to pin, and a machine's clock source is its own kernel's choice.
    OFFERED = frozenset({"vcpus", "memory_byte", "nic"})
    OWN = ("template",)

    def __init__(self, binary: Path, owner: str, settings: Settings | None = None) -> None:
        """Use this binary; the settings name the template. See `BasePlatform`."""
        super().__init__(binary, owner, settings)
        template = self._settings.get("template")
        if template is not None and (not isinstance(template, str) or not template.strip()):
            raise BadInput(f"platform 'virtualbox': template {bad_value(template, 'the name of a machine')}")
        self._template = template
        # Two tables of one plan may name two templates.
        self._token = secrets.token_hex(4)

    def _missing(self, resources: Resources) -> str | None:
        if resources.nic is not None and resources.nic not in CARDS:
            return f"VirtualBox has no network card '{resources.nic}': use one of: {', '.join(CARDS)}"
        reason = together(
            unnamed(self._settings, ("template",)), programs({PROGRAM: "VirtualBox"}), self._reached.missing()
        )
        if reason is not None or self._template is None:
            return reason
        try:
            facts = _facts(self._template)
        except PlatformFailed as error:
            return str(error)
        if _runs(facts):
            return f"the template '{self._template}' is {facts.get('VMState')}; switch it off"
        return None

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one machine takes: its memory and VirtualBox's own."""
        memory = resources.memory_byte
        if memory is None and self._template is not None:
            memory = int(_facts(self._template).get("memory", "0")) * _MEBIBYTE
        return Need(memory_byte=(memory or 0) + _OWN_MEMORY, processes=(resources.vcpus or 1) + _OWN_THREADS)

    def _make_machines(self, indices: range, resources: Resources) -> Sequence[SshInstance]:
        names = [self._one(resources, index) for index in indices]
        return [self._connected(name) for name in names]

    def _one(self, resources: Resources, index: int) -> str:
        name = f"{self._owner}-vbox-{self._token}-{index}"
        self._removals.callback(_delete, name)
        _ask("clonevm", str(self._template), "--name", name, "--register", timeout_s=_CLONE_S)
        given: list[str] = []
        if resources.vcpus is not None:
            given += ["--cpus", str(resources.vcpus)]
        if resources.memory_byte is not None:
            given += ["--memory", str(resources.memory_byte // _MEBIBYTE)]
        if resources.nic is not None:
            given += ["--nictype1", CARDS[resources.nic]]
        if given:
            _ask("modifyvm", name, *given)
        _ask("startvm", name, "--type", "headless")
        return name

    def _connected(self, name: str) -> SshInstance:
        address = _address_of(name)
        facts = _facts(name)
        about: dict[str, object] = {
            "hypervisor": "virtualbox",
            "version": _ask("--version").strip(),
            "template": self._template,
            "vcpus": _whole(facts.get("cpus")),
            "memory_byte": None if "memory" not in facts else int(facts["memory"]) * _MEBIBYTE,
            "nic": facts.get("nictype1"),
            "network": facts.get("nic1"),
            "guest_type": facts.get("ostype"),
            # The setting may be `default`; what VirtualBox makes of it is stated beside it.
            "paravirtualized_by": facts.get("effparavirtprovider") or facts.get("paravirtprovider"),
        }
        # The host's own device towards the machine, where its network has one.
        interface = facts.get("hostonlyadapter1") or facts.get("bridgeadapter1")
        return self._reached.reach(name, address, about, interface)


def leftovers() -> tuple[Leftover, ...]:
    """Machines that lab processes left in this user's VirtualBox; none where there is no VirtualBox."""
    if shutil.which(PROGRAM) is None:
        return ()
    owned = ((name, owner_of(name)) for name in _names())
    return tuple(
        Leftover("VirtualBox machine", name, still_runs(owner), partial(_delete, name))
        for name, owner in owned
        if owner
    )


def _delete(name: str) -> None:
    """Switch a machine off and delete it with its files; one that is gone is fine."""
    if name not in _names():
        return
    if _runs(_facts(name)):
        _ask("controlvm", name, "poweroff")
        deadline = time.monotonic() + _ANSWER_S
        # Its session is closed some time after it has been switched off; until then it cannot be deleted.
        while _runs(facts := _facts(name)) or "SessionName" in facts:
            if time.monotonic() > deadline:
                raise PlatformFailed(f"{PROGRAM}: {name} was not off {_ANSWER_S:.0f} s after `controlvm poweroff`")
            time.sleep(_LOOK_S)
    _ask("unregistervm", name, "--delete")


def _runs(facts: Mapping[str, str]) -> bool:
    return facts.get("VMState") not in ("poweroff", "aborted")


def _names() -> list[str]:
    return [match["name"] for match in _LISTED.finditer(_ask("list", "vms"))]


def _facts(name: str) -> dict[str, str]:
    """What VirtualBox states of a machine, as `showvminfo --machinereadable` has it."""
    reported = _ask("showvminfo", name, "--machinereadable")
    return {match["key"]: match["text"] or match["plain"] or "" for match in _FACT.finditer(reported)}


def _address_of(name: str) -> str:
    deadline = time.monotonic() + _ADDRESS_S
    while True:
        reported = _ask("guestproperty", "get", name, _ADDRESS).strip()
        if reported.startswith("Value: "):
            return reported.removeprefix("Value: ")
        if time.monotonic() > deadline:
            raise PlatformFailed(
                f"{name}: reported no address within {_ADDRESS_S:.0f} s ({reported}): use a template with the "
                "Guest Additions that gets an address by itself"
            )
        time.sleep(_LOOK_S)


def _ask(*words: str, timeout_s: float = _ANSWER_S) -> str:
    """Run VBoxManage and return what it prints.

    Raises:
        PlatformFailed: it reports an error, or does not end in time.
    """
    try:
        return run_tool((PROGRAM, *words), timeout_s=timeout_s)
    except ToolFailed as error:
        raise PlatformFailed(printable(error)) from error


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
