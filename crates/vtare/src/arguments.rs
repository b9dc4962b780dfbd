//! Command-line arguments that instruments share.

use std::path::PathBuf;

use crate::limits::Limit;

/// What every instrument understands.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CommonArguments {
    /// Print one JSON document on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the raw samples to this Parquet file (replaced if it exists)
    #[arg(long, value_name = "FILE.parquet")]
    pub(crate) out: Option<PathBuf>,

    /// Seed of every random order, from 0 to 2^53-1 [default: drawn anew and reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    pub(crate) seed: Option<u64>,

    /// Exit with code 1 where a figure crosses a limit, as in 'miss_p99_ns > 5000'; may be given more than once
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) fail_if: Vec<Limit>,
}

/// Reads a length of time with its unit, `100us`, as whole nanoseconds.
///
/// # Errors
/// Without a unit, below 1 ns, or beyond 292 years.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let wanted = || format!("found '{text}', want a time with its unit, as 500ns, 100us, 2.5ms or 1s");
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wanted)?;
    let (number, unit) = text.split_at(digits);
    let value: f64 = number.trim().parse().map_err(|_| wanted())?;
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wanted()),
    };
    let nanos = (value * scale).round();
    if nanos.is_finite() && (1.0..9.2e18).contains(&nanos) { Ok(nanos as u64) } else { Err(wanted()) }
}

/// As [`nanoseconds`], and `0` with or without a unit for none at all.
///
/// # Errors
/// As [`nanoseconds`].
pub(crate) fn nanoseconds_or_none(text: &str) -> Result<u64, String> {
    if ["0", "0ns", "0us", "0ms", "0s"].contains(&text) { Ok(0) } else { nanoseconds(text) }
}

/// Reads a number of bytes, with or without a decimal unit: `500000`, `500kB`, `1MB`.
///
/// # Errors
/// For anything else, and for less than 1 B.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wanted = || format!("found '{text}', want a number of bytes above 0, as 500000, 500kB, 1MB or 2GB");
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let value: f64 = number.trim().parse().map_err(|_| wanted())?;
    let scale = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(wanted()),
    };
    let count = (value * scale).round();
    if count.is_finite() && (1.0..9e15).contains(&count) { Ok(count as u64) } else { Err(wanted()) }
}

/// Reads a number above zero.
///
/// # Errors
/// For anything else, infinity and "not a number" too.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("found '{text}', want a number above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_needs_its_unit() {
        assert_eq!(nanoseconds("100us"), Ok(100_000));
        assert_eq!(nanoseconds("2.5 ms"), Ok(2_500_000));
        assert_eq!(nanoseconds("1s"), Ok(1_000_000_000));
        for wrong in ["100", "us", "1 h", "-5us", "0ns", "1e300s", ""] {
            let error = nanoseconds(wrong).expect_err(wrong);
            assert!(error.contains("unit"), "{error}");
        }
    }

    #[test]
    fn no_time_at_all_is_read_where_it_makes_sense() {
        assert_eq!((nanoseconds_or_none("0"), nanoseconds_or_none("0us")), (Ok(0), Ok(0)));
        assert_eq!(nanoseconds_or_none("50us"), Ok(50_000));
        assert!(nanoseconds_or_none("-1us").is_err() && nanoseconds_or_none("5").is_err());
    }

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!((bytes("500000"), bytes("500kB"), bytes("1.5 MB")), (Ok(500_000), Ok(500_000), Ok(1_500_000)));
        for wrong in ["", "MB", "-1", "1Mb", "1 KB", "0", "1e99"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_numbers_above_zero_are_positive() {
        assert_eq!(positive("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "NaN", "x"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }
}
