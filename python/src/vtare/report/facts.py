"""The machine's facts, each with what it means for a measurement of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.number_text import significant, time_text
from vtare.sentences import facts as wording

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
        _plain("clock read", _time(clock.get("read_cost_ns")), wording.CLOCK_READ),
        _plain("clock quantum", _time(clock.get("quantum_ns")), wording.CLOCK_QUANTUM),
        _governor(m),
        _plain(
            "timer tick",
            f"{m['hz']} Hz" if m.get("hz") else None,
            wording.timer_tick(tick_ms),
        ),
        _plain("timer slack", _time(m.get("timer_slack_ns")), wording.TIMER_SLACK),
        _steal(machine),
        _load_average(machine),
        _plain(
            "isolated CPUs",
            isolated or "none",
            wording.ISOLATED if isolated else wording.NOT_ISOLATED,
        ),
        _plain(
            "SMT",
            None if smt is None else "on" if smt else "off",
            wording.SMT if smt else wording.NO_SMT,
        ),
        _plain("preemption", m.get("preempt_model"), wording.PREEMPTION),
        _plain("limits", _cgroup(m.get("cgroup")), wording.LIMITS),
    )


def facts_of_machine(m: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Those facts that the machine states by itself, without a run."""
    return (_cpu(m), _kernel(m), _hypervisor(m), _container(m), _clock_source(m), _governor(m))


def _cpu(m: Mapping[str, Any]) -> Fact:
    about = f"{_known(m.get('architecture'))}, {_known(m.get('cpus_online'))} CPUs online"
    return _plain("CPU", m.get("cpu_model"), about)


def _kernel(m: Mapping[str, Any]) -> Fact:
    return _plain("kernel", m.get("kernel"), wording.KERNEL)


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
    return Fact(name, wording.UNREPORTED if value is None else str(value), meaning)


def _hypervisor(m: Mapping[str, Any]) -> Fact:
    hypervisor = m.get("hypervisor")
    if hypervisor is None and "hypervisor" not in (m.get("cpu_flags") or []):
        return Fact("hypervisor", "none seen", wording.ON_HARDWARE)
    meaning = wording.VIRTUAL
    if hypervisor == "uml":
        meaning = wording.USER_MODE
    more = [_known(m[key]) for key in ("virtual_machine", "confidential") if m.get(key)]
    return Fact(
        "hypervisor", ", ".join([_known(hypervisor) if hypervisor else "unknown kind", *more]), meaning, warns=True
    )


def _container(m: Mapping[str, Any]) -> Fact:
    container = m.get("container")
    if container == "gvisor":
        return Fact("container", "gvisor", wording.GVISOR, warns=True)
    return _plain("container", container or "none", wording.CONTAINER)


def _clock_source(m: Mapping[str, Any]) -> Fact:
    source = m.get("clock_source")
    if source in ("tsc", "arch_sys_counter"):
        return Fact("kernel clock source", str(source), wording.COUNTER)
    if source in ("kvm-clock", "hyperv_clocksource_tsc_page"):
        return Fact(
            "kernel clock source",
            str(source),
            wording.PARAVIRTUAL,
        )
    if source in _UNSTABLE:
        return Fact(
            "kernel clock source",
            str(source),
            wording.DEVICE,
            warns=True,
        )
    return _plain("kernel clock source", source, wording.UNKNOWN_SOURCE)


def _trust(clock: Mapping[str, Any]) -> Fact:
    source, trusted = clock.get("source"), clock.get("trusted")
    if source is None or trusted is None:
        return _plain("clock used", source, wording.TRUST_UNRECORDED)
    reasons = "; ".join(str(reason) for reason in clock.get("reasons") or []) or wording.NO_REASON
    return Fact("clock used", f"{source}, {'trusted' if trusted else 'not trusted'}", reasons, warns=not trusted)


def _calibration(machine: MachineFacts) -> Fact:
    ppm = machine.residual_ppm_max
    if ppm is None:
        return _plain("calibration residual", None, wording.UNCALIBRATED)
    if ppm == 0:
        return Fact("calibration residual", "0 ppm", wording.NO_RESIDUAL)
    return Fact(
        "calibration residual",
        f"{significant(ppm)} ppm at most",
        wording.residual(time_text(ppm * 1000)),
    )


def _governor(m: Mapping[str, Any]) -> Fact:
    governor = m.get("governor")
    if governor is None:
        return Fact(
            "frequency governor",
            wording.UNREPORTED,
            wording.UNKNOWN_GOVERNOR,
        )
    if governor == "performance":
        return Fact("frequency governor", governor, wording.PERFORMANCE)
    return Fact(
        "frequency governor",
        str(governor),
        wording.OTHER_GOVERNOR,
        warns=True,
    )


def _steal(machine: MachineFacts) -> Fact:
    if machine.steal_ns is None:
        return _plain("stolen time", None, wording.STEAL_UNCOUNTED)
    if machine.steal_ns == 0:
        virtual = machine.machine.get("hypervisor") is not None
        return Fact(
            "stolen time",
            "0",
            wording.STEAL_UNPROVEN if virtual else wording.NO_STEAL,
        )
    return Fact("stolen time", time_text(machine.steal_ns), wording.STEAL, warns=True)


def _load_average(machine: MachineFacts) -> Fact:
    value = machine.load_average_max
    if value is None:
        return _plain("load average", None, wording.LOAD_UNKNOWN)
    return Fact(
        "load average",
        f"{significant(value)} at most",
        wording.LOAD,
    )


def _cgroup(limits: Mapping[str, Any] | None) -> str | None:
    if limits is None:
        return None
    parts = [f"{key} {value}" for key, value in limits.items() if value is not None]
    return ", ".join(parts) or "none"


def load_facts(loads: tuple[LoadMade, ...]) -> tuple[Fact, ...]:
    """The background loads as they were really made."""
    facts = []
    for load in loads:
        parts = [f"{load.threads} threads" if load.threads is not None else "threads unknown"]
        if load.operations_per_s is not None:
            parts.append(f"{significant(load.operations_per_s)} operations per s")
        if load.cpu_fraction is not None:
            parts.append(f"{significant(100 * load.cpu_fraction)} % of the CPUs")
        facts.append(Fact(f"load {load.kind}", ", ".join(parts), wording.medians_of(load.runs)))
    return tuple(facts)
