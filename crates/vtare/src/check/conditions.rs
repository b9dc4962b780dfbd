//! `--fail-if` of a check: a condition on its status, on its resolution, or on how far UTC may be off.

use std::str::FromStr;

use serde_json::{Value, json};

use crate::limits::{self, Known, Limit, Verdict};

use super::resolution::{Resolution, Status};
use super::utc::UtcCheck;

/// What CLOCK_REALTIME may be off by, as witnesses confirm.
const UTC_ERROR: &str = "utc_error_ns";
/// The figures that a condition may name.
const FIGURES: [&str; 3] = ["resolution_from_ns", "resolution_percent", UTC_ERROR];

/// One condition: the check fails where it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// `status worse than STATUS`.
    WorseThan(Status),
    /// The figures are asked for.
    Help,
    /// A limit over a figure.
    Figure(Known),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["help"] => Ok(Self::Help),
            ["status", "worse", "than", status] => status.parse().map(Self::WorseThan),
            ["status", ..] => Err(format!("'{text}' is not a condition. Example: 'status worse than usable'")),
            _ => {
                let limit: Limit = text.parse()?;
                let known = limits::known(std::slice::from_ref(&limit), &FIGURES.map(str::to_owned), "resolution")
                    .map_err(|failure| failure.to_string())?;
                Ok(Self::Figure(known.into_iter().next().ok_or("no limit")?))
            }
        }
    }
}

/// The condition that only witnesses can decide, if there is one.
pub(super) fn about_utc(conditions: &[Condition]) -> Option<&Known> {
    conditions.iter().find_map(|condition| match condition {
        Condition::Figure(limit) if limit.is_about(UTC_ERROR) => Some(limit),
        _ => None,
    })
}

/// Judges each condition. What is not known decides nothing.
pub(super) fn judge(conditions: &[Condition], resolution: Option<&Resolution>, utc: Option<&UtcCheck>) -> Vec<Verdict> {
    conditions.iter().filter_map(|condition| judge_one(condition, resolution, utc)).collect()
}

/// The figures that a condition may name, with their values.
pub(super) fn listed(resolution: Option<&Resolution>, utc: Option<&UtcCheck>) -> String {
    let status = resolution.map_or_else(|| "-".to_owned(), |found| found.status.to_string());
    format!("status  {status} ('status worse than usable')\n{}", limits::listed(&[cell(resolution, utc)], &[]))
}

fn cell(resolution: Option<&Resolution>, utc: Option<&UtcCheck>) -> (String, Value) {
    let visible = resolution.and_then(|found| found.visible);
    let cell = json!({
        "resolution_percent": visible.map(|(share, _)| share * 100.0),
        "resolution_from_ns": visible.map(|(_, from_ns)| from_ns),
        UTC_ERROR: utc.and_then(UtcCheck::error_ns),
    });
    ("this machine".to_owned(), cell)
}

fn judge_one(condition: &Condition, resolution: Option<&Resolution>, utc: Option<&UtcCheck>) -> Option<Verdict> {
    match condition {
        Condition::Help => None,
        Condition::WorseThan(accepted) => {
            let status = resolution.map(|found| found.status);
            let crossed = status.map(|status| status > *accepted);
            let cells = match status {
                Some(status) if crossed == Some(true) => vec![format!("the status is {status}")],
                Some(_) => Vec::new(),
                None => vec!["the status is not known".to_owned()],
            };
            let expression = format!("status worse than {}", accepted.to_string().to_lowercase());
            Some(Verdict { expression, crossed, cells })
        }
        Condition::Figure(limit) => limits::judge(std::slice::from_ref(limit), &[cell(resolution, utc)], &[]).pop(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::resolution::Row;
    use super::*;

    fn verdict(condition: &str, error: f64) -> Verdict {
        let resolution = Resolution::of(&[Row { duration_ns: Some(1_000_000), error }]);
        judge(&[condition.parse().expect("it is a condition")], resolution.as_ref(), None).remove(0)
    }

    #[test]
    fn a_status_crosses_what_it_is_worse_than() {
        let found = verdict("status worse than usable", 0.3);
        assert_eq!((found.crossed, found.expression.as_str()), (Some(true), "status worse than usable"));
        assert_eq!(found.cells, ["the status is NOT NOW"]);
        assert_eq!(verdict("status worse than usable", 0.09).crossed, Some(false));
        assert_eq!(verdict("status  worse than GOOD", 0.09).crossed, Some(true));
        assert_eq!(
            judge_one(&Condition::WorseThan(Status::Good), None, None).and_then(|it| it.crossed),
            None,
            "nothing was measured"
        );
    }

    #[test]
    fn a_figure_is_compared_and_one_that_is_not_known_decides_nothing() {
        assert_eq!(verdict("resolution_percent > 5", 0.09).crossed, Some(true));
        assert_eq!(verdict("resolution_percent > 5", 0.04).crossed, Some(false));
        assert_eq!(verdict("resolution_percent > 5", 2.0).crossed, None, "not even half can be seen");
    }

    #[test]
    fn utc_is_judged_by_what_it_may_be_off_by_and_nothing_where_nobody_confirms_it() {
        let condition: Condition = "utc_error > 5ms".parse().expect("it is a condition");
        assert!(about_utc(std::slice::from_ref(&condition)).is_some());
        assert!(about_utc(&["resolution_percent > 5".parse().expect("it is a condition")]).is_none());
        for (ahead_ns, crossed) in [(0, false), (4_000_000, true), (-4_000_000, true)] {
            let utc = UtcCheck::of_bounds(ahead_ns - 1_500_000, ahead_ns + 1_500_000);
            let verdict = judge_one(&condition, None, Some(&utc)).expect("it is judged");
            assert_eq!(verdict.crossed, Some(crossed), "{ahead_ns}");
        }
        let silent = UtcCheck::unconfirmed(&"nobody answered");
        assert_eq!(judge_one(&condition, None, Some(&silent)).and_then(|verdict| verdict.crossed), None);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_is() {
        for (text, part) in [
            ("status better than good", "Example: 'status worse than usable'"),
            ("status worse than usble", "Did you mean 'usable'"),
            ("resolutoin > 5", "resolution_percent"),
            ("foo", "no operator in 'foo'"),
        ] {
            let error = text.parse::<Condition>().expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
