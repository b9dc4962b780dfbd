//! `--fail-if` of a check: a condition on its status or on its resolution.

use std::str::FromStr;

use serde_json::json;

use crate::limits::{self, Limit, Verdict};

use super::resolution::{Resolution, Status};

/// The figures that a condition may name.
const FIGURES: [&str; 2] = ["resolution_from_ns", "resolution_percent"];

/// One condition: the check fails where it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// `status worse than STATUS`.
    WorseThan(Status),
    /// A limit over a figure.
    Figure(Limit),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["status", "worse", "than", status] => status.parse().map(Self::WorseThan),
            ["status", ..] => Err(format!("'{text}' is not a condition. Example: 'status worse than usable'")),
            _ => {
                let limit: Limit = text.parse()?;
                limits::check_names(std::slice::from_ref(&limit), &FIGURES.map(str::to_owned))
                    .map_err(|failure| failure.to_string())?;
                Ok(Self::Figure(limit))
            }
        }
    }
}

/// Judges each condition. What is not known decides nothing.
pub(super) fn judge(conditions: &[Condition], resolution: Option<&Resolution>) -> Vec<Verdict> {
    conditions.iter().map(|condition| judge_one(condition, resolution)).collect()
}

fn judge_one(condition: &Condition, resolution: Option<&Resolution>) -> Verdict {
    match condition {
        Condition::WorseThan(accepted) => {
            let status = resolution.map(|found| found.status);
            let crossed = status.map(|status| status > *accepted);
            let cells = match status {
                Some(status) if crossed == Some(true) => vec![format!("the status is {status}")],
                Some(_) => Vec::new(),
                None => vec!["the status is not known".to_owned()],
            };
            let expression = format!("status worse than {}", accepted.to_string().to_lowercase());
            Verdict { expression, crossed, cells }
        }
        Condition::Figure(limit) => {
            let visible = resolution.and_then(|found| found.visible);
            let cell = json!({
                "resolution_percent": visible.map(|(share, _)| share * 100.0),
                "resolution_from_ns": visible.map(|(_, from_ns)| from_ns),
            });
            limits::judge(std::slice::from_ref(limit), &[("this machine".to_owned(), cell)], &[]).remove(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::resolution::Row;
    use super::*;

    fn verdict(condition: &str, error: f64) -> Verdict {
        let resolution = Resolution::of(&[Row { duration_ns: Some(1_000_000), error }]);
        judge(&[condition.parse().expect("it is a condition")], resolution.as_ref()).remove(0)
    }

    #[test]
    fn a_status_crosses_what_it_is_worse_than() {
        let found = verdict("status worse than usable", 0.3);
        assert_eq!((found.crossed, found.expression.as_str()), (Some(true), "status worse than usable"));
        assert_eq!(found.cells, ["the status is NOT NOW"]);
        assert_eq!(verdict("status worse than usable", 0.09).crossed, Some(false));
        assert_eq!(verdict("status  worse than GOOD", 0.09).crossed, Some(true));
        assert_eq!(judge_one(&Condition::WorseThan(Status::Good), None).crossed, None, "nothing was measured");
    }

    #[test]
    fn a_figure_is_compared_and_one_that_is_not_known_decides_nothing() {
        assert_eq!(verdict("resolution_percent > 5", 0.09).crossed, Some(true));
        assert_eq!(verdict("resolution_percent > 5", 0.04).crossed, Some(false));
        assert_eq!(verdict("resolution_percent > 5", 2.0).crossed, None, "not even half can be seen");
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_is() {
        for (text, part) in [
            ("status better than good", "Example: 'status worse than usable'"),
            ("status worse than usble", "did you mean 'usable'"),
            ("resolution > 5", "resolution_percent"),
            ("foo", "found no operator"),
        ] {
            let error = text.parse::<Condition>().expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
