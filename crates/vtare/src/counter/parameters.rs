//! The parameters of `vtare counter`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::language::Language;
use crate::parameters;
use crate::quantities::positive;

/// Parameters of `counter` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// Batches, b.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) batches: u64,

    /// Calls of each argument in a batch, c.
    #[arg(long, visible_alias = "samples", value_name = "N")]
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) calls: u64,

    /// Arguments are 2^0 to 2^m.
    #[arg(long, value_name = "M")]
    #[schemars(range(min = 0, max = 16))]
    pub(crate) max_exponent: u32,

    /// Argument a takes about a times this many ms; the published run has 10.
    #[arg(long, value_name = "MS", value_parser = positive)]
    #[schemars(range(min = 0.05, max = 1000))]
    pub(crate) unit_ms: f64,

    /// Run on this CPU only; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,

    /// Language of the counter function: rust, c, java or python.
    #[arg(long, value_name = "NAME", hide_possible_values = true)]
    pub(crate) language: Language,

    /// The program in that language, as --build made it; without it, one is built for this run.
    #[arg(long, value_name = "FILE", requires = "language")]
    pub(crate) program: Option<PathBuf>,
}

impl parameters::Parameters for Parameters {}

impl Default for Parameters {
    fn default() -> Self {
        let language = Language::Rust;
        Self { batches: 20, calls: 100, max_exponent: 9, unit_ms: 10.0, cpu: None, language, program: None }
    }
}

impl Parameters {
    /// The work of all calls in units of argument 1.
    pub(super) fn units(&self) -> u64 {
        self.batches * self.calls * ((2 << self.max_exponent) - 1)
    }

    /// About how long it all takes, in s.
    pub(super) fn estimated_s(&self) -> f64 {
        self.units() as f64 * self.unit_ms / 1e3
    }
}
