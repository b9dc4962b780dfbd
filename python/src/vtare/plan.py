"""A plan: TOML in, checked dataclasses out.

A plan (`schema = "vtare.plan/1"`) asks one question with one or more experiments. An experiment runs one instrument
with fixed parameters under every combination of its factors' levels. A factor named like a parameter of the instrument
sets that parameter; `load` and `platform` are the lab's own factors. An `rtt` or `avb` experiment that names no `peer`
runs between two hosts that the lab sets up, and has further factors for their roles (TWO_HOST_FACTORS), those of `avb`
also for the path between them (PATH_FACTORS). A `throughput` experiment that names no `tx_port` runs through guests
that the lab sets up (GUEST_FACTORS); `platform` is then what the guests are. Every key is checked: an error names the
file, the key path, the value found and the values wanted.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from vtare.contract import Contract, load_contract
from vtare.errors import BadInput, did_you_mean
from vtare.forwarders import MOST_GUESTS, SWITCHES
from vtare.guests import BACKGROUND_FACTORS, RESOURCE_FACTORS, read_level
from vtare.path import (
    ARRIVALS,
    BOTTLENECKS,
    DEFAULT_MTU_BYTE,
    IPERF3,
    TIMERS,
    rate_label,
    read_rate,
    read_steps,
    steps_label,
)
from vtare.platforms import PLATFORMS
from vtare.quantities import QuantityError, Unit, parse, unit_of

PLAN_SCHEMA: Final = "vtare.plan/1"
LOAD_KINDS: Final = ("idle", "cpu", "io")
CAPTURE_OFF: Final = "off"
CAPTURE_ON: Final = "on"
#: `on` is the hook that `vtare capture` prefers on this machine; the others force one.
CAPTURES: Final = (CAPTURE_OFF, CAPTURE_ON, "tc", "packet")
ICMP: Final = "icmp"
#: Factors of the lab itself, for every experiment; and those of an experiment between two hosts of the lab's own.
LAB_FACTORS: Final = (
    "load", "platform", *RESOURCE_FACTORS, "background", "background_load", "background_platform",
)  # fmt: skip
TWO_HOST_FACTORS: Final = (
    "responder_platform", "capture", "load_side", "responder", "responder_cpu", "background_side",
)  # fmt: skip
#: Factors of the path of an `avb` experiment, whose truth the lab knows (vtare.path).
PATH_FACTORS: Final = (
    "bottleneck", "capacity", "capacity_steps", "cross", "cross_arrivals", "cross_cpu", "delay", "loss", "mtu_byte",
)  # fmt: skip
#: Factors of the guests of a `throughput` experiment: how many, what joins them, and the CPU that takes frames to them.
GUEST_FACTORS: Final = ("guests", "switch", "guest_cpu")
#: As many as Batalla et al. had.
DEFAULT_GUESTS: Final = 12
#: A factor that sets several parameters of `avb` at once.
TIMERS_FACTOR: Final = "timers"
#: Instruments whose far end the lab can be, with the factors that each then has.
FAR_END_FACTORS: Final[dict[str, tuple[str, ...]]] = {
    "rtt": TWO_HOST_FACTORS,
    "avb": ("responder_platform", "load_side", "responder", "responder_cpu", "background_side", *PATH_FACTORS),
}
#: Every factor that is no parameter of an instrument.
#: Factors whose levels are names of platforms.
PLATFORM_FACTORS: Final = ("platform", "responder_platform", "background_platform")
OWN_FACTORS: Final = (*LAB_FACTORS, *TWO_HOST_FACTORS, *PATH_FACTORS, *GUEST_FACTORS, TIMERS_FACTOR)
_LARGEST_MTU_BYTE: Final = 9000
#: What the lab gives a `throughput` run through guests of its own.
_PORT_PARAMETERS: Final = frozenset(("tx_port", "rx_port", "flow"))
_LONGEST_DELAY_S: Final = 10.0
_CHOICES: Final = {
    "bottleneck": BOTTLENECKS,
    "cross_arrivals": ARRIVALS,
    TIMERS_FACTOR: tuple(TIMERS),
    "capture": CAPTURES,
    "load_side": ("sender", "responder"),
    "background_side": ("sender", "responder"),
    "responder": ("blocking", "spinning"),
    "switch": SWITCHES,
}

_CPU_FACTORS: Final = ("responder_cpu", "cross_cpu", "guest_cpu")

_TOP_KEYS: Final = (
    "schema", "name", "question", "seed", "blocks", "settle", "control", "analysis", "stop", "platforms", "experiment",
)  # fmt: skip
#: Blocks that are made in any case before a campaign may stop (statistics.md).
LEAST_BLOCKS_TO_STOP: Final = 10
_EXPERIMENT_KEYS: Final = (
    "name", "instrument", "title", "parameters", "factors", "baseline", "exceed", "run_timeout",
)  # fmt: skip
_DEFAULT_CONTROL: Final = {
    "instrument": "sleep",
    "parameters": {"method": "clock_nanosleep", "target_ns": "1 ms", "samples": 200, "seconds": "0.4 s"},
}
_SECOND: Final = unit_of("seconds")
_NANOSECOND: Final = unit_of("exceed_ns")


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a factor.

    `label` is what tables and plots show. `value` is what the level means: the resolved parameter for an instrument's
    factor, the platform's name, or for a load its settings (`{"kind": "cpu", "threads": 50}`).
    """

    label: str
    value: Any


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor: its levels in the plan's order and the level the others are compared with."""

    name: str
    levels: tuple[Level, ...]
    baseline: str

    def level(self, label: str) -> Level:
        """Return the level with this label. Raises KeyError where there is none."""
        for level in self.levels:
            if level.label == label:
                return level
        raise KeyError(label)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One `[[experiment]]` table.

    `parameters` are resolved (units gone) and hold only what the plan sets. `exceed_ns` is the threshold of
    `exceed_per_s`; `run_timeout_s` ends a run that hangs; both may be None for the default.
    """

    name: str
    instrument: str
    title: str
    parameters: dict[str, Any]
    factors: tuple[Factor, ...]
    exceed_ns: float | None = None
    run_timeout_s: float | None = None

    @property
    def two_hosts(self) -> bool:
        """Whether the lab provides the far end: an experiment of `rtt` or `avb` that names no peer of its own."""
        named = {*self.parameters, *(factor.name for factor in self.factors)}
        return self.instrument in FAR_END_FACTORS and "peer" not in named

    @property
    def through_guests(self) -> bool:
        """Whether the lab provides ports and guests: an experiment of `throughput` that names no port of its own."""
        named = {*self.parameters, *(factor.name for factor in self.factors)}
        return self.instrument == "throughput" and not named & _PORT_PARAMETERS

    def factor(self, name: str) -> Factor:
        """Return one factor by name. Raises KeyError where the experiment has no such factor."""
        for factor in self.factors:
            if factor.name == name:
                return factor
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Control:
    """The idle control cell on the bare host that opens, centres and closes each block (statistics.md)."""

    instrument: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Analysis:
    """How cells are compared: `alpha`, and the margin inside which two medians count as equivalent."""

    alpha: float = 0.05
    margin_percent: float = 5.0

    @property
    def margin_ratio(self) -> float:
        """The margin as a ratio: 5 % is 1.05, so medians between 1/1.05 and 1.05 of each other are equivalent."""
        return 1.0 + self.margin_percent / 100.0


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a campaign may stop before its last block: once every comparison is precise. `Plan.blocks` is the maximum.

    `precision_percent` is wanted of the half-width of each ratio's interval: 5 % is log(1.05) on the log scale.
    """

    precision_percent: float
    least_blocks: int = LEAST_BLOCKS_TO_STOP


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan. `source` is the file it came from, `text` its exact bytes as text."""

    name: str
    question: str
    blocks: int
    seed: int | None
    settle_s: float
    control: Control | None
    analysis: Analysis
    stop: StopRule | None
    experiments: tuple[Experiment, ...]
    source: Path
    platforms: dict[str, dict[str, str | int]]
    text: str = field(repr=False)

    def experiment(self, name: str) -> Experiment:
        """Return one experiment by name. Raises KeyError where there is none."""
        for experiment in self.experiments:
            if experiment.name == name:
                return experiment
        raise KeyError(name)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Every factor of every experiment, once, in order of first use."""
        names: dict[str, None] = {}
        for experiment in self.experiments:
            names.update({factor.name: None for factor in experiment.factors})
        return tuple(names)


def find_plan(name: str) -> Path:
    """Return the plan file for a path or for the name of a shipped plan (`quickstart`).

    Raises:
        BadInput: neither a file nor a shipped plan; the message lists the shipped ones.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = shipped_plans()
    if name in shipped:
        return shipped[name]
    if path.is_dir():
        raise BadInput(f"plan '{name}': found a directory, wanted a file such as {path / 'plan.toml'}")
    hint = did_you_mean(name, shipped)
    known = ", ".join(sorted(shipped)) or "none found"
    raise BadInput(f"plan '{name}': no such file and no shipped plan of that name{hint}; shipped plans: {known}")


def shipped_plans() -> dict[str, Path]:
    """Return the plans that come with vtare: name -> file (package data, or `plans/` of a source tree)."""
    here = Path(__file__).resolve().parent
    found: dict[str, Path] = {}
    for folder in (here / "plans", here / "data" / "plans", here.parents[2] / "plans"):
        if folder.is_dir():
            for path in sorted(folder.glob("*.toml")):
                found.setdefault(path.stem, path)
    return found


def load_plan(path: Path, *, contract: Contract | None = None) -> Plan:
    """Read and check one plan file.

    Raises:
        BadInput: unreadable file, broken TOML, or any key that cannot be used; the message says where and what.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot read the plan: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text (byte {error.start}); save the plan as UTF-8") from error
    return parse_plan(text, source=path, contract=contract)


def parse_plan(text: str, *, source: Path, contract: Contract | None = None) -> Plan:
    """Check the text of a plan. `source` is only named in errors. See `load_plan`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{source}: not valid TOML: {error}") from error
    return _Reader(source, contract or load_contract()).plan(table, text)


class _Reader:
    """Walks the TOML tables and keeps the key path for messages."""

    def __init__(self, source: Path, contract: Contract) -> None:
        self.source = source
        self.contract = contract
        self.platforms: dict[str, dict[str, str | int]] = {}

    def plan(self, table: dict[str, Any], text: str) -> Plan:
        schema = table.get("schema")
        if schema != PLAN_SCHEMA:
            raise self.error("schema", f"found {schema!r}, wanted '{PLAN_SCHEMA}'")
        self.known(table, _TOP_KEYS, "")
        self.platforms = self.platform_settings(table.get("platforms", {}))
        experiments = table.get("experiment")
        if not isinstance(experiments, list) or not experiments:
            raise self.error("experiment", "found none, wanted at least one [[experiment]] table")
        parsed = tuple(self.experiment(entry, f"experiment[{i}]") for i, entry in enumerate(experiments))
        names = [experiment.name for experiment in parsed]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise self.error(f"experiment[{i}].name", f"'{name}' is used twice; give each experiment its own name")
        seed = table.get("seed")
        if seed is not None:
            seed = self.whole(seed, "seed", low=0, high=2**63 - 1)
        name = self.text(table.get("name"), "name")
        if not name.replace("-", "").replace("_", "").isalnum():
            raise self.error("name", f"found '{name}', wanted letters, digits, '-' and '_' only (it names the store)")
        settle = table.get("settle", "200 ms")
        blocks = self.whole(table.get("blocks"), "blocks", low=1, high=10_000)
        return Plan(
            name=name,
            question=self.text(table.get("question"), "question"),
            blocks=blocks,
            seed=seed,
            settle_s=self.quantity(settle, "settle", _SECOND),
            control=self.control(table.get("control", False)),
            analysis=self.analysis(table.get("analysis", {})),
            stop=self.stop(table["stop"], blocks) if "stop" in table else None,
            experiments=parsed,
            source=self.source,
            platforms=self.platforms,
            text=text,
        )

    def experiment(self, table: Any, path: str) -> Experiment:
        if not isinstance(table, dict):
            raise self.error(path, f"found {table!r}, wanted an [[experiment]] table")
        self.known(table, _EXPERIMENT_KEYS, path)
        instrument = self.text(table.get("instrument"), f"{path}.instrument")
        known = self.contract.parameters(instrument, f"{self.source}: {path}.instrument")
        name = self.text(table.get("name", instrument), f"{path}.name")
        parameters = self.parameters(table.get("parameters", {}), instrument, f"{path}.parameters")
        factors_table = table.get("factors", {})
        if not isinstance(factors_table, dict):
            raise self.error(f"{path}.factors", f"found {factors_table!r}, wanted a table: factor = [levels]")
        baselines = table.get("baseline", {})
        if not isinstance(baselines, dict):
            raise self.error(f"{path}.baseline", f"found {baselines!r}, wanted a table: factor = level")
        factors = []
        for factor, levels in factors_table.items():
            where = f"{path}.factors.{factor}"
            own = (*LAB_FACTORS, *FAR_END_FACTORS.get(instrument, ()))
            own = (*own, TIMERS_FACTOR) if instrument == "avb" else own
            own = (*own, *GUEST_FACTORS) if instrument == "throughput" else own
            if factor not in own and factor not in known:
                wanted = (*own, *known)
                raise self.error(
                    where,
                    f"unknown factor{did_you_mean(factor, wanted)}; "
                    f"for {instrument} wanted one of: {', '.join(wanted)}",
                )
            if factor in parameters:
                raise self.error(where, f"'{factor}' is also in {path}.parameters; keep it in one of the two")
            checked = self.levels(factor, levels, instrument, where)
            factors.append(
                Factor(factor, checked, self.baseline(baselines.get(factor), factor, checked, instrument, path))
            )
        self.known(baselines, tuple(factors_table), f"{path}.baseline")
        self.two_hosts(instrument, parameters, tuple(factors_table), path)
        labels = {factor.name: [level.label for level in factor.levels] for factor in factors}
        if IPERF3 in labels.get("cross_arrivals", ()) and "link" in labels.get("bottleneck", ()):
            raise self.error(
                f"{path}.factors.cross_arrivals",
                "found 'iperf3' over the bottleneck 'link', where its traffic is not counted; wanted tbf or htb",
            )
        if instrument == "throughput":
            self.guests(parameters, tuple(factors), path)
        far_end = instrument in FAR_END_FACTORS and "peer" not in parameters and "peer" not in factors_table
        self.background(instrument, far_end, factors_table, path)
        exceed = table.get("exceed")
        timeout = table.get("run_timeout")
        return Experiment(
            name=name,
            instrument=instrument,
            title=self.text(table.get("title", name), f"{path}.title"),
            parameters=parameters,
            factors=tuple(factors),
            exceed_ns=None if exceed is None else self.quantity(exceed, f"{path}.exceed", _NANOSECOND),
            run_timeout_s=None if timeout is None else self.quantity(timeout, f"{path}.run_timeout", _SECOND),
        )

    def two_hosts(self, instrument: str, parameters: dict[str, Any], factors: tuple[str, ...], path: str) -> None:
        """Refuse what the two hosts of the lab cannot be, or what only they can be."""
        if instrument not in FAR_END_FACTORS:
            return
        if TIMERS_FACTOR in factors:
            for name in ("clock", "sleep"):
                if name in parameters or name in factors:
                    raise self.error(
                        f"{path}.factors.{TIMERS_FACTOR}", f"sets '{name}', too; keep it in one of the two"
                    )
        if "peer" in parameters or "peer" in factors:
            for name in factors:
                if name in FAR_END_FACTORS[instrument]:
                    raise self.error(
                        f"{path}.factors.{name}",
                        "needs the far end that the lab sets up; leave 'peer' out, or this factor",
                    )
            return
        if "key_file" in parameters or "key_file" in factors:
            raise self.error(f"{path}.parameters.key_file", "the lab makes a key for each run; leave it out")
        if instrument == "avb":
            self.path_factors(parameters, factors, path)
            return
        if parameters.get("mode") == "stamp" or "mode" in factors:
            raise self.error(
                f"{path}.parameters.mode",
                "found a STAMP far end, or 'mode' as a factor; the lab's own far end speaks udp or icmp: set one of "
                "them, or name a 'peer'",
            )

    def guests(self, parameters: dict[str, Any], factors: tuple[Factor, ...], path: str) -> None:
        """Refuse what guests of the lab cannot be, or what only they can be."""
        names = {factor.name for factor in factors}
        if named := _PORT_PARAMETERS & {*parameters, *names}:
            if absent := _PORT_PARAMETERS - {*parameters, *names}:
                raise self.error(
                    f"{path}.parameters.{min(absent)}",
                    f"found {', '.join(sorted(named))} alone; name all of tx_port, rx_port and flow, or none: the lab "
                    "then sets up ports and guests",
                )
            for name in GUEST_FACTORS:
                if name in names:
                    raise self.error(
                        f"{path}.factors.{name}", "needs the guests that the lab sets up; leave the ports out, or this"
                    )
            return
        if "background" in names:
            raise self.error(
                f"{path}.factors.background", "guests that forward have no others beside them yet; leave it out"
            )
        levels = {factor.name: [level.value for level in factor.levels] for factor in factors}
        if "host" in levels.get("platform", ()):
            raise self.error(
                f"{path}.factors.platform",
                "found 'host', which cannot forward between its own ports; wanted netns, docker, lxc or qemu",
            )
        fewest = min(levels.get("guests", (DEFAULT_GUESTS,)))
        loaded = [k for level in (*levels.get("loaded", ()), parameters.get("loaded")) for k in level or ()]
        if loaded and max(loaded) > fewest:
            place = "factors" if "loaded" in levels else "parameters"
            raise self.error(f"{path}.{place}.loaded", f"found {max(loaded)}, wanted {fewest} at most, the guests")

    def path_factors(self, parameters: dict[str, Any], factors: tuple[str, ...], path: str) -> None:
        """Refuse a path whose truth would not be known."""
        given = [name for name in ("capacity", "capacity_steps") if name in factors]
        if len(given) != 1:
            raise self.error(
                f"{path}.factors.capacity",
                f"found {' and '.join(given) or 'none'}; the path that the lab sets up wants just one of 'capacity' "
                "(\"300 Mbit/s\") and 'capacity_steps' (\"2 Gbit/s:10 s, 7 Gbit/s:10 s\"); or name a 'peer'",
            )
        if "reverse" in factors or parameters.get("reverse"):
            raise self.error(
                f"{path}.parameters.reverse",
                "the lab's bottleneck is on the way forward; leave it out or name a 'peer'",
            )

    def path_level(self, factor: str, level: Any, path: str) -> Level:
        """One level of a factor of the path."""
        if factor == "mtu_byte":
            unit = unit_of(factor)
            size = self.quantity(level, path, unit)
            if size != int(size) or not DEFAULT_MTU_BYTE <= size <= _LARGEST_MTU_BYTE:
                raise self.error(path, f"found {level!r}, wanted {DEFAULT_MTU_BYTE} to {_LARGEST_MTU_BYTE} B")
            return Level(f"{int(size)} B", int(size))
        if factor == "delay":
            seconds = self.quantity(level, path, _SECOND)
            if seconds > _LONGEST_DELAY_S:
                raise self.error(path, f"found {level!r}, wanted {_LONGEST_DELAY_S:g} s at most")
            return Level(" ".join(str(level).split()), round(seconds * 1e9))
        if factor == "loss":
            return self.loss(level, path)
        if not isinstance(level, str):
            example = '"2 Gbit/s:10 s, 7 Gbit/s:10 s"' if factor == "capacity_steps" else '"300 Mbit/s"'
            raise self.error(path, f"found {level!r}, wanted a text such as {example}")
        try:
            if factor == "capacity_steps":
                phases = read_steps(level)
                return Level(steps_label(phases), phases)
            rate = read_rate(level, least=0 if factor == "cross" else 1000)
            return Level(rate_label(rate), rate)
        except QuantityError as error:
            raise self.error(path, str(error)) from error

    def platform_settings(self, table: Any) -> dict[str, dict[str, str | int]]:
        """The settings of platforms of the plan's own: `[platforms.NAME]`, with a `kind` where the name is none."""
        if not isinstance(table, dict):
            raise self.error("platforms", f"found {table!r}, wanted tables [platforms.NAME]")
        for name, settings in table.items():
            path = f"platforms.{name}"
            if not isinstance(settings, dict):
                raise self.error(path, f"found {settings!r}, wanted a table: setting = value")
            if not name.replace("-", "").replace("_", "").isalnum():
                raise self.error(path, f"found '{name}', wanted letters, digits, '-' and '_' only")
            kind = settings.get("kind", name)
            self.choice(kind, PLATFORMS, f"{path}.kind")
            if name in PLATFORMS and kind != name:
                raise self.error(f"{path}.kind", f"found '{kind}', but '{name}' is a kind of its own; rename the table")
            for key, value in settings.items():
                if isinstance(value, bool) or not isinstance(value, str | int):
                    raise self.error(f"{path}.{key}", f"found {value!r}, wanted a text or a whole number")
        return {name: dict(settings) for name, settings in table.items()}

    def guest_level(self, factor: str, level: Any, path: str) -> Level:
        """One level of a factor that says what instances are given, or what runs in the background."""
        try:
            return Level(*read_level(factor, level))
        except (QuantityError, ValueError) as error:
            raise self.error(path, str(error)) from error

    def background(self, instrument: str, far_end: bool, table: dict[str, Any], path: str) -> None:
        """Refuse background factors that mean nothing by themselves, and traffic without a network."""
        if "background" not in table:
            for name in BACKGROUND_FACTORS:
                if name in table:
                    raise self.error(f"{path}.factors.{name}", "means nothing without the factor 'background'")
        kinds = [load.get("kind") if isinstance(load, dict) else load for load in table.get("background_load", [])]
        if not far_end and "net" in kinds:
            raise self.error(
                f"{path}.factors.background_load",
                f"found 'net', but {instrument} runs on one host: without the other there is no sink; leave it out",
            )

    def loss(self, level: Any, path: str) -> Level:
        number, sign, rest = str(level).partition("%")
        try:
            percent = Decimal(number.strip())
        except InvalidOperation:
            percent = Decimal(-1)
        if not sign or rest or not 0 <= percent < 100:
            raise self.error(path, f'found {level!r}, wanted a share below 100 % such as "1 %"')
        return Level(f"{percent.normalize():f} %", float(percent / 100))

    def parameters(self, table: Any, instrument: str, path: str) -> dict[str, Any]:
        if not isinstance(table, dict):
            raise self.error(path, f"found {table!r}, wanted a table: parameter = value")
        known = self.contract.parameters(instrument, f"{self.source}: {path}")
        self.known(table, tuple(known), path)
        return {name: known[name].check(value, f"{self.source}: {path}.{name}") for name, value in table.items()}

    def levels(self, factor: str, levels: Any, instrument: str, path: str) -> tuple[Level, ...]:
        if not isinstance(levels, list) or not levels:
            raise self.error(path, f'found {levels!r}, wanted a list of levels, for example ["a", "b"]')
        checked = []
        for i, level in enumerate(levels):
            where = f"{path}[{i}]"
            if factor == "load":
                checked.append(self.load(level, where))
            elif factor in PLATFORM_FACTORS:
                checked.append(Level(self.choice(level, (*PLATFORMS, *self.platforms), where), level))
            elif factor in RESOURCE_FACTORS or (factor in BACKGROUND_FACTORS and factor not in _CHOICES):
                checked.append(self.guest_level(factor, level, where))
            elif factor in _CHOICES:
                checked.append(Level(self.choice(level, _CHOICES[factor], where), level))
            elif factor in PATH_FACTORS and factor != "cross_cpu":
                checked.append(self.path_level(factor, level, where))
            elif factor == "guests":
                number = self.whole(level, where, low=1, high=MOST_GUESTS)
                checked.append(Level(str(number), number))
            elif factor in _CPU_FACTORS:
                number = self.whole(level, where, low=0, high=8191)
                checked.append(Level(str(number), number))
            else:
                parameter = self.contract.parameters(instrument, path)[factor]
                value = parameter.check(level, f"{self.source}: {where}")
                checked.append(Level(parameter.label(value), value))
        labels = [level.label for level in checked]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise self.error(f"{path}[{i}]", f"level '{label}' is listed twice")
        return tuple(checked)

    def load(self, level: Any, path: str) -> Level:
        if isinstance(level, str):
            kind = self.choice(level, LOAD_KINDS, path)
            return Level(kind, {"kind": kind})
        if not isinstance(level, dict):
            raise self.error(path, f'found {level!r}, wanted a load such as "cpu" or {{kind = "cpu", threads = 50}}')
        self.known(level, ("kind", "threads", "label"), path)
        kind = self.choice(level.get("kind"), LOAD_KINDS, f"{path}.kind")
        settings: dict[str, Any] = {"kind": kind}
        label = kind
        if "threads" in level:
            if kind == "idle":
                raise self.error(f"{path}.threads", "an idle load has no threads; leave the key out")
            settings["threads"] = self.whole(level["threads"], f"{path}.threads", low=1, high=100_000)
            label = f"{kind} {settings['threads']}"
        return Level(self.text(level.get("label", label), f"{path}.label"), settings)

    def baseline(self, found: Any, factor: str, levels: tuple[Level, ...], instrument: str, path: str) -> str:
        if found is None:
            return levels[0].label
        labels = [level.label for level in levels]
        if isinstance(found, str) and found in labels:
            return found
        if factor in (*_CPU_FACTORS, "guests") and str(found) in labels:
            return str(found)
        if factor in RESOURCE_FACTORS or factor in ("background", "background_load"):
            label = self.guest_level(factor, found, f"{path}.baseline.{factor}").label
            if label in labels:
                return label
        if factor in PATH_FACTORS and factor not in _CHOICES and isinstance(found, str):
            label = self.path_level(factor, found, f"{path}.baseline.{factor}").label
            if label in labels:
                return label
        # A quantity may be written in another unit than the level it means: "1000 us" for "1 ms".
        if factor not in OWN_FACTORS:
            parameter = self.contract.parameters(instrument, path)[factor]
            label = parameter.label(parameter.check(found, f"{self.source}: {path}.baseline.{factor}"))
            if label in labels:
                return label
        raise self.error(f"{path}.baseline.{factor}", f"found {found!r}, wanted one of the levels: {', '.join(labels)}")

    def control(self, found: Any) -> Control | None:
        if found is False:
            return None
        table = _DEFAULT_CONTROL if found is True else found
        if not isinstance(table, dict):
            raise self.error(
                "control", f"found {found!r}, wanted true, false or a table with instrument and parameters"
            )
        self.known(table, ("instrument", "parameters"), "control")
        instrument = self.text(table.get("instrument"), "control.instrument")
        return Control(instrument, self.parameters(table.get("parameters", {}), instrument, "control.parameters"))

    def analysis(self, table: Any) -> Analysis:
        if not isinstance(table, dict):
            raise self.error("analysis", f"found {table!r}, wanted a table")
        self.known(table, ("alpha", "margin_percent"), "analysis")
        alpha = self.number(table.get("alpha", 0.05), "analysis.alpha", 0.0, 0.5)
        margin = self.number(table.get("margin_percent", 5.0), "analysis.margin_percent", 0.0, 100.0)
        return Analysis(alpha=alpha, margin_percent=margin)

    def stop(self, table: Any, blocks: int) -> StopRule:
        if not isinstance(table, dict):
            raise self.error("stop", f"found {table!r}, wanted a table such as {{ precision_percent = 5 }}")
        self.known(table, ("precision_percent", "least_blocks"), "stop")
        if "precision_percent" not in table:
            raise self.error("stop.precision_percent", "found nothing, wanted a number between 0 and 100")
        precision = self.number(table["precision_percent"], "stop.precision_percent", 0.0, 100.0)
        if blocks <= LEAST_BLOCKS_TO_STOP:
            raise self.error(
                "blocks",
                f"found {blocks}, wanted more than {LEAST_BLOCKS_TO_STOP} beside [stop]: 'blocks' is the most that are "
                f"made, and {LEAST_BLOCKS_TO_STOP} are made in any case",
            )
        least = table.get("least_blocks", LEAST_BLOCKS_TO_STOP)
        return StopRule(precision, self.whole(least, "stop.least_blocks", low=LEAST_BLOCKS_TO_STOP, high=blocks))

    # Small checks, each with the value found and the values wanted.

    def error(self, path: str, message: str) -> BadInput:
        return BadInput(f"{self.source}: {path}: {message}")

    def known(self, table: dict[str, Any], keys: tuple[str, ...], path: str) -> None:
        for key in table:
            if key not in keys:
                where = f"{path}.{key}" if path else key
                hint = did_you_mean(key, keys)
                raise self.error(where, f"unknown key '{key}'{hint}; wanted one of: {', '.join(keys) or 'none'}")

    def text(self, found: Any, path: str) -> str:
        if not isinstance(found, str) or not found.strip():
            raise self.error(path, f"found {'nothing' if found is None else repr(found)}, wanted a text")
        return found.strip()

    def choice(self, found: Any, wanted: tuple[str, ...], path: str) -> str:
        if not isinstance(found, str) or found not in wanted:
            hint = did_you_mean(found, wanted) if isinstance(found, str) else ""
            raise self.error(path, f"found {found!r}{hint}, wanted one of: {', '.join(wanted)}")
        return found

    def whole(self, found: Any, path: str, *, low: int, high: int) -> int:
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            shown = "nothing" if found is None else repr(found)
            raise self.error(path, f"found {shown}, wanted a whole number from {low} to {high}")
        return found

    def number(self, found: Any, path: str, low: float, high: float) -> float:
        if isinstance(found, bool) or not isinstance(found, int | float) or not low < found < high:
            raise self.error(path, f"found {found!r}, wanted a number between {low:g} and {high:g}")
        return float(found)

    def quantity(self, found: Any, path: str, unit: Unit | None) -> float:
        if unit is None:
            raise AssertionError("the unit comes from this module's own constants")
        if not isinstance(found, str):
            raise self.error(path, f'found {found!r}, wanted a quantity with a unit such as "1 {unit.symbol}"')
        try:
            value = parse(found, unit)
        except QuantityError as error:
            raise self.error(path, str(error)) from error
        if value < Decimal(0):
            raise self.error(path, f"found {found!r}, wanted 0 or more")
        return float(value)
