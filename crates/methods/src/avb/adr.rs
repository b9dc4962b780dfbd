use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Timestamp};

use super::{Estimate, Method, Observation, Setup, Spent, Step, Stopped, Train};

/// Asymptotic dispersion rate: the rate at which back-to-back trains arrive.
///
/// It lies between available bandwidth and capacity, and is neither: an upper bound for the one, a lower bound for the
/// other, in a fraction of a second. Other methods begin with it.
//= Dovrolis, Ramanathan, Moore 2001, What do packet dispersion techniques measure?
#[derive(Clone, Debug)]
pub struct Adr {
    settings: AdrSettings,
    setup: Setup,
    spent: Spent,
    rates: Vec<f64>,
    end: Option<Stopped>,
}

/// Parameters of [`Adr`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdrSettings {
    /// Trains; the result is the median of their rates.
    pub trains: u32,
    /// Packets a train.
    pub packets: u32,
    /// Size of a packet, bytes (IP); `None`: the largest that the path takes.
    pub size_byte: Option<u32>,
    /// Silence between trains, ns.
    pub idle_ns: u64,
}

impl Default for AdrSettings {
    fn default() -> Self {
        Self { trains: 3, packets: 48, size_byte: None, idle_ns: 10_000_000 }
    }
}

impl Adr {
    /// A measurement that has not begun.
    #[must_use]
    pub fn new(settings: AdrSettings, setup: Setup) -> Self {
        Self { settings, setup, spent: Spent::default(), rates: Vec::new(), end: None }
    }

    fn estimate(&self, stopped: Stopped) -> Estimate {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        match rates.get(rates.len() / 2) {
            Some(&median) => {
                let mut estimate = Estimate::of(&self.spent, stopped, median);
                estimate.notes.push("an upper bound: the rate at which back-to-back trains arrive".to_owned());
                estimate
            }
            None => Estimate::none(&self.spent, Stopped::NoAnswer),
        }
    }
}

impl Method for Adr {
    fn name(&self) -> &'static str {
        "adr"
    }

    fn step(&mut self, now: Timestamp<Monotonic>) -> Step {
        self.spent.at(now);
        let size_byte = self.settings.size_byte.unwrap_or(self.setup.ability.most_packet_byte);
        let idle_ns = if self.spent.trains == 0 { 0 } else { self.settings.idle_ns };
        let train = Train::back_to_back(self.settings.packets, size_byte).after_idle(idle_ns);
        if self.spent.trains >= self.settings.trains {
            self.end.get_or_insert(Stopped::Converged);
        }
        let end = self.end.or_else(|| self.spent.forbids(&self.setup.budget, &train));
        match end {
            Some(stopped) => {
                self.end = end;
                Step::Done(Box::new(self.estimate(stopped)))
            }
            None => Step::Send(train),
        }
    }

    fn observe(&mut self, observation: &Observation) {
        self.spent.sent(observation);
        self.rates.extend(observation.received_bit_per_s());
    }

    fn interim(&self) -> Option<Estimate> {
        (!self.rates.is_empty()).then(|| self.estimate(Stopped::Running))
    }
}
