//! The parameters of `vtare path`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parameters;
use crate::quantities::{bytes, nanoseconds};

/// Parameters of `vtare path`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PathParameters {
    /// The far end, which runs `vtare serve`, as 10.0.0.2, host.example:8462 or `[fd00::2]:8462`.
    #[arg(value_name = "PEER", required = true)]
    pub(crate) peer: String,

    /// Bytes of all probes at most, both directions, with or without unit: 2000000, 2MB, 10MB. Without it 5 MB, or what
    /// the path carries in 40 ms where that is more.
    #[arg(long = "max-bytes", value_name = "BYTES", value_parser = bytes)]
    #[schemars(range(min = 500_000, max = 1_000_000_000))]
    pub(crate) most_byte: Option<u64>,

    /// Time for both directions at most, with or without unit: 5 s, 2500ms.
    #[arg(long = "max-time", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000_000, max = 60_000_000_000_u64))]
    pub(crate) most_ns: u64,

    /// Then fill the path up with TCP for this time, CUBIC and, where this kernel has it, BBR, and show its bytes and
    /// round trips: 5s. For comparison; it takes what it can get from other traffic.
    #[arg(long = "saturate", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 2_000_000_000_u64, max = 60_000_000_000_u64))]
    pub(crate) saturate_ns: Option<u64>,

    /// File with the key that the far end has, too; without it, the environment's VTARE_KEY, or none.
    #[arg(long, value_name = "FILE")]
    #[schemars(with = "Option<String>")]
    pub(crate) key_file: Option<PathBuf>,

    /// Run on this CPU only; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
}

impl Default for PathParameters {
    fn default() -> Self {
        Self {
            peer: String::new(),
            most_byte: None,
            most_ns: 5_000_000_000,
            saturate_ns: None,
            key_file: None,
            cpu: None,
        }
    }
}

/// Bytes of all probes where none are given: 40 ms of 1 Gbit/s.
const MOST_BYTE: u64 = 5_000_000;
/// What the path carries in this time, ns, where that is more. Half of it sends 30 % less at 10 Gbit/s and double 40 %
/// more; what is known to be free is the same to 2 % (`bench/avb/buckets`).
const CARRIED_NS: u64 = 40_000_000;

impl PathParameters {
    /// Bytes of all probes, and the time for which the path may carry them where that is more, ns.
    pub(super) fn limits(&self) -> (u64, u64) {
        self.most_byte.map_or((MOST_BYTE, CARRIED_NS), |most_byte| (most_byte, 0))
    }
}

impl parameters::Parameters for PathParameters {}
