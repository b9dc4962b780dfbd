//! The first line of a check: the smallest difference in a timing that can be seen here, and one word for it
//! (docs/methods/check.md has the rule). Both are computed from the rows that the table shows, so they cannot
//! contradict it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::nearest::instead_of;
use crate::sentences::check as words;
use crate::table::plain_time;

use super::trust::Trust;

/// The differences that a verdict names, as shares.
const LEVELS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
/// The greatest difference of a machine that is good.
const GOOD: f64 = 0.02;
/// The greatest difference of a machine that is usable.
const USABLE: f64 = 0.1;
/// The named difference holds for timings of this length and longer, and often for shorter ones.
const ANCHOR_NS: i64 = 1_000_000;

/// How good this machine is for timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Differences of 2 % can be seen.
    Good,
    /// Differences of 10 % can be seen.
    Usable,
    /// Only greater ones can, or none.
    NotNow,
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Good => "GOOD",
            Self::Usable => "USABLE",
            Self::NotNow => "NOT NOW",
        })
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "good" => Ok(Self::Good),
            "usable" => Ok(Self::Usable),
            other => {
                Err(format!("'{other}' is not a status to compare with{}", instead_of(other, &["good", "usable"])))
            }
        }
    }
}

/// One row of the table: timings of one length, and the error that 95 of 100 of them do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Row {
    /// The length in ns; null for the last row, all longer timings.
    pub(crate) duration_ns: Option<i64>,
    /// The error as a share: the median over the parts.
    pub(crate) error: f64,
}

/// What can be seen in timings here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resolution {
    /// The word for it.
    pub(crate) status: Status,
    /// The smallest difference that can be seen, as a share, and the length from which on; `None` where not even half.
    pub(crate) visible: Option<(f64, i64)>,
    /// The row with the greatest error among those that the verdict is about.
    pub(crate) rests_on: Row,
    /// The longest length that has a row of its own, in ns.
    longest_ns: i64,
}

/// The rows of the table, shortest first; the last is the one of all longer timings.
pub(super) fn rows(trust: &Trust) -> Vec<Row> {
    let of = |duration_ns, error: Option<f64>| error.map(|error| Row { duration_ns, error });
    let points = trust.points.iter().filter_map(|point| of(Some(point.duration_ns), point.error_p95.median));
    points.chain(of(None, trust.longer.median)).collect()
}

impl Resolution {
    /// The verdict that these rows carry; `None` without a row of a length.
    pub(super) fn of(rows: &[Row]) -> Option<Self> {
        let longest_ns = rows.iter().filter_map(|row| row.duration_ns).max()?;
        let from = |least: i64| rows.iter().filter(move |row| row.duration_ns.is_none_or(|ns| ns >= least)).copied();
        let worst = |least: i64| from(least).max_by(|a, b| a.error.total_cmp(&b.error));
        let rests_on = worst(ANCHOR_NS.min(longest_ns))?;
        let Some(level) = LEVELS.into_iter().find(|level| rests_on.error <= *level) else {
            return Some(Self { status: Status::NotNow, visible: None, rests_on, longest_ns });
        };
        let starts = rows.iter().filter_map(|row| row.duration_ns);
        let least = starts.filter(|ns| worst(*ns).is_some_and(|row| row.error <= level)).min()?;
        let status = match level {
            level if level <= GOOD => Status::Good,
            level if level <= USABLE => Status::Usable,
            _ => Status::NotNow,
        };
        Some(Self { status, visible: Some((level, least)), rests_on: worst(least)?, longest_ns })
    }

    /// The first line.
    pub(super) fn sentence(&self) -> String {
        let status = self.status;
        match (self.visible, self.rests_on.duration_ns) {
            (Some((level, from_ns)), _) if status == Status::NotNow => {
                words::only_visible(status, level * 100.0, plain_time(from_ns))
            }
            (Some((level, from_ns)), _) => words::visible(status, level * 100.0, plain_time(from_ns)),
            (None, Some(ns)) => words::too_long(status, plain_time(ns), rounded_down(self.rests_on.error)),
            (None, None) => {
                words::longer_too_long(status, plain_time(self.longest_ns), rounded_down(self.rests_on.error))
            }
        }
    }
}

/// A share of more than a half in whole percent, never more than it is.
fn rounded_down(share: f64) -> f64 {
    (share * 100.0).floor()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows of 1 us, 10 us, 100 us, 1 ms, 10 ms and longer, with these errors in percent.
    fn table(percent: [f64; 6]) -> Vec<Row> {
        let lengths = [Some(1_000), Some(10_000), Some(100_000), Some(1_000_000), Some(10_000_000), None];
        lengths.into_iter().zip(percent).map(|(duration_ns, error)| Row { duration_ns, error: error / 100.0 }).collect()
    }

    fn verdict(percent: [f64; 6]) -> String {
        Resolution::of(&table(percent)).expect("there are rows").sentence()
    }

    #[test]
    fn each_kind_of_machine_gets_its_word_and_the_difference_that_can_be_seen() {
        for (machine, percent, first_line) in [
            (
                "a healthy idle VM: a long row at 1.6 % does not hide the short ones",
                [1.98, 0.2, 0.02, 0.9, 1.6, 0.4],
                "GOOD: differences of 2 % are visible in timings of 1 us and longer.",
            ),
            (
                "an idle VM whose host takes some time",
                [1.98, 0.2, 6.0, 4.0, 2.5, 0.4],
                "USABLE: differences of 5 % are visible in timings of 1 ms and longer.",
            ),
            (
                "a busy machine",
                [4.97, 0.5, 1.7, 149.4, 60.0, 20.0],
                "NOT NOW: 1 in 20 measurements of 1 ms is at least 149 % too long.",
            ),
            (
                "a quota that stops too rarely for 1 in 20 timings of 10 ms",
                [2.0, 0.2, 0.02, 0.01, 0.01, 100.0],
                "NOT NOW: measurements longer than 10 ms are about 100 % too long.",
            ),
            (
                "one row that contradicts all others",
                [0.1, 0.1, 0.1, 0.1, 30.0, 0.1],
                "NOT NOW: only differences of 50 % are visible in timings of 1 us and longer.",
            ),
            (
                "one short row that contradicts all others",
                [0.1, 40.0, 0.1, 0.1, 0.1, 0.1],
                "GOOD: differences of 0.1 % are visible in timings of 100 us and longer.",
            ),
        ] {
            assert_eq!(verdict(percent), first_line, "{machine}");
        }
    }

    #[test]
    fn without_rows_there_is_no_verdict_and_with_short_ones_only_it_is_about_these() {
        assert_eq!(Resolution::of(&[]), None);
        assert_eq!(Resolution::of(&[Row { duration_ns: None, error: 0.0 }]), None);
        let short = [Row { duration_ns: Some(2_000), error: 0.08 }, Row { duration_ns: None, error: 0.01 }];
        let found = Resolution::of(&short).expect("there is a row");
        assert_eq!(found.sentence(), "USABLE: differences of 10 % are visible in timings of 2 us and longer.");
    }

    #[test]
    fn a_status_is_read_as_it_is_written() {
        assert_eq!("usable".parse(), Ok(Status::Usable));
        assert!(Status::NotNow > Status::Usable && Status::Usable > Status::Good);
        let error = "usble".parse::<Status>().expect_err("it is not a status");
        assert!(error.contains("Did you mean 'usable'"), "{error}");
    }

    /// The time that `plain_time` wrote.
    fn nanos(value: &str, unit: &str) -> i64 {
        let factor = match unit {
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            _ => 1e9,
        };
        (value.parse::<f64>().expect("a number") * factor).round() as i64
    }

    proptest! {
        #[test]
        fn the_first_line_never_contradicts_the_table(
            rows in proptest::collection::vec((any::<bool>(), 0.0_f64..3.0, 0_u8..3), 1..22),
            longer in 0.0_f64..2.0,
        ) {
            let grid: Vec<i64> = super::super::trust::durations().collect();
            // Errors of very different sizes: a machine is never wrong by the same everywhere.
            let mut rows: Vec<Row> = grid.iter().zip(rows).filter(|(_, (is_known, ..))| *is_known)
                .map(|(ns, (_, error, size))| {
                    Row { duration_ns: Some(*ns), error: error / 10_f64.powi(i32::from(size) * 2) }
                })
                .collect();
            rows.push(Row { duration_ns: None, error: longer });
            let found = Resolution::of(&rows);
            prop_assert_eq!(found.is_none(), rows.len() == 1);
            let Some(found) = found else { return Ok(()) };
            prop_assert!(rows.contains(&found.rests_on), "the row that it rests on is in the table");
            let text = found.sentence();
            let words: Vec<&str> = text.split([' ', ':']).filter(|word| !word.is_empty()).collect();
            let after = |word: &str| words.iter().position(|known| *known == word).map(|at| &words[at + 1..]);
            if let Some(rest) = after("differences") {
                let share = rest[1].parse::<f64>().expect("a number") / 100.0;
                let length = after("timings").expect("a length");
                let from_ns = nanos(length[1], length[2]);
                for row in rows.iter().filter(|row| row.duration_ns.is_none_or(|ns| ns >= from_ns)) {
                    prop_assert!(row.error <= share + 1e-12, "{} but {:?}", text, row);
                }
                prop_assert!(rows.iter().any(|row| row.duration_ns == Some(from_ns)));
                let wanted = if share <= 0.02 { "GOOD" } else if share <= 0.1 { "USABLE" } else { "NOT" };
                prop_assert_eq!(words[0], wanted);
            } else {
                let share = after("least").or_else(|| after("about")).expect("an error")[0].parse::<f64>();
                let share = share.expect("a number") / 100.0;
                prop_assert!(share >= 0.5 && share <= found.rests_on.error + 1e-12, "{} {:?}", text, found);
                prop_assert_eq!(words[0], "NOT");
            }
        }
    }
}
