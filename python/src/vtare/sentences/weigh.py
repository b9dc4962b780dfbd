"""What `vtare weigh` states: which platform costs least, what each costs, and where the command does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import listing, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The answer. A `cost` is one of the next four.


def slower(percent: str) -> str:
    return f"{percent} slower"


def faster(percent: str) -> str:
    return f"{percent} faster"


def times(ratio: float) -> str:
    return f"{ratio:.3g}\N{MULTIPLICATION SIGN} the time"


def same(margin: str) -> str:
    return f"the same within {margin}"


UNKNOWN: Final = "no clear difference yet"


def only(name: str, cost: str) -> str:
    return f"{name} against the host: {cost}."


def least(name: str, cost: str, others: Sequence[str]) -> str:
    return f"{name} costs least: against the host {cost}; {', '.join(others)}."


def too_close(names: Sequence[str], costs: Sequence[str]) -> str:
    known = f" Against the host: {', '.join(costs)}." if costs else ""
    return f"Too close to call between {listing(names)}.{known}"


NOTHING: Final = "The command ran on no platform but the host, so there is nothing to compare."

# Below the answer.


def basis(rounds: int, seconds: float, ended: str) -> str:
    return f"{plural(rounds, 'round')} in {seconds:.0f} s; {ended}."


MORE_TIME: Final = "To decide more, raise --max-time."
ENDED: Final[Mapping[str, str]] = {
    "known": "stopped once each wall time was decided",
    "limits": "stopped once --fail-if was decided",
    "time": "stopped by --max-time",
    "pairs": "stopped by --rounds",
    "interrupted": "interrupted",
}
HEADINGS: Final = (
    "", "wall time", "95 % interval", "verdict", "CPU", "memory", "start", "exec", "stop", "CPU outside", "burst",
)  # fmt: skip
#: Why a figure of a run is not known.
MISSING: Final = {
    "start": "the start is not known",
    "whole": "the whole is not known",
    "stop": "the clock inside is another one: the start includes the stop",
    "CPU time outside": "its processes are in a control group of their own, or this machine gives none",
    "memory in all": "its processes are in a control group of their own, or this machine counts none",
}


def same_root(name: str) -> str:
    return f"Every platform ran on the files of {name}; the host by chroot."


def refused(name: str, reason: str) -> str:
    return f"{name}: cannot run it: {reason}"


def absent(name: str, reason: str) -> str:
    return f"{name}: does not work here: {reason}"


def apart(names: Sequence[str]) -> str:
    return f"start and exec of {listing(names)} include the stop: its clock is another one"


def no_start(name: str, figure: str, reason: str) -> str:
    return f"{figure} of {name} is not known: {reason}"


def burst_of(starts: int) -> str:
    return f"burst: {plural(starts, 'start')} at once, until the last has executed its first instruction."


# A server.

SERVER_HEADINGS: Final = ("", "p50", "95 % interval", "verdict", "p99", "rate", "memory", "start")
CLIENT_HEADINGS: Final = ("", "client", "95 % interval", "verdict", "memory", "start")
NO_RATE: Final = "no reply came where several connections asked"


def of_server(answer: str) -> str:
    return f"By median latency, {answer[:1].lower()}{answer[1:]}"


def of_client(answer: str) -> str:
    return f"By the client's time, {answer[:1].lower()}{answer[1:]}"


def asked_at(per_s: float, connections: int) -> str:
    return f"p50 and p99 at {per_s:.3g} requests/s on one connection, the highest rate on {connections}."


def server_method(seed: int) -> list[str]:
    return [
        "In each run the server was started on a platform, measured from this machine, and ended; platforms in turn, "
        "in random order. Changes are of runs in the same round (Hodges-Lehmann), with intervals that hold together "
        "at 95 % and at every look.",
        "Requests had fixed times. A latency counts from then where an earlier reply was late, so that a server that "
        "stands still is not hidden. Start: from the call of the platform's tool to the first reply.",
        f"Seed of the orders: {seed}.",
    ]


def server_ended(how: str) -> str:
    return f"the server ended before it was measured: {how}. It must stay in the foreground"


def no_reply(port: int, reason: str) -> str:
    return f"no reply on port {port}: {reason}"


def too_few_replies(reason: str | None) -> str:
    return f"too few replies: {reason or 'it needs 299 in a run. Raise --max-time'}"


def no_figure(name: str, reason: str) -> str:
    return f"{name} is not known: {reason}"


def client_failed(reason: str) -> str:
    return f"--client failed: {reason}"


def port_taken(port: int) -> str:
    return f"--server {port}: another program listens on this port. Stop it, or use another port"


def port_not_free(port: int) -> str:
    return f"port {port} was still in use 5 s after the server before it was ended"


def density(limit: str, per_s: float, fits: Sequence[str]) -> str:
    return f"Instances until p99 exceeds {limit}, each with {per_s:.3g} requests/s: {', '.join(fits)}."


DENSITY_ENDED: Final[Mapping[str, str]] = {"memory": " (memory ran out)", "time": " (time ran out)", "most": ""}


def fits(name: str, count: int, below: int | None, ended: str) -> str:
    if below == count + 1:
        return f"{name} {count}"
    return f"{name} {f'at least {count}' if below is None else f'{count} to {below - 1}'}{DENSITY_ENDED.get(ended, '')}"


def filling(name: str, instances: int) -> str:
    return f"{plural(instances, 'instance')} on {name}"


def no_density(name: str, reason: str) -> str:
    return f"more instances on {name} failed: {reason}"


NEEDS_SERVER: Final = "--client, --request and --density are about a server. Add --server PORT"
DENSITY_OR_CLIENT: Final = "--density is about vtare's own requests. Leave --client out"
DENSITY_IN_LIMIT: Final = "--density and --memory exclude each other: one limit would hold all instances. Leave one out"


def density_needs_port(most: int) -> str:
    return (
        f"--density: each instance needs a port of its own, up to {most} from PORT on. Write {{port}} where the "
        "command has it, and choose a lower PORT"
    )


CLIENT_OR_REQUEST: Final = "--client and --request exclude each other. Name one of them"
SERVER_ALONE: Final = "--server and --burst exclude each other. Leave one out"


# Why a platform is slower.

#: What one event of a kind is, and several are.
EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "system call": ("system call", "system calls"),
    "page fault": ("page fault", "page faults"),
    "file page fault": ("page fault of a mapped file", "page faults of mapped files"),
    "copied page": ("page copied to be written", "pages copied to be written"),
    "mapping": ("change of mapped memory", "changes of mapped memory"),
    "file open": ("file opened", "files opened"),
    "file lookup": ("file looked up", "files looked up"),
    "file creation": ("file created", "files created"),
    "change of a name": ("name made, changed or removed", "names made, changed or removed"),
    "directory read": ("read of a directory", "reads of directories"),
    "read or write": ("read or write", "reads and writes"),
    "fsync": ("fsync", "fsyncs"),
    "packet": ("packet or message", "packets and messages"),
    "sleep": ("sleep", "sleeps"),
    "wake-up": ("wake-up", "wake-ups"),
    "program start": ("program started", "programs started"),
}


def why(name: str, longer: str) -> str:
    return f"Why {name} takes {longer} longer:"


def cause(kind: str, count: int, each: str) -> str:
    return f"{plural(count, *EVENTS[kind])}, {each} more each"


SMALL_CAUSES: Final = "everything else that was counted"


NOT_EXPLAINED: Final = "not explained"


def unexplained(interval: str) -> str:
    return f"{NOT_EXPLAINED} (95 %: {interval})"


def unpriced(kind: str, reason: str) -> str:
    return f"{EVENTS[kind][1]}: not priced{f': {reason}' if reason else ''}"


def no_reason(name: str, reason: str) -> str:
    return f"Why {name} is slower is not known: {reason}"


NO_TIME: Final = "not enough time was left. Raise --max-time"

# What a card predicts.


def only_predicted(costs: Sequence[str]) -> str:
    return f"Predicted, not measured: against the host {', '.join(costs)}."


def predicted_from(hostname: str, date: str) -> str:
    return f"Predicted with the card of {hostname} ({date}), not measured:"


def predicted(name: str, interval: str, cost: str) -> str:
    return f"longer on {name} (95 %: {interval}): {cost}"


NOT_SHOWN: Final = "no clear difference"


def predicted_without(name: str, kinds: Sequence[str]) -> str:
    return f"the card has no costs on {name} of: {', '.join(EVENTS[kind][1] for kind in kinds)}"


def not_predicted(reason: str) -> str:
    return f"nothing is predicted: {reason}"


ALL_MEASURED: Final = "every platform of the card was measured here. Choose others with --on, or --on host for none"
PREDICTED: Final = "Predicted from a card, not measured"
PREDICTED_ABOUT: Final = (
    "What the command asks of the kernel, counted on this host, times what each of it costs more on the machine of the "
    "card. The interval is that of these costs: work that no count shows is not in it."
)
CARD_FROM: Final = "Give a card that `vtare check --write FILE` wrote"
CARD_OR_SERVER: Final = "--card and --server exclude each other: a card predicts the time of a command. Leave one out"
CARD_ALONE: Final = "--write card=FILE measures no command. Leave the command out, or write html or json"
NO_COMMAND: Final = "the command is missing. Add it at the end: -- COMMAND"


def card_written(names: Sequence[str], file: str) -> str:
    return f"The costs on {listing(names)} are in {file}. Use it elsewhere: vtare weigh --card {file} -- COMMAND"


# The page.


def costs_least(command: str) -> str:
    return f"Which platform costs {command} least?"


def limit_state(limit: str, state: str) -> str:
    return f"--fail-if '{limit}' is {state}."


PLATFORMS: Final = "Every platform: changes against the host, ~ where no difference is shown"
PHASES: Final = ("start", "command", "stop")
PHASE_TITLE: Final = "How long does it take from the start to the end?"
PHASE_AXIS: Final = "time of a run"
PHASE_CAPTION: Final = (
    "From the call of the platform's tool to its end, medians of the runs; the tick is the median of the whole. A "
    "platform with its own clock has its stop within the start."
)
REASONS: Final = "Why is it slower?"
LONGER_AXIS: Final = "longer than on the host"
CAUSE_CAPTION: Final = (
    "What the command asks of the kernel, times what each of it costs more there. The tick is the difference that was "
    "measured. To the left of 0: what costs less, or was explained too much."
)
CAUSES: Final = "Every kind of event that the command asks for"
COUNT_ABOUT: Final = "in one run, counted on the host"


def method(seed: int) -> list[str]:
    return [
        "The command ran on each platform in turn, in random order, until each wall time was decided. Changes are of "
        "runs in the same round (Hodges-Lehmann), with intervals that hold together at 95 % and at every look.",
        "Reasons: what a run asks of the kernel was counted on the host. Small programs that do little else were timed "
        "on each platform in turn; the price of one event solves the linear equations of their times.",
        "Exec and burst: a small program of vtare, in an instance that runs and in many that start at once. The host "
        "has no instance to enter: it starts the program as ever.",
        f"Seed of the orders: {seed}.",
    ]


# Errors.


def fails_on_the_host(command: str, reason: str) -> str:
    return f"{command}: it fails on the host, so nothing is weighed. Correct it first: {reason}"


def still_ran(seconds: float) -> str:
    return f"it still ran after {seconds:g} s. Allow more with --timeout SECONDS"


def ended_with(how: str) -> str:
    return f"it ended with {how} and wrote no error"


TWO_ROOTS: Final = "--image and --rootfs exclude each other. Name one of them"
ROOT_NEEDS_ROOT: Final = "--image and --rootfs need root, to mount files. Run it with sudo"


def no_root(name: object) -> str:
    return f"--rootfs: '{name}' is no directory. Name one that holds bin, lib and what else the command needs"


def no_image(name: str, reason: str) -> str:
    return f"--image: '{name}' is no image: {reason}. Use an archive of `docker save`, an OCI layout or a reference"


def no_reference(name: str, reasons: Mapping[str, str]) -> str:
    listed = "; ".join(f"{tool}: {reason}" for tool, reason in reasons.items())
    return f"--image: '{name}' is no file, and nothing here gets it: {listed}. Name an archive of `docker save`"


NO_MANIFEST: Final = "it has no manifest as Docker or OCI write it"
NO_ARCHIVE: Final = "it is no tar archive, or one in a compression that Python does not read"
NOT_INSTALLED: Final = "not installed"


def images_in(number: int) -> str:
    return f"it has {number} images for this machine, not 1"


def leads_out(name: str) -> str:
    return f"the path '{name}' leads out of it"


def not_ready(seconds: float) -> str:
    return f"its instance was not up after {seconds:.0f} s. Raise --max-time"


NOT_ENTERED: Final = "a guest runs one program and powers off"
SERVER_IN_GUEST: Final = "--server needs the host's network, which a guest does not have. Leave qemu out"


def guest_needs(mebibytes: int) -> str:
    return f"a guest needs --memory {mebibytes}MiB or more"


def needs_static(busybox: str) -> str:
    return f"{busybox} needs shared libraries, which a guest does not have; install busybox-static"


NO_ANSWER: Final = "it ended without an answer"
BURST_IN_LIMIT: Final = "--burst and --memory exclude each other: one limit would hold all instances. Leave one out"
NO_BURST: Final = "--fail-if: burst needs a number of starts. Add --burst N"
NO_GROUP: Final = "it has no control group of memory that this process may use"


def no_limit(reason: object) -> str:
    return f"this machine cannot keep --memory: {reason}. Leave it out, or use root and a kernel with CONFIG_MEMCG"


def killed_in_limit(reason: str, byte: str) -> str:
    return f"{reason}. It may need more memory than --memory {byte}"


def no_platform(reasons: Mapping[str, str]) -> str:
    listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return f"no platform but the host works here: {listed or 'none was named'}. See `vtare doctor --platforms`"


# Progress.


UNPACKING: Final = "unpacking the image"


def preparing(name: str) -> str:
    return f"preparing {name}"


def warming_up(name: str) -> str:
    return f"warming up on {name}"


def starting(name: str, figure: str) -> str:
    return f"measuring {figure} on {name}"


COUNTING: Final = "counting what the command asks of the kernel"
COUNTING_SMALL: Final = "counting what small programs ask of the kernel"


def pricing(at: int, of: int) -> str:
    return f"measuring what that costs on each platform, round {at} of {of}"
