"""What the facts of a machine mean for a measurement of time."""

from __future__ import annotations

from typing import Final

UNREPORTED: Final = "n/a (not reported by the system)"
CLOCK_READ: Final = "part of every interval that is measured"
CLOCK_QUANTUM: Final = "the clock's smallest step: spreads below it read as 0"
TIMER_SLACK: Final = "the kernel may wake a sleep that much later to save power"
ISOLATED: Final = "kept free of other work by the kernel"
NOT_ISOLATED: Final = "no CPU is kept free of other work"
SMT: Final = "a busy sibling thread slows its neighbour"
NO_SMT: Final = "no sibling thread shares a core, as far as seen"
PREEMPTION: Final = "how soon the kernel lets go of a CPU for a thread that wakes"
LIMITS: Final = "a CPU quota stops all threads for the rest of each period once used up"
KERNEL: Final = "runs of different kernels are never pooled"
ON_HARDWARE: Final = "the kernel runs on the hardware, as far as it can see"
VIRTUAL: Final = "a virtual machine: the host can stop its CPUs at any time, and the guest's counters need not show it"
USER_MODE: Final = (
    "user-mode Linux: a process of its host, which can stop it at any time; system calls inside are traced"
)
CONTAINER: Final = "a container shares the kernel and its clock; its limits are below"
GVISOR: Final = "a kernel of gVisor's own answers system calls: each takes longer"
COUNTER: Final = "reads stay in user space: cheap and fine-grained"
PARAVIRTUAL: Final = "paravirtual: reads stay in user space and follow the host's corrections"
DEVICE: Final = (
    "every read enters the kernel or a device: expensive and coarse; tsc would be better where the CPU's counter is "
    "invariant"
)
UNKNOWN_SOURCE: Final = "not one that vtare knows"
TRUST_UNRECORDED: Final = "whether it can be trusted was not recorded"
NO_REASON: Final = "no reasons recorded"
UNCALIBRATED: Final = "no counter was calibrated, or the residual is unknown"
NO_RESIDUAL: Final = "no deviation from the kernel's raw clock was found"
UNKNOWN_GOVERNOR: Final = "the CPU's frequency may change unseen; usual in guests"
PERFORMANCE: Final = "the frequency stays high: good for measuring"
OTHER_GOVERNOR: Final = "the frequency follows the load: an idle CPU is slower to start; performance is steadier"
STEAL_UNCOUNTED: Final = "the system does not count time taken by a hypervisor"
STEAL_UNPROVEN: Final = "many hosts do not report stolen time to their guests: 0 is no proof"
NO_STEAL: Final = "no time was taken by a hypervisor"
STEAL: Final = "taken by the hypervisor during the runs"
LOAD_UNKNOWN: Final = "other work on the machine is unknown"
LOAD: Final = "runnable threads over one minute at the start of a run, the campaign's own loads included"


def timer_tick(tick: str) -> str:
    return f"two-phase sleep spins for the last {tick} before each target"


def residual(error: str) -> str:
    return f"a measured second is wrong by {error} at most through calibration"


def medians_of(runs: int) -> str:
    return f"medians over {runs} runs"
