"""What a plan's factors state of instances: what each is given, and which others run in the background.

Resources: `vcpus`, `memory` ("256 MiB"), `affinity` ("off", or CPUs of the host as "0" and "0,1"), `nic`,
`guest_clock` and `disk` ("256 MiB", or "none").
Background: `background` (how many instances), `background_load` (what each does), `background_side`,
`background_platform` (that of the side where the plan does not state one), `background_memory` ("256 MiB", or "fit").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from vtare.errors import bad_value
from vtare.platforms.protocol import DEFAULT_RESOURCES, Resources
from vtare.quantities import parse, pattern_of, unit_of

AFFINITY: Final = "affinity"
RESOURCE_FACTORS: Final = ("vcpus", "memory", AFFINITY, "nic", "guest_clock", "disk")
BACKGROUND_FACTORS: Final = (
    "background",
    "background_load",
    "background_side",
    "background_platform",
    "background_memory",
)
#: The load on a file service beside the instances, each with its own.
FILE_SERVICE: Final = "nbd"
#: Addresses behind one bridge leave room for that many beside those that measure.
MOST_BACKGROUND: Final = 128
OFF: Final = "off"
NO_DISK: Final = "none"
#: The memory of instances in the background: that of the instance that measures, or less where they have no room.
FIT: Final = "fit"
#: The io load's smallest file, and the journal and tables of the file system.
LEAST_DISK_BYTE: Final = 32 << 20
_DEFAULT: Final = "default"
_MOST_CPUS: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_CPUS: Final = re.compile(r"\d{1,4}(,\d{1,4})*")


@dataclass(frozen=True, slots=True)
class Load:
    """A load: what it uses, `threads` where the plan states them, and the rate that `net` offers."""

    kind: str = "idle"
    threads: int | None = None
    rate_bit_per_s: int = 1_000_000_000


IDLE: Final = Load()


@dataclass(frozen=True, slots=True)
class Background:
    """Instances that run beside those that measure: how many, of what platform, on which side, doing what."""

    instances: int = 0
    load: Load = IDLE
    side: str = "sender"
    platform: str | None = None
    memory: int | str | None = None

    def given(self, resources: Resources) -> Resources:
        """What each is given of these resources; `fit` leaves the memory to what there is room for."""
        return replace(resources, memory_byte=self.memory) if isinstance(self.memory, int) else resources

    @property
    def served(self) -> bool:
        """Whether its instances read and write file services beside them."""
        return self.instances > 0 and self.load.kind == FILE_SERVICE

    def beside(self, platform: str) -> str:
        """The platform of these instances, where those that measure are on `platform`: the same, or the plan's."""
        # There is one host: what stands beside a process on it is a process in a namespace.
        return self.platform or ("netns" if platform == "host" else platform)


NO_BACKGROUND: Final = Background()


class BadLevel(ValueError):
    """A level that cannot be used. The message follows its key path: `is VALUE: use WHAT`."""

    def __init__(self, value: object, use: str) -> None:
        """`use`: what to use instead of `value`."""
        super().__init__(bad_value(value, use))


def read_level(factor: str, found: Any) -> tuple[str, Any]:
    """Return the label and the value of one level of one of these factors (but for names of platforms and sides).

    Raises:
        BadLevel: it cannot be used.
        QuantityError: it is no quantity.
    """
    return _LEVELS[factor][0](found)


def level_schema(factor: str) -> Mapping[str, Any]:
    """What a level of one of these factors may be, as JSON Schema."""
    return _LEVELS[factor][1]


def resources_of(values: Mapping[str, Any]) -> Resources:
    """What the values of a run's factors give to an instance; factors that are not there give nothing."""
    if not any(name in values for name in RESOURCE_FACTORS):
        return DEFAULT_RESOURCES
    return Resources(
        vcpus=values.get("vcpus"),
        memory_byte=values.get("memory"),
        pinned=values.get("affinity"),
        nic=values.get("nic"),
        clock_source=values.get("guest_clock"),
        disk_byte=values.get("disk"),
    )


def background_of(values: Mapping[str, Any]) -> Background:
    """Which instances the values of a run's factors put into the background."""
    return Background(
        instances=values.get("background", 0),
        load=values.get("background_load", NO_BACKGROUND.load),
        side=values.get("background_side", NO_BACKGROUND.side),
        platform=values.get("background_platform"),
        memory=values.get("background_memory"),
    )


def _integer(low: int, high: int) -> Callable[[Any], tuple[str, Any]]:
    def read(found: Any) -> tuple[str, Any]:
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise BadLevel(found, f"an integer from {low} to {high}")
        return str(found), found

    return read


def _memory(found: Any) -> tuple[str, Any]:
    unit = unit_of("memory_byte")
    if not isinstance(found, str) or unit is None:
        raise BadLevel(found, 'a size such as "256 MiB"')
    size = parse(found, unit)
    if size != int(size) or not 1 << 20 <= size <= 1 << 44:
        raise BadLevel(found, "1 MiB to 16 TiB")
    return " ".join(found.split()), int(size)


def _disk(found: Any) -> tuple[str, Any]:
    if found == NO_DISK:
        return NO_DISK, 0
    refusal = BadLevel(found, f'a size from 32 MiB to 16 TiB, or "{NO_DISK}"')
    try:
        label, byte = _memory(found)
    except ValueError as error:
        raise refusal from error
    if byte < LEAST_DISK_BYTE:
        raise refusal
    return label, byte


def _background_memory(found: Any) -> tuple[str, Any]:
    if found == FIT:
        return FIT, FIT
    try:
        return _memory(found)
    except ValueError as error:
        raise BadLevel(found, f'a size such as "256 MiB", or "{FIT}"') from error


def _affinity(found: Any) -> tuple[str, Any]:
    if found == OFF:
        return OFF, None
    if isinstance(found, str) and _CPUS.fullmatch(found.replace(" ", "")):
        cpus = tuple(int(word) for word in found.split(","))
        return f"CPU {','.join(map(str, cpus))}", cpus
    raise BadLevel(found, '"off" or CPUs of the host such as "0" or "0,1"')


def _name(found: Any) -> tuple[str, Any]:
    """A name that the platform checks; `default` is the one that it takes by itself."""
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise BadLevel(found, 'a name such as "virtio" or "tsc", or "default"')
    return found, None if found == _DEFAULT else found


def _quantity(parameter: str) -> dict[str, Any]:
    unit = unit_of(parameter)
    assert unit is not None
    return {"type": "string", "pattern": pattern_of(unit)}


_MEMORY: Final = _quantity("memory_byte")
_NAMED: Final = {"type": "string", "pattern": f"^{_NAME.pattern}$"}
#: Factor -> the reader of its levels, and what they may be as JSON Schema.
_LEVELS: Final[dict[str, tuple[Callable[[Any], tuple[str, Any]], Mapping[str, Any]]]] = {
    "vcpus": (_integer(1, _MOST_CPUS), {"type": "integer", "minimum": 1, "maximum": _MOST_CPUS}),
    "memory": (_memory, _MEMORY),
    "affinity": (_affinity, {"type": "string", "pattern": r"^(?:off| *\d{1,4} *(?:, *\d{1,4} *)*)$"}),
    "nic": (_name, _NAMED),
    "guest_clock": (_name, _NAMED),
    "disk": (_disk, {"anyOf": [{"enum": [NO_DISK]}, _MEMORY]}),
    "background_memory": (_background_memory, {"anyOf": [{"enum": [FIT]}, _MEMORY]}),
    "background": (_integer(0, MOST_BACKGROUND), {"type": "integer", "minimum": 0, "maximum": MOST_BACKGROUND}),
}
