//! Rates, sizes and shares as people write them.

/// Reads a rate in bit/s, `150M`.
///
/// # Errors
/// Without a number, for a unnamed unit, and below 1 bit/s.
pub(crate) fn bit_rate(text: &str) -> Result<u64, String> {
    let wanted = || format!("found '{text}', want a rate in bit/s above 0, as 300k, 150M, 2.5G or 1000000");
    let (value, unit) = split(text).ok_or_else(wanted)?;
    let scale = match unit.trim_end_matches("bit/s") {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return Err(wanted()),
    };
    whole(value * scale).filter(|rate| *rate > 0).ok_or_else(wanted)
}

/// As [`bit_rate`], and 0 for an outage.
///
/// # Errors
/// As [`bit_rate`].
pub(crate) fn bit_rate_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { bit_rate(text) }
}

/// Reads a number of bytes, `1MB` or `64KiB`; `None` where it is none.
pub(crate) fn bytes(text: &str) -> Option<u64> {
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
    whole(value * scale).filter(|byte| *byte > 0)
}

/// Reads a share in percent, `1%`, as a number from 0 to 1.
///
/// # Errors
/// Without the sign, and outside 0 to 100 %.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let wanted = || format!("found '{text}', want a share in percent from 0% to 100%, as 1% or 0.01%");
    let percent: f64 = text.strip_suffix('%').ok_or_else(wanted)?.trim().parse().map_err(|_| wanted())?;
    if (0.0..=100.0).contains(&percent) { Ok(percent / 100.0) } else { Err(wanted()) }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let value: f64 = number.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((value, unit))
}

fn whole(value: f64) -> Option<u64> {
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
            (bytes("1MB"), bytes("64KiB"), bytes("0B"), bytes("1000")),
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
}
