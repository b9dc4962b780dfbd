"""Levels of factors: what a plan writes, and what it means."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from vtare.contract import Contract
from vtare.forwarders import MOST_GUESTS
from vtare.guests import BACKGROUND_FACTORS, RESOURCE_FACTORS, read_level
from vtare.path import DEFAULT_MTU_BYTE, rate_label, read_rate, read_steps, steps_label
from vtare.plan.checks import Checks
from vtare.plan.factors import CHOICES, CPU_FACTORS, LOAD_KINDS, OWN_FACTORS, PATH_FACTORS, PLATFORM_FACTORS
from vtare.plan.model import Level
from vtare.platforms import PLATFORMS
from vtare.quantities import QuantityError, unit_of

_LARGEST_MTU_BYTE: Final = 9000
_LONGEST_DELAY_S: Final = 10.0
_SECOND: Final = unit_of("seconds")


class Levels(Checks):
    """Reads the levels of factors. `platforms` are the plan's own beside the known ones."""

    def __init__(self, source: Path, contract: Contract) -> None:
        """See `Checks`. Without `platforms` until their tables are read."""
        super().__init__(source, contract)
        self.platforms: dict[str, dict[str, str | int]] = {}

    def levels(self, factor: str, levels: Any, instrument: str, path: str) -> tuple[Level, ...]:
        """The levels of one factor, in the plan's order, each once."""
        if not isinstance(levels, list) or not levels:
            raise self.error(path, f'found {levels!r}, wanted a list of levels, for example ["a", "b"]')
        checked = []
        for i, level in enumerate(levels):
            where = f"{path}[{i}]"
            if factor == "load":
                checked.append(self.load(level, where))
            elif factor in PLATFORM_FACTORS:
                checked.append(Level(self.choice(level, (*PLATFORMS, *self.platforms), where), level))
            elif factor in RESOURCE_FACTORS or (factor in BACKGROUND_FACTORS and factor not in CHOICES):
                checked.append(self.guest_level(factor, level, where))
            elif factor in CHOICES:
                checked.append(Level(self.choice(level, CHOICES[factor], where), level))
            elif factor in PATH_FACTORS and factor != "cross_cpu":
                checked.append(self.path_level(factor, level, where))
            elif factor == "guests":
                number = self.whole(level, where, low=1, high=MOST_GUESTS)
                checked.append(Level(str(number), number))
            elif factor in CPU_FACTORS:
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

    def baseline(self, found: Any, factor: str, levels: tuple[Level, ...], instrument: str, path: str) -> str:
        """The label of the level that the others are compared with: the one found, else the first."""
        if found is None:
            return levels[0].label
        labels = [level.label for level in levels]
        if isinstance(found, str) and found in labels:
            return found
        if factor in (*CPU_FACTORS, "guests") and str(found) in labels:
            return str(found)
        if factor in RESOURCE_FACTORS or factor in ("background", "background_load"):
            label = self.guest_level(factor, found, f"{path}.baseline.{factor}").label
            if label in labels:
                return label
        if factor in PATH_FACTORS and factor not in CHOICES and isinstance(found, str):
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

    def load(self, level: Any, path: str) -> Level:
        """One level of the factor `load`: a kind, or a table of kind, threads and label."""
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

    def guest_level(self, factor: str, level: Any, path: str) -> Level:
        """One level of a factor that says what instances are given, or what runs in the background."""
        try:
            return Level(*read_level(factor, level))
        except (QuantityError, ValueError) as error:
            raise self.error(path, str(error)) from error

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

    def loss(self, level: Any, path: str) -> Level:
        """A share of packets lost, below 100 %."""
        number, sign, rest = str(level).partition("%")
        try:
            percent = Decimal(number.strip())
        except InvalidOperation:
            percent = Decimal(-1)
        if not sign or rest or not 0 <= percent < 100:
            raise self.error(path, f'found {level!r}, wanted a share below 100 % such as "1 %"')
        return Level(f"{percent.normalize():f} %", float(percent / 100))
