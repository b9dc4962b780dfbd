use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gate::{Verdict, Voids};
use super::{
    Answer, Cap, Class, Found, Goal, Measured, Range, Search, Seen, SettingsError, Step, Stopped, Trial, check_range,
    classify, conditional_throughput,
};

/// Parameters of MLRsearch.
//= RFC 9971, Multiple Loss Ratio Search
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MlrSettings {
    /// What loads must fulfil; each has an answer of its own.
    pub goals: Vec<Goal>,
    /// Duration of the first trials, ns.
    pub initial_ns: u64,
    /// Steps in which trials grow from the first duration to a goal's final one; bounds are twice as wide a step
    /// earlier.
    pub phases: u32,
    /// No further trial after this time of trials, ns; null for no limit.
    pub most_ns: Option<u64>,
}

impl Default for MlrSettings {
    /// Losing 0.5 %, and losing nothing; from trials of 50 ms on.
    fn default() -> Self {
        let some = Goal::default();
        Self {
            goals: vec![some, Goal::zero_loss(some.final_ns, some.width)],
            initial_ns: 50_000_000,
            phases: 3,
            most_ns: None,
        }
    }
}

/// Trials at a load before the last phase.
const MOST_EARLY_TRIALS: u64 = 3;

/// The search: for each goal in turn bounds are brought together by short trials first, then confirmed and narrowed by
/// longer ones.
///
/// No result of a short trial is relied on later: in every phase the bounds of the one before are measured again,
/// the lower one first, and where one does not stand the search goes on beyond it. An upper bound below a load that has
/// fulfilled the goal contradicts it; it is measured twice as long before it is believed.
#[derive(Clone, Debug)]
pub struct Mlrsearch {
    settings: MlrSettings,
    range: Range,
    trials: BTreeMap<u64, Vec<Measured>>,
    /// Frames a second that came, in the last trial at each load.
    came: BTreeMap<u64, f64>,
    goal: usize,
    phase: u32,
    /// How often this phase has gone beyond a bound.
    stretched: u32,
    cap: Cap,
    asked: Option<Trial>,
    /// The last trial was void: it is the next one, too.
    again: bool,
    trial_ns: u64,
    count: u64,
    voids: Voids,
}

/// Bounds of a goal in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    lower: Option<u64>,
    upper: Option<u64>,
}

impl Mlrsearch {
    /// A search within `range`.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(settings: MlrSettings, range: Range) -> Result<Self, SettingsError> {
        check_range(range)?;
        if settings.goals.is_empty() {
            return Err(SettingsError::new("goals", 0, "one or more"));
        }
        if settings.phases == 0 || settings.phases > 10 {
            return Err(SettingsError::new("phases", settings.phases, "1 to 10"));
        }
        for goal in &settings.goals {
            let shares = [("loss ratio", goal.loss_ratio), ("exceed ratio", goal.exceed_ratio)];
            if let Some((what, share)) = shares.into_iter().find(|(_, share)| !(0.0..1.0).contains(share)) {
                return Err(SettingsError::new(what, share, "a share from 0 to below 1"));
            }
            if !(goal.width > 0.0 && goal.width < 1.0) {
                return Err(SettingsError::new("width", goal.width, "a share above 0 and below 1"));
            }
            if goal.final_ns == 0 || goal.sum_ns < goal.final_ns {
                return Err(SettingsError::new("sum of trials", goal.sum_ns, "the final duration, above 0, or more"));
            }
            if settings.initial_ns == 0 || settings.initial_ns > goal.final_ns {
                return Err(SettingsError::new(
                    "initial duration",
                    settings.initial_ns,
                    "above 0, the final one at most",
                ));
            }
        }
        Ok(Self {
            settings,
            range,
            trials: BTreeMap::new(),
            came: BTreeMap::new(),
            goal: 0,
            phase: 0,
            stretched: 0,
            cap: Cap::Range,
            asked: None,
            again: false,
            trial_ns: 0,
            count: 0,
            voids: Voids::default(),
        })
    }

    fn last_phase(&self) -> u32 {
        self.settings.phases - 1
    }

    /// A goal as it stands in a phase: shorter and wider before the last one.
    fn goal_in(&self, goal: usize, phase: u32) -> Goal {
        let whole = self.settings.goals[goal];
        let left = self.last_phase() - phase;
        if left == 0 {
            return whole;
        }
        let part = f64::from(phase) / f64::from(self.last_phase());
        let (first, last) = (self.settings.initial_ns as f64, whole.final_ns as f64);
        let duration_ns = (first * (last / first).powf(part)).round() as u64;
        let width = (whole.width * f64::from(1 << left)).min(0.5);
        // As many trials as in the end, three at most: where single trials fail for no reason of the load, one alone
        // would lead far astray.
        let trials = (whole.sum_ns / whole.final_ns).clamp(1, MOST_EARLY_TRIALS);
        Goal { final_ns: duration_ns, sum_ns: duration_ns * trials, width, ..whole }
    }

    /// What is known of every load, by rising load.
    fn classes(&self, goal: &Goal) -> Vec<(u64, Class)> {
        let mut higher_is_lower = false;
        let mut found: Vec<(u64, Class)> = self
            .trials
            .iter()
            .rev()
            .map(|(&load, trials)| {
                let class = classify(trials, goal);
                // It contradicts what a higher load has shown: only twice the time is enough to believe it.
                let doubted = Goal { sum_ns: goal.sum_ns * 2, ..*goal };
                let class = if class == Class::Upper && higher_is_lower { classify(trials, &doubted) } else { class };
                higher_is_lower |= class == Class::Lower;
                (load, class)
            })
            .collect();
        found.reverse();
        found
    }

    fn bounds(&self, goal: usize, phase: u32) -> Bounds {
        let classes = self.classes(&self.goal_in(goal, phase));
        let of = |class| move |entry: &&(u64, Class)| entry.1 == class;
        let upper = classes.iter().find(of(Class::Upper)).map(|entry| entry.0);
        let below = |entry: &&(u64, Class)| upper.is_none_or(|upper| entry.0 < upper);
        let lower = classes.iter().rev().filter(of(Class::Lower)).find(below).map(|entry| entry.0);
        Bounds { lower, upper }
    }

    /// What the step before leaves to be measured again.
    fn earlier(&self) -> Bounds {
        match (self.goal, self.phase) {
            (0, 0) => Bounds::default(),
            (goal, 0) => self.bounds(goal - 1, self.last_phase()),
            (goal, phase) => self.bounds(goal, phase - 1),
        }
    }

    /// The next load of this goal and phase; `None` where its bounds are close enough, or can come no closer.
    fn load(&mut self, goal: &Goal) -> Option<u64> {
        let Range { least, most } = self.range;
        let Bounds { lower, upper } = self.bounds(self.goal, self.phase);
        let earlier = self.earlier();
        // A load that further trials could decide either way comes first, as long as it lies where the answer is
        // sought.
        let classes = self.classes(goal);
        let class_of = |load: u64| classes.iter().find(|entry| entry.0 == load).map(|entry| entry.1);
        let open = |load: &u64| lower.is_none_or(|lower| *load > lower) && upper.is_none_or(|upper| *load < upper);
        if let Some(asked) = self.pending(goal).filter(open) {
            return Some(asked);
        }
        if lower.is_none() {
            if let Some(candidate) = earlier.lower.filter(open).filter(|load| class_of(*load) != Some(Class::Lower)) {
                return Some(candidate);
            }
            let Some(upper) = upper else { return Some(most) };
            if upper <= least {
                return None;
            }
            // What came of the higher load is about what the device can do.
            let came = self.came.get(&upper).map(|came| (came * (1.0 - goal.width / 2.0)) as u64);
            let guess = came.filter(|came| {
                self.stretched == 0 && *came >= least && (*came as f64) < upper as f64 * (1.0 - goal.width)
            });
            return Some(guess.unwrap_or_else(|| self.stretch(upper, goal.width, false)));
        }
        let lower = lower.unwrap_or(least);
        let Some(upper) = upper else {
            if lower >= most {
                return None;
            }
            if let Some(candidate) = earlier.upper.filter(|load| *load > lower && *load < most) {
                return Some(candidate);
            }
            return Some(if self.phase == 0 && self.goal == 0 { most } else { self.stretch(lower, goal.width, true) });
        };
        let close = (upper - lower) as f64 <= goal.width * upper as f64 || upper - lower <= 1;
        if close {
            return None;
        }
        // A bound of the step before may lie closer than the middle, and is worth more: it was measured already.
        let between = [earlier.lower, earlier.upper].into_iter().flatten().find(|load| *load > lower && *load < upper);
        if let Some(known) = between.filter(|load| class_of(*load).is_none_or(|class| class == Class::Undecided)) {
            return Some(known);
        }
        // What came of the greatest load has led to the lower bound: the upper one is looked for from there, and not
        // from above.
        let beyond = if upper == most { self.stretch(lower, goal.width, true) } else { upper };
        Some(beyond.min(middle(lower, upper)))
    }

    /// The load of the last trial, where it is still open.
    fn pending(&self, goal: &Goal) -> Option<u64> {
        let asked = self.asked?.packet_per_s;
        let known = self.classes(goal).into_iter().find(|entry| entry.0 == asked)?;
        (known.1 == Class::Undecided && asked <= self.range.most).then_some(asked)
    }

    /// Beyond a bound, further each time.
    fn stretch(&mut self, from: u64, width: f64, up: bool) -> u64 {
        let step = (width * f64::from(1 << self.stretched.min(16))).min(if up { 1.0 } else { 0.5 });
        self.stretched += 1;
        let by = ((from as f64 * step) as u64).max(1);
        if up { (from + by).min(self.range.most) } else { from.saturating_sub(by).max(self.range.least) }
    }

    fn next(&mut self) -> Option<Trial> {
        while self.goal < self.settings.goals.len() {
            let goal = self.goal_in(self.goal, self.phase);
            if let Some(packet_per_s) = self.load(&goal) {
                return Some(Trial { packet_per_s, duration_ns: goal.final_ns });
            }
            self.stretched = 0;
            self.asked = None;
            (self.goal, self.phase) =
                if self.phase < self.last_phase() { (self.goal, self.phase + 1) } else { (self.goal + 1, 0) };
        }
        None
    }

    /// What is known of a goal by trials as long as those of a phase.
    fn found(&self, number: usize, phase: u32) -> Found {
        let goal = self.goal_in(number, phase);
        let Bounds { lower, upper } = self.bounds(number, phase);
        let trials = |load: u64| self.trials.get(&load).map_or(&[][..], Vec::as_slice);
        let regular = lower
            .zip(upper)
            .is_some_and(|(lower, upper)| (upper - lower) as f64 <= goal.width * upper as f64 || upper - lower <= 1);
        Found {
            loss_ratio: goal.loss_ratio,
            lower_packet_per_s: lower,
            upper_packet_per_s: upper,
            throughput_packet_per_s: lower.map(|load| conditional_throughput(load, trials(load), &goal)),
            regular,
            censored: (lower.is_some() && upper.is_none() && lower >= Some(self.range.most)).then_some(self.cap),
        }
    }
}

/// Between two bounds, neither of them: by ratio where they are far apart, so that a device far slower than the
/// generator is found soon.
fn middle(lower: u64, upper: u64) -> u64 {
    let even = lower + (upper - lower) / 2;
    let by_ratio = (lower as f64 * upper as f64).sqrt() as u64;
    if upper / lower.max(1) >= 4 { by_ratio.clamp(lower + 1, upper - 1) } else { even }
}

impl Search for Mlrsearch {
    fn step(&mut self) -> Step {
        let over = self.goal >= self.settings.goals.len();
        if !over && self.settings.most_ns.is_some_and(|most| self.trial_ns >= most) {
            return Step::Done(self.broken_off());
        }
        let next = if std::mem::take(&mut self.again) { self.asked } else { self.next() };
        match next {
            Some(trial) => {
                self.asked = Some(trial);
                Step::Trial(trial)
            }
            None => Step::Done(Answer { stopped: Stopped::Converged, ..self.interim() }),
        }
    }

    fn observe(&mut self, seen: &Seen) {
        let Some(asked) = self.asked else { return };
        self.trial_ns += asked.duration_ns;
        // Good for this goal and for all that follow.
        let good = self.settings.goals[self.goal..].iter().map(|goal| goal.loss_ratio).fold(1.0, f64::min);
        match self.voids.judge(asked.packet_per_s, seen, good) {
            Verdict::Again => self.again = true,
            Verdict::TooFast(most, cap) => {
                self.range.most = most.min(asked.packet_per_s - 1).max(self.range.least);
                self.cap = cap;
                let most = self.range.most;
                self.trials.retain(|load, _| *load <= most);
                self.asked = None;
            }
            Verdict::Counts => {
                self.count += 1;
                let loss_ratio = seen.loss_ratio().unwrap_or(1.0);
                let measured = Measured { duration_ns: asked.duration_ns, loss_ratio };
                self.trials.entry(asked.packet_per_s).or_default().push(measured);
                self.came.insert(asked.packet_per_s, asked.packet_per_s as f64 * (1.0 - loss_ratio));
            }
        }
    }

    fn interim(&self) -> Answer {
        Answer {
            goals: (0..self.settings.goals.len()).map(|number| self.found(number, self.last_phase())).collect(),
            trials: self.count,
            void_trials: self.voids.void(),
            disturbed_trials: self.voids.disturbed,
            trial_s: self.trial_ns as f64 / 1e9,
            stopped: Stopped::Running,
        }
    }

    fn broken_off(&self) -> Answer {
        let goals = (0..self.settings.goals.len()).map(|number| {
            let whole = self.found(number, self.last_phase());
            if number < self.goal || whole.regular {
                return whole;
            }
            // Long trials come before short ones, and short ones before none.
            let found = (0..self.settings.phases).rev().map(|phase| self.found(number, phase));
            let best = found.reduce(|long, short| if long.lower_packet_per_s.is_some() { long } else { short });
            let best = best.unwrap_or_default();
            Found { regular: false, censored: best.lower_packet_per_s.map(|_| Cap::TimeBudget), ..best }
        });
        Answer { goals: goals.collect(), stopped: Stopped::TimeBudget, ..self.interim() }
    }
}
