"""The machine's facts, each with what it means for a measurement of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.plots.format import significant, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.summary import Summary
    from vtare.summary.model import LoadMade, MachineFacts


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: `name`, `value` as text, `meaning` for the reader, `warns` where it spoils measurements."""

    name: str
    value: str
    meaning: str
    warns: bool = False


_UNSTABLE: Final = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen", "hyperv_clocksource_msr")


def emulated(summary: Summary) -> list[str]:
    """The platforms whose machines were emulated in software: their figures are the emulator's."""
    return sorted({one.platform for one in summary.machines if one.machine.get("hypervisor") == "tcg"})


def facts_of(machine: MachineFacts) -> tuple[Fact, ...]:
    """Every fact of one machine that bears on time, in a fixed order; unknown facts read n/a."""
    m, clock = machine.machine, machine.clock
    isolated = ", ".join(str(cpu) for cpu in m.get("isolated_cpus") or [])
    smt = m.get("smt")
    tick_ms = f"{significant(1000 / m['hz'])} ms" if m.get("hz") else "tick"
    return (
        _cpu(m),
        _kernel(m),
        _hypervisor(m),
        _container(m),
        _clock_source(m),
        _trust(clock),
        _calibration(machine),
        _plain("clock read", _time(clock.get("read_cost_ns")), "part of every interval that is measured"),
        _plain(
            "clock quantum", _time(clock.get("quantum_ns")), "the clock's smallest step: spreads below it read as 0"
        ),
        _governor(m),
        _plain(
            "timer tick",
            f"{m['hz']} Hz" if m.get("hz") else None,
            f"two-phase sleep spins for the last {tick_ms} before each target",
        ),
        _plain(
            "timer slack", _time(m.get("timer_slack_ns")), "the kernel may wake a sleep that much later to save power"
        ),
        _steal(machine),
        _load_average(machine),
        _plain(
            "isolated CPUs",
            isolated or "none",
            "kept free of other work by the kernel" if isolated else "no CPU is kept free of other work",
        ),
        _plain(
            "SMT",
            None if smt is None else "on" if smt else "off",
            "a busy sibling thread slows its neighbour" if smt else "no sibling thread shares a core, as far as seen",
        ),
        _plain("preemption", m.get("preempt_model"), "how soon the kernel lets go of a CPU for a thread that wakes"),
        _plain(
            "limits", _cgroup(m.get("cgroup")), "a CPU quota stops all threads for the rest of each period once used up"
        ),
    )


def facts_of_machine(m: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Those facts that the machine states by itself, without a run."""
    return (_cpu(m), _kernel(m), _hypervisor(m), _container(m), _clock_source(m), _governor(m))


def _cpu(m: Mapping[str, Any]) -> Fact:
    about = f"{_known(m.get('architecture'))}, {_known(m.get('cpus_online'))} CPUs online"
    return _plain("CPU", m.get("cpu_model"), about)


def _kernel(m: Mapping[str, Any]) -> Fact:
    return _plain("kernel", m.get("kernel"), "runs of different kernels are never pooled")


def own_kernels(machines: tuple[MachineFacts, ...]) -> tuple[MachineFacts, ...]:
    """The machines without containers on one of them: what holds for its kernel holds for theirs."""
    kernels = {m.machine.get("kernel") for m in machines if m.machine.get("container") is None}
    return tuple(m for m in machines if m.machine.get("container") is None or m.machine.get("kernel") not in kernels)


def quantum_of(machines: tuple[MachineFacts, ...]) -> float | None:
    """The coarsest clock step among the machines, in ns; None where none is known."""
    known = [float(q) for m in machines if (q := m.clock.get("quantum_ns")) is not None]
    return max(known, default=None)


def _known(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _time(value: float | None) -> str | None:
    return None if value is None else time_text(value)


def _plain(name: str, value: Any, meaning: str) -> Fact:
    return Fact(name, "n/a (not reported by the system)" if value is None else str(value), meaning)


def _hypervisor(m: Mapping[str, Any]) -> Fact:
    found = m.get("hypervisor")
    if found is None and "hypervisor" not in (m.get("cpu_flags") or []):
        return Fact("hypervisor", "none seen", "the kernel runs on the hardware, as far as it can see")
    meaning = "a virtual machine: the host can stop its CPUs at any time, and the guest's counters need not show it"
    if found == "uml":
        meaning = (
            "user-mode Linux: a process of its host, which can stop it at any time; system calls inside are traced"
        )
    more = [_known(m[key]) for key in ("virtual_machine", "confidential") if m.get(key)]
    return Fact("hypervisor", ", ".join([_known(found) if found else "unknown kind", *more]), meaning, warns=True)


def _container(m: Mapping[str, Any]) -> Fact:
    found = m.get("container")
    if found == "gvisor":
        return Fact(
            "container", "gvisor", "a kernel of gVisor's own answers system calls: each takes longer", warns=True
        )
    return _plain("container", found or "none", "a container shares the kernel and its clock; its limits are below")


def _clock_source(m: Mapping[str, Any]) -> Fact:
    source = m.get("clock_source")
    if source in ("tsc", "arch_sys_counter"):
        return Fact("kernel clock source", str(source), "reads stay in user space: cheap and fine-grained")
    if source in ("kvm-clock", "hyperv_clocksource_tsc_page"):
        return Fact(
            "kernel clock source",
            str(source),
            "paravirtual: reads stay in user space and follow the host's corrections",
        )
    if source in _UNSTABLE:
        return Fact(
            "kernel clock source",
            str(source),
            "every read enters the kernel or a device: expensive and coarse; tsc would be "
            "better where the CPU's counter is invariant",
            warns=True,
        )
    return _plain("kernel clock source", source, "not one that vtare knows")


def _trust(clock: Mapping[str, Any]) -> Fact:
    source, trusted = clock.get("source"), clock.get("trusted")
    if source is None or trusted is None:
        return _plain("clock used", source, "whether it can be trusted was not recorded")
    reasons = "; ".join(str(reason) for reason in clock.get("reasons") or []) or "no reasons recorded"
    return Fact("clock used", f"{source}, {'trusted' if trusted else 'not trusted'}", reasons, warns=not trusted)


def _calibration(machine: MachineFacts) -> Fact:
    ppm = machine.residual_ppm_max
    if ppm is None:
        return _plain("calibration residual", None, "no counter was calibrated, or the residual is unknown")
    if ppm == 0:
        return Fact("calibration residual", "0 ppm", "no deviation from the kernel's raw clock was found")
    return Fact(
        "calibration residual",
        f"{significant(ppm)} ppm at most",
        f"a measured second is wrong by {time_text(ppm * 1000)} at most through calibration",
    )


def _governor(m: Mapping[str, Any]) -> Fact:
    governor = m.get("governor")
    if governor is None:
        return Fact(
            "frequency governor",
            "n/a (not reported by the system)",
            "the CPU's frequency may change unseen; usual in guests",
        )
    if governor == "performance":
        return Fact("frequency governor", governor, "the frequency stays high: good for measuring")
    return Fact(
        "frequency governor",
        str(governor),
        "the frequency follows the load: an idle CPU is slower to start; performance is steadier",
        warns=True,
    )


def _steal(machine: MachineFacts) -> Fact:
    if machine.steal_ns is None:
        return _plain("stolen time", None, "the system does not count time taken by a hypervisor")
    if machine.steal_ns == 0:
        virtual = machine.machine.get("hypervisor") is not None
        return Fact(
            "stolen time",
            "0",
            "many hosts do not report stolen time to their guests: 0 is no proof"
            if virtual
            else "no time was taken by a hypervisor",
        )
    return Fact("stolen time", time_text(machine.steal_ns), "taken by the hypervisor during the runs", warns=True)


def _load_average(machine: MachineFacts) -> Fact:
    value = machine.load_average_max
    if value is None:
        return _plain("load average", None, "other work on the machine is unknown")
    return Fact(
        "load average",
        f"{significant(value)} at most",
        "runnable threads over one minute at the start of a run, the campaign's own loads included",
    )


def _cgroup(limits: Mapping[str, Any] | None) -> str | None:
    if limits is None:
        return None
    parts = [f"{key} {value}" for key, value in limits.items() if value is not None]
    return ", ".join(parts) or "none"


def load_facts(loads: tuple[LoadMade, ...]) -> tuple[Fact, ...]:
    """The background loads as they were really made."""
    found = []
    for load in loads:
        parts = [f"{load.threads} threads" if load.threads is not None else "threads unknown"]
        if load.operations_per_s is not None:
            parts.append(f"{significant(load.operations_per_s)} operations per s")
        if load.cpu_fraction is not None:
            parts.append(f"{significant(100 * load.cpu_fraction)} % of the CPUs")
        found.append(Fact(f"load {load.kind}", ", ".join(parts), f"medians over {load.runs} runs"))
    return tuple(found)
