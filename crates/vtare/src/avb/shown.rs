//! Figures of available bandwidth for people.

use vtare_methods::avb::Stopped;

use crate::output;

/// A rate for people.
pub(crate) fn megabits(bit_per_s: Option<f64>) -> String {
    let Some(rate) = bit_per_s else { return "-".to_owned() };
    let (value, unit) = match rate {
        rate if rate < 0.5 => return "0 bit/s".to_owned(),
        rate if rate < 999.5e3 => (rate / 1e3, "kbit/s"),
        rate if rate < 999.5e6 => (rate / 1e6, "Mbit/s"),
        rate => (rate / 1e9, "Gbit/s"),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// A number of bytes for people.
pub(crate) fn sized(bytes: Option<f64>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) if bytes < 1e3 => format!("{bytes:.0} B"),
        Some(bytes) if bytes < 999.5e3 => format!("{:.0} kB", bytes / 1e3),
        Some(bytes) => format!("{:.2} MB", bytes / 1e6),
    }
}

/// Why it stopped, for people.
pub(super) fn words(stopped: Stopped) -> String {
    output::to_json(&stopped).as_str().unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_three_digits() {
        for (rate, shown) in
            [(999.6e6, "1.00 Gbit/s"), (94.93e6, "94.9 Mbit/s"), (640e3, "640 kbit/s"), (9.995e9, "10.0 Gbit/s")]
        {
            assert_eq!(megabits(Some(rate)), shown);
        }
        assert_eq!((megabits(Some(0.0)), megabits(None)), ("0 bit/s".to_owned(), "-".to_owned()));
    }
}
