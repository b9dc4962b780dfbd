"""One guest under libvirt: a transient domain that its daemon destroys when the lab's connection ends."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from vtare.errors import MachineCannot
from vtare.platforms.guest import taps
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.libvirt_domain import domain_xml
from vtare.platforms.guest.machine import GuestMachine, chosen_cpus, tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.guest.qemu_command import GuestSpec

URI_VARIABLE: Final = "VTARE_LIBVIRT_URI"
_SYSTEM: Final = "qemu:///system"
#: In a guest's directory: which daemon runs it.
_MARK: Final = "libvirt"
_SEEN_S: Final = 0.5
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Manager:
    """What starts guests: a libvirt daemon at `uri`, or, where that is None, the lab itself; `reason` states why."""

    uri: str | None
    version: str | None
    reason: str

    @property
    def facts(self) -> dict[str, str | None]:
        """For the facts of a run."""
        name = "none: plain QEMU" if self.uri is None else f"libvirt at {self.uri}"
        return {"manager": name, "manager_version": self.version, "manager_reason": self.reason}


@cache
def found_manager() -> Manager:
    """Libvirt where its library is installed and its daemon answers, else none, with the reason. Asked for once."""
    try:
        import libvirt
    except ImportError:
        return Manager(None, None, "the Python package 'libvirt-python' is missing; `pip install libvirt-python`")
    _silence(libvirt)
    uri = os.environ.get(URI_VARIABLE, _SYSTEM)
    if os.geteuid() != 0:
        return Manager(None, None, "taps for libvirt's daemon need root")
    try:
        connection = libvirt.open(uri)
        try:
            kind, number = connection.getType(), int(connection.getLibVersion())
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        return Manager(None, None, f"libvirt at {uri} does not answer: {error}")
    if kind != "QEMU":
        return Manager(None, None, f"libvirt at {uri} runs {kind}, not QEMU; set {URI_VARIABLE}")
    version = f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
    return Manager(uri, version, f"libvirt {version} answers at {uri}")


class LibvirtMachine(GuestMachine):
    """A guest that libvirt's daemon runs."""

    def __init__(self, spec: GuestSpec, uri: str, owner: str) -> None:
        """Start the domain, and bring its tap behind the site's bridge.

        Raises:
            GuestFailed: its directory cannot be made or libvirt does not start it.
            NetworkError: its tap cannot be made or moved.
        """
        import libvirt

        super().__init__(spec)
        self._libvirt: Any = libvirt
        place = spec.network
        tap = None if place is None else taps.make_outside(owner, place.index)
        self._connection: Any = None
        try:
            spec.directory.mkdir(mode=0o700)
            if spec.disk is not None:
                spec.disk.make()
            (spec.directory / _MARK).write_text(uri, encoding="utf-8")
            self._connection = libvirt.open(uri)
            security = _security_models(self._connection.getCapabilities())
            text = domain_xml(spec, tap=tap, user=(os.geteuid(), os.getegid()), security=security)
            # Destroyed with the connection: a killed lab leaves no guest.
            self._domain = self._connection.createXML(text, libvirt.VIR_DOMAIN_START_AUTODESTROY)
            if place is not None and tap is not None:
                taps.hand_over(tap, place.site, place.index)
        except BaseException as error:
            # Goes with the guest that was to have it, whatever went wrong.
            if tap is not None:
                taps.remove_outside(tap)
            self._leave()
            if isinstance(error, OSError | libvirt.libvirtError):
                raise GuestFailed(f"guest {spec.name}: {error}") from error
            raise

    def pin(self, cpus: Sequence[int]) -> list[int]:
        """See `GuestMachine.pin`: libvirt pins the threads."""
        chosen = chosen_cpus(self.spec.vcpus, cpus)
        try:
            _, there, _ = self._connection.getCPUMap()
            for vcpu, cpu in enumerate(chosen):
                self._domain.pinVcpu(vcpu, tuple(number == cpu for number in range(len(there))))
            # What is in force, not what was asked for.
            kept = [[cpu for cpu, on in enumerate(one) if on] for one in self._domain.vcpuPinInfo()]
        except self._libvirt.libvirtError as error:
            raise MachineCannot(f"libvirt cannot pin vCPUs to {sorted(set(chosen))}: {error}") from error
        if kept != [[cpu] for cpu in chosen]:
            raise GuestFailed(f"guest {self.spec.name}: vCPUs were to stay on {chosen}, libvirt keeps them on {kept}")
        return chosen

    def ended(self) -> str | None:
        """See `RunningGuest.ended`."""
        try:
            if self._domain.isActive():
                return None
            return "libvirt's domain has ended"
        except self._libvirt.libvirtError as error:
            # A transient domain that has ended is not known any more.
            return f"libvirt's domain has ended ({error})"

    def end(self) -> None:
        """See `RunningGuest.end`."""
        with suppress(self._libvirt.libvirtError):
            self._domain.destroy()
        if self._agent is not None:
            self._agent.close()
        self._leave()

    def last_words(self) -> str:
        """See `RunningGuest.last_words`."""
        # The channel of a guest that ends closes before its daemon has seen it.
        deadline = time.monotonic() + _SEEN_S
        while self.ended() is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        reported = tail(self.spec.console)
        return "; ".join([self.ended() or "its domain still runs", *([reported] if reported else [])])

    def _leave(self) -> None:
        if self._connection is not None:
            with suppress(self._libvirt.libvirtError):
                self._connection.close()
        shutil.rmtree(self.spec.directory, ignore_errors=True)


def remove_domain(directory: Path, name: str) -> None:
    """Destroy the domain of a gone lab's guest, where libvirt ran it; one that is gone is fine.

    Raises:
        GuestFailed: libvirt, which ran it, does not answer now.
    """
    mark = directory / _MARK
    if not mark.is_file():
        return
    try:
        import libvirt
    except ImportError as error:
        raise GuestFailed(f"guest {name} ran under libvirt, whose Python package is missing now") from error
    _silence(libvirt)
    try:
        connection = libvirt.open(mark.read_text(encoding="utf-8"))
    except libvirt.libvirtError as error:
        raise GuestFailed(f"guest {name} ran under libvirt, which does not answer: {error}") from error
    try:
        connection.lookupByName(name).destroy()
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise GuestFailed(f"guest {name}: libvirt does not end it: {error}") from error
    finally:
        connection.close()


def _silence(libvirt: Any) -> None:
    """Errors are raised; libvirt would print them, too."""
    libvirt.registerErrorHandler(lambda *_: None, None)


def _security_models(capabilities: str) -> list[str]:
    models = ElementTree.fromstring(capabilities).findall("./host/secmodel/model")
    return [str(model.text) for model in models]
