//! Texts and quantities as people write them: times, rates, sizes, shares.

/// The text without the byte order mark that some editors put before it.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The message about a text that a reader here does not take.
pub(crate) fn not(text: &str, wanted: &str) -> String {
    format!("'{text}' is not {wanted}")
}

/// Reads a length of time, `100us` or `2 min`, as whole nanoseconds; a number alone is in seconds.
///
/// # Errors
/// For another unit, below 1 ns, or beyond 292 years.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let wanted = || format!("'{text}' is not a time. Write it as 500ns, 100us, 2.5ms, 1s or 2min; 5 is 5 s");
    let (value, unit) = split(text).ok_or_else(wanted)?;
    let scale = match unit {
        "ns" => 1.0,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(wanted()),
    };
    integer(value * scale).filter(|ns| (1..=i64::MAX as u64).contains(ns)).ok_or_else(wanted)
}

/// As [`nanoseconds`], and `0` with or without a unit for none at all.
///
/// # Errors
/// As [`nanoseconds`].
pub(crate) fn nanoseconds_or_none(text: &str) -> Result<u64, String> {
    match split(text) {
        Some((0.0, unit)) if unit.is_empty() || nanoseconds(&format!("1{unit}")).is_ok() => Ok(0),
        _ => nanoseconds(text),
    }
}

/// Reads a number above zero.
///
/// # Errors
/// For anything else, infinity and "not a number" too.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(not(text, "a number above 0")),
    }
}

/// Reads a rate in bit/s, `150M`.
///
/// # Errors
/// Without a number, for a unnamed unit, and below 1 bit/s.
pub(crate) fn bit_rate(text: &str) -> Result<u64, String> {
    let wanted = || not(text, "a rate in bit/s above 0, such as 300k, 150M, 2.5G or 1000000");
    let (value, unit) = split(text).ok_or_else(wanted)?;
    let scale = match unit.trim_end_matches("bit/s") {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return Err(wanted()),
    };
    integer(value * scale).filter(|rate| *rate > 0).ok_or_else(wanted)
}

/// As [`bit_rate`], and 0 for an outage.
///
/// # Errors
/// As [`bit_rate`].
pub(crate) fn bit_rate_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { bit_rate(text) }
}

/// Reads a number of bytes with its unit, `1MB` or `64KiB`; `None` where it is none.
pub(crate) fn bytes_with_unit(text: &str) -> Option<u64> {
    let (value, unit) = split(text)?;
    let scale = match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => f64::from(1 << 20),
        "GiB" => f64::from(1 << 30),
        _ => return None,
    };
    integer(value * scale).filter(|byte| *byte > 0)
}

/// Reads a number of bytes, with or without a unit: `500000`, `500kB`, `1MB`.
///
/// # Errors
/// For anything else, and for less than 1 B.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let plain = |text: &str| split(text).filter(|(_, unit)| unit.is_empty()).and_then(|(value, _)| integer(value));
    let count =
        bytes_with_unit(text).or_else(|| plain(text)).filter(|count| (1..9_000_000_000_000_000).contains(count));
    count.ok_or_else(|| not(text, "a number of bytes above 0, such as 500000, 500kB, 1MB or 2GB"))
}

/// Reads a share in percent, `1%`, as a number from 0 to 1.
///
/// # Errors
/// Without the sign, and outside 0 to 100 %.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let wanted = || not(text, "a share in percent from 0% to 100%, such as 1% or 0.01%");
    let percent: f64 = text.strip_suffix('%').ok_or_else(wanted)?.trim().parse().map_err(|_| wanted())?;
    if (0.0..=100.0).contains(&percent) { Ok(percent / 100.0) } else { Err(wanted()) }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(char::is_alphabetic).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let value: f64 = number.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((value, unit))
}

fn integer(value: f64) -> Option<u64> {
    let rounded = value.round();
    (rounded < 1.8e19).then_some(rounded as u64)
}

/// A rate for people: three significant digits.
pub(crate) fn show_bit_rate(bit_per_s: f64) -> String {
    let (value, unit) = match bit_per_s {
        r if r >= 999.5e6 => (r / 1e9, "Gbit/s"),
        r if r >= 999.5e3 => (r / 1e6, "Mbit/s"),
        r if r >= 999.5 => (r / 1e3, "kbit/s"),
        r => (r, "bit/s"),
    };
    let decimals = if value >= 99.95 { 1 } else { 3 };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit() {
        for (text, rate) in [
            ("150M", 150_000_000),
            ("2.5G", 2_500_000_000),
            ("300k", 300_000),
            ("9600", 9_600),
            ("1Gbit/s", 1_000_000_000),
        ] {
            assert_eq!(bit_rate(text), Ok(rate));
        }
        for wrong in ["", "M", "-1M", "1X", "0", "0.2", "1e400G", "fast"] {
            let error = bit_rate(wrong).expect_err(wrong);
            assert!(error.contains("150M"), "{error}");
        }
        assert_eq!(bit_rate_or_none("0"), Ok(0));
    }

    #[test]
    fn sizes_and_shares_need_their_unit() {
        assert_eq!(
            (bytes_with_unit("1MB"), bytes_with_unit("64KiB"), bytes_with_unit("0B"), bytes_with_unit("1000")),
            (Some(1_000_000), Some(65_536), None, None)
        );
        assert_eq!((share("1%"), share("0%")), (Ok(0.01), Ok(0.0)));
        for wrong in ["0.01", "101%", "-1%", "%", "x%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_shown_in_the_unit_that_fits() {
        assert_eq!(show_bit_rate(1e9), "1.000 Gbit/s");
        assert_eq!(show_bit_rate(149.96e6), "150.0 Mbit/s");
        assert_eq!(show_bit_rate(12.0), "12.000 bit/s");
    }

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        assert_eq!(nanoseconds("100us"), Ok(100_000));
        assert_eq!(nanoseconds("2.5 ms"), Ok(2_500_000));
        assert_eq!(nanoseconds("1s"), Ok(1_000_000_000));
        for text in ["100us", "100 us", "100\u{b5}s", "100 \u{3bc}s", "0.1ms"] {
            assert_eq!(nanoseconds(text), Ok(100_000), "{text}");
        }
        assert_eq!((nanoseconds_or_none("0\u{b5}s"), nanoseconds_or_none("0")), (Ok(0), Ok(0)));
        assert_eq!(
            (nanoseconds("5"), nanoseconds("2 min"), nanoseconds("1 h")),
            (Ok(5_000_000_000), Ok(120_000_000_000), Ok(3_600_000_000_000))
        );
        for wrong in ["us", "1 d", "-5us", "0ns", "1e300s", ""] {
            let error = nanoseconds(wrong).expect_err(wrong);
            assert!(error.contains("is not a time"), "{error}");
        }
    }

    #[test]
    fn no_time_at_all_is_read_where_it_makes_sense() {
        assert_eq!((nanoseconds_or_none("0"), nanoseconds_or_none("0us")), (Ok(0), Ok(0)));
        assert_eq!(nanoseconds_or_none("50us"), Ok(50_000));
        assert!(nanoseconds_or_none("-1us").is_err() && nanoseconds_or_none("x").is_err());
    }

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!((bytes("500000"), bytes("500kB"), bytes("1.5 MB")), (Ok(500_000), Ok(500_000), Ok(1_500_000)));
        for wrong in ["", "MB", "-1", "1Mb", "1 kb", "0", "1e99"] {
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
