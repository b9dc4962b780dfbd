//! When the measurement ends, and its answer.

use vtare_units::Span;

use super::account::Bounds;
use super::evidence::Evidence;
use super::plan::{self, Left};
use super::stage::{Burst, Stage};
use super::{Abacus, policer, tuning as t};
use crate::avb::classic::sound;
use crate::avb::{Estimate, Step, Stopped};

impl Abacus {
    /// Judges the trains so far; ends or goes on.
    pub(super) fn judge(&mut self) {
        let Some(evidence) = self.evidence() else { return };
        let Some((bounds, true)) = evidence.answer() else { return };
        let estimate = self.estimate(&bounds, &evidence, Stopped::Running);
        if self.settings.follow_ns.is_none() || self.answer.is_none() {
            self.answer = Some(estimate.clone());
        }
        let [low, high] = bounds.interval(&evidence.path);
        let narrow = high - low <= self.settings.interval_share * bounds.value().max(0.0);
        // A queue that ran empty leaves the value open to one side; a fuller one is soon had.
        let closed = evidence.readings.last().is_none_or(|last| !last.best.drained());
        let left = Left { bytes: self.bytes_left(), seconds: self.seconds_left(), queued_bit: 0.0 };
        let wanted = plan::seconds(&evidence, &self.history, &self.settings, &self.setup.ability, true, &left);
        if narrow && closed && bounds.seconds() >= plan::long() * wanted {
            self.conclude(Stopped::Converged, Some(estimate));
        }
    }

    fn estimate(&self, bounds: &Bounds, evidence: &Evidence, stopped: Stopped) -> Estimate {
        let value = bounds.value();
        let [low, high] = bounds.interval(&evidence.path);
        // Less than nothing: more came than the link carries, or the account is wrong by as much.
        let high = high.max(-value);
        // No more is available than the narrow link carries, as far as that is known; behind a token bucket, where the
        // account is open to what flowed into it meanwhile, no more than left a busy queue.
        let narrow = (evidence.path.carries(), evidence.path.narrow.1);
        let behind = self.history.capacity.behind_bucket();
        let (most, error) = behind.filter(|behind| behind.0 < narrow.0 * (1.0 + t::SIDES * narrow.1)).unwrap_or(narrow);
        let ends = [-t::SIDES, t::SIDES].map(|sides| most * (1.0 + sides * error));
        let (value, low) = if behind.is_some() && value > most { (most, low.min(ends[0])) } else { (value, low) };
        let value = value.min(ends[1]);
        let high = high.min(ends[1]).max(value);
        let low = low.min(high);
        let bursts = t::SIDES * (bounds.burst / bounds.seconds()).sqrt();
        let interval = |more: f64| Some([(low - more).max(0.0), (high + more).max(0.0)]);
        let at = |ns: f64| self.epoch.map_or(0.0, |(_, began_s)| began_s) + ns / 1e9;
        Estimate {
            interval_bit_per_s: interval(0.0),
            long_run_bit_per_s: interval(bursts),
            // No link carries less than was free on it.
            capacity_bit_per_s: Some(behind.map_or(evidence.path.capacity, |behind| behind.0).max(value)),
            token_bucket_byte: self.history.bucket_byte,
            queued_ns: Some(self.queued_ns),
            window_s: Some([at(bounds.from_ns), at(bounds.to_ns)]),
            notes: self.notes.clone(),
            ..Estimate::of(&self.spent, stopped, value.min(high).max(low).max(0.0))
        }
    }

    /// One value is there: the end, or, for runs that follow, a pause.
    pub(super) fn conclude(&mut self, stopped: Stopped, value: Option<Estimate>) {
        let (Some(follow_ns), Some(now)) = (self.settings.follow_ns, self.spent.now) else {
            if let Some(answer) = value {
                self.done = Some(Box::new(Estimate { stopped, ..answer }));
            }
            return;
        };
        // One value each so often, counted from start to start; where a round gave none the next begins sooner.
        let pause_ns = if value.is_some() { follow_ns } else { (follow_ns / t::MORE).max(self.settings.retry_ns) };
        let since = if value.is_some() { self.round.due.unwrap_or(now) } else { now };
        self.round.next = since.checked_add(Span::from_unsigned_nanos(pause_ns)).map(|next| next.max(now));
        self.settled = None;
        if value.is_some() {
            self.round.due = None;
            self.answer = value;
            self.settled = self.answer.as_ref().filter(|it| !it.at_least).and_then(|answer| answer.avb_bit_per_s);
        }
        if let Some(settled) = self.settled {
            self.history.first_guess = settled;
        }
        self.history.trains.clear();
        self.policed.clear();
        self.faults.spoiled = 0;
        self.begin_round();
    }

    /// Why it may not go on, where it may not. A run that follows goes on after a pause, with what it has, unless it is
    /// the user's budget that is used up.
    pub(super) fn stops(&mut self, stopped: Stopped) -> Option<Stopped> {
        let spent = self.spent.probe_byte;
        let used = self.setup.budget.most_byte.is_some_and(|most| spent as f64 * (1.0 + t::LITTLE) >= most as f64)
            || self
                .setup
                .budget
                .most_ns
                .is_some_and(|most| self.spent.elapsed_s() * 1e9 * (1.0 + t::LITTLE) >= most as f64);
        if self.settings.follow_ns.is_none() || used || self.done.is_some() {
            return Some(stopped);
        }
        let best = self.best(stopped);
        let value = best.avb_bit_per_s.is_some().then_some(Estimate { stopped: Stopped::Running, ..best });
        if self.history.trains.is_empty() || matches!(stopped, Stopped::Disturbed | Stopped::Reordered) {
            self.begin_anew();
        }
        self.conclude(stopped, value);
        None
    }

    pub(super) fn finish(&mut self, stopped: Stopped) -> Step {
        let estimate = self.done.take().map(|it| *it).unwrap_or_else(|| self.best(stopped));
        let done = Box::new(sound(estimate));
        self.done = Some(done.clone());
        Step::Done(done)
    }

    /// The best there is.
    pub(super) fn best(&self, stopped: Stopped) -> Estimate {
        if let Some(found) = policer::free(&self.policed, self.bucket_packets()) {
            let mut estimate = Estimate::of(&self.spent, Stopped::Policed, found.value);
            estimate.interval_bit_per_s = Some(found.interval);
            estimate.long_run_bit_per_s = Some(found.interval);
            estimate.capacity_bit_per_s = Some(found.policer);
            estimate.token_bucket_byte = self.history.bucket_byte;
            estimate.notes.clone_from(&self.notes);
            estimate.notes.push(format!(
                "packets are dropped and not delayed: a policer of {:.4} Gbit/s, which drops cross traffic as well",
                found.policer / 1e9
            ));
            return estimate;
        }
        let evidence = self.evidence();
        let answer = evidence.as_ref().and_then(|evidence| Some((evidence, evidence.answer()?)));
        if let Some((evidence, (bounds, true))) = answer {
            return self.estimate(&bounds, evidence, stopped);
        }
        let spent_up = matches!(stopped, Stopped::ByteBudget | Stopped::TimeBudget);
        if let (Stage::Burst(Burst { came, .. }), true) = (self.stage, spent_up)
            && came > 0.0
        {
            let mut estimate = Estimate::of(&self.spent, stopped, came);
            estimate.at_least = true;
            estimate.window_s = self.last_burst_s(f64::from(self.head) * self.packet_bit() / came);
            estimate.notes.clone_from(&self.notes);
            estimate.notes.push(format!(
                "at least {:.4} Gbit/s: packets arrived at the rate at which they were sent, and what may be \
                 spent was used up before a queue built up",
                came / 1e9
            ));
            return estimate;
        }
        let mut estimate = Estimate::none(&self.spent, stopped);
        estimate.notes.clone_from(&self.notes);
        if self.faults.held_ns > t::HELD_NS || self.faults.held_whole > 0 {
            estimate.stopped = Stopped::Disturbed;
            // Where trains were delayed as a whole no wait was seen that is worth its figure.
            let seen = self.faults.held_ns > t::HELD_NS;
            let held = if seen { format!(" for up to {:.1} ms", self.faults.held_ns / 1e6) } else { String::new() };
            estimate.notes.push(format!(
                "packets waited behind the tight link{held}, since a machine or a program on the way stalled: no \
                 train could measure"
            ));
        } else if let (Some((evidence, (bounds, false))), true) = (answer, spent_up) {
            // Trains that approach are short and their rates far from the value.
            let [low, high] = bounds.interval(&evidence.path);
            estimate.avb_bit_per_s = Some(bounds.value().clamp(0.0, evidence.path.carries()));
            estimate.interval_bit_per_s = Some([low.max(0.0), high.max(0.0)]);
            estimate.capacity_bit_per_s = Some(evidence.path.capacity);
            estimate.notes.push("ended before a train could measure: from the search alone".to_owned());
        }
        estimate
    }

    /// Why it cannot go on, where it cannot.
    pub(super) fn gives_up(&self) -> Option<Stopped> {
        if self.faults.silent >= self.settings.most_spoiled {
            return Some(Stopped::NoAnswer);
        }
        // Trains that take no time and no bytes use up no budget.
        let endless = self.settings.follow_ns.is_none() && self.spent.trains >= t::MOST_TRAINS;
        if self.faults.spoiled >= self.settings.most_spoiled || endless {
            let reordered = self.faults.reordered * 2 > self.spent.trains;
            return Some(if reordered { Stopped::Reordered } else { Stopped::Disturbed });
        }
        None
    }

    /// When a train that took so long and has just been seen was sent, s since the first step.
    fn last_burst_s(&self, lasted_s: f64) -> Option<[f64; 2]> {
        let until = self.spent.elapsed_s();
        Some([(until - lasted_s).max(0.0), until])
    }

    /// There was no queue however fast it sent: the value is what was sent.
    pub(super) fn stop_sender_limited(&mut self, rate: f64, lasted_s: f64) {
        let mut estimate = Estimate::of(&self.spent, Stopped::SenderLimited, rate);
        estimate.at_least = true;
        estimate.window_s = self.last_burst_s(lasted_s);
        estimate.notes.clone_from(&self.notes);
        let note = format!("at least {:.4} Gbit/s: the sender cannot pace faster on this machine", rate / 1e9);
        estimate.notes.push(note);
        self.done = Some(Box::new(estimate));
    }
}
