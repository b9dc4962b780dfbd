"""What `vtare doctor` states of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE: Final = "\nWhat can be measured here"
UNVERIFIED: Final = "* never compared with the real thing (docs/reference/platforms.md)"
KEY: Final = "plan: on machines that a plan names. -: the reason is below."
NOT_NEEDED: Final = (
    "This is what campaigns can do here; `vtare rtt` and `vtare avb` to another machine need none of it."
)
MISSING: Final = "\nWhat is missing"
COMMANDS: Final = "\nAll that a platform lacks, as far as commands get it"
NEEDS: Final = "What each needs: vtare doctor --platforms"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def ready(names: Iterable[str]) -> str:
    return f"Ready on this machine: {_listed(names)}"


def not_ready(name: str, why: str) -> str:
    return f"Not ready: {name}: {why}"


def platforms(names: Iterable[str]) -> str:
    return f"Platforms for campaigns: {_listed(names)}"


def not_set_up(names: Iterable[str]) -> str:
    return f"Optional, not set up: {_listed(names)}"


def optional(names: Iterable[str]) -> str:
    return f"Optional, missing: {_listed(names)}"


def ready_on(name: str, platforms: Iterable[str]) -> str:
    return f"{name}: ready on {_listed(platforms)}"


def not_on(name: str, platform: str, why: str) -> str:
    return f"{name}: not on {platform}: {why}"


def is_ready(platform: str) -> str:
    return f"{platform}: ready"


def platforms_ready(names: str) -> str:
    return f"Platforms that are ready: {names}."


# Why a feature of this machine cannot be used.

NO_PING_GROUP: Final = "this group is not in net.ipv4.ping_group_range"
ONE_CPU: Final = "this machine has 1 CPU: a measurement and the work that disturbs it share it"
NO_PRESSURE: Final = "there is no /proc/pressure: boot a kernel with CONFIG_PSI, with psi=1"
KVM_CLOSED: Final = "/dev/kvm cannot be opened"
NO_VIRTUALIZATION: Final = (
    "this CPU shows no virtualization: turn it on in the firmware, or nested virtualization at the machine's host"
)
NOT_ON_PATH: Final = "not on PATH"
NOT_INSTALLED: Final = "not installed"


def there_is_no(path: object) -> str:
    return f"there is no {path}"


def not_readable(path: object) -> str:
    return f"{path} cannot be read"


def not_writable(path: object) -> str:
    return f"{path} cannot be written"


def without_rights(capabilities: Iterable[str]) -> str:
    return f"without {', '.join(capabilities).upper()}"


def no_realtime(error: str | None) -> str:
    return (
        f"the kernel refuses it ({error}): this control group has no real-time CPU time (cpu.rt_runtime_us); move this "
        "shell out of it: echo $$ > /sys/fs/cgroup/cpu/cgroup.procs"
    )


def socket_refused(error: str | None) -> str:
    return f"the kernel refuses such a socket ({error})"


def no_programs_for(architecture: str) -> str:
    return f"no programs for {architecture} are shipped"


def no_bpf(error: str) -> str:
    return f"the kernel loads no program ({error}): it needs CONFIG_BPF_SYSCALL, and no lockdown"


def small_buffer(most: int | None, wanted: int) -> str:
    return f"net.core.rmem_max is {'unknown on this kernel' if most is None else f'{most} B'}: use {wanted} B"


def slow_clock_source(name: str) -> str:
    return f"the clock source is {name}; see `vtare check`"
