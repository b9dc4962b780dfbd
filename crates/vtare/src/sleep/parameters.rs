//! The parameters of `vtare sleep`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_clock::sleep::{Method, SleepOptions};

use crate::nearest::nearest;
use crate::parameters;
use crate::quantities::{nanoseconds, nanoseconds_or_none, positive, share};

/// Parameters of `sleep` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// How to sleep: usleep, clock_nanosleep, two_phase, adaptive, spin, two_phase_capped, cheap, never_early; without
    /// it, the first five.
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = method)]
    #[schemars(schema_with = "methods_schema")]
    pub(crate) method: Option<Vec<Method>>,

    /// How long to sleep.
    #[arg(long = "target", value_name = "TIME", value_delimiter = ',', value_parser = nanoseconds)]
    #[schemars(length(min = 1), inner(range(min = 1, max = 10_000_000_000_u64)))]
    pub(crate) target_ns: Vec<u64>,

    /// Sleeps in each cell.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) samples: u64,

    /// Stop each cell after this time, in seconds; null, or --samples alone, for no such limit.
    #[arg(long, value_name = "S", value_parser = positive)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) seconds: Option<f64>,

    /// Run on this CPU only; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,

    /// The price of CPU time for the adaptive method: more wakes closer to the target and spins longer.
    #[arg(long = "lambda", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1, max = 10_000_000_000_u64))]
    pub(crate) lambda_ns: u64,

    /// The share of a CPU that the cheap method may take, above 0 to 1.
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    pub(crate) cpu_share: f64,

    /// A miss up to this is as good as none to the adaptive method, so that it spins less.
    #[arg(long = "tolerance", value_name = "TIME", value_parser = nanoseconds_or_none)]
    #[schemars(range(min = 0, max = 10_000_000_000_u64))]
    pub(crate) tolerance_ns: u64,

    /// Real-time priority of the sleeping threads (SCHED_FIFO, 1 to 99), any method, a refusal is noted; without it,
    /// the class that the process has.
    #[arg(long, value_name = "PRIORITY")]
    #[schemars(range(min = 1, max = 99))]
    pub(crate) fifo: Option<u8>,

    /// Timer slack of the sleeping threads; without it, what the process has.
    #[arg(long = "slack", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1, max = 10_000_000_000_u64))]
    pub(crate) slack_ns: Option<u64>,
}

impl parameters::Parameters for Parameters {
    fn imply(&mut self, given: &dyn Fn(&str) -> bool) {
        // Who asks for a number of sleeps wants that number, not what fits into the usual time.
        if given("samples") && !given("seconds") {
            self.seconds = None;
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            method: None,
            target_ns: vec![1_000, 10_000, 100_000, 1_000_000, 10_000_000],
            samples: 1_000,
            seconds: Some(2.0),
            cpu: None,
            lambda_ns: 2_000_000,
            cpu_share: SleepOptions::default().cpu_share,
            tolerance_ns: 0,
            fifo: None,
            slack_ns: None,
        }
    }
}

fn methods_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names: Vec<String> = Method::ALL.iter().map(Method::to_string).collect();
    schemars::json_schema!({"type": ["array", "null"], "items": {"type": "string", "enum": names}, "minItems": 1})
}

/// The methods that are measured where none is named: the others are variants of one of them.
pub(super) fn all_methods() -> Vec<Method> {
    Method::ALL
        .iter()
        .copied()
        .filter(|method| !matches!(method, Method::TwoPhaseCapped | Method::Cheap | Method::NeverEarly))
        .collect()
}

/// Reads the name of a way to sleep.
///
/// # Errors
/// With the names that there are.
pub(crate) fn method(text: &str) -> Result<Method, String> {
    text.parse().map_err(|_| {
        let names: Vec<String> = Method::ALL.iter().map(Method::to_string).collect();
        let near = nearest(text, names.iter().map(String::as_str));
        let hint = near.map(|near| format!(". Did you mean '{near}'?")).unwrap_or_default();
        format!("'{text}' is not one of {}{hint}", names.join(", "))
    })
}
