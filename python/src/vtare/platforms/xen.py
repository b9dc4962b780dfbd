"""The `xen` platform: paravirtual micro guests (PV domU) of the Xen hypervisor in whose dom0 the lab runs.

A guest boots the distribution's kernel with vtare's own binary as first process (docs/internals/guests.md), as under
`qemu`; its console is the control channel, so that its network card (netfront) carries the measured packets alone. The
host's end of the card (netback's `vifN.0`) becomes a port of the site's bridge: there the host captures.

Guests are made by `xl`, which every Xen has; libvirt's driver for Xen is not needed.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.errors import MachineCannot
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards, Layer
from vtare.platforms.guest import disk, xen_tools
from vtare.platforms.guest.cards import GuestAttachment, Network
from vtare.platforms.guest.image import image_for
from vtare.platforms.guest.instance import (
    GIVEN_MEMORY,
    MEBIBYTE,
    READY_S,
    GuestInstance,
    settled_facts,
    start_in_turn,
)
from vtare.platforms.guest.kernel import FLAVOURS, find_kernel, flavour_for, missing_kernel
from vtare.platforms.guest.modules import NETFRONT, XEN_DISK
from vtare.platforms.guest.xen_domain import DomainSpec, XenDomain
from vtare.platforms.lacks import together
from vtare.platforms.owner import Leftover, owner_of, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, GUEST_RESOURCES, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.platforms.network import Site

#: What the hypervisor keeps for itself of each domain, rounded up.
_OVERHEAD: Final = 4 * MEBIBYTE
#: `xl` in dom0, which waits for the guest's end.
_OWN_MEMORY: Final = 8 * MEBIBYTE
_CLOCK_SOURCES: Final = ("xen", "tsc")
_SUFFIX: Final = "-xen"


class XenPlatform(BasePlatform[GuestInstance[XenDomain]]):
    """Paravirtual guests under Xen. Setting: `kernel`."""

    name: Final = "xen"
    LAYER = Layer.MACHINE
    BOOTS = True
    #: Xen itself boots in a guest of its tests: tests/test_hypervisors.py.
    TRIED_WITH_ALL = False
    WORDS = "a guest"
    OFFERED = GUEST_RESOURCES
    FORWARDS = Forwards.MACHINE
    #: The model of network card where none is asked for.
    CARD: Final = NETFRONT
    #: The queue discipline that guests give their cards: the kernel's own choice.
    queue: Final = None
    SETTINGS: ClassVar[Mapping[str, Sequence[str]]] = {"kernel": FLAVOURS}

    @property
    def _kernel(self) -> str | None:
        """The flavour of kernel that the plan names."""
        named = self._settings.get("kernel")
        return None if named is None else str(named)

    def _missing(self, resources: Resources) -> str | None:
        flavour = flavour_for(NETFRONT, self._kernel)
        reason = together(
            _beyond(resources, flavour),
            xen_tools.missing_dom0(),
            missing_kernel(flavour),
            disk.missing(resources),
            xen_tools.missing_disks() if resources.disk_byte != 0 else None,
        )
        if reason is not None:
            return reason
        try:
            hypervisor = xen_tools.ask_hypervisor()
        except MachineCannot as error:
            return str(error)
        for cpu in resources.pinned or ():
            if hypervisor.cpus is not None and cpu >= hypervisor.cpus:
                return f"CPU {cpu} to pin to is not there: use some of 0 to {hypervisor.cpus - 1}"
        return short_of_memory(hypervisor, 1, resources.memory_byte or GIVEN_MEMORY[flavour])

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one guest takes of dom0: a guest's own memory is the hypervisor's, and looked at by `start`."""
        return Need(memory_byte=_OWN_MEMORY, processes=2, disk_byte=0 if resources.disk_byte == 0 else disk.OWN_BYTE)

    def _make(self, index: int, site: Site | None, resources: Resources) -> GuestInstance[XenDomain]:
        return self._make_all(range(index, index + 1), site, resources)[0]

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[GuestInstance[XenDomain]]:
        """Create guests at a site, or at none."""
        if site is None:
            return self.boot([GuestAttachment(f"{self._owner}-x{index}") for index in indices], resources)
        started = self.boot(
            [GuestAttachment(site.instance_namespace(index), Network(site, index, NETFRONT)) for index in indices],
            resources,
        )
        network.wait_forwarding([(site.namespace, site.port(index)) for index in indices])
        return started

    def boot(
        self, attachments: Sequence[GuestAttachment], resources: Resources = DEFAULT_RESOURCES
    ) -> list[GuestInstance[XenDomain]]:
        """Create a guest at each of these places, four at a time. See `start`.

        A paravirtual guest's memory is the hypervisor's, which is asked first.
        """
        flavour = flavour_for(NETFRONT, self._kernel)
        memory_byte = resources.memory_byte or GIVEN_MEMORY[flavour]
        hypervisor = xen_tools.ask_hypervisor()
        short = short_of_memory(hypervisor, len(attachments), memory_byte)
        if short is not None:
            raise MachineCannot(short)
        return start_in_turn(
            attachments,
            lambda attachment: self._create(attachment, resources, flavour, memory_byte),
            lambda domain: _ready(domain, resources, hypervisor),
        )

    def _create(self, attachment: GuestAttachment, resources: Resources, flavour: str, memory_byte: int) -> XenDomain:
        name = attachment.name
        kernel = find_kernel(flavour)
        # Guests that forward do nothing else.
        wanted = None if attachment.forwards else disk.disk_of(directory_of(name), resources)
        driver = None if wanted is None else XEN_DISK
        domain = XenDomain(
            DomainSpec(
                name,
                directory_of(name),
                kernel.image,
                # The driver of a paravirtual guest's console is in its kernel.
                image_for(kernel, self._binary, attachment.nic, channel=(), disk=driver),
                memory_byte,
                vcpus=resources.vcpus or 1,
                pinned=resources.pinned,
                clock_source=resources.clock_source,
                network=attachment.network,
                cards=attachment.cards,
                namespace=attachment.namespace,
                forwards=attachment.forwards,
                disk=wanted,
            )
        )
        self._removals.callback(domain.end)
        return domain


def _beyond(resources: Resources, flavour: str) -> str | None:
    """What of this a paravirtual guest never has, in words; None where nothing is."""
    if resources.nic not in (None, NETFRONT):
        return f"a paravirtual guest has no network card '{resources.nic}': use {NETFRONT}"
    if resources.clock_source not in (None, *_CLOCK_SOURCES):
        return f"a paravirtual guest has no clock source '{resources.clock_source}': use {' or '.join(_CLOCK_SOURCES)}"
    # Of 96 MiB a paravirtual kernel keeps 35 to itself: what is left was too little for `throughput` to measure in.
    least = GIVEN_MEMORY[flavour]
    if resources.memory_byte is not None and resources.memory_byte < least:
        mebibytes = resources.memory_byte / MEBIBYTE
        return f"a guest of {mebibytes:.0f} MiB does not boot; give it {least // MEBIBYTE} MiB or more"
    return None


def short_of_memory(hypervisor: xen_tools.Hypervisor, instances: int, memory_byte: int) -> str | None:
    """Why the hypervisor has no room for `instances` guests of this size, with the figures; None where it has.

    Where dom0 gives memory to new domains, only creating one shows it.
    """
    free = hypervisor.free_memory_byte
    wanted = instances * (memory_byte + _OVERHEAD)
    if free is None or hypervisor.dom0_gives_memory or wanted <= free:
        return None
    return (
        f"{instances} {'guest' if instances == 1 else 'guests'} would take {wanted // MEBIBYTE} MiB, but Xen has "
        f"{free // MEBIBYTE} MiB free (`xl info free_memory`); ask for fewer or smaller ones, give dom0 less "
        f'(`xl mem-set 0 SIZE`), or set autoballoon="on" in /etc/xen/xl.conf'
    )


def _ready(domain: XenDomain, resources: Resources, hypervisor: xen_tools.Hypervisor) -> GuestInstance[XenDomain]:
    """Wait until a guest is what was asked for."""
    spec = domain.spec
    hello = domain.wait_ready(READY_S)
    inside = settled_facts(domain.agent, spec.name, resources.clock_source)
    facts = {
        "hypervisor": f"Xen {hypervisor.version}" if hypervisor.version else "Xen",
        "accelerator": "xen",
        "scheduler": hypervisor.scheduler,
        "machine": "pv",
        "vcpus": spec.vcpus,
        "memory_byte": spec.memory_byte,
        "pinned": spec.vcpu_cpus,
        "nic": spec.all_cards[0].nic if spec.all_cards else None,
        "disk": None if spec.disk is None else {"device": "xen-blkfront", **spec.disk.facts()},
        "kernel": inside.get("kernel"),
        "clock_source": inside.get("clock_source"),
        "agent": hello.get("version"),
    }
    return GuestInstance(domain, facts)


def directory_of(name: str) -> Path:
    """The directory of the guest with this name: the input and the output of `xl`."""
    return Path(tempfile.gettempdir()) / f"{name}{_SUFFIX}"


def leftovers() -> tuple[Leftover, ...]:
    """Guests of lab processes, recognised by the names of domains and of their directories.

    Raises:
        XenError: domains cannot be listed.
    """
    domains = [domain.name for domain in xen_tools.domains()] if xen_tools.in_dom0() else []
    directories = [path.name.removesuffix(_SUFFIX) for path in Path(tempfile.gettempdir()).glob(f"vtare-*{_SUFFIX}")]
    leftover_domains = []
    for name in sorted({*domains, *directories}):
        owner = owner_of(name)
        if owner is not None:
            leftover_domains.append(
                Leftover("domain", name, still_runs(owner), partial(_remove, name, name in domains))
            )
    return tuple(leftover_domains)


def _remove(name: str, is_domain: bool) -> None:
    if is_domain:
        xen_tools.destroy(name)
    # `xl` died with the lab: of a domain that ended after it nobody has freed the disk.
    xen_tools.detach_loops(disk.file_in(directory_of(name)))
    shutil.rmtree(directory_of(name), ignore_errors=True)
