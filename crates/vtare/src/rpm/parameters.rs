//! The parameters of `vtare rpm`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parameters;
use crate::quantities::nanoseconds;

/// Parameters of `vtare rpm`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RpmParameters {
    /// The far end, as nq.example, 10.0.0.2:4043, `[fd00::2]:4043` or the https address of its configuration.
    #[arg(value_name = "PEER", required = true)]
    pub(crate) peer: String,

    /// Time for both directions at most: 40s, 25000ms.
    #[arg(long = "max-time", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 6_000_000_000_u64, max = 600_000_000_000_u64))]
    pub(crate) most_ns: u64,
}

impl Default for RpmParameters {
    fn default() -> Self {
        Self { peer: String::new(), most_ns: 40_000_000_000 }
    }
}

impl parameters::Parameters for RpmParameters {}
