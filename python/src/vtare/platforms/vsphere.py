"""ESXi and vCenter by their own interface (pyVmomi): one short session, checked certificates, tasks that end.

What is missing or refused is stated in words; a fault of the server keeps its own text. A password comes from a file or
from the environment and is kept nowhere.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms.lacks import library
from vtare.stored.paths import read_named

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD_VARIABLE: Final = "VTARE_ESXI_PASSWORD"
HTTPS_PORT: Final = 443
_TASK_S: Final = 1800.0
_LOOK_S: Final = 0.2
_ENDED: Final = ("success", "error")
_ANSWER_S: Final = 60
_SHA256_DIGITS: Final = 64
_MOST_BYTE: Final = 4096
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class VsphereServer:
    """How to reach an ESXi host or a vCenter; without the password, so that it can be noted.

    Its certificate is checked against `thumbprint` (SHA-256 of the certificate, in hexadecimal) where there is one,
    else against the authorities in `ca_file`, else against the system's; `insecure` checks nothing.
    """

    host: str
    account: str
    port: int = HTTPS_PORT
    password_file: str | None = None
    thumbprint: str | None = None
    ca_file: str | None = None
    insecure: bool = False

    def document(self) -> dict[str, Any]:
        """As a note keeps it."""
        return asdict(self)

    @property
    def checked_by(self) -> str:
        """How its certificate is checked, in words for facts."""
        if self.insecure:
            return "nothing: insecure, as the plan asks"
        if self.thumbprint is not None:
            return f"thumbprint {self.thumbprint}"
        return "the system's authorities" if self.ca_file is None else f"authorities in {self.ca_file}"


def missing_library() -> str | None:
    """Why vSphere cannot be spoken from here, or None."""
    return library("pyVmomi", "pyvmomi")


def password_of(server: VsphereServer) -> str:
    """The password, from the file that the plan names, else from the environment.

    Raises:
        MachineCannot: there is none, or others may read the file.
    """
    if server.password_file is not None:
        path = Path(server.password_file).expanduser()
        try:
            mode = path.stat().st_mode & 0o777
            text = read_named(path, _MOST_BYTE).decode("utf-8-sig")
        except OSError as error:
            raise MachineCannot(f"password_file {path}: {error.strerror}; write the password into it") from error
        if mode & _OTHERS:
            raise MachineCannot(f"password_file {path} has mode {mode:04o}, so others may use it: `chmod 600 {path}`")
        return text.rstrip("\r\n")
    password = os.environ.get(PASSWORD_VARIABLE)
    if not password:
        raise MachineCannot(
            f"the password of {server.account} is missing; set {PASSWORD_VARIABLE} or name a `password_file`"
        )
    return password


class Vsphere:
    """An open session."""

    def __init__(self, instance: Any, server: VsphereServer) -> None:
        """Take over a service instance that is logged in."""
        self.content = instance.RetrieveContent()
        self.about = self.content.about
        self.server = server

    @property
    def is_host(self) -> bool:
        """Whether this is an ESXi host itself, which cannot clone."""
        return str(self.about.apiType) == "HostAgent"

    def find(self, kind: Any, name: str) -> list[Any]:
        """The objects of a kind that have this name, asked for in one go however many there are."""
        from pyVmomi import vim, vmodl

        collector = vmodl.query.PropertyCollector
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True)
        try:
            way = collector.TraversalSpec(name="view", path="view", skip=False, type=vim.view.ContainerView)
            what = collector.FilterSpec(
                objectSet=[collector.ObjectSpec(obj=view, skip=True, selectSet=[way])],
                propSet=[collector.PropertySpec(type=kind, pathSet=["name"])],
            )
            page = self.content.propertyCollector.RetrievePropertiesEx([what], collector.RetrieveOptions())
            objects = []
            while page is not None:
                objects += [one.obj for one in page.objects if any(known.val == name for known in one.propSet)]
                if not page.token:
                    break
                page = self.content.propertyCollector.ContinueRetrievePropertiesEx(page.token)
            return objects
        finally:
            view.Destroy()

    def the(self, kind: Any, what: str, name: str) -> Any:
        """The one object of this name.

        Raises:
            MachineCannot: there is none, or more than one.
        """
        objects = self.find(kind, name)
        if len(objects) != 1:
            raise MachineCannot(f"{self.server.host}: {len(objects)} of the {what} '{name}' exist: name a unique one")
        return objects[0]

    def makes_machines(self) -> bool:
        """Whether the server is making a machine now, whoever asked it to: it is in no list before it is done."""
        for task in self.content.taskManager.recentTask:
            known = self.asked(task, "info.state", "info.descriptionId")
            what = str(known.get("info.descriptionId", "")).lower()
            if known.get("info.state") not in _ENDED and ("clone" in what or "createvm" in what):
                return True
        return False

    def wait(self, task: Any, what: str) -> Any:
        """Wait for a task and return its result.

        Raises:
            PlatformFailed: the server reports an error, or the task takes more than half an hour.
        """
        deadline = time.monotonic() + _TASK_S
        while (known := self.asked(task, "info.state", "info.error", "info.result"))["info.state"] not in _ENDED:
            if time.monotonic() > deadline:
                with suppress(Exception):
                    task.CancelTask()
                raise PlatformFailed(f"{self.server.host}: {what}: not done after {_TASK_S:.0f} s; given up")
            time.sleep(_LOOK_S)
        if known["info.state"] == "error":
            raise PlatformFailed(f"{self.server.host}: {what}: {fault_text(known.get('info.error'))}")
        return known.get("info.result")

    def asked(self, thing: Any, *paths: str) -> dict[str, Any]:
        """These properties of an object and no others, in one question; one that is not set is left out."""
        from pyVmomi import vmodl

        collector = vmodl.query.PropertyCollector
        what = collector.FilterSpec(
            objectSet=[collector.ObjectSpec(obj=thing)],
            propSet=[collector.PropertySpec(type=type(thing), pathSet=list(paths))],
        )
        (answer,) = self.content.propertyCollector.RetrieveContents([what])
        return {known.name: known.val for known in answer.propSet}


@contextmanager
def session(server: VsphereServer) -> Iterator[Vsphere]:
    """A session, from login to logout.

    Raises:
        MachineCannot: no library, no password, no such server, another certificate, a wrong password, or no right.
        PlatformFailed: the server failed at something asked of it within the session.
    """
    reason = missing_library()
    if reason is not None:
        raise MachineCannot(reason)
    from pyVim.connect import Disconnect, SmartConnect
    from pyVmomi import vim, vmodl

    where = f"{server.host}:{server.port}"
    try:
        instance = SmartConnect(
            host=server.host,
            port=server.port,
            user=server.account,
            pwd=password_of(server),
            sslContext=_trust(server),
            httpConnectionTimeout=_ANSWER_S,
        )
    except MachineCannot:
        raise
    except ssl.SSLCertVerificationError as error:
        raise MachineCannot(
            f"{where}: its certificate cannot be trusted ({error.verify_message}); name its SHA-256 as `thumbprint`, "
            'its authority as `ca_file`, or, where nobody else is on the way to it, `tls = "insecure"`'
        ) from error
    except vim.fault.InvalidLogin as error:
        raise MachineCannot(f"{where}: does not let {server.account} in: {fault_text(error)}") from error
    except Exception as error:
        # The library raises a bare Exception where there is no such service.
        raise MachineCannot(f"{where}: {fault_text(error)}") from error
    try:
        yield Vsphere(instance, server)
    except (vim.fault.RestrictedVersion, vim.fault.NoPermission) as error:
        # A free licence only lets one look; so does an account without the right.
        raise MachineCannot(f"{where}: does not let {server.account} make machines: {fault_text(error)}") from error
    except (vmodl.MethodFault, OSError, HTTPException) as error:
        raise PlatformFailed(f"{where}: {fault_text(error)}") from error
    finally:
        with suppress(Exception):
            Disconnect(instance)


def fault_text(error: Any) -> str:
    """What a fault or an exception states, in one line."""
    for text in (getattr(error, "localizedMessage", None), getattr(error, "msg", None), str(error)):
        if text:
            kind = type(error).__name__.rpartition(".")[2]
            return " ".join(f"{text} ({kind})".split())[:400]
    return type(error).__name__


def _trust(server: VsphereServer) -> ssl.SSLContext:
    """What the server's certificate must be, for all connections of a session.

    A certificate known by its thumbprint is fetched, compared, and then the only one that is trusted: the library
    would compare it at the first connection and trust any at the next.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif server.thumbprint is not None:
        certificate = ssl.get_server_certificate((server.host, server.port), timeout=_ANSWER_S)
        fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
        wanted = plain_thumbprint(server.thumbprint)
        if fingerprint != wanted:
            raise MachineCannot(
                f"{server.host}:{server.port}: its certificate has the SHA-256 {fingerprint}, not {wanted}: this is "
                "another server, or its certificate has been replaced; ask who runs it, then correct `thumbprint`"
            )
        # The thumbprint names the very certificate: neither its name nor who signed it states more.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=certificate)
    elif server.ca_file is not None:
        context.load_verify_locations(cafile=str(Path(server.ca_file).expanduser()))
    else:
        context.load_default_certs()
    return context


def plain_thumbprint(text: str) -> str | None:
    """A SHA-256 thumbprint without colons and in small letters; None where the text is none."""
    plain = text.replace(":", "").lower()
    return plain if len(plain) == _SHA256_DIGITS and set(plain) <= set("0123456789abcdef") else None
