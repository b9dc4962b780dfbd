"""The campaign of the outer machine: a plan run by the lab itself, and its store left for who waits outside.

What evaluates a store is not loaded here: this machine's processor is emulated, and the store is read outside.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path


def main(binary: Path, plan: Path, to: Path) -> None:
    """Run the plan in a store on this machine, and copy that: a database with a log does not work over 9p."""
    began = time.monotonic()
    from vtare.campaign.binary import binary_and_contract
    from vtare.campaign.executor import Campaign
    from vtare.campaign.progress import Forecast, NoProgress
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import Store
    from vtare.design import Run
    from vtare.plan.files import load_plan

    class Shown(NoProgress):
        """A line on the console for each run: whoever waits outside sees how far it is, and where it hangs."""

        def run_started(self, run: Run, forecast: Forecast) -> None:
            text = f"run {forecast.finished} of {forecast.total}: {run.experiment} {run.factors}"
            print(text, file=sys.stderr, flush=True)

    program, contract = binary_and_contract(binary)
    loaded_s = round(time.monotonic() - began, 1)
    store = Path("/run/tmp/store")
    with Store.create(store, load_plan(plan, contract=contract), 1) as opened, StopRequest() as stop:
        result = Campaign(opened, program, stop, Shown()).run()
    print(json.dumps({"loaded_s": loaded_s, "elapsed_s": round(result.elapsed_s, 1), "done": result.done}), flush=True)
    shutil.copytree(store, to)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
