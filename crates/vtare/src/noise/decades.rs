//! Gap sizes by decade, as a small histogram of text.

use std::fmt::Write as _;

use serde::Serialize;

use crate::table::time;

/// Gaps whose length lies in one decade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Decade {
    /// The least length, in ns: a power of ten. The next decade begins at ten times it.
    pub(crate) from_ns: i64,
    /// How many gaps.
    pub(crate) gaps: u64,
    /// The time they took together, in ns.
    pub(crate) lost_ns: i64,
}

/// Sorts gaps (lengths in ns) into decades, from the least that has any to the greatest, those without any between
/// included.
pub(crate) fn decades(gaps: impl IntoIterator<Item = i64>) -> Vec<Decade> {
    let mut found: Vec<Decade> = Vec::new();
    for gap in gaps.into_iter().filter(|gap| *gap > 0) {
        let from_ns = 10_i64.pow(gap.ilog10());
        match found.binary_search_by_key(&from_ns, |decade| decade.from_ns) {
            Ok(at) => {
                found[at].gaps += 1;
                found[at].lost_ns += gap;
            }
            Err(at) => found.insert(at, Decade { from_ns, gaps: 1, lost_ns: gap }),
        }
    }
    let (Some(first), Some(last)) = (found.first(), found.last()) else { return found };
    let whole = (first.from_ns.ilog10()..=last.from_ns.ilog10()).map(|power| {
        let from_ns = 10_i64.pow(power);
        found.iter().copied().find(|decade| decade.from_ns == from_ns).unwrap_or(Decade {
            from_ns,
            gaps: 0,
            lost_ns: 0,
        })
    });
    whole.collect()
}

/// The decades as lines with a bar for the number of gaps. Bars are logarithmic: sizes differ by factors of thousands.
pub(crate) fn picture(decades: &[Decade]) -> String {
    const WIDTH: f64 = 30.0;
    let scale = decades.iter().map(|decade| decade.gaps).max().map_or(1.0, |most| (most as f64 + 1.0).log2().max(1.0));
    let mut text = String::new();
    for decade in decades {
        let bar = "#".repeat(((decade.gaps as f64 + 1.0).log2() / scale * WIDTH).round() as usize);
        let range = format!("{} to {}", edge(decade.from_ns), edge(decade.from_ns.saturating_mul(10)));
        let lost = if decade.gaps == 0 { String::new() } else { time(Some(decade.lost_ns as f64)) };
        let line = format!("  {range:<17} {:>8}  {lost:>8}  {bar}", decade.gaps);
        writeln!(text, "{}", line.trim_end()).expect("writing to a string does not fail");
    }
    text
}

/// A power of ten in ns without decimals: `10 us`.
fn edge(nanos: i64) -> String {
    match nanos {
        n if n < 1_000 => format!("{n} ns"),
        n if n < 1_000_000 => format!("{} us", n / 1_000),
        n if n < 1_000_000_000 => format!("{} ms", n / 1_000_000),
        n => format!("{} s", n / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_fall_into_decades_and_empty_ones_between_are_shown() {
        let found = decades([10_000, 99_999, 1_500_000, 12_000]);
        assert_eq!(
            found,
            [
                Decade { from_ns: 10_000, gaps: 3, lost_ns: 121_999 },
                Decade { from_ns: 100_000, gaps: 0, lost_ns: 0 },
                Decade { from_ns: 1_000_000, gaps: 1, lost_ns: 1_500_000 },
            ]
        );
        assert_eq!(decades([]), []);
    }

    #[test]
    fn the_picture_is_narrow_and_its_longest_bar_has_30_signs() {
        let text = picture(&decades(std::iter::repeat_n(12_000, 3_800).chain([2_000_000])));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("  10 us to 100 us") && lines[0].ends_with(&format!(" {}", "#".repeat(30))),
            "{text}"
        );
        assert!(lines[1].ends_with(" 0"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert_eq!(picture(&[]), "");
    }
}
