"""What every column of the published tables means: its kind, unit and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["text", "integer", "real"]


@dataclass(frozen=True, slots=True)
class CatalogueColumn:
    """One column: `kind` is how its values are read, `unit` is `1` for pure numbers and empty for texts."""

    name: str
    kind: Kind
    unit: str
    meaning: str


def _text(meaning: str) -> tuple[Kind, str, str]:
    return "text", "", meaning


_COMMON: Final[dict[str, tuple[Kind, str, str]]] = {
    "source": _text("paper and table or section the row comes from"),
    "quote": _text("the paper's own words"),
    "note": _text("remark of the transcriber: derivation, agreement with other parts of the paper"),
    "quantity": _text("what is stated"),
    "value_as_printed": _text("the figure as the paper prints it"),
    "unit_as_printed": _text("the unit as the paper prints it"),
    "value_ns": ("real", "ns", "the figure in ns"),
    "value_us": ("real", "us", "the figure in us"),
    "value_ms": ("real", "ms", "the figure in ms"),
    "value_s": ("real", "s", "the figure in s"),
    "value_mbps": ("real", "Mbit/s", "the figure in Mbit/s"),
    "value_percent": ("real", "%", "the figure in percent"),
    "value_bytes": ("real", "B", "the figure in bytes"),
    "platform": _text("where it ran: HostOS, ESXi, QEMU, VBox, Xen"),
    "platform_as_printed": _text("the platform as the table prints it"),
    "load": _text("background load: idle, cpu, io_network"),
    "load_as_printed": _text("the load as the table prints it"),
    "function": _text("TSC or System Call (clock_gettime); HPTSleep or uSleep"),
    "mad_ns": ("real", "ns", "the paper's MAD, which is half the interquartile range"),
    "median_ns": ("real", "ns", "median"),
    "min_ns": ("real", "ns", "smallest reading"),
    "max_ns": ("real", "ns", "largest reading"),
    "id": ("integer", "1", "number of the statement"),
    "function_or_tool": _text("what was measured"),
    "load_or_condition": _text("condition of the statement"),
    "statistic": _text("which figure of the distribution"),
    "table_value_ns": ("real", "ns", "the same figure in the paper's table"),
    "agrees_with_table": _text("whether the statement agrees with the table"),
    "tool": _text("tool that was measured"),
    "subject": _text("whom the statement is about"),
    "config_id": ("integer", "1", "number of the machine configuration, 1 to 16"),
    "machine_type": _text("PM (physical) or VM"),
    "deployment_model": _text("none, local, private or public"),
    "virtualization_software": _text("none, ESXi or Xen"),
    "host_utilization": _text("low, high or random"),
    "programming_language": _text("C or Java"),
    "argument_a": ("integer", "1", "argument of the counter function, 1 to 512"),
    "approx_runtime_ms": ("real", "ms", "approximate run time, a x 10 ms"),
    "cv": ("real", "1", "coefficient of variation sigma/mu; printed with four decimals"),
    "rank": ("integer", "1", "rank of the configuration at this argument, 1 is the smallest CV"),
    "rank_ocr": ("integer", "1", "the rank as it could be read from the page"),
    "tied_cv": ("integer", "1", "1 where another configuration has the same printed CV"),
    "status": _text("how well the cell could be read"),
    "parameter": _text("parameter of the tool"),
    "default_as_printed": _text("default setting as printed"),
    "optimized_as_printed": _text("tuned setting as printed"),
    "default_value": ("real", "see unit_of_values", "default setting"),
    "optimized_value": ("real", "see unit_of_values", "tuned setting"),
    "unit_of_values": _text("unit of the two settings"),
    "unit": _text("unit of the value"),
    "factor": _text("factor of the experiment"),
    "level": _text("level of the factor"),
    "item": _text("part of the test bed"),
    "record": _text("table or prose"),
    "table": _text("number of the table"),
    "technology": _text("KVM, LXC, Docker or other"),
    "load_type": _text("kind of background load"),
    "load_location": _text("where the load runs"),
    "frequency_pps": _text("echo requests per second, or all"),
    "n_background_vms": _text("machines in the background, or all"),
    "driver_or_factor": _text("driver or factor level"),
    "n_vms": ("integer", "1", "machines N"),
    "q": ("real", "1", "load of the weakly loaded machines relative to the whole"),
    "k_strongly_loaded": ("integer", "1", "strongly loaded machines k"),
    "oh_over_otot": ("real", "1", "share of one strongly loaded machine"),
    "ol_over_otot": ("real", "1", "share of one weakly loaded machine"),
    "j_from_eq2_3_4": ("real", "1", "Jain's index from equations 2 to 4"),
    "j_eq5": ("real", "1", "Jain's index from equation 5"),
    "j_exact_fraction": _text("Jain's index as an exact fraction"),
    "limit_k_over_n": ("real", "1", "limit k/N"),
    "j_minus_limit": ("real", "1", "Jain's index minus k/N"),
    "j_vs_limit_percent": ("real", "%", "the same relative to k/N"),
    "eq7_sum_of_weights_as_printed": _text("sum of the weights of equation 7 as printed"),
    "eq7_status": _text("whether equation 7 is defined here"),
}

_STATEMENTS: Final[dict[str, tuple[Kind, str, str]]] = {
    "claim": _text("id of the claim in `vtare papers NAME --claims`"),
    "part": _text("which figure or word of the claim"),
    "words": _text("what the sentence states in words; empty for a figure"),
    "value": ("real", "see unit", "the figure in the unit beside it; empty for words"),
    "unit": _text("unit of the value; 1 for pure numbers"),
}

_SPECIAL: Final[dict[tuple[str, str], tuple[Kind, str, str]]] = {
    ("lampe2013_prose", "value"): ("real", "see unit", "the figure; empty for claims in words"),
    ("oliveira_tables1_2_testbed", "value"): _text("what was used"),
    ("kachan_prose", "value_as_printed"): _text("the figure as the paper prints it"),
}


def column(table: str, name: str) -> CatalogueColumn:
    """The description of one column of one table.

    Raises:
        KeyError: the column is not described here: a table changed without its description.
    """
    own = _STATEMENTS.get(name) if table.endswith("_statements") else None
    words = own or _SPECIAL.get((table, name)) or _COMMON.get(name)
    if words is None:
        raise KeyError(f"{table}: column {name!r} has no description in vtare/papers/columns.py")
    return CatalogueColumn(name, *words)
