//! Finds the figure that a limit names, in full (`rtt_p99_ns`) or in short (`p99`), and reads the number with its unit.

use crate::avb::shown::{megabits, sized};
use crate::nearest::nearest_three;
use crate::quantities;
use crate::table::{percent, time};

/// What a figure counts, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A time; the number is the length of its unit in ns.
    Time(u64),
    BitRate,
    Bytes,
    /// 0 to 1.
    Share,
    /// 0 to 100.
    Percent,
    Other,
}

/// Words in a name that state its unit.
const UNITS: [(&str, Kind); 9] = [
    ("bit_per_s", Kind::BitRate),
    ("per_s", Kind::Other),
    ("byte", Kind::Bytes),
    ("ns", Kind::Time(1)),
    ("s", Kind::Time(1_000_000_000)),
    ("fraction", Kind::Share),
    ("share", Kind::Share),
    ("ratio", Kind::Share),
    ("percent", Kind::Percent),
];

/// The name without its unit, and the unit.
fn apart(name: &str) -> (String, Kind) {
    let whole = format!("_{name}_");
    for (unit, kind) in UNITS {
        if let Some((before, after)) = whole.rsplit_once(&format!("_{unit}_")) {
            let parts = [before, after].map(|part| part.trim_matches('_'));
            return (parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_"), kind);
        }
    }
    (name.to_owned(), Kind::Other)
}

/// The number that a limit holds a figure against: as it was typed, with or without a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    text: String,
}

impl Number {
    /// # Errors
    /// The text, where it does not begin with a number.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.replace('_', "");
        let digits = text.find(|c: char| c.is_alphabetic() && c != 'e' && c != 'E' || c == '%').unwrap_or(text.len());
        let number = text[..digits].trim().trim_end_matches(['e', 'E']);
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Self { text: text.trim().to_owned() }),
            _ => Err(text),
        }
    }

    /// In the unit of figures of this kind: a number alone is in that unit; `None` where its unit is another's.
    fn value(&self, kind: Kind) -> Option<f64> {
        let plain = || self.text.parse::<f64>().ok();
        match kind {
            Kind::Time(unit_ns) => plain().or_else(|| Some(self.time_ns()? / unit_ns as f64)),
            Kind::BitRate => plain().or_else(|| quantities::bit_rate(&self.text).ok().map(|rate| rate as f64)),
            Kind::Bytes => plain().or_else(|| quantities::bytes_with_unit(&self.text).map(|byte| byte as f64)),
            Kind::Share => plain().or_else(|| Some(self.percent()? / 100.0)),
            Kind::Percent => plain().or_else(|| self.percent()),
            Kind::Other => plain(),
        }
    }

    fn time_ns(&self) -> Option<f64> {
        let (sign, text) = self.text.strip_prefix('-').map_or((1.0, &self.text[..]), |text| (-1.0, text));
        quantities::nanoseconds(text).ok().map(|ns| sign * ns as f64)
    }

    fn percent(&self) -> Option<f64> {
        self.text.strip_suffix('%')?.trim().parse().ok()
    }
}

/// A figure as people write it.
pub(super) fn shown(name: &str, value: Option<f64>) -> String {
    let Some(number) = value else { return "-".to_owned() };
    match apart(name).1 {
        Kind::Time(unit_ns) => time(Some(number * unit_ns as f64)),
        Kind::BitRate => megabits(value),
        Kind::Bytes => sized(value),
        Kind::Share => percent(value),
        Kind::Percent => percent(Some(number / 100.0)),
        Kind::Other => format!("{number}"),
    }
}

/// Finds the figure of `names` that `asked` means, and gives the number in its unit. If several figures have a `p99`,
/// that of `main` is meant: what the command measures.
///
/// # Errors
/// What is wrong, and the names that come nearest.
pub(super) fn resolve(asked: &str, number: &Number, names: &[String], main: &str) -> Result<(String, f64), String> {
    let known: Vec<(&String, String, Kind)> = names
        .iter()
        .map(|name| {
            let (short, kind) = apart(name);
            (name, short, kind)
        })
        .collect();
    let wanted = apart(asked).0;
    let of_main = format!("{main}_{wanted}");
    // From the closest on: the whole name, the name without its unit, a statistic of what the command measures.
    type Matches<'a> = &'a dyn Fn(&str, &str) -> bool;
    let steps: [Matches<'_>; 4] =
        [&|name, _| name == asked, &|_, short| short == wanted, &|_, short| short == of_main, &|_, short| {
            short.ends_with(&format!("_{wanted}"))
        }];
    let mut of_another_unit = None;
    for matches in steps {
        let met: Vec<_> = known.iter().filter(|(name, short, _)| matches(name, short)).collect();
        let fitting: Vec<_> =
            met.iter().filter_map(|(name, _, kind)| Some(((*name).clone(), number.value(*kind)?))).collect();
        match &fitting[..] {
            [] => of_another_unit = of_another_unit.or_else(|| met.first().map(|(name, ..)| (*name).clone())),
            [one] => return Ok(one.clone()),
            several => {
                let several: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                return Err(format!("'{asked}' may be any of {}. Write one of them", several.join(", ")));
            }
        }
    }
    if let Some(name) = of_another_unit {
        return Err(format!(
            "{name} is not given in the unit of '{}'. Without a unit it is in that of its name",
            number.text
        ));
    }
    let near = nearest_three(asked, names.iter().map(String::as_str));
    Err(format!("there is no figure '{asked}'. Nearest: {near}. '--fail-if help' shows all with their values"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 7] = [
        "rtt_p99_ns",
        "turnaround_p99_ns",
        "lost",
        "lost_fraction",
        "avb_bit_per_s",
        "estimate_bit_per_s_p999",
        "elapsed_s",
    ];

    fn meant(limit: &str, number: &str) -> Result<(String, f64), String> {
        let names = NAMES.map(str::to_owned);
        resolve(limit, &Number::read(number)?, &names, "rtt")
    }

    #[test]
    fn a_short_name_with_a_unit_is_the_figure_that_has_both() {
        for (asked, number, name, value) in [
            ("rtt_p99_ns", "5000", "rtt_p99_ns", 5_000.0),
            ("p99", "5ms", "rtt_p99_ns", 5e6),
            ("turnaround_p99", "2 us", "turnaround_p99_ns", 2_000.0),
            ("lost", "3", "lost", 3.0),
            ("lost", "1%", "lost_fraction", 0.01),
            ("lost", "0.5 %", "lost_fraction", 0.005),
            ("avb", "50Mbit/s", "avb_bit_per_s", 5e7),
            ("elapsed", "2 min", "elapsed_s", 120.0),
            ("elapsed_s", "1500ms", "elapsed_s", 1.5),
            ("p999", "1e9", "estimate_bit_per_s_p999", 1e9),
        ] {
            assert_eq!(meant(asked, number), Ok((name.to_owned(), value)), "{asked} {number}");
        }
    }

    #[test]
    fn what_is_not_clear_is_refused_with_the_names_that_are() {
        let error = |asked, number| meant(asked, number).expect_err(asked);
        assert!(error("rtp99", "5").contains("Nearest: rtt_p99_ns, "), "{}", error("rtp99", "5"));
        assert!(error("p99", "5MB").contains("unit of '5MB'"), "{}", error("p99", "5MB"));
        assert!(error("fraction", "lots").contains("lots"));
        let names = ["up_lost", "down_lost"].map(str::to_owned);
        let error = resolve("lost", &Number::read("1").expect("a number"), &names, "rtt").expect_err("two");
        assert_eq!(error, "'lost' may be any of up_lost, down_lost. Write one of them");
    }

    #[test]
    fn figures_are_shown_with_their_unit() {
        let shown = |name, value| shown(name, Some(value));
        assert_eq!(shown("rtt_p99_ns", 5e6), "5.00 ms");
        assert_eq!(shown("lost_fraction", 0.01), "1.00 %");
        assert_eq!(shown("avb_bit_per_s", 5e7), "50.0 Mbit/s");
        assert_eq!(shown("sent", 300.0), "300");
        assert_eq!(super::shown("sent", None), "-");
    }
}
