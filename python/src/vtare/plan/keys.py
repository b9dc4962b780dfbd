"""The keys of a plan's tables: what each holds and is. The reader and the schema for editors are made from them."""

from __future__ import annotations

from typing import Final

from vtare.plan.kinds import (
    ANY,
    DEVICE_NAME,
    FACTOR_NAMES,
    MACHINE_NAME,
    NAME,
    SECONDS,
    TEXT,
    WORDS,
    Key,
    Table,
    choice,
    integer,
    number,
    quantity,
)
from vtare.plan.model import CELLS, LEAST_BLOCKS_TO_STOP, TUKEY_ON_RANKS
from vtare.topology.named_hosts import ROLES

PLAN_SCHEMA: Final = "vtare.plan/1"
MOST_BLOCKS: Final = 10_000
MOST_PAIRS: Final = 10_000

ANALYSIS: Final[Table] = {
    "alpha": Key(number(0.0, 0.5), "The probability of finding a difference that is not there.", 0.05),
    "margin_percent": Key(number(0.0, 100.0), "A difference below it does not matter, in percent.", 5.0),
    "also": Key(choice(TUKEY_ON_RANKS), "A method of a paper, as a table beside the usual one."),
}

STOP: Final[Table] = {
    "precision_percent": Key(
        number(0.0, 100.0), "The half-width that every interval of a ratio shall have, in percent.", needed=True
    ),
    "least_blocks": Key(
        integer(LEAST_BLOCKS_TO_STOP, MOST_BLOCKS), "Blocks that are made in any case.", LEAST_BLOCKS_TO_STOP
    ),
}

REPEAT: Final[Table] = {
    "experiment": Key(TEXT, "The experiment that goes on after the plan's blocks, the others do not.", needed=True),
    "more_blocks": Key(integer(1, MOST_BLOCKS), "The most blocks that are added.", 20),
    "seconds": Key(SECONDS, "No block is added after this time.", needed=True),
    "precision_percent": Key(
        number(0.0, 100.0),
        "It ends once the interval of every ratio has this half-width, in percent; without it half of the margin.",
    ),
}

PROGRAM: Final[Table] = {
    "command": Key(WORDS, "The program and its words; it runs once for each estimate.", needed=True),
    "pattern": Key(TEXT, "The regular expression that finds the value in what it prints.", needed=True),
    "unit": Key(ANY, "The unit of that value.", needed=True),
    "far_end": Key(WORDS, "The program that runs on the other host meanwhile."),
    "ready": Key(TEXT, "What the far end prints once it is ready."),
}

CONTROL: Final[Table] = {
    "instrument": Key(TEXT, "The instrument of the control cell.", needed=True),
    "parameters": Key(ANY, "Its parameters."),
}

HOST: Final[Table] = {
    "platform": Key(TEXT, "The platform that reaches this machine, or 'host', this one.", needed=True),
    "address": Key(MACHINE_NAME, "The address for measurements."),
    "interface": Key(DEVICE_NAME, "The device to capture on."),
}
ROUTER_HOST: Final[Table] = {
    **HOST,
    "inward": Key(DEVICE_NAME, "The router's device towards the sender."),
    "outward": Key(DEVICE_NAME, "The router's device towards the responder."),
}

EXPERIMENT: Final[Table] = {
    "name": Key(TEXT, "How the report calls it; the instrument where it is left out."),
    "instrument": Key(TEXT, "What measures.", needed=True),
    "title": Key(TEXT, "Its heading in the report."),
    "parameters": Key(ANY, "What all runs share; quantities carry their unit."),
    "factors": Key(ANY, "factor = list of levels."),
    "baseline": Key(ANY, "factor = the level that the others are compared with; the first where it is left out."),
    "exceed": Key(quantity("exceed_ns"), "A threshold: how often readings exceed it is reported."),
    "run_timeout": Key(SECONDS, "After this time a run is taken as failed."),
    "nested": Key(ANY, "factor = { other = level }: the factor applies only with this level of the other, or these."),
    "exclude": Key(ANY, "[{ factor = level, ... }]: combinations of levels that are not measured."),
    "cells": Key(
        choice(*CELLS),
        "All combinations of levels, or those that differ from the baseline in one factor at most.",
        CELLS[0],
    ),
}

TOP: Final[Table] = {
    "schema": Key(choice(PLAN_SCHEMA), "The form of this file.", needed=True),
    "name": Key(NAME, "Letters, digits, '-' and '_'; it names the store.", needed=True),
    "question": Key(TEXT, "The question that the report answers.", needed=True),
    "seed": Key(integer(0, 2**63 - 1), "Seed of the random orders; drawn where it is left out."),
    "blocks": Key(integer(1, MOST_BLOCKS), "Passes over all cells: the runs of each cell.", needed=True),
    "settle": Key(SECONDS, "Silence before each run.", "200 ms"),
    "whole_plots": Key(FACTOR_NAMES, "Factors that are randomised apart: runs with the same levels stand together."),
    "mesh": Key(ANY, "Whether every pair of the fleet's hosts is measured; or the names of the hosts.", False),
    "pairs_at_a_time": Key(integer(1, MOST_PAIRS), "How many pairs of a mesh measure at once at most."),
    "control": Key(ANY, "Whether a control cell opens, centres and closes each block; or what it measures.", False),
    "analysis": Key(ANY, "How cells are compared."),
    "stop": Key(ANY, "When the campaign may end before its last block."),
    "repeat": Key(ANY, "The experiment that goes on after the last block until it is decided."),
    "platforms": Key(ANY, "Settings of platforms: [platforms.NAME]."),
    "hosts": Key(ANY, f"The machines by role ({', '.join(ROLES)}); else namespaces of this one."),
    "programs": Key(ANY, "Programs that estimate available bandwidth: [programs.NAME]."),
    "experiment": Key(ANY, "[[experiment]]: one instrument with its factors.", needed=True),
}
