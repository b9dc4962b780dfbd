"""Twenty answers of `vtare ab`, in JSON and as the terminal shows them, worked out again without any code of vtare."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from ab_audit import audit
from rich.console import Console
from simulated_trials import MACHINE, A, B, Noise, SimulatedTrials, bursts, compared, measured, none, quiet

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, Compared, compare
from vtare.ab.figures import COUNTED, Reader, read_metric
from vtare.ab.trials import MachineTime, Measured
from vtare.ab.verdict import Outcome, document
from vtare.terminal.ab import show_compared


class Printing(SimulatedTrials):
    """Programs that print a rate, a time and a plain number, in units that change with their size."""

    reader = Reader([])

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        runs, beside = super().run(commands, cpus)
        made = []
        for command, run in zip(commands, runs, strict=True):
            wall = run.wall_ns
            text = f"rate {1e11 / wall:.1f} kops/s, took {wall / 1e6:.1f} ms, score {wall / 1e7:.0f}"
            made.append(measured(wall, readings=self.reader.read(text, command.text)))
        return made, beside


def printing(slower: float, seed: int, how: str) -> Compared:
    trials = Printing(slower, quiet, none, seed)
    trials.reader = Reader([read_metric(how)])
    first = [trials.run([command])[0][0] for command in (A, B)]
    figures = [*trials.reader.figures(), *COUNTED]
    asked = Asked(margin=0.02, most_pairs=80, design="interleaved")
    return compare(trials, (A, B), figures, asked, rng=np.random.default_rng(seed), first=first)


def simulated(slower: float, own: Noise, machine: Noise = none, seed: int = 1, **asked: object) -> Compared:
    return compared(slower, own, machine, seed, **{"most_pairs": 90, **asked})


ANSWERS = {
    **{f"{slower} {seed}": lambda s=slower, k=seed: simulated(s, quiet, seed=k)
       for slower in (0.9, 1.0, 1.01, 1.1) for seed in (1, 2)},
    **{f"bursts {slower}": lambda s=slower: simulated(s, bursts, seed=3) for slower in (1.0, 1.2, 2.0)},
    "few": lambda: simulated(1.0, quiet, most_pairs=9),
    "too few": lambda: simulated(1.0, quiet, most_pairs=4),
    "sequential": lambda: simulated(1.05, quiet, design="sequential", most_pairs=20),
    "rate": lambda: printing(1.1, 4, r"rate=rate (\S+) kops/s"),
    "rate alike": lambda: printing(1.0, 5, r"rate=rate (\S+) kops/s"),
    "time": lambda: printing(1.1, 6, r"time=took ([0-9.]+)"),
    "time alike": lambda: printing(1.0, 7, r"time=took ([0-9.]+)"),
    "score": lambda: printing(1.0, 8, r"score=score ([0-9]+)"),
    "score higher": lambda: printing(1.9, 9, r"score=score ([0-9]+)"),
}  # fmt: skip


def shown(found: Compared) -> str:
    console = Console(file=io.StringIO(), width=400, highlight=False, markup=False, soft_wrap=True)
    show_compared(console, found, verbose=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_there_are_twenty_answers_of_every_verdict() -> None:
    assert len(ANSWERS) >= 20
    verdicts = {ANSWERS[name]().primary[0].word for name in ("1.1 1", "0.9 1", "score", "score higher", "too few")}
    assert verdicts == {"slower", "faster", "too coarse", "higher", "refused"}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_worked_out_again_from_its_runs(name: str) -> None:
    found = ANSWERS[name]()
    written = json.loads(json.dumps(document(Outcome(found, 7, MACHINE)), allow_nan=False))
    assert audit(written, shown(found)) == []


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("ratio", 1.5, "ratio is 1.5"), ("ratio_low", 1.0999, "narrower"), ("mean_ratio", 1.2, "mean ratio is 1.2"),
        ("verdict", "equivalent", "the verdict is equivalent"), ("mean_ratio_low", 1.0999, "narrower"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_found(key: str, value: object, wanted: str) -> None:
    found = simulated(1.1, quiet, seed=2)
    written = document(Outcome(found, 7, MACHINE))
    wrong = copy.deepcopy(written)
    wrong["findings"][0][key] = value
    assert any(wanted in text for text in audit(wrong))
    assert any("lacks its interval" in text for text in audit(written, "B is 10 % slower than A."))


def test_the_script_imports_nothing_of_vtare(tmp_path: Path) -> None:
    script = Path(__file__).parent / "ab_audit.py"
    assert "import vtare" not in script.read_text()
    assert "from vtare" not in script.read_text()
    file = tmp_path / "ab.json"
    file.write_text(json.dumps(document(Outcome(simulated(1.1, quiet, seed=2), 7, MACHINE))))
    done = subprocess.run([sys.executable, "-I", str(script), str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "nothing is wrong\n")
