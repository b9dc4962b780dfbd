//! Command-line arguments that instruments share.

use std::path::PathBuf;

use crate::limits::Asked;

/// What every instrument understands.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CommonArguments {
    /// Print one JSON document on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Show all figures, tables and notes, not only the answer
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Write the raw samples to this file, which is replaced: Parquet, or CSV where its name ends in .csv
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Seed of every random order, from 0 to 2^53-1 [default: drawn anew and reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    pub(crate) seed: Option<u64>,

    /// Exit with code 1 where a figure crosses a limit, as in 'p99 > 5ms'; repeatable; 'help' lists the figures
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) fail_if: Vec<Asked>,
}
