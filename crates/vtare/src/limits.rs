//! `--fail-if 'miss_p99_ns > 5000'`: limits over the figures of a result.
//!
//! A figure is named as in the JSON document with the statistic before the unit: `miss_ns.p99` is `miss_p99_ns` (both
//! spellings are read). The limit holds for every cell. A figure that is null decides nothing, and an undecided limit
//! counts as crossed: a test that could not be made is not passed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::nearest::did_you_mean;

/// An operator: how it is written and what it asks of the figure and the number.
type Comparison = (&'static str, fn(f64, f64) -> bool);

/// The comparisons, longest spelling first so that `>=` is not read as `>`.
const COMPARISONS: [Comparison; 6] = [
    (">=", |a, b| a >= b),
    ("<=", |a, b| a <= b),
    ("==", |a, b| a == b),
    ("!=", |a, b| a != b),
    (">", |a, b| a > b),
    ("<", |a, b| a < b),
];

/// One limit: the measurement fails where the comparison is true.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    figure: String,
    comparison: usize,
    value: f64,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = |why: &str| {
            format!("{why}; expected FIGURE OPERATOR NUMBER, as in 'miss_p99_ns > 5000', operators > >= < <= == !=")
        };
        let (at, comparison) = COMPARISONS
            .iter()
            .enumerate()
            .filter_map(|(index, (sign, _))| text.find(sign).map(|at| (at, index)))
            .min()
            .ok_or_else(|| wanted("found no operator"))?;
        let figure = text[..at].trim().replace('.', "_");
        let number = text[at + COMPARISONS[comparison].0.len()..].trim();
        if figure.is_empty() || !figure.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wanted(&format!("found '{figure}' as the figure")));
        }
        match number.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Self { figure, comparison, value }),
            _ => Err(wanted(&format!("found '{number}' as the number"))),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.figure, COMPARISONS[self.comparison].0, self.value)
    }
}

/// What became of one limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// The limit as it was understood.
    pub(crate) expression: String,
    /// True or false; null where it could be decided for some cell neither way and no cell crossed it.
    pub(crate) crossed: Option<bool>,
    /// One sentence for each cell that crossed it or left it undecided.
    pub(crate) cells: Vec<String>,
}

/// The figures of a cell by name, in the order of the alphabet. `identity` keys identify the cell and are no
/// figures.
pub(crate) fn figures(cell: &Value, identity: &[&str]) -> BTreeMap<String, Option<f64>> {
    let mut found = BTreeMap::new();
    for (key, value) in cell.as_object().into_iter().flatten() {
        if !identity.contains(&key.as_str()) {
            collect(key, value, &mut found);
        }
    }
    found
}

fn collect(name: &str, value: &Value, found: &mut BTreeMap<String, Option<f64>>) {
    match value {
        Value::Null => {
            found.insert(name.to_owned(), None);
        }
        Value::Number(number) => {
            found.insert(name.to_owned(), number.as_f64());
        }
        Value::Object(members) => {
            for (key, value) in members {
                collect(&joined(name, key), value, found);
            }
        }
        Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
    }
}

/// `miss_ns` and `p99` make `miss_p99_ns`; a count has no unit, so `miss_ns` and `n` make `miss_n`.
fn joined(name: &str, statistic: &str) -> String {
    match name.strip_suffix("_ns") {
        Some(base) if statistic == "n" => format!("{base}_n"),
        Some(base) => format!("{base}_{statistic}_ns"),
        None => format!("{name}_{statistic}"),
    }
}

/// Finds the name under which `asked` is known: `miss_ns_p99` (from `miss_ns.p99`) is `miss_p99_ns`.
fn known<'a>(asked: &str, names: &'a [String]) -> Option<&'a String> {
    names.iter().find(|name| *name == asked).or_else(|| {
        let (base, statistic) = asked.split_once("_ns_")?;
        let other = joined(&format!("{base}_ns"), statistic);
        names.iter().find(|name| **name == other)
    })
}

/// Checks that each limit names a figure of `names`, before anything is measured.
///
/// # Errors
/// Names the figure that is unknown and lists those that are known.
pub(crate) fn check_names(limits: &[Limit], names: &[String]) -> Result<(), Failure> {
    match limits.iter().find(|limit| known(&limit.figure, names).is_none()) {
        None => Ok(()),
        Some(limit) => Err(Failure::Input(format!(
            "--fail-if '{limit}': found figure '{}'{}, expected one of: {}",
            limit.figure,
            did_you_mean(&limit.figure, names.iter().map(String::as_str)),
            names.join(", ")
        ))),
    }
}

/// Holds each limit against all cells, given as `(label, cell)`.
pub(crate) fn judge(limits: &[Limit], cells: &[(String, Value)], identity: &[&str]) -> Vec<Verdict> {
    limits.iter().map(|limit| judge_one(limit, cells, identity)).collect()
}

fn judge_one(limit: &Limit, cells: &[(String, Value)], identity: &[&str]) -> Verdict {
    let (mut crossed, mut undecided, mut sentences) = (false, cells.is_empty(), Vec::new());
    if cells.is_empty() {
        sentences.push("nothing was measured".to_owned());
    }
    for (label, cell) in cells {
        let figures = figures(cell, identity);
        let names: Vec<String> = figures.keys().cloned().collect();
        match known(&limit.figure, &names).and_then(|name| figures[name]) {
            Some(value) if COMPARISONS[limit.comparison].1(value, limit.value) => {
                crossed = true;
                sentences.push(format!("{label}: {} is {value}", limit.figure));
            }
            Some(_) => {}
            None => {
                undecided = true;
                sentences.push(format!("{label}: {} is not estimable, so the limit is undecided", limit.figure));
            }
        }
    }
    let crossed = if crossed { Some(true) } else { (!undecided).then_some(false) };
    Verdict { expression: limit.to_string(), crossed, cells: sentences }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limit(text: &str) -> Limit {
        text.parse().expect("the limit is well formed")
    }

    fn cell() -> Value {
        let miss_ns = json!({"n": 10, "p99": null, "median": 69_000.5});
        json!({"method": "usleep", "target_ns": 1000, "miss_ns": miss_ns, "cpu_fraction": 0.08})
    }

    const IDENTITY: [&str; 2] = ["method", "target_ns"];

    #[test]
    fn figures_carry_the_statistic_before_the_unit() {
        let names: Vec<String> = figures(&cell(), &IDENTITY).into_keys().collect();
        assert_eq!(names, ["cpu_fraction", "miss_median_ns", "miss_n", "miss_p99_ns"]);
    }

    #[test]
    fn both_spellings_and_all_operators_are_read() {
        assert_eq!(limit("miss_p99_ns>=5_000").to_string(), "miss_p99_ns >= 5000");
        assert_eq!(limit(" cpu_fraction < 1e-2 ").to_string(), "cpu_fraction < 0.01");
        let names: Vec<String> = figures(&cell(), &IDENTITY).into_keys().collect();
        assert!(check_names(&[limit("miss_ns.median > 1")], &names).is_ok());
    }

    #[test]
    fn what_is_no_limit_is_refused_with_the_form_wanted() {
        for wrong in ["", "miss_p99_ns", "> 5", "a b > 5", "miss > lots", "miss > inf", "miss => 5"] {
            let error = wrong.parse::<Limit>().expect_err(wrong);
            assert!(error.contains("FIGURE OPERATOR NUMBER"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_figure_is_refused_with_the_list() {
        let names = vec!["cpu_fraction".to_owned(), "miss_n".to_owned()];
        let error = check_names(&[limit("mis_n > 1")], &names).expect_err("mis_n is unknown").to_string();
        assert!(error.contains("'mis_n'") && error.contains("cpu_fraction, miss_n"), "{error}");
    }

    #[test]
    fn a_limit_is_crossed_kept_or_undecided() {
        let cells = [("usleep 1 us".to_owned(), cell())];
        let verdict = |text| judge(&[limit(text)], &cells, &IDENTITY).remove(0);
        assert_eq!(verdict("miss_median_ns > 69000").crossed, Some(true));
        assert_eq!(verdict("miss_median_ns > 70000").crossed, Some(false));
        let undecided = verdict("miss_p99_ns > 5000");
        assert_eq!(undecided.crossed, None);
        assert_eq!(undecided.cells, ["usleep 1 us: miss_p99_ns is not estimable, so the limit is undecided"]);
    }

    #[test]
    fn a_limit_over_nothing_is_undecided() {
        assert_eq!(judge(&[limit("miss_n > 1")], &[], &IDENTITY)[0].crossed, None);
    }
}
