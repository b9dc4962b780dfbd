"""`vtare counter`: how evenly a counting function runs, by language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vtare.instruments.model import Exceed, Instrument, Metric, PartRows, PlannedRun, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The language of the binary itself.
_OWN: Final = "rust"
#: The machine speed index, and what a runtime takes to start and to warm up, s.
_START_S: Final = {"rust": 0.2, "c": 0.3, "java": 1.5}
_OTHER_START_S: Final = 0.5


def _expected_s(asked: PlannedRun) -> float:
    value = asked.value
    calls = value("batches") * value("calls")
    start = _START_S.get(value("language"), _OTHER_START_S)
    return float(start + calls * value("unit_ms") * 1e-3 * (2 ** (value("max_exponent") + 1) - 1))


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    return float(asked.value("batches") * asked.value("calls") * (asked.value("max_exponent") + 1))


def _figures(part: PartRows) -> Mapping[str, Any]:
    # Here, not above: most commands of the lab compute nothing.
    import numpy as np

    from vtare import stats

    wall_ns = part.rows["wall_ns"].to_numpy()
    wall = stats.coefficient_of_variation(wall_ns, groups=part.rows["batch"].to_list())
    cpu = stats.coefficient_of_variation(part.rows["cpu_ns"].to_numpy())
    steps = part.cell.get("steps")
    return {
        "cv": wall.cv,
        "cv_within": wall.within,
        "cv_between": wall.between,
        "cv_thread_cpu": cpu.cv,
        # Each machine finds its own number of steps for a call of the same length: the time of one is its speed.
        "step_ns": float(np.median(wall_ns)) / steps if steps and part.rows.height else None,
    }


def _program(parameters: Mapping[str, Any]) -> str | None:
    """The language whose program the lab builds; None for the binary's own, and where the plan names a program."""
    language = str(parameters.get("language") or _OWN)
    return None if parameters.get("program") is not None or language == _OWN else language


RECORD: Final = Instrument(
    name="counter",
    asks="How much does the run time of equal work vary?",
    quantity="runtime_ns",
    value=Value("wall_ns"),
    parts=("argument",),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("runtime_ns", "run time", "run time", "run time of one call", better="less"),
        # The arguments are made to take the same time everywhere: what differs between machines is the scatter.
        Metric("cv", "CV", "coefficient of variation", "coefficient of variation of the run time", unit="1",
               better="less", interval=True,
               about="coefficient of variation of the wall time, as published papers compute it",
               missing="not estimable"),
        Metric("cv_within", "CV within", unit="1", better="less", about="part inside batches", missing="not estimable"),
        Metric("cv_between", "CV between", unit="1", better="less", about="part between batches",
               missing="not estimable"),
        Metric("cv_thread_cpu", "CV CPU time", unit="1", better="less",
               about="coefficient of variation of the thread's CPU time", missing="not estimable"),
        Metric("step_ns", "step", "time of one step", better="less"),
    ),
    figures=_figures,
    program=_program,
    compared="cv",
    shown_by_compared=True,
    series=("argument",),
    layer_figures=("step_ns",),
    tail_figures=("cv",),
    exceed=Exceed(),
)  # fmt: skip
