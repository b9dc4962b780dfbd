"""The description of one guest for libvirt, as data: what is asked for in, XML out (libvirt's domain format)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from vtare.platforms import network
from vtare.platforms.guest.qemu_command import PORT_NAME, kernel_command_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vtare.platforms.guest.qemu_command import GuestSpec

_AS_ITSELF = "dac"


def domain_xml(
    spec: GuestSpec, *, tap: str | None = None, user: tuple[int, int] = (0, 0), security: Iterable[str] = ()
) -> str:
    """A domain that is what `qemu_command.command` makes of the same guest.

    `tap` is a device that is there, which QEMU opens; `user` is whom QEMU runs as, who must be able to read kernel and
    initramfs; `security` are the models in force on the host (`capabilities/host/secmodel/model`).
    """
    tcg = spec.accelerator == "tcg"
    domain = ElementTree.Element("domain", type="qemu" if tcg else "kvm")
    _add(domain, "name", spec.name)
    _add(domain, "memory", str(spec.memory_byte), unit="b")
    _add(domain, "vcpu", str(spec.vcpus), placement="static")
    system = _add(domain, "os")
    _add(system, "type", "hvm", arch="x86_64", machine=spec.machine)
    _add(system, "kernel", str(spec.kernel))
    _add(system, "initrd", str(spec.initramfs))
    _add(system, "cmdline", kernel_command_line(spec))
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(domain, "cpu", mode="maximum" if tcg else "host-passthrough")
    clock = _add(domain, "clock", offset="utc")
    # Else libvirt takes it away, and it is one of the clock sources that can be asked for.
    _add(clock, "timer", name="hpet", present="yes")
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _add(domain, event, "destroy")
    devices = _add(domain, "devices")
    _add(devices, "controller", type="usb", model="none")
    serial = _add(devices, "serial", type="file")
    _add(serial, "source", path=str(spec.console))
    channel = _add(devices, "channel", type="unix")
    _add(channel, "source", mode="bind", path=str(spec.agent_socket))
    _add(channel, "target", type="virtio", name=PORT_NAME)
    if spec.disk is not None:
        disk = _add(devices, "disk", type="file", device="disk")
        _add(disk, "driver", name="qemu", type="raw", cache="none" if spec.disk.direct else "writeback")
        _add(disk, "source", file=str(spec.disk.file))
        _add(disk, "target", dev="vda", bus="virtio")
    if spec.network is not None and tap is not None:
        card = _add(devices, "interface", type="ethernet")
        _add(card, "mac", address=network.mac(spec.network.address))
        _add(card, "target", dev=tap, managed="no")
        _add(card, "model", type=spec.network.nic)
        if spec.network.nic == "virtio":
            _add(card, "driver", name="vhost" if spec.vhost else "qemu")
        # Without its boot ROM: nothing is booted from the network.
        _add(card, "rom", enabled="no")
    _add(devices, "memballoon", model="none")
    for model in security:
        if model == _AS_ITSELF:
            label = _add(domain, "seclabel", type="static", model=model, relabel="no")
            _add(label, "label", "+{}:+{}".format(*user))
        else:
            _add(domain, "seclabel", type="none", model=model)
    ElementTree.indent(domain)
    return ElementTree.tostring(domain, encoding="unicode")


def _add(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child
