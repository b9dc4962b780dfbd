"""Sentences of Kirova 2019 about sleeps, against Table 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.number_text import significant, time_range_text, time_text
from vtare.papers.claims.kirova_tables import LOADS, OTHERS, PLATFORMS, cells, sentence
from vtare.papers.claims.model import decide

if TYPE_CHECKING:
    from vtare.papers.claims.model import Claim

_ROUND = 0.02
"""Figures of the text are rounded: within 2 % they are those of the table."""


def sleep_claims() -> list[Claim]:
    """Sections 1, 3.2 and 4: the miss of a sleep."""
    return [*_introduction(), *_idle(), *_cpu(), *_io(), *_spin()]


def _introduction() -> list[Claim]:
    median, least = cells("sleeps", "median"), cells("sleeps", "min")
    ratios = {(p, load): median["uSleep", p, load] / median["HPTSleep", p, load] for p in PLATFORMS for load in LOADS}
    text = sentence("hpt-thousands")
    most = max(ratios.values())
    thousands = text.claim(
        "HPTSleep misses by up to thousands of times less than uSleep.", "thousands",
        f"{significant(min(ratios.values()))} to {significant(most, 4)} times less",
        decide(holds=most >= text.numbers["ratio"], in_part=most >= 1000),
        "Ratios of the medians of Table 2, platform by platform and load by load.",
    )  # fmt: skip
    text = sentence("usleep-intro")
    low, high = text.numbers["low"], text.numbers["high"]
    usleep = {key: value for key, value in median.items() if key[0] == "uSleep"}
    inside = sum(low <= value <= high for value in usleep.values())
    wake = text.claim(
        "The median miss of the standard sleep is about 40 to 100 \N{MICRO SIGN}s.", time_range_text(low, high),
        f"{time_text(min(usleep.values()))} to {time_text(max(usleep.values()))}; {inside} of {len(usleep)} inside",
        decide(holds=inside == len(usleep), in_part=2 * inside > len(usleep)),
        f"No median of Table 2 is near {time_text(low)}; the upper end is passed on Xen and VirtualBox.",
    )  # fmt: skip
    text = sentence("wake-up-56")
    hpt_median = min(value for key, value in median.items() if key[0] == "HPTSleep")
    hpt_least = min(value for key, value in least.items() if key[0] == "HPTSleep")
    best = text.claim(
        "The better sleep wakes up within 56 ns.", time_text(text.numbers["time"]),
        f"least median {time_text(hpt_median)}, least reading {time_text(hpt_least)}",
        decide(holds=text.numbers["time"] >= hpt_least * (1 - _ROUND)),
        "No reading of Table 2 is as short as that.",
    )  # fmt: skip
    return [thousands, wake, best]


def _idle() -> list[Claim]:
    median = cells("sleeps", "median")
    text = sentence("sleep-scenarios")
    platforms = sorted({platform for _, platform, _ in median})
    counted = text.claim(
        "Sleeps are measured in three scenarios: Host OS, ESXi and QEMU.", f"{text.numbers['scenarios']:g}",
        f"Table 2 has {len(platforms)}: {', '.join(platforms)}",
        decide(holds=len(platforms) == text.numbers["scenarios"]), "Xen and VirtualBox have results, too.",
    )  # fmt: skip
    text = sentence("three-orders")
    ratios = {p: median["uSleep", p, "idle"] / median["HPTSleep", p, "idle"] for p in PLATFORMS}
    almost = [p for p, ratio in ratios.items() if ratio >= text.numbers["ratio"] / 2]
    orders = text.claim(
        "On the idle system uSleep misses by almost three orders of magnitude more than HPTSleep.",
        f"{text.numbers['ratio']:g} times, five platforms listed",
        ", ".join(f"{p} {significant(ratio)}" for p, ratio in ratios.items()),
        decide(holds=len(almost) == len(ratios), in_part=bool(almost)),
        "On VirtualBox it is little more than one order." if "VBox" not in almost else "Medians of Table 2.",
    )  # fmt: skip
    text = sentence("hpt-idle-range")
    hpt = [median["HPTSleep", p, "idle"] for p in OTHERS]
    low, high = text.numbers["low"], text.numbers["high"]
    inside = text.claim(
        "On the idle system the medians of HPTSleep are between 80 and 116 ns (VirtualBox left out).",
        time_range_text(low, high), time_range_text(min(hpt), max(hpt), 4),
        decide(holds=low * (1 - _ROUND) <= min(hpt) and max(hpt) <= high * (1 + _ROUND)), "Rounded to whole ns.",
    )  # fmt: skip
    return [counted, orders, inside]


def _cpu() -> list[Claim]:
    median, most = cells("sleeps", "median"), cells("sleeps", "max")
    text = sentence("hpt-cpu-platforms")
    hpt = {p: median["HPTSleep", p, "cpu"] for p in PLATFORMS}
    rest = [hpt[p] for p in OTHERS]
    five = text.claim(
        "Under CPU load the medians of HPTSleep are in the same range on all five platforms.",
        f"{text.numbers['platforms']:g} platforms", ", ".join(f"{p} {time_text(value)}" for p, value in hpt.items()),
        decide(holds=max(hpt.values()) < 2 * min(hpt.values()), in_part=False),
        f"VirtualBox is {significant(hpt['VBox'] / max(rest))} to {significant(hpt['VBox'] / min(rest))} times as "
        "high as the others.",
    )  # fmt: skip
    text = sentence("usleep-around-50")
    wanted = text.numbers["median"]
    usleep = [median["uSleep", p, "cpu"] for p in OTHERS]
    near = sum(abs(value / wanted - 1) <= 0.1 for value in usleep)
    fifty = text.claim(
        "Under CPU load the medians of uSleep are around 50 \N{MICRO SIGN}s (VirtualBox left out).",
        time_text(wanted), f"{time_range_text(min(usleep), max(usleep))}; {near} of {len(usleep)} within 10 %",
        decide(holds=near == len(usleep), in_part=2 * near > len(usleep)), "Medians of Table 2.",
    )  # fmt: skip
    longer = sum(most["HPTSleep", p, "cpu"] > most["uSleep", p, "cpu"] for p in PLATFORMS)
    tails = sentence("hpt-longer-tails").claim(
        "Under CPU load HPTSleep has longer tails than uSleep.", "HPTSleep longer",
        f"higher maximum on {longer} of {len(PLATFORMS)} platforms", decide(holds=longer == len(PLATFORMS)),
        "A maximum is one reading; Table 2 prints no other figure of the tails.",
    )  # fmt: skip
    return [five, fifty, tails]


def _io() -> list[Claim]:
    median, most = cells("sleeps", "median"), cells("sleeps", "max")
    spread = cells("sleeps", "half IQR")
    text = sentence("io-tens")
    inside = {}
    for function in ("HPTSleep", "uSleep"):
        low, high = text.numbers[f"{function} low"], text.numbers[f"{function} high"]
        inside[function] = sum(low <= median[function, p, "io_network"] < high for p in PLATFORMS)
    claims = [text.claim(
        "Under I/O load, medians are tens of ns with HPTSleep and tens of \N{MICRO SIGN}s with uSleep on all "
        "platforms.", "5 and 5 of 5 platforms", ", ".join(f"{f}: {n} of 5" for f, n in inside.items()),
        decide(holds=all(n == len(PLATFORMS) for n in inside.values())),
        "HPTSleep: " + ", ".join(f"{p} {time_text(median['HPTSleep', p, 'io_network'])}" for p in PLATFORMS) + ".",
    )]  # fmt: skip
    hpt = {p: spread["HPTSleep", p, "io_network"] for p in PLATFORMS}
    usleep = {p: spread["uSleep", p, "io_network"] for p in PLATFORMS}
    written = "half IQR: " + ", ".join(f"{p} {time_text(value)}" for p, value in hpt.items())
    relative = {p: hpt[p] / median["HPTSleep", p, "io_network"] for p in PLATFORMS}
    widest = max(relative, key=lambda p: relative[p])
    why = f"In proportion to the median, {widest} has the highest spread ({significant(100 * relative[widest])} %)."
    for key, statement, printed, holds in (
        ("esxi-spread-sleep", "Under I/O load, ESXi has a lower spread of HPTSleep than the other platforms.",
         "ESXi lowest", hpt["ESXi"] == min(hpt.values())),
        ("xen-spread-sleep", "Under I/O load, Xen has the highest spread of HPTSleep of all platforms.",
         "Xen highest", hpt["Xen"] == max(hpt.values())),
        ("vbox-spread-sleep", "Under I/O load, VirtualBox has a relatively small spread of HPTSleep.",
         "VirtualBox small", hpt["VBox"] < sorted(hpt.values())[len(hpt) // 2]),
    ):  # fmt: skip
        claims.append(sentence(key).claim(statement, printed, written, decide(holds=holds), why))
    smallest = min(usleep, key=lambda p: usleep[p])
    claims.append(sentence("xen-spread-usleep").claim(
        "Under I/O load, Xen has the smallest spread of uSleep.", "Xen smallest",
        "half IQR: " + ", ".join(f"{p} {time_text(value)}" for p, value in usleep.items()),
        decide(holds=smallest == "Xen"), f"The smallest is that of {smallest}.",
    ))  # fmt: skip
    shifts = {p: (median["HPTSleep", p, "idle"], median["HPTSleep", p, "io_network"]) for p in OTHERS}
    moved = max(shifts, key=lambda p: abs(shifts[p][1] / shifts[p][0] - 1))
    idle, io = shifts[moved]
    own = max(spread["HPTSleep", moved, load] for load in ("idle", "io_network"))
    claims.append(sentence("hpt-medians-stay").claim(
        "Under I/O load, the medians of HPTSleep are those of the idle system.", "the same",
        ", ".join(f"{p} {100 * (b / a - 1):+z.0f} %" for p, (a, b) in shifts.items()),
        decide(holds=all(abs(b / a - 1) <= 0.05 for a, b in shifts.values())),
        f"On {moved} the shift of {significant(io - idle)} ns is {significant((io - idle) / own, 2)} half IQRs.",
    ))  # fmt: skip
    pairs = [(most[f, p, "cpu"], most[f, p, "io_network"]) for f in ("HPTSleep", "uSleep") for p in PLATFORMS]
    higher = sum(io > cpu for cpu, io in pairs)
    claims.append(sentence("io-tails-greatest").claim(
        "I/O load has the greatest effect on the tails.", "I/O greatest",
        f"the maximum is higher than under CPU load in {higher} of {len(pairs)} cases",
        decide(holds=higher == len(pairs)),
        f"Under CPU load maxima are {significant(min(cpu / io for cpu, io in pairs))} to "
        f"{significant(max(cpu / io for cpu, io in pairs))} times as high.",
    ))  # fmt: skip
    return claims


def _spin() -> list[Claim]:
    median, least = cells("sleeps", "median"), cells("sleeps", "min")
    hpt = [median["HPTSleep", p, load] for p in OTHERS for load in LOADS]
    text = sentence("busy-wait-range")
    busy = text.claim(
        "A sleep that ends in a busy wait is precise to microseconds.", f"{time_text(text.numbers['low'])} or more",
        f"medians of HPTSleep {time_range_text(min(hpt), max(hpt))}", decide(holds=min(hpt) >= text.numbers["low"]),
        "The rest of the paper has tenths of a microsecond (VirtualBox left out).",
    )  # fmt: skip
    text = sentence("spin-share")
    phase_ns = 1e9 / text.numbers["frequency"]
    target_ns = phase_ns / (text.numbers["share"] / 100)
    share = text.claim(
        "HPTSleep takes 1.5 % of a CPU.", f"{text.numbers['share']:g} %",
        f"a busy wait of {time_text(phase_ns)} is that share of a sleep of {time_text(target_ns)}",
        "cannot be decided", "The length of the sleeps is not printed. By section 2.1.1, sleeps shorter than the time "
        "between two timer interrupts are busy waits as a whole: 100 %.",
    )  # fmt: skip
    text = sentence("sleep-limit-40")
    usleep = {key: value for key, value in least.items() if key[0] == "uSleep"}
    first = min(usleep, key=lambda key: usleep[key])
    limit = text.claim(
        "40 \N{MICRO SIGN}s is the limit of the accuracy of a Linux sleep.", time_text(text.numbers["time"]),
        f"minima of uSleep {time_range_text(min(usleep.values()), max(usleep.values()))}",
        decide(holds=min(usleep.values()) >= text.numbers["time"]),
        f"The least miss of Table 2 is that on {first[1]}; the medians begin at "
        f"{time_text(min(value for key, value in median.items() if key[0] == 'uSleep'))}.",
    )  # fmt: skip
    return [busy, share, limit]
