//! When it is enough, and what is said then.

use super::belief::Belief;
use super::train_estimate::{Known, Score};
use super::{Stage, Vtare};
use crate::avb::classic::sound;
use crate::avb::{Estimate, Step, Stopped, Train};

/// Two standard errors: 95 %.
const SIDES: f64 = 2.0;

/// A window must last for so much of what the bursts ask for: the account begins and ends within a seventh of a train.
/// The shortest train is long enough for cross traffic with less than this share of the variance of Poisson's, of which
/// as much as the ends may leave out is left out.
const LONG: f64 = 0.7;
const LONG_EVEN: f64 = 0.5;
const EVEN: f64 = 0.3;

/// A queue that may have been empty for more than this share of the value was so for want of probes, not for the
/// train's length.
const OFTEN: f64 = 0.2;

/// A train that would be so much of what is wanted wide, were its rate near the value, need not be longer.
const NEARLY: f64 = 0.8;

/// An account that says so many times the capacity, beyond its error, is none.
const ABSURD: f64 = 1.2;

/// Where trains were delayed, one that lasted for less than this, s, and says that so much of the link is free, was
/// held up as well.
const STANDSTILL_S: f64 = 0.003;
const IDLE_LINK: f64 = 0.9;

/// A share of the capacity as small as this cannot be told from nothing by the search alone.
const NOTHING: f64 = 1e-3;

/// Share of a time that must have been looked at for the whole of it to be told.
const LEAST_SEEN: f64 = 0.9;

/// The mean of the scored trains.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: f64,
    low: f64,
    high: f64,
    /// What to add on each side for the mean of many such windows.
    bursts: f64,
    from_ns: f64,
    to_ns: f64,
}

impl Mean {
    fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// Where the trains leave this probability, or more, that the tight link is not the narrow one, the interval that is
/// given is wider by this factor. On 400 paths drawn at random at each of three seeds (9,400,000, 9,500,000 and
/// 9,600,000; the factor was chosen before these were drawn) 95.5 to 96.2 % of the intervals hold the truth with it,
/// 92.5 to 93.5 % without; 1.0 to 1.3 % are off by more than three half-widths, 1.8 to 2.8 % without; the half-width is
/// 11.8 to 19 % of the truth, 7.8 to 12 % without. A fourth seed, 473,331,997,484, is worse: 93.0 % hold, 91.5 %
/// before; 1.5 % are off by more than three half-widths, 3.5 % before; half-width 19 %, 12 % before.
const NOT_EXCLUDED: f64 = 0.05;
const WIDER: f64 = 1.6;

/// Trains of one estimate at most: a usual one has a few dozen.
const MOST_TRAINS: u32 = 1_000;

impl Vtare {
    /// Judges the trains so far; ends or goes on.
    pub(super) fn judge(&mut self, known: &Known) {
        let Some(mean) = self.mean() else { return };
        self.fresh = Some(self.estimate(&mean, known, Stopped::Running));
        if self.settings.follow_ns.is_none() || self.answer.is_none() {
            self.answer.clone_from(&self.fresh);
        }
        let narrow = mean.width() <= self.settings.interval_share * mean.value.max(0.0);
        let even = self.scores.last().is_some_and(|last| last.dispersion < EVEN);
        let share = if even { LONG_EVEN } else { LONG };
        let long_enough = (mean.to_ns - mean.from_ns) / 1e9 >= share * self.measure_seconds();
        // A queue that ran empty leaves the value open to one side; a fuller one is soon had.
        let closed = self.scores.last().is_none_or(|last| last.idle <= self.settings.idle_share * last.least.max(0.0));
        if narrow && closed && long_enough {
            self.conclude(Stopped::Converged);
            return;
        }
        // What comes of a rate that was far from the value, the next train has not, however long it is; but bursts move
        // the value again.
        let lasting = |last: &Score| {
            let error = (last.error.powi(2) - last.far_error.powi(2)).max(0.0).sqrt();
            2.0 * (SIDES * error + self.settings.least_error * last.value().abs()) + last.idle
        };
        let width = self.scores.last().filter(|_| even).map_or(f64::INFINITY, lasting).min(mean.width());
        let ratio = width / (self.settings.interval_share * mean.value).max(1.0);
        let seconds = self.scores.last().map_or(0.0, Score::seconds);
        // Nor is a longer one of use at a rate that lets the queue run empty.
        let empty = self.scores.last().is_some_and(|last| last.idle > OFTEN * last.least.max(0.0)) && !self.unsure();
        self.wanted_seconds = match ratio {
            _ if narrow => 0.0,
            ratio if ratio < NEARLY || empty => 0.5 * seconds,
            ratio => seconds * (1.6 * ratio).clamp(1.5, 8.0),
        };
    }

    /// Trains that agree, from the last one back.
    fn agreeing(&self) -> &[Score] {
        let Some(last) = self.scores.last() else { return &[] };
        let spread = |score: &Score| score.error.powi(2) + score.burst.max(last.burst) / score.seconds();
        let agrees = |score: &Score| {
            let away = (score.value() - last.value()).abs();
            away <= 3.0 * (spread(score) + spread(last)).sqrt()
                + (score.idle + last.idle) / 2.0
                + 0.02 * last.least.abs()
        };
        let since = self.scores.iter().rposition(|score| !agrees(score)).map_or(0, |before| before + 1);
        // More than the link carries, as it is known by now: the train was delayed, and let go by something faster.
        let carried = self.link.map_or(f64::INFINITY, |(link, error)| {
            ABSURD * link * (1.0 + SIDES * error.max(self.settings.least_capacity_error))
        });
        // So may have been one that met nothing, where trains were: one that lasted for less than machines stall.
        let stood = self.held_whole + self.restarts > 0;
        let idle = |score: &Score| {
            stood
                && score.seconds() < STANDSTILL_S
                && score.least > IDLE_LINK * self.link.map_or(f64::INFINITY, |it| it.0)
        };
        let since = self
            .scores
            .iter()
            .rposition(|score| score.least > carried || idle(score))
            .map_or(since, |at| since.max(at + 1));
        &self.scores[since..]
    }

    /// The narrowest of the agreeing accounts; the mean over all of them only where they are one nearly without gaps,
    /// since between them nobody looked and traffic may have been another.
    fn mean(&self) -> Option<Mean> {
        let all = self.agreeing();
        let seen: f64 = all.iter().map(Score::seconds).sum();
        let (first, last) = (all.first()?, all.last()?);
        let together = (seen >= LEAST_SEEN * (last.to_ns - first.from_ns) / 1e9).then(|| self.mean_of(all));
        let each = all.iter().map(|score| self.mean_of(std::slice::from_ref(score)));
        together.into_iter().chain(each).flatten().min_by(|a, b| a.width().total_cmp(&b.width()))
    }

    fn mean_of(&self, scores: &[Score]) -> Option<Mean> {
        let (first, last) = (scores.first()?, scores.last()?);
        let seconds: f64 = scores.iter().map(Score::seconds).sum();
        let weighted =
            |of: &dyn Fn(&Score) -> f64| scores.iter().map(|score| of(score) * score.seconds()).sum::<f64>() / seconds;
        let value = weighted(&Score::value);
        let measured =
            scores.iter().map(|score| (self.blurred(score) * score.seconds()).powi(2)).sum::<f64>() / seconds.powi(2);
        let burst = weighted(&|score| score.burst);
        let window = (last.to_ns - first.from_ns) / 1e9;
        let unseen = (window - seconds).max(0.0);
        // The value is the mean of the window: only what was not seen of it is guessed.
        let gaps = if unseen > 0.0 { (unseen / window).powi(2) * burst * (1.0 / seconds + 1.0 / unseen) } else { 0.0 };
        let half = SIDES * (measured + gaps).sqrt() + self.settings.least_error * value.abs();
        let low = weighted(&|score| score.least) - half;
        // Less than nothing: more came than the link carries, or the account is wrong by as much.
        let high = (weighted(&|score| score.least + score.idle) + half).max(-value);
        let high = high.min(self.most_carried().max(value));
        let bursts = SIDES * (burst / seconds).sqrt();
        Some(Mean { value, low, high, bursts, from_ns: first.from_ns, to_ns: last.to_ns })
    }

    /// No more is available than the link carries, bit/s.
    fn most_carried(&self) -> f64 {
        self.link
            .map_or(f64::INFINITY, |(link, error)| link * (1.0 + SIDES * error.max(self.settings.least_capacity_error)))
    }

    fn estimate(&self, mean: &Mean, known: &Known, stopped: Stopped) -> Estimate {
        let other = self.link.map_or(0.0, |(narrow, _)| self.tight_ratio(narrow).other);
        let wider = (if other >= NOT_EXCLUDED { WIDER } else { 1.0 } - 1.0) / 2.0 * mean.width();
        let most = self.most_carried().max(mean.value).max(0.0);
        let interval =
            |more: f64| Some([(mean.low - wider - more).max(0.0), (mean.high + wider + more).clamp(0.0, most)]);
        let at = |ns: f64| self.epoch_s + ns / 1e9;
        Estimate {
            interval_bit_per_s: interval(0.0),
            long_run_bit_per_s: interval(mean.bursts),
            capacity_bit_per_s: Some(known.capacity),
            token_bucket_byte: self.bucket_byte,
            queued_ns: Some(self.queued_ns),
            window_s: Some([at(mean.from_ns), at(mean.to_ns)]),
            notes: self.notes.clone(),
            ..Estimate::of(&self.spent, stopped, self.within_told(mean.value).min(mean.high).max(mean.low).max(0.0))
        }
    }

    /// One value is there: the end, or, for runs that follow, a pause.
    fn conclude(&mut self, stopped: Stopped) {
        let (Some(follow_ns), Some(now)) = (self.settings.follow_ns, self.spent.now) else {
            if let Some(answer) = &mut self.answer {
                answer.stopped = stopped;
                self.done = Some(Box::new(answer.clone()));
            }
            return;
        };
        let value = self.fresh.take();
        // One value each so often, counted from begin to begin; where a round gave none the next begins sooner.
        let pause_ns = if value.is_some() { follow_ns } else { (follow_ns / 4).max(self.settings.retry_ns) };
        let since = if value.is_some() { self.due.unwrap_or(now) } else { now };
        self.next = since.checked_add(super::span(pause_ns)).map(|next| next.max(now));
        if value.is_some() {
            self.due = None;
            self.answer = value;
        }
        self.settled = self.answer.as_ref().filter(|_| !self.scores.is_empty()).and_then(|answer| answer.avb_bit_per_s);
        self.scores.clear();
        self.responses.clear();
        self.account.clear();
        self.wanted_seconds = 0.0;
        self.spoiled = 0;
        if let (true, Some((capacity, _))) = (self.unsure(), self.link) {
            // What steers the rate is of this round only: the value may have moved.
            self.belief = Some(Belief::up_to(capacity));
        }
        self.begin_round();
    }

    /// Why it may not go on, where it may not. A run that follows goes on after a pause, with what it has, unless it is
    /// the user's budget that is used up.
    pub(super) fn stops(&mut self, stopped: Stopped) -> Option<Stopped> {
        let spent = self.spent.probe_byte;
        let used = self.setup.budget.most_byte.is_some_and(|most| spent + spent / 20 >= most)
            || self.setup.budget.most_ns.is_some_and(|most| self.spent.elapsed_s() * 1.05e9 >= most as f64);
        if self.settings.follow_ns.is_none() || used || self.done.is_some() {
            return Some(stopped);
        }
        if let (Some(mean), Some(known)) = (self.mean(), self.known()) {
            self.fresh = Some(self.estimate(&mean, &known, Stopped::Running));
        }
        // No queue, as far as bytes and time of a round go: that is a value, and the next round is due as behind any
        // other.
        let bound = (self.stage == Stage::Flood && self.near > 0.0)
            .then(|| Estimate { stopped: Stopped::Running, ..self.best(stopped) });
        if self.scores.is_empty() || stopped == Stopped::Disturbed || stopped == Stopped::Reordered {
            self.forget();
        }
        self.fresh = self.fresh.take().or(bound);
        self.conclude(stopped);
        None
    }

    /// Ends with the best there is.
    pub(super) fn finish(&mut self, stopped: Stopped) -> Step {
        let estimate = self.done.take().map(|it| *it).unwrap_or_else(|| self.best(stopped));
        let done = Box::new(sound(estimate));
        self.done = Some(done.clone());
        Step::Done(done)
    }

    fn best(&self, stopped: Stopped) -> Estimate {
        if let Some(rate) = self.policed {
            let mut estimate = Estimate::of(&self.spent, Stopped::Policed, rate);
            estimate.interval_bit_per_s = Some([0.93 * rate, 1.07 * rate]);
            estimate.token_bucket_byte = self.bucket_byte;
            estimate.notes = self.notes.clone();
            return estimate;
        }
        if let (Some(mean), Some(known)) = (self.mean(), self.known()) {
            return self.estimate(&mean, &known, stopped);
        }
        if self.stage == Stage::Flood && matches!(stopped, Stopped::ByteBudget | Stopped::TimeBudget) {
            let mut estimate = Estimate::of(&self.spent, stopped, self.near);
            estimate.at_least = true;
            estimate.notes = self.notes.clone();
            estimate.notes.push(format!(
                "at least {:.4} Gbit/s: all that was sent came as it was sent, and no more may be spent on finding \
                 where it queues",
                self.near / 1e9
            ));
            return estimate;
        }
        if self.held_ns > self.settings.most_held_ns as f64 || self.held_whole + self.restarts > 0 {
            let mut estimate = Estimate::none(&self.spent, Stopped::Disturbed);
            estimate.notes = self.notes.clone();
            // Where trains were delayed as a whole no wait was seen that is worth its figure.
            let seen = self.held_ns > self.settings.most_held_ns as f64;
            let held = if seen { format!(" for up to {:.1} ms", self.held_ns / 1e6) } else { String::new() };
            estimate.notes.push(format!(
                "packets waited behind the tight link{held}, since a machine or a program on the way stood still: no \
                 train could measure"
            ));
            return estimate;
        }
        let mut estimate = Estimate::none(&self.spent, stopped);
        estimate.notes = self.notes.clone();
        // The search alone: a wide interval and no window.
        if let (Some(belief), Some((capacity, _))) = (&self.belief, self.link)
            && self.spent.trains > 1
            && matches!(stopped, Stopped::ByteBudget | Stopped::TimeBudget)
        {
            // Trains of the search are short and their rates far from the value: what they say may be wrong by more
            // than it seems.
            let (low, high) = (belief.quantile(0.025), belief.quantile(0.975));
            estimate.avb_bit_per_s = Some(self.near.clamp(belief.quantile(0.1), belief.quantile(0.9)));
            // The belief knows no value below its least: there it may be none at all.
            let low = if low < NOTHING * capacity { 0.0 } else { low / 5.0 };
            estimate.interval_bit_per_s = Some([low, (5.0 * high).min(1.1 * capacity).max(high)]);
            estimate.capacity_bit_per_s = Some(capacity);
            estimate.notes.push("ended before a train could measure: from the search alone".to_owned());
        }
        estimate
    }

    /// Why it cannot go on, where it cannot.
    pub(super) fn gives_up(&self) -> Option<Stopped> {
        if self.silent >= 6 {
            return Some(Stopped::NoAnswer);
        }
        if self.policed.is_some() {
            return Some(Stopped::Policed);
        }
        // Trains that take no time and no bytes use up no budget.
        let endless = self.settings.follow_ns.is_none() && self.spent.trains >= MOST_TRAINS;
        if self.spoiled >= self.settings.most_spoiled || endless {
            return Some(if self.reordered * 2 > self.spent.trains { Stopped::Reordered } else { Stopped::Disturbed });
        }
        None
    }

    /// Why `train` may not be sent, where it may not. It was planned within what is left; what is left may be too
    /// little to be of use.
    pub(super) fn over(&self, train: &Train) -> Option<Stopped> {
        let little = self.stage == Stage::Measure
            && !self.steers
            && self.seconds < 0.2 * self.scores.last().map_or(0.0, Score::seconds);
        let seconds = (train.idle_before_ns as f64 + train.duration_ns()) / 1e9;
        if seconds > self.seconds_left() || (little && self.seconds_left() * 2.0 < self.wanted_seconds) {
            return Some(Stopped::TimeBudget);
        }
        (train.bytes() > self.bytes_left() || little).then_some(Stopped::ByteBudget)
    }

    /// There was no queue however fast it sent: the value is what was sent.
    pub(super) fn stop_sender_limited(&mut self, rate: f64) {
        let mut estimate = Estimate::of(&self.spent, Stopped::SenderLimited, rate);
        estimate.at_least = true;
        estimate.notes = self.notes.clone();
        estimate
            .notes
            .push(format!("at least {:.4} Gbit/s: the sender cannot pace faster on this machine", rate / 1e9));
        self.done = Some(Box::new(estimate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Setup, VtareSettings};
    use vtare_units::Timestamp;

    #[test]
    fn a_run_that_follows_says_at_least_so_much_of_a_path_on_which_nothing_queues() {
        let follow_ns = 1_000_000_000;
        let settings = VtareSettings { follow_ns: Some(follow_ns), ..VtareSettings::default() };
        let mut method = Vtare::new(settings, Setup::default());
        let now = Timestamp::from_nanos(50_000_000);
        method.spent.at(now);
        (method.stage, method.near, method.due) = (Stage::Flood, 3e10, Some(now));
        assert_eq!(method.stops(Stopped::ByteBudget), None);
        let answer = method.answer.as_ref().expect("a value");
        assert_eq!((answer.avb_bit_per_s, answer.at_least, answer.stopped), (Some(3e10), true, Stopped::Running));
        // The next is due a second later, and begins anew.
        assert_eq!(method.next, now.checked_add(super::super::span(follow_ns)));
        assert_eq!(method.stage, Stage::First);
    }
}
