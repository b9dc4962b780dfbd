"""Making one virtual machine on ESXi from a template: a clone by vCenter, or on a host itself a copy of its disks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms.protocol import Resources

if TYPE_CHECKING:
    from vtare.platforms.vsphere import Vsphere

#: Model of a network card -> its class in the interface of vSphere.
CARDS: Final = {
    "vmxnet3": "VirtualVmxnet3",
    "vmxnet2": "VirtualVmxnet2",
    "e1000": "VirtualE1000",
    "e1000e": "VirtualE1000e",
    "pcnet": "VirtualPCNet32",
}
#: Marks a machine as that of one note, from its first moment on: its name alone could be another laboratory's.
MARK: Final = "vtare.note"
_MEBIBYTE: Final = 1 << 20
_ADDRESS_S: Final = 600.0
_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Order:
    """What to make machines from and where; None is as the template has it."""

    template: str
    run_on: str | None = None
    datastore: str | None = None
    network: str | None = None


class VmTemplate:
    """A template with the host, the pool and the datastore for its machines, looked up in one session."""

    def __init__(self, vsphere: Vsphere, order: Order) -> None:
        """Look everything up.

        Raises:
            MachineCannot: something of it is not there, or the template is no machine to copy now.
        """
        from pyVmomi import vim

        self._vsphere = vsphere
        self._order = order
        self.template = vsphere.the(vim.VirtualMachine, "template", order.template)
        config = self.template.config
        if config is None:
            raise MachineCannot(f"template '{order.template}' shows no configuration to {vsphere.server.account}")
        self.vcpus = int(config.hardware.numCPU)
        self.memory_byte = int(config.hardware.memoryMB) * _MEBIBYTE
        if order.run_on is None:
            self.host = self.template.runtime.host
        else:
            self.host = vsphere.the(vim.HostSystem, "host", order.run_on)
        if order.datastore is None:
            if not self.template.datastore:
                raise MachineCannot(f"template '{order.template}' lies in no datastore; name a `datastore`")
            self.datastore = self.template.datastore[0]
        else:
            self.datastore = vsphere.the(vim.Datastore, "datastore", order.datastore)
        if self.host is None or self.host.hardware is None:
            raise MachineCannot(f"the host of '{order.template}' shows no hardware to {vsphere.server.account}")
        self._devices = list(config.hardware.device)
        if vsphere.is_host and str(self.template.runtime.powerState) != "poweredOff":
            raise MachineCannot(f"template '{order.template}' runs, and a host copies disks of stopped machines only")

    def refuse_beyond(self, instances: int, resources: Resources) -> None:
        """Compare what `machines` will take with what the host and the datastore have free.

        Raises:
            MachineCannot: something is short, with the figures.
        """
        hardware = self.host.hardware
        threads = int(hardware.cpuInfo.numCpuThreads)
        vcpus = resources.vcpus or self.vcpus
        if vcpus > threads:
            raise MachineCannot(f"host {self.host.name} has {threads} logical CPUs, a machine was to have {vcpus}")
        beyond = [cpu for cpu in resources.pinned or () if cpu >= threads]
        if beyond:
            raise MachineCannot(f"host {self.host.name} has CPUs 0 to {threads - 1}, no CPU {beyond[0]} to pin to")
        memory = (resources.memory_byte or self.memory_byte) * instances
        used = self.host.summary.quickStats.overallMemoryUsage
        free = int(hardware.memorySize) - int(used or 0) * _MEBIBYTE
        if memory > free:
            raise MachineCannot(
                f"host {self.host.name}: {instances} machines take {_gib(memory)} of memory, free are {_gib(free)} of "
                f"{_gib(int(hardware.memorySize))}; ask for fewer or smaller ones"
            )
        storage = self.template.summary.storage
        disk = int(storage.committed if storage is not None else 0) * instances
        room = int(self.datastore.summary.freeSpace)
        if disk > room:
            raise MachineCannot(
                f"datastore {self.datastore.name}: {instances} copies of '{self._order.template}' take {_gib(disk)}, "
                f"free are {_gib(room)}"
            )

    def make(self, name: str, mark: str, resources: Resources) -> Any:
        """Make a machine and start it.

        Raises:
            MachineCannot: the template has no card to put another in the place of.
            PlatformFailed: the server reports an error.
        """
        machine = self._copy(name, mark, resources) if self._vsphere.is_host else self._clone(name, mark, resources)
        # Set again: not every server takes all of this from a clone's specification, and pinning is in none.
        spec = _config(resources, mark, [])
        if resources.pinned is not None:
            from pyVmomi import vim

            spec.cpuAffinity = vim.vm.AffinityInfo(affinitySet=list(resources.pinned))
        self._change(machine, spec, f"set up {name}")
        self._vsphere.wait(machine.PowerOnVM_Task(), f"start {name}")
        return machine

    def facts(self, machine: Any) -> dict[str, object]:
        """What a machine is made of, as the server reports it."""
        about, config = self._vsphere.about, machine.config
        host = machine.runtime.host or self.host
        hardware, product = host.hardware, host.config.product if host.config is not None else None
        card = next(iter(_cards(config.hardware.device)), None)
        affinity = config.cpuAffinity
        return {
            "hypervisor": "esxi",
            "server": self._vsphere.server.host,
            "certificate_checked_by": self._vsphere.server.checked_by,
            "server_product": str(about.fullName),
            "server_api": str(about.apiType),
            "version": None if product is None else str(product.version),
            "build": None if product is None else str(product.build),
            "host": str(host.name),
            "host_model": f"{hardware.systemInfo.vendor} {hardware.systemInfo.model}",
            "host_cpu": str(host.summary.hardware.cpuModel),
            "host_cpu_threads": int(hardware.cpuInfo.numCpuThreads),
            "host_memory_byte": int(hardware.memorySize),
            "hardware_version": str(config.version),
            "vcpus": int(config.hardware.numCPU),
            "memory_byte": int(config.hardware.memoryMB) * _MEBIBYTE,
            "pinned": None if affinity is None or not affinity.affinitySet else list(map(int, affinity.affinitySet)),
            "pinned_means": "all vCPUs stay on these CPUs, not each on one",
            "nic": None if card is None else _model(card),
            "template": self._order.template,
            "made_by": "copy of its disks" if self._vsphere.is_host else "clone",
            "datastore": str(self.datastore.name),
            "host_capture": None,
            "host_capture_reason": "ESXi has no place for vtare's capture; captures are inside the machine only",
        }

    def _clone(self, name: str, mark: str, resources: Resources) -> Any:
        from pyVmomi import vim

        where = vim.vm.RelocateSpec(host=self.host, pool=self.host.parent.resourcePool, datastore=self.datastore)
        cards = self._card_changes(resources.nic)
        spec = vim.vm.CloneSpec(location=where, config=_config(resources, mark, cards), powerOn=False, template=False)
        folder = self._folder()
        return self._vsphere.wait(self.template.CloneVM_Task(folder, name, spec), f"clone {name}")

    def _copy(self, name: str, mark: str, resources: Resources) -> Any:
        from pyVmomi import vim

        config = self.template.config
        disks = [device for device in self._devices if isinstance(device, vim.vm.device.VirtualDisk)]
        used = {disk.controllerKey for disk in disks}
        controllers = [device for device in self._devices if device.key in used]
        cards = self._card_changes(resources.nic) or [_added(card) for card in _cards(self._devices)]
        # Every machine has controllers of IDE already.
        others = [one for one in controllers if not isinstance(one, vim.vm.device.VirtualIDEController)]
        spec = _config(resources, mark, [*map(_added, others), *(one for one in cards if one.operation == "add")])
        spec.name = name
        spec.guestId, spec.version, spec.firmware = config.guestId, config.version, config.firmware
        spec.numCPUs = resources.vcpus or self.vcpus
        spec.memoryMB = (resources.memory_byte or self.memory_byte) // _MEBIBYTE
        spec.files = vim.vm.FileInfo(vmPathName=f"[{self.datastore.name}]")
        pool = self.host.parent.resourcePool
        machine = self._vsphere.wait(self._folder().CreateVM_Task(spec, pool, self.host), f"make {name}")
        # The machine is there first: whatever happens now, it is found by its name and its disks go with it.
        home = str(machine.config.files.vmPathName).rpartition("/")[0]
        # The server gives controllers keys of its own.
        made = {_bus(one): one.key for one in machine.config.hardware.device if hasattr(one, "busNumber")}
        keys = {old.key: made.get(_bus(old)) for old in controllers}
        for number, disk in enumerate(disks):
            target = f"{home}/{name}-disk{number}.vmdk"
            centre = self._centre()
            task = self._vsphere.content.virtualDiskManager.CopyVirtualDisk_Task(
                disk.backing.fileName, centre, target, centre, None, False
            )
            self._vsphere.wait(task, f"copy {disk.backing.fileName}")
            copied = vim.vm.device.VirtualDisk(
                key=-1,
                controllerKey=keys[disk.controllerKey],
                unitNumber=disk.unitNumber,
                capacityInKB=disk.capacityInKB,
                backing=vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=target, diskMode="persistent"),
            )
            change = vim.vm.device.VirtualDeviceSpec(operation="add", device=copied)
            self._change(machine, vim.vm.ConfigSpec(deviceChange=[change]), f"attach {target}")
        return machine

    def _change(self, machine: Any, spec: Any, what: str) -> None:
        self._vsphere.wait(machine.ReconfigVM_Task(spec), what)

    def _folder(self) -> Any:
        # A template in a vApp has no folder of its own.
        return self.template.parent or self._centre().vmFolder

    def _centre(self) -> Any:
        from pyVmomi import vim

        place = self.host
        while not isinstance(place, vim.Datacenter):
            place = place.parent
        return place

    def _card_changes(self, nic: str | None) -> list[Any]:
        """What puts the card asked for in the place of the template's first; nothing where that is it already."""
        from pyVmomi import vim

        old = next(iter(_cards(self._devices)), None)
        if old is None and (nic is not None or self._order.network is not None):
            if self._order.network is None:
                raise MachineCannot(f"template '{self._order.template}' has no network card; name a `network`")
        elif self._order.network is None and (nic is None or (old is not None and _model(old) == nic)):
            return []
        backing = self._backing(old)
        model = nic or ("vmxnet3" if old is None else _model(old))
        card = getattr(vim.vm.device, CARDS[model])(
            key=-100,
            backing=backing,
            addressType="generated",
            connectable=vim.vm.device.VirtualDevice.ConnectInfo(
                startConnected=True, allowGuestControl=True, connected=True
            ),
        )
        removed = [] if old is None else [vim.vm.device.VirtualDeviceSpec(operation="remove", device=old)]
        return [*removed, vim.vm.device.VirtualDeviceSpec(operation="add", device=card)]

    def _backing(self, old: Any) -> Any:
        """The network of a new card: the one that is named, else that of the card whose place it takes."""
        from pyVmomi import vim

        card = vim.vm.device.VirtualEthernetCard
        if self._order.network is None:
            return _fresh(old.backing)
        network = self._vsphere.the(vim.Network, "network", self._order.network)
        if isinstance(network, vim.dvs.DistributedVirtualPortgroup):
            switch = network.config.distributedVirtualSwitch.uuid
            port = vim.dvs.PortConnection(portgroupKey=network.key, switchUuid=switch)
            return card.DistributedVirtualPortBackingInfo(port=port)
        return card.NetworkBackingInfo(deviceName=self._order.network, network=network)


def address_of(machine: Any, name: str, timeout_s: float = _ADDRESS_S) -> str:
    """The address that the machine's own VMware Tools report; wait for it.

    Raises:
        PlatformFailed: none came in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        guest = machine.guest
        if guest is not None and guest.ipAddress:
            return str(guest.ipAddress)
        if time.monotonic() > deadline:
            tools = "unknown" if guest is None else str(guest.toolsRunningStatus)
            raise PlatformFailed(
                f"{name}: reported no address within {timeout_s:.0f} s (VMware Tools: {tools}): use a template "
                "that runs open-vm-tools and gets an address by itself"
            )
        time.sleep(_LOOK_S)


def is_marked(machine: Any, mark: str) -> bool:
    """Whether a machine is the one of a note."""
    config = machine.config
    return config is not None and any(one.key == MARK and one.value == mark for one in config.extraConfig)


def _bus(controller: Any) -> tuple[str, int]:
    return type(controller).__name__, int(controller.busNumber)


def _config(resources: Resources, mark: str, devices: list[Any]) -> Any:
    from pyVmomi import vim

    memory = resources.memory_byte
    return vim.vm.ConfigSpec(
        numCPUs=resources.vcpus,
        memoryMB=None if memory is None else memory // _MEBIBYTE,
        extraConfig=[vim.option.OptionValue(key=MARK, value=mark)],
        deviceChange=devices,
    )


def _cards(devices: Any) -> list[Any]:
    from pyVmomi import vim

    return [device for device in devices if isinstance(device, vim.vm.device.VirtualEthernetCard)]


def _model(card: Any) -> str:
    kind = type(card).__name__.rpartition(".")[2]
    return next((model for model, name in CARDS.items() if name == kind), kind)


def _added(device: Any) -> Any:
    """A change that adds a device such as another machine has, with no address or place of the other's."""
    from pyVmomi import vim

    given: dict[str, Any] = {"key": -device.key - 1}
    if isinstance(device, vim.vm.device.VirtualEthernetCard):
        given |= {"backing": _fresh(device.backing), "addressType": "generated"}
    elif isinstance(device, vim.vm.device.VirtualSCSIController):
        given |= {"busNumber": device.busNumber, "sharedBus": device.sharedBus}
    elif isinstance(device, vim.vm.device.VirtualController):
        given |= {"busNumber": device.busNumber}
    return vim.vm.device.VirtualDeviceSpec(operation="add", device=type(device)(**given))


def _fresh(backing: Any) -> Any:
    """The same network, but no port of another card's."""
    from pyVmomi import vim

    card = vim.vm.device.VirtualEthernetCard
    if isinstance(backing, card.DistributedVirtualPortBackingInfo):
        port = vim.dvs.PortConnection(portgroupKey=backing.port.portgroupKey, switchUuid=backing.port.switchUuid)
        return card.DistributedVirtualPortBackingInfo(port=port)
    return backing


def _gib(byte: int) -> str:
    return f"{byte / (1 << 30):.1f} GiB"
