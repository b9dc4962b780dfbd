"""From the tables of TOML to a plan."""

from __future__ import annotations

import re
from typing import Any, Final

from vtare.errors import did_you_mean
from vtare.instruments import RECORDS, control_instrument
from vtare.instruments import instrument as record_of
from vtare.named_hosts import HOST_KEYS, ROLES, ROUTER, ROUTER_KEYS, THIS_MACHINE, HostSpec, host_kinds
from vtare.plan.factors import can_forward, factors_of, has_far_end
from vtare.plan.levels import Levels
from vtare.plan.model import CELLS, LEAST_BLOCKS_TO_STOP, Analysis, Control, Experiment, Factor, Plan, Program, StopRule
from vtare.plan.rules import (
    check_background,
    check_cross,
    check_file_service,
    check_guests,
    check_hosts,
    check_programs,
    check_two_hosts,
)
from vtare.platforms import KINDS, kind_of
from vtare.quantities import unit_of

PLAN_SCHEMA: Final = "vtare.plan/1"
_TOP_KEYS: Final = (
    "schema", "name", "question", "seed", "blocks", "settle", "control", "analysis", "stop", "platforms", "hosts",
    "programs", "experiment",
)  # fmt: skip
_EXPERIMENT_KEYS: Final = (
    "name", "instrument", "title", "parameters", "factors", "baseline", "exceed", "run_timeout", "cells",
)  # fmt: skip
#: The instrument that programs of the plan estimate for.
(_ESTIMATES,) = (record.name for record in RECORDS if record.estimates)
#: Why a container or a guest of the lab is no host of a plan, and what is.
_MADE_FOR_A_RUN: Final = (
    ". An instance of that kind is made for a run and has no programs of its own to shape, pin and clean up with: name "
    "it in the factors platform and responder_platform, or name a guest of yours that runs sshd"
)
_SECOND: Final = unit_of("seconds")
_NANOSECOND: Final = unit_of("exceed_ns")


class Reader(Levels):
    """Walks the TOML tables and keeps the key path for messages."""

    def plan(self, table: dict[str, Any], text: str) -> Plan:
        """The plan in the tables of a file whose text is `text`."""
        schema = table.get("schema")
        if schema != PLAN_SCHEMA:
            raise self.error("schema", f"found {schema!r}, expected '{PLAN_SCHEMA}'")
        self.known(table, _TOP_KEYS, "")
        self.platforms = self.platform_settings(table.get("platforms", {}))
        hosts = self.host_table(table.get("hosts", {}))
        programs = self.program_tables(table.get("programs", {}))
        experiments = table.get("experiment")
        if not isinstance(experiments, list) or not experiments:
            raise self.error("experiment", "found none, expected at least one [[experiment]] table")
        parsed = tuple(
            self.experiment(entry, f"experiment[{i}]", programs, hosts) for i, entry in enumerate(experiments)
        )
        names = [experiment.name for experiment in parsed]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise self.error(f"experiment[{i}].name", f"'{name}' is used twice; give each experiment its own name")
        seed = table.get("seed")
        if seed is not None:
            seed = self.integer(seed, "seed", low=0, high=2**63 - 1)
        name = self.text(table.get("name"), "name")
        if not name.replace("-", "").replace("_", "").isalnum():
            raise self.error("name", f"found '{name}', expected letters, digits, '-' and '_' only (it names the store)")
        settle = table.get("settle", "200 ms")
        blocks = self.integer(table.get("blocks"), "blocks", low=1, high=10_000)
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
            hosts=hosts,
        )

    def experiment(self, table: Any, path: str, programs: dict[str, Program], hosts: dict[str, HostSpec]) -> Experiment:
        """One `[[experiment]]` table."""
        if not isinstance(table, dict):
            raise self.error(path, f"found {table!r}, expected an [[experiment]] table")
        self.known(table, _EXPERIMENT_KEYS, path)
        instrument = self.text(table.get("instrument"), f"{path}.instrument")
        known = self.contract.parameters(instrument, f"{self.source}: {path}.instrument")
        kind = record_of(instrument).hosts
        name = self.text(table.get("name", instrument), f"{path}.name")
        parameters = self.parameters(table.get("parameters", {}), instrument, f"{path}.parameters")
        factors_table = table.get("factors", {})
        if not isinstance(factors_table, dict):
            raise self.error(f"{path}.factors", f"found {factors_table!r}, expected a table: factor = [levels]")
        baselines = table.get("baseline", {})
        if not isinstance(baselines, dict):
            raise self.error(f"{path}.baseline", f"found {baselines!r}, expected a table: factor = level")
        factors = []
        for factor, levels in factors_table.items():
            where = f"{path}.factors.{factor}"
            own = factors_of(kind)
            if factor not in own and factor not in known:
                wanted = (*own, *known)
                raise self.error(
                    where,
                    f"unknown factor{did_you_mean(factor, wanted)}; "
                    f"for {instrument} expected one of: {', '.join(wanted)}",
                )
            if factor in parameters:
                raise self.error(where, f"'{factor}' is also in {path}.parameters; keep it in one of the two")
            checked = self.levels(factor, levels, instrument, where)
            factors.append(
                Factor(factor, checked, self.baseline(baselines.get(factor), factor, checked, instrument, path))
            )
        self.known(baselines, tuple(factors_table), f"{path}.baseline")
        check_two_hosts(self, instrument, parameters, tuple(factors_table), path)
        check_cross(self, tuple(factors), path)
        if kind == "routed":
            check_programs(self, parameters, tuple(factors), tuple(programs), path)
        if can_forward(kind):
            check_guests(self, parameters, tuple(factors), path)
        far_end = has_far_end(kind) and "peer" not in parameters and "peer" not in factors_table
        check_file_service(
            self, instrument, tuple(factors), path, own=not can_forward(kind) and (far_end or not has_far_end(kind))
        )
        check_background(self, instrument, far_end, factors_table, path)
        exceed = table.get("exceed")
        timeout = table.get("run_timeout")
        made = Experiment(
            name=name,
            instrument=instrument,
            title=self.text(table.get("title", name), f"{path}.title"),
            parameters=parameters,
            factors=tuple(factors),
            exceed_ns=None if exceed is None else self.quantity(exceed, f"{path}.exceed", _NANOSECOND),
            run_timeout_s=None if timeout is None else self.run_timeout(timeout, f"{path}.run_timeout"),
            cells=self.choice(table.get("cells", CELLS[0]), CELLS, f"{path}.cells"),
            programs=programs,
            hosts=hosts,
        )
        check_hosts(self, made, path)
        return made

    def program_tables(self, table: Any) -> dict[str, Program]:
        """The programs that estimate: `[programs.NAME]`."""
        if not isinstance(table, dict):
            raise self.error("programs", f"found {table!r}, expected tables [programs.NAME]")
        return {name: self.program(name, settings, f"programs.{name}") for name, settings in table.items()}

    def program(self, name: str, table: Any, path: str) -> Program:
        """One `[programs.NAME]` table."""
        if not isinstance(table, dict):
            raise self.error(path, f"found {table!r}, expected a table with command, pattern and unit")
        if not name.replace("-", "").replace("_", "").isalnum():
            raise self.error(path, f"found '{name}', expected letters, digits, '-' and '_' only")
        self.known(table, ("command", "pattern", "unit", "far_end", "ready"), path)
        pattern = self.text(table.get("pattern"), f"{path}.pattern")
        try:
            re.compile(pattern)
        except re.error as error:
            raise self.error(f"{path}.pattern", f"found {pattern!r}, expected a regular expression: {error}") from error
        if "ready" in table and "far_end" not in table:
            raise self.error(f"{path}.ready", "means nothing without 'far_end'; leave it out")
        unit = self.contract.parameters(_ESTIMATES, path)["unit"].check(
            table.get("unit"), f"{self.source}: {path}.unit"
        )
        return Program(
            name=name,
            command=self.words(table.get("command"), f"{path}.command"),
            pattern=pattern,
            unit=str(unit),
            far_end=self.words(table["far_end"], f"{path}.far_end") if "far_end" in table else (),
            ready=self.text(table["ready"], f"{path}.ready") if "ready" in table else None,
        )

    def words(self, found: Any, path: str) -> tuple[str, ...]:
        """A program and its words."""
        if not isinstance(found, list) or not found:
            raise self.error(
                path, f'found {found!r}, expected a program and its words, such as ["iperf3", "--version"]'
            )
        return tuple(self.text(word, f"{path}[{number}]") for number, word in enumerate(found))

    def run_timeout(self, found: Any, path: str) -> float:
        """After how many seconds a run has hung."""
        seconds = self.quantity(found, path, _SECOND)
        if seconds <= 0.0:
            raise self.error(path, f'found {found!r}, expected more than 0, such as "60 s": every run would fail')
        return seconds

    def platform_settings(self, table: Any) -> dict[str, dict[str, str | int]]:
        """The settings of platforms of the plan's own: `[platforms.NAME]`, with a `kind` where the name is none."""
        if not isinstance(table, dict):
            raise self.error("platforms", f"found {table!r}, expected tables [platforms.NAME]")
        for name, settings in table.items():
            path = f"platforms.{name}"
            if not isinstance(settings, dict):
                raise self.error(path, f"found {settings!r}, expected a table: setting = value")
            if not name.replace("-", "").replace("_", "").isalnum():
                raise self.error(path, f"found '{name}', expected letters, digits, '-' and '_' only")
            kind = settings.get("kind", name)
            self.choice(kind, tuple(KINDS), f"{path}.kind")
            if name in KINDS and kind != name:
                raise self.error(f"{path}.kind", f"found '{kind}', but '{name}' is a kind of its own; rename the table")
            for key, value in settings.items():
                if isinstance(value, bool) or not isinstance(value, str | int):
                    raise self.error(f"{path}.{key}", f"found {value!r}, expected a string or an integer")
        return {name: dict(settings) for name, settings in table.items()}

    def host_table(self, table: Any) -> dict[str, HostSpec]:
        """The hosts by role: `[hosts]`, each the name of a platform, or a table with it."""
        if not isinstance(table, dict):
            raise self.error("hosts", f"found {table!r}, expected a table: role = platform")
        self.known(table, ROLES, "hosts")
        return {role: self.host(role, found, f"hosts.{role}") for role, found in table.items()}

    def host(self, role: str, found: Any, path: str) -> HostSpec:
        """One host."""
        settings = {"platform": found} if isinstance(found, str) else found
        if not isinstance(settings, dict):
            raise self.error(path, f'found {found!r}, expected a platform such as "ssh", or a table with `platform`')
        self.known(settings, (*HOST_KEYS, *(ROUTER_KEYS if role == ROUTER else ())), path)
        named = self.text(settings.get("platform"), f"{path}.platform")
        spec = HostSpec(
            **{key: self.text(value, f"{path}.{key}") for key, value in settings.items()} | {"platform": named}
        )
        kinds = host_kinds()
        kind = kind_of(spec.platform, self.platforms.get(spec.platform))
        if kind not in kinds:
            names = [name for name, of in self.platforms.items() if kind_of(name, of) in kinds]
            hint = did_you_mean(spec.platform, names)
            raise self.error(
                f"{path}.platform",
                f"found '{spec.platform}'{hint}, expected '{THIS_MACHINE}' (this one), or one of the plan's tables "
                f"[platforms.NAME] of the kinds {', '.join(kinds[1:])}: {', '.join(names) or 'none is there'}"
                + _MADE_FOR_A_RUN
                * (kind in KINDS),
            )
        if spec.platform == THIS_MACHINE and spec.address is None:
            raise self.error(f"{path}.address", "missing; expected this machine's address for measurements")
        return spec

    def control(self, found: Any) -> Control | None:
        """The control cell: false for none, true for the usual one, or a table."""
        if found is False:
            return None
        usual = control_instrument()
        table = {"instrument": usual.name, "parameters": usual.control} if found is True else found
        if not isinstance(table, dict):
            raise self.error(
                "control", f"found {found!r}, expected true, false or a table with instrument and parameters"
            )
        self.known(table, ("instrument", "parameters"), "control")
        instrument = self.text(table.get("instrument"), "control.instrument")
        return Control(instrument, self.parameters(table.get("parameters", {}), instrument, "control.parameters"))

    def analysis(self, table: Any) -> Analysis:
        """The `[analysis]` table."""
        if not isinstance(table, dict):
            raise self.error("analysis", f"found {table!r}, expected a table")
        self.known(table, ("alpha", "margin_percent"), "analysis")
        alpha = self.number(table.get("alpha", 0.05), "analysis.alpha", 0.0, 0.5)
        margin = self.number(table.get("margin_percent", 5.0), "analysis.margin_percent", 0.0, 100.0)
        return Analysis(alpha=alpha, margin_percent=margin)

    def stop(self, table: Any, blocks: int) -> StopRule:
        """The `[stop]` table of a plan of at most `blocks` blocks."""
        if not isinstance(table, dict):
            raise self.error("stop", f"found {table!r}, expected a table such as {{ precision_percent = 5 }}")
        self.known(table, ("precision_percent", "least_blocks"), "stop")
        if "precision_percent" not in table:
            raise self.error("stop.precision_percent", "missing; expected a number between 0 and 100")
        precision = self.number(table["precision_percent"], "stop.precision_percent", 0.0, 100.0)
        if blocks <= LEAST_BLOCKS_TO_STOP:
            raise self.error(
                "blocks",
                f"found {blocks}, expected more than {LEAST_BLOCKS_TO_STOP} beside [stop]: 'blocks' is the most "
                f"that are made, and {LEAST_BLOCKS_TO_STOP} are made in any case",
            )
        least = table.get("least_blocks", LEAST_BLOCKS_TO_STOP)
        return StopRule(precision, self.integer(least, "stop.least_blocks", low=LEAST_BLOCKS_TO_STOP, high=blocks))
