"""Certificates of one campaign: two authorities, so that agents trust the lab and nobody trusts agents but the lab.

The first authority signs the lab's scheduler and client, the second one certificate for each host. Agents know the
first alone: one agent cannot talk to another. The scheduler knows both, and reads from a certificate whose it is.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAB: Final = "vtare lab"
_AGENTS: Final = "vtare agents"
#: Clocks of hosts may be wrong by this much.
_EARLIER: Final = datetime.timedelta(days=2)
_LIFE: Final = datetime.timedelta(days=365)
_KEY_USES: Final = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str


class Certificates:
    """The authorities of a campaign and what they have signed. Their keys exist in this process alone."""

    def __init__(self) -> None:
        """Make both authorities.

        Raises:
            ImportError: the package 'cryptography' is not installed.
        """
        self._lab = _Authority(_LAB)
        self._agents = _Authority(_AGENTS)
        self._client = self._lab.sign("client")
        self._scheduler = self._lab.sign("scheduler")
        self._hosts: dict[str, KeyPair] = {}

    def of_host(self, name: str) -> KeyPair:
        """The certificate of the agent on a host."""
        if name not in self._hosts:
            self._hosts[name] = self._agents.sign(name)
        return self._hosts[name]

    def client(self) -> dict[str, Any]:
        """The arguments of Dask's `Security` for the lab's client, which talks to the scheduler alone."""
        pair = self._client
        return {
            "require_encryption": True,
            "tls_ca_file": self._lab.pem,
            "tls_client_cert": pair.certificate,
            "tls_client_key": pair.key,
        }

    def scheduler(self) -> dict[str, Any]:
        """The same for the scheduler, as Dask's configuration has it (`distributed.comm`)."""
        return _configuration(self._lab.pem + self._agents.pem, "scheduler", self._scheduler)

    def agent(self, host: str) -> dict[str, Any]:
        """The same for the agent on a host, which trusts the lab alone."""
        return _configuration(self._lab.pem, "worker", self.of_host(host))


class _Authority:
    def __init__(self, name: str) -> None:
        self._x509 = import_module("cryptography.x509")
        self._hash = import_module("cryptography.hazmat.primitives.hashes").SHA256
        self._curves = import_module("cryptography.hazmat.primitives.asymmetric.ec")
        self._serialization = import_module("cryptography.hazmat.primitives.serialization")
        self._name = self._named(name)
        self._key = self._new_key()
        self.pem = self._pem(self._certificate(self._name, self._key, authority=True))

    def sign(self, name: str) -> KeyPair:
        """Make a key, and a certificate with this name that can sign nothing itself."""
        key = self._new_key()
        forms = self._serialization
        private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        return KeyPair(self._pem(self._certificate(self._named(name), key, authority=False)), str(private.decode()))

    def _named(self, name: str) -> Any:
        return self._x509.Name([self._x509.NameAttribute(self._x509.NameOID.COMMON_NAME, name)])

    def _new_key(self) -> Any:
        return self._curves.generate_private_key(self._curves.SECP256R1())

    def _certificate(self, name: Any, key: Any, *, authority: bool) -> Any:
        x509, now = self._x509, datetime.datetime.now(datetime.UTC)
        use = dict.fromkeys(_KEY_USES, False) | {"key_cert_sign": authority, "digital_signature": not authority}
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + _LIFE)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(x509.KeyUsage(**use), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, self._hash())
        )

    def _pem(self, certificate: Any) -> str:
        return str(certificate.public_bytes(self._serialization.Encoding.PEM).decode())


def host_of(certificate: Mapping[str, Any] | None) -> str | None:
    """The host that a checked certificate names (`ssl.SSLSocket.getpeercert`); None for one of the lab itself.

    Raises:
        ValueError: there is no certificate, or neither authority has signed it.
    """
    if not certificate:
        raise ValueError("no certificate")
    issuer = _common_name(certificate.get("issuer", ()))
    if issuer == _LAB:
        return None
    if issuer != _AGENTS:
        raise ValueError(f"a certificate of {issuer!r}")
    return _common_name(certificate.get("subject", ()))


def _common_name(parts: Any) -> str:
    names = [str(value) for part in parts for key, value in part if key == "commonName"]
    if len(names) != 1:
        raise ValueError(f"{len(names)} names in a certificate")
    return names[0]


def _configuration(authorities: str, role: str, pair: KeyPair) -> dict[str, Any]:
    tls = {"ca-file": authorities, role: {"cert": pair.certificate, "key": pair.key}}
    return {"tls": tls, "require-encryption": True}
