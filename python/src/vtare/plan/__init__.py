"""A plan: TOML in, checked dataclasses out.

A plan (`schema = "vtare.plan/1"`) asks one question with one or more experiments. An experiment runs one instrument
with fixed parameters under every combination of its factors' levels. A factor named like a parameter of the instrument
sets that parameter; `load` and `platform` are the lab's own factors. An `rtt` or `avb` experiment that names no `peer`
runs between two hosts that the lab sets up, and has further factors for their roles (TWO_HOST_FACTORS), those of `avb`
also for the path between them (PATH_FACTORS). A `throughput` experiment that names no `tx_port` runs through guests
that the lab sets up (GUEST_FACTORS); `platform` is then what the guests are. Every key is checked: an error names file,
line, column, key path, the value found and the values wanted. `keys` and `factors` declare what may be written; the
reader and the JSON Schema for editors (`schema`) are made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.lazy import attributes

if TYPE_CHECKING:
    from vtare.plan.cells import cells_of, counterpart, is_cell, nested_under
    from vtare.plan.factors import (
        CAPTURE,
        CAPTURE_OFF,
        CAPTURE_ON,
        CAPTURES,
        DEFAULT_GUESTS,
        GUEST_FACTORS,
        ICMP,
        LAB_FACTORS,
        OWN_FACTORS,
        PATH_FACTORS,
        PLATFORM_FACTORS,
        TIMERS_FACTOR,
        TWO_HOST_FACTORS,
        symbol_of_key,
    )
    from vtare.plan.files import find_plan, load_plan, parse_plan, question_of, shipped_plans
    from vtare.plan.keys import PLAN_SCHEMA
    from vtare.plan.level import Level
    from vtare.plan.mesh import PAIR, Mesh, hosts_of_pair, lay_out, listed, refuse_unknown, round_numbers
    from vtare.plan.model import LEAST_BLOCKS_TO_STOP, Analysis, Control, Experiment, Factor, Plan, Program, StopRule
    from vtare.plan.readers import SAME

__all__ = [
    "CAPTURE",
    "CAPTURES",
    "CAPTURE_OFF",
    "CAPTURE_ON",
    "DEFAULT_GUESTS",
    "GUEST_FACTORS",
    "ICMP",
    "LAB_FACTORS",
    "LEAST_BLOCKS_TO_STOP",
    "OWN_FACTORS",
    "PAIR",
    "PATH_FACTORS",
    "PLAN_SCHEMA",
    "PLATFORM_FACTORS",
    "SAME",
    "TIMERS_FACTOR",
    "TWO_HOST_FACTORS",
    "Analysis",
    "Control",
    "Experiment",
    "Factor",
    "Level",
    "Mesh",
    "Plan",
    "Program",
    "StopRule",
    "cells_of",
    "counterpart",
    "find_plan",
    "hosts_of_pair",
    "is_cell",
    "lay_out",
    "listed",
    "load_plan",
    "nested_under",
    "parse_plan",
    "question_of",
    "refuse_unknown",
    "round_numbers",
    "shipped_plans",
    "symbol_of_key",
]

__getattr__ = attributes(
    __name__,
    {
        "cells": ("cells_of", "counterpart", "is_cell", "nested_under"),
        "factors": (
            "CAPTURE",
            "CAPTURE_OFF",
            "CAPTURE_ON",
            "CAPTURES",
            "DEFAULT_GUESTS",
            "GUEST_FACTORS",
            "ICMP",
            "LAB_FACTORS",
            "OWN_FACTORS",
            "PATH_FACTORS",
            "PLATFORM_FACTORS",
            "TIMERS_FACTOR",
            "TWO_HOST_FACTORS",
            "symbol_of_key",
        ),
        "files": ("find_plan", "load_plan", "parse_plan", "question_of", "shipped_plans"),
        "keys": ("PLAN_SCHEMA",),
        "level": ("Level",),
        "mesh": ("PAIR", "Mesh", "hosts_of_pair", "lay_out", "listed", "refuse_unknown", "round_numbers"),
        "model": ("LEAST_BLOCKS_TO_STOP", "Analysis", "Control", "Experiment", "Factor", "Plan", "Program", "StopRule"),
        "readers": ("SAME",),
    },
)
