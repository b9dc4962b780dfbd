"""From the tables of TOML to a plan."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from vtare.errors import BadInput, instead_of
from vtare.instruments import RECORDS, control_instrument
from vtare.instruments import instrument as record_of
from vtare.plan.factors import can_forward, factors_of, has_far_end
from vtare.plan.keys import ANALYSIS, CONTROL, EXPERIMENT, HOST, PLAN_SCHEMA, PROGRAM, REPEAT, ROUTER_HOST, STOP, TOP
from vtare.plan.kinds import integer, read_key, read_table
from vtare.plan.levels import Levels
from vtare.plan.mesh import PAIR, Mesh, pair_levels, read_mesh
from vtare.plan.model import LEAST_BLOCKS_TO_STOP, Analysis, Control, Experiment, Factor, Plan, Program, StopRule
from vtare.plan.rules import (
    check_background,
    check_cells,
    check_cross,
    check_file_service,
    check_guests,
    check_hosts,
    check_meshed,
    check_programs,
    check_two_hosts,
)
from vtare.platforms import KINDS, kind_of, platform_class
from vtare.topology.named_hosts import ROLES, ROUTER, THIS_MACHINE, HostSpec, host_kinds

#: The instrument that programs of the plan estimate for.
(_ESTIMATES,) = (record.name for record in RECORDS if record.estimates)
#: Which other hosts a plan may have.
_OTHER_HOSTS: Final = " ('host' is this machine, others are tables [platforms.NAME] of the kinds {})"
#: Why a container or a guest of the lab is no host of a plan, and what is.
_MADE_FOR_A_RUN: Final = (
    ". An instance of that kind is made for a run and has no programs of its own to shape, pin and clean up with: name "
    "it in the factors platform and responder_platform, or name a guest of yours that runs sshd"
)


class PlanReader(Levels):
    """Walks the TOML tables and keeps the key path for messages."""

    #: That of the plan; None until its tables are read.
    mesh: Mesh | None = None

    def plan(self, table: dict[str, Any], text: str) -> Plan:
        """The plan in the tables of a file whose text is `text`."""
        schema = table.get("schema")
        if schema != PLAN_SCHEMA:
            raise self.bad_value("schema", schema, f"'{PLAN_SCHEMA}'")
        self.known(table, tuple(TOP), "")
        self.platforms = self.platform_settings(table.get("platforms", {}))
        hosts = self.host_table(table.get("hosts", {}))
        self.mesh = read_mesh(self, table)
        programs = self.program_tables(table.get("programs", {}))
        experiments = table.get("experiment")
        if not isinstance(experiments, list) or not experiments:
            raise self.error("experiment", "the plan measures nothing: add an [[experiment]] table")
        parsed = tuple(
            self.experiment(entry, f"experiment[{i}]", programs, hosts) for i, entry in enumerate(experiments)
        )
        names = [experiment.name for experiment in parsed]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise self.error(f"experiment[{i}].name", f"'{name}' is used twice; give each experiment its own name")
        given = {
            name: read_key(self, table, name, TOP[name], "")
            for name in ("seed", "name", "settle", "blocks", "question", "whole_plots")
        }
        analysis = Analysis(**read_table(self, table.get("analysis", {}), ANALYSIS, "analysis"))
        return Plan(
            name=given["name"],
            question=given["question"],
            blocks=given["blocks"],
            seed=given["seed"],
            settle_s=given["settle"],
            control=self.control(table.get("control", False)),
            analysis=analysis,
            stop=self.rule(table, given["blocks"], analysis, names),
            experiments=parsed,
            source=self.source,
            platforms=self.platforms,
            text=text,
            hosts=hosts,
            whole_plots=self.whole_plots(given["whole_plots"] or (), parsed),
            mesh=self.mesh,
        )

    def whole_plots(self, names: tuple[str, ...], experiments: tuple[Experiment, ...]) -> tuple[str, ...]:
        """The factors that are randomised apart; each stands in an experiment."""
        known = tuple(dict.fromkeys(factor.name for experiment in experiments for factor in experiment.factors))
        for number, name in enumerate(names):
            self.choice(name, known, f"whole_plots[{number}]")
            if name in names[:number]:
                raise self.error(f"whole_plots[{number}]", f"factor '{name}' is listed twice")
        return names

    def experiment(self, table: Any, path: str, programs: dict[str, Program], hosts: dict[str, HostSpec]) -> Experiment:
        """One `[[experiment]]` table."""
        if not isinstance(table, dict):
            raise self.bad_value(path, table, "an [[experiment]] table")
        self.known(table, tuple(EXPERIMENT), path)
        instrument = self.text(table.get("instrument"), f"{path}.instrument")
        known = self.contract.parameters(instrument, self.at(f"{path}.instrument"))
        kind = record_of(instrument).hosts
        name = self.text(table.get("name", instrument), f"{path}.name")
        parameters = self.parameters(table.get("parameters", {}), instrument, f"{path}.parameters")
        factors_table = table.get("factors", {})
        if not isinstance(factors_table, dict):
            raise self.bad_value(f"{path}.factors", factors_table, "a table: factor = [levels]")
        baselines = table.get("baseline", {})
        if not isinstance(baselines, dict):
            raise self.bad_value(f"{path}.baseline", baselines, "a table: factor = level")
        factors = self.pairs(record_of(instrument).one_way)
        for factor, levels in factors_table.items():
            where = f"{path}.factors.{factor}"
            own = factors_of(kind)
            if factor not in own and factor not in known:
                raise self.error(where, f"unknown factor of {instrument}{instead_of(factor, (*own, *known))}", key=True)
            if factor in parameters:
                raise self.error(where, f"'{factor}' is also in {path}.parameters; keep it in one of the two")
            checked = self.levels(factor, levels, instrument, where)
            factors.append(
                Factor(factor, checked, self.baseline(baselines.get(factor), factor, checked, instrument, path))
            )
        self.known(baselines, tuple(factors_table), f"{path}.baseline")
        check_two_hosts(self, instrument, parameters, tuple(factors_table), path, meshed=self.mesh is not None)
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
        given = {key: read_key(self, table, key, EXPERIMENT[key], path) for key in ("title", "exceed", "cells")}
        timeout = table.get("run_timeout")
        made = Experiment(
            name=name,
            instrument=instrument,
            title=given["title"] or name,
            parameters=parameters,
            factors=tuple(factors),
            exceed_ns=given["exceed"],
            run_timeout_s=None if timeout is None else self.run_timeout(timeout, f"{path}.run_timeout"),
            cells=given["cells"],
            nested=self.nested(table.get("nested", {}), tuple(factors), instrument, path),
            excluded=self.excluded(table.get("exclude", []), tuple(factors), instrument, path),
            programs=programs,
            hosts=hosts,
            meshed=self.mesh is not None,
        )
        check_hosts(self, made, path)
        if made.meshed:
            check_meshed(self, made, path)
        check_cells(self, made, path)
        return made

    def pairs(self, one_way: bool) -> list[Factor]:
        """The factor of a mesh; none where the plan has no mesh, or its hosts are not known yet."""
        levels = () if self.mesh is None else pair_levels(self.mesh.hosts, one_way=one_way)
        return [Factor(PAIR, levels, levels[0].label)] if levels else []

    def nested(
        self, table: Any, factors: tuple[Factor, ...], instrument: str, path: str
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        """The factors that apply only with some levels of others."""
        if not isinstance(table, dict):
            raise self.bad_value(f"{path}.nested", table, "a table: factor = { other = level }")
        self.known(table, tuple(factor.name for factor in factors), f"{path}.nested")
        by_factor = {}
        for name, levels in table.items():
            others = tuple(factor for factor in factors if factor.name != name)
            by_factor[name] = self.levels_of(levels, others, instrument, f"{path}.nested.{name}")
        return by_factor

    def excluded(
        self, table: Any, factors: tuple[Factor, ...], instrument: str, path: str
    ) -> tuple[dict[str, tuple[str, ...]], ...]:
        """The combinations that are not measured."""
        if not isinstance(table, list):
            raise self.bad_value(f"{path}.exclude", table, "a list: [{ factor = level, ... }]")
        return tuple(
            self.levels_of(levels, factors, instrument, f"{path}.exclude[{number}]")
            for number, levels in enumerate(table)
        )

    def levels_of(
        self, table: Any, factors: tuple[Factor, ...], instrument: str, where: str
    ) -> dict[str, tuple[str, ...]]:
        """Levels of some factors: `{ factor = level }`, or a list of levels."""
        if not isinstance(table, dict) or not table:
            raise self.bad_value(where, table, "a table: { factor = level }")
        self.known(table, tuple(factor.name for factor in factors), where)
        by_factor = {}
        for factor in (factor for factor in factors if factor.name in table):
            at, written = f"{where}.{factor.name}", table[factor.name]
            listed = (
                [(f"{at}[{n}]", one) for n, one in enumerate(written)] if isinstance(written, list) else [(at, written)]
            )
            by_factor[factor.name] = tuple(
                self.label(one, factor.name, factor.levels, instrument, place) for place, one in listed
            )
        return by_factor

    def program_tables(self, table: Any) -> dict[str, Program]:
        """The programs that estimate: `[programs.NAME]`."""
        if not isinstance(table, dict):
            raise self.bad_value("programs", table, "tables [programs.NAME]")
        return {name: self.program(name, settings, f"programs.{name}") for name, settings in table.items()}

    def program(self, name: str, table: Any, path: str) -> Program:
        """One `[programs.NAME]` table."""
        self.name(name, path)
        given = read_table(self, table, PROGRAM, path)
        try:
            re.compile(given["pattern"])
        except re.error as error:
            raise self.bad_value(f"{path}.pattern", given["pattern"], f"a regular expression ({error})") from error
        if given["ready"] is not None and given["far_end"] is None:
            raise self.error(f"{path}.ready", "means nothing without 'far_end'; leave it out")
        unit = self.contract.parameters(_ESTIMATES, self.at(path))["unit"]
        stated = {"unit": str(unit.check(given["unit"], self.at(f"{path}.unit"))), "far_end": given["far_end"] or ()}
        return Program(name, **{**given, **stated})

    def run_timeout(self, found: Any, path: str) -> float:
        """After how many seconds a run has hung."""
        seconds: float = EXPERIMENT["run_timeout"].kind.read(self, found, path)
        if seconds <= 0.0:
            raise self.bad_value(path, found, 'more than 0, such as "60 s": every run would fail')
        return seconds

    def platform_settings(self, table: Any) -> dict[str, dict[str, str | int]]:
        """The settings of platforms of the plan's own: `[platforms.NAME]`, with a `kind` where the name is none."""
        if not isinstance(table, dict):
            raise self.bad_value("platforms", table, "tables [platforms.NAME]")
        for name, settings in table.items():
            path = f"platforms.{name}"
            if not isinstance(settings, dict):
                raise self.bad_value(path, settings, "a table: setting = value")
            self.name(name, path)
            kind = settings.get("kind", name)
            self.choice(kind, tuple(KINDS), f"{path}.kind")
            if name in KINDS and kind != name:
                raise self.error(f"{path}.kind", f"'{name}' is not '{kind}' but a kind of its own: rename the table")
            known = getattr(platform_class(name, settings), "SETTINGS", {})
            for key, value in settings.items():
                if isinstance(value, bool) or not isinstance(value, str | int):
                    raise self.bad_value(f"{path}.{key}", value, "a string or an integer")
                if key in known:
                    self.choice(value, tuple(known[key]), f"{path}.{key}")
        return {name: dict(settings) for name, settings in table.items()}

    def host_table(self, table: Any) -> dict[str, HostSpec]:
        """The hosts by role: `[hosts]`, each the name of a platform, or a table with it."""
        if not isinstance(table, dict):
            raise self.bad_value("hosts", table, "a table: role = platform")
        self.known(table, ROLES, "hosts")
        return {role: self.host(role, entry, f"hosts.{role}") for role, entry in table.items()}

    def host(self, role: str, found: Any, path: str) -> HostSpec:
        """One host."""
        settings = {"platform": found} if isinstance(found, str) else found
        if not isinstance(settings, dict):
            raise self.bad_value(path, found, 'a platform such as "ssh", or a table with `platform`')
        spec = HostSpec(**read_table(self, settings, ROUTER_HOST if role == ROUTER else HOST, path))
        kinds = host_kinds()
        kind = kind_of(spec.platform, self.platforms.get(spec.platform))
        if kind not in kinds:
            names = [name for name, of in self.platforms.items() if kind_of(name, of) in kinds]
            wrong = self.bad_value(f"{path}.platform", spec.platform, (THIS_MACHINE, *names))
            raise BadInput(f"{wrong}{_OTHER_HOSTS.format(', '.join(kinds[1:]))}{_MADE_FOR_A_RUN * (kind in KINDS)}")
        if spec.platform == THIS_MACHINE and spec.address is None:
            raise self.bad_value(f"{path}.address", None, "this machine's address for measurements")
        return spec

    def control(self, found: Any) -> Control | None:
        """The control cell: false for none, true for the usual one, or a table."""
        if found is False:
            return None
        usual = control_instrument()
        table = {"instrument": usual.name, "parameters": usual.control} if found is True else found
        if not isinstance(table, dict):
            raise self.bad_value("control", found, "true, false or a table with instrument and parameters")
        self.known(table, tuple(CONTROL), "control")
        instrument = self.text(table.get("instrument"), "control.instrument")
        return Control(instrument, self.parameters(table.get("parameters", {}), instrument, "control.parameters"))

    def rule(self, table: dict[str, Any], blocks: int, analysis: Analysis, names: list[str]) -> StopRule | None:
        """The rule of `[stop]` or `[repeat]`."""
        if "repeat" not in table:
            return self.stop(table["stop"], blocks) if "stop" in table else None
        if "stop" in table:
            raise self.error("repeat", "the plan has [stop], too: keep one of the two")
        if self.mesh is not None:
            raise self.error("repeat", "the plan is a mesh, whose experiments share their rounds: remove [repeat]")
        given = read_table(self, table["repeat"], REPEAT, "repeat")
        self.choice(given["experiment"], tuple(names), "repeat.experiment")
        if given["precision_percent"] is None:
            given["precision_percent"] = analysis.margin_percent / 2.0
        return StopRule(**given)

    def stop(self, table: Any, blocks: int) -> StopRule:
        """The `[stop]` table of a plan of at most `blocks` blocks."""
        if not isinstance(table, dict):
            raise self.bad_value("stop", table, "a table such as { precision_percent = 5 }")
        if blocks <= LEAST_BLOCKS_TO_STOP:
            raise self.bad_value(
                "blocks", blocks, f"more than {LEAST_BLOCKS_TO_STOP} with [stop], which never stops before that many"
            )
        least = replace(STOP["least_blocks"], kind=integer(LEAST_BLOCKS_TO_STOP, blocks))
        return StopRule(**read_table(self, table, {**STOP, "least_blocks": least}, "stop"))
