"""One attempt at a run after another, each in the setup that it needs, which stays for the runs after it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vtare.campaign.execute import RunOutcome, RunSettings, execute
from vtare.campaign.forwarding import ForwardingSetup
from vtare.campaign.one_host import OneHostSetup
from vtare.campaign.setup import Setup, close_quietly
from vtare.campaign.two_hosts import TwoHostSetup
from vtare.design import expected_run_s, run_seed
from vtare.errors import HostLost, MachineCannot, PlatformFailed
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import own_prefix
from vtare.topology.instance_factors import IDLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan.model import Experiment, Plan
    from vtare.platforms.child import Child


def timeout_s(run: Run, plan: Plan) -> float:
    """When a run is taken as hung: the plan's `run_timeout`, else by the estimate of how long it takes."""
    stated = None if run.control is not None else plan.experiment(run.experiment).run_timeout_s
    # Ten times the estimate: an oversubscribed machine is slow, a hung program is slower still.
    return max(60.0, 30.0 + 10.0 * expected_run_s(run, plan)) if stated is None else stated


class Attempts:
    """The setups of one campaign on its hosts: those of the plan, or this machine."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        binary: Path,
        files: Files,
        stop: StopRequest,
        freeze: Callable[[Sequence[Child], float], None] | None = None,
    ) -> None:
        """Prepare; nothing is made yet. `seed` is the campaign's, `freeze` that of `RunSettings`."""
        self._plan = plan
        self._seed = seed
        self._files = files
        self._stop = stop
        self._freeze = freeze
        owner, settings, hosts = own_prefix(), plan.platforms, plan.hosts
        self._one_host = OneHostSetup(binary, owner, settings, hosts)
        self._two_hosts = TwoHostSetup(binary, owner, settings, hosts)
        self._forwarding = ForwardingSetup(binary, owner, settings)
        self._current: Setup[Any] | None = None

    def attempt(self, run: Run, directory: Path) -> RunOutcome:
        """Make one run, with its files in `directory`, which must exist, and return how it ended.

        Raises:
            Interrupted: a stop was requested; all children have ended.
            OSError: the program cannot be started or the directory cannot be written.
        """
        experiment = None if run.control is not None else self._plan.experiment(run.experiment)
        setup = self._setup_for(experiment)
        try:
            wanted = setup.wanted(run, experiment)
            reason = setup.missing(wanted)
            if reason is not None:
                return RunOutcome("skipped", 0.0, reason=reason)
            with setup.entered(wanted, directory) as made:
                settings = self._settings(run)
                outcome = execute(run, settings, directory, setup=made, files=self._files, stop=self._stop)
        except MachineCannot as error:
            return RunOutcome("skipped", 0.0, reason=str(error), lost=isinstance(error, HostLost))
        except (NetworkError, PlatformFailed) as error:
            outcome = RunOutcome("failed", 0.0, reason=str(error))
        if outcome.status == "failed":
            outcome = replace(outcome, lost=setup.lost())
            # An instance may hang, or be gone: the next run gets others.
            close_quietly(setup.close)
        return outcome

    def close(self) -> None:
        """End what stays between runs. May be called twice."""
        current, self._current = self._current, None
        if current is not None:
            close_quietly(current.close)

    def _setup_for(self, experiment: Experiment | None) -> Setup[Any]:
        """The setup of a run of this experiment, or of a control run; that of the run before ends where it differs."""
        if experiment is not None and experiment.two_hosts:
            setup: Setup[Any] = self._two_hosts
        elif experiment is not None and experiment.through_guests:
            setup = self._forwarding
        else:
            setup = self._one_host
        if self._current is not None and setup is not self._current:
            close_quietly(self._current.close)
        self._current = setup
        return setup

    def _settings(self, run: Run) -> RunSettings:
        load = IDLE
        if run.control is None and "load" in run.factors:
            load = self._plan.experiment(run.experiment).factor("load").level(run.factors["load"]).value
        seed = run_seed(self._seed, run.run_id)
        return RunSettings(seed, load, self._plan.settle_s, timeout_s(run, self._plan), self._freeze)
