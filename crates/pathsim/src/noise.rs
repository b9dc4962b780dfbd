use serde::{Deserialize, Serialize};

/// A time in which a machine does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it begins, ns.
    pub at_ns: u64,
    /// How long it lasts, ns.
    pub span_ns: u64,
}

/// How late a program is: a little each time, and a lot when its machine stalls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Lateness of each action in turn, ns; from the start again at the end. Empty: never late.
    pub late_ns: Vec<u32>,
    /// Undisturbed run and loss of the CPU after it, ns, in turn; from the start again at the end.
    pub runs_ns: Vec<(u32, u32)>,
    /// Single pauses, in the order of time.
    pub pauses: Vec<Pause>,
}

impl Noise {
    /// Always late by the same.
    #[must_use]
    pub fn constant(late_ns: u32) -> Self {
        Self { late_ns: vec![late_ns], ..Self::default() }
    }
}

/// [`Noise`] under way. Times must not go back by more than the lateness itself.
#[derive(Clone, Debug)]
pub struct Lateness {
    noise: Noise,
    acted: usize,
    run: usize,
    /// End of the present run: the loss behind it begins.
    lost_ns: u64,
    paused: usize,
}

impl Lateness {
    /// At time 0.
    #[must_use]
    pub fn new(noise: &Noise) -> Self {
        // A trace whose runs take no time at all would never end.
        let moves = noise.runs_ns.iter().any(|&(ran, lost)| ran > 0 || lost > 0);
        let mut noise = noise.clone();
        if !moves {
            noise.runs_ns.clear();
        }
        let lost_ns = noise.runs_ns.first().map_or(u64::MAX, |&(ran, _)| ran.into());
        Self { noise, acted: 0, run: 0, lost_ns, paused: 0 }
    }

    /// When what is due at `due_ns` is done.
    pub fn act(&mut self, due_ns: u64) -> u64 {
        let late = self.noise.late_ns.get(self.acted % self.noise.late_ns.len().max(1)).copied().unwrap_or(0);
        self.acted += 1;
        self.awake(due_ns.saturating_add(late.into()))
    }

    /// The first time from `at_ns` on at which the machine runs.
    pub fn awake(&mut self, mut at_ns: u64) -> u64 {
        while let Some(pause) = self.noise.pauses.get(self.paused) {
            let end = pause.at_ns.saturating_add(pause.span_ns);
            if at_ns < pause.at_ns {
                break;
            }
            if at_ns < end {
                at_ns = end;
            }
            self.paused += 1;
        }
        while at_ns >= self.lost_ns {
            let (_, lost) = self.noise.runs_ns[self.run % self.noise.runs_ns.len()];
            let end = self.lost_ns + u64::from(lost);
            if at_ns < end {
                return end;
            }
            self.run += 1;
            let (ran, _) = self.noise.runs_ns[self.run % self.noise.runs_ns.len()];
            self.lost_ns = end + u64::from(ran);
        }
        at_ns
    }
}
