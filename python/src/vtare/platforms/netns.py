"""The `netns` platform: an instance is a network namespace with a device of its own, as containers have one.

Without a site there is no network: the namespace then isolates, and `timer` or `sleep` run in it as on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards, Layer, Nearby
from vtare.platforms.child import Child, start_child
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site


def start_in_namespace(
    namespace: str,
    binary: Path,
    arguments: Sequence[str],
    *,
    directory: Path,
    stdout: Path,
    stderr: Path,
    before: Sequence[str] = (),
) -> Child:
    """Start the binary in a network namespace. `ip netns exec` becomes the program, so the child is the program."""
    command = ["ip", "netns", "exec", namespace, *before, str(binary), *arguments]
    return start_child(command, directory=directory, stdout=stdout, stderr=stderr)


class NetnsInstance(Nearby):
    """One namespace. It shares the file system with the lab, so `fetch` has nothing to do."""

    def __init__(self, binary: Path, namespace: str, site: Site | None, index: int) -> None:
        """Use this binary in this namespace, which exists."""
        self._binary = binary
        self._site = site
        self._index = index
        self.name = namespace

    @property
    def address(self) -> str | None:
        """Its address behind the site's bridge."""
        return None if self._site is None else self._site.instance_address(self._index)

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Start the binary in the namespace. See `Instance.start`."""
        return start_in_namespace(self.name, self._binary, arguments, directory=directory, stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Do nothing: the program wrote to `directory` itself."""

    def facts(self) -> Mapping[str, object]:
        """Facts of its network device."""
        return {"device": network.interface_facts(self.name, "eth0")} if self._site is not None else {}

    def capture_interface(self) -> str | None:
        """The bridge port in front of it."""
        return None if self._site is None else self._site.port(self._index)


class NetnsPlatform(BasePlatform[NetnsInstance]):
    """Network namespaces, made and removed by iproute2."""

    name: Final = "netns"
    LAYER = Layer.CONTAINER
    FURNISHED = True
    FORWARDS = Forwards.NAMESPACE
    WORDS = "a namespace"

    def _missing(self, resources: Resources) -> str | None:
        return network.missing_tools()

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one namespace takes: measured at 0.5 MiB."""
        return Need(memory_byte=1 << 20)

    def _make(self, index: int, site: Site | None, resources: Resources) -> NetnsInstance:
        name = f"{self._owner}-{index}" if site is None else site.instance_namespace(index)
        if site is None:
            self._removals.callback(network.remove_namespaces, [name])
            network.carry_out(network.make_namespace(name))
        else:
            self._removals.callback(network.detach, site, index)
            network.carry_out(network.attach(site, index))
            network.wait_forwarding([(name, "eth0"), (site.namespace, site.port(index))])
        return NetnsInstance(self._binary, name, site, index)


def leftovers() -> tuple[Leftover, ...]:
    """Namespaces that lab processes left, those of topologies too."""
    return network.leftovers()
