//! `--fail-if 'p99 > 5ms'`: limits over the figures of a result.
//!
//! A figure is named as in the JSON document with the statistic before the unit (`miss_ns.p99` is `miss_p99_ns`), or by
//! a part of that which only one figure has; `help` shows all with their values. The limit holds for every cell. A
//! figure that is null decides nothing, and an undecided limit counts as crossed: a test that could not be made is not
//! passed.

mod name;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;
use vtare_units::figures::{LEAST_FOR_P99, LEAST_FOR_P999};

use crate::failure::Failure;
use name::Number;

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
    number: Number,
}

/// What `--fail-if` takes: a limit, or the wish to see the figures that one may name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Limit(Limit),
    Help,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "help" { Ok(Self::Help) } else { text.parse().map(Self::Limit) }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| {
            format!("{why} in '{text}'. Write FIGURE OPERATOR NUMBER, as in 'p99 > 5ms'; operators are > >= < <= == !=")
        };
        let (at, comparison) = COMPARISONS
            .iter()
            .enumerate()
            .filter_map(|(index, (sign, _))| text.find(sign).map(|at| (at, index)))
            .min()
            .ok_or_else(|| wrong("no operator".to_owned()))?;
        let figure = text[..at].trim().replace('.', "_");
        let number = text[at + COMPARISONS[comparison].0.len()..].trim();
        if figure.is_empty() || !figure.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wrong(format!("'{figure}' is not the name of a figure")));
        }
        let number = Number::read(number).map_err(|number| wrong(format!("'{number}' is not a number")))?;
        Ok(Self { figure, comparison, number })
    }
}

/// A limit whose figure is known, in that figure's unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    figure: String,
    comparison: usize,
    value: f64,
}

impl Known {
    /// Whether it is about this figure.
    pub(crate) fn is_about(&self, figure: &str) -> bool {
        self.figure == figure
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.figure, COMPARISONS[self.comparison].0, self.value)
    }
}

/// What became of one limit.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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

/// Finds the figure of `names` that each limit means, before anything is measured. `main` is what the command measures.
///
/// # Errors
/// Names the figure that is unknown and those that come nearest.
pub(crate) fn known(limits: &[Limit], names: &[String], main: &str) -> Result<Vec<Known>, Failure> {
    let one = |limit: &Limit| {
        // `miss_ns.p99` is `miss_p99_ns`.
        let figure = limit.figure.split_once("_ns_").map(|(base, statistic)| joined(&format!("{base}_ns"), statistic));
        let figure = figure.filter(|figure| names.contains(figure)).unwrap_or_else(|| limit.figure.clone());
        let (figure, value) = name::resolve(&figure, &limit.number, names, main)
            .map_err(|why| Failure::Input(format!("--fail-if: {why}")))?;
        Ok(Known { figure, comparison: limit.comparison, value })
    };
    limits.iter().map(one).collect()
}

/// The figures of all cells by name with their values, from the least to the most, for `--fail-if help`.
pub(crate) fn listed(cells: &[(String, Value)], identity: &[&str]) -> String {
    let mut all: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for (name, value) in cells.iter().flat_map(|(_, cell)| figures(cell, identity)) {
        all.entry(name).or_default().push(value);
    }
    let width = all.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (name, values) in all {
        let known = || values.iter().copied().flatten();
        let ends = [known().reduce(f64::min), known().reduce(f64::max)].map(|end| name::shown(&name, end));
        let shown = if ends[0] == ends[1] { ends[0].clone() } else { ends.join(" to ") };
        text.push_str(&format!("{name:width$}  {shown}\n"));
    }
    text + "A limit names one of them or a part: --fail-if 'p99 > 5ms'. It is crossed where any cell crosses it.\n"
}

/// Holds each limit against all cells, given as `(label, cell)`.
pub(crate) fn judge(limits: &[Known], cells: &[(String, Value)], identity: &[&str]) -> Vec<Verdict> {
    limits.iter().map(|limit| judge_one(limit, cells, identity)).collect()
}

fn judge_one(limit: &Known, cells: &[(String, Value)], identity: &[&str]) -> Verdict {
    let (mut crossed, mut undecided, mut sentences) = (false, cells.is_empty(), Vec::new());
    if cells.is_empty() {
        sentences.push("nothing was measured".to_owned());
    }
    for (label, cell) in cells {
        let figures = figures(cell, identity);
        match figures.get(&limit.figure).copied().flatten() {
            Some(value) if COMPARISONS[limit.comparison].1(value, limit.value) => {
                crossed = true;
                sentences.push(format!("{label}: {} is {value}", limit.figure));
            }
            Some(_) => {}
            None => {
                undecided = true;
                sentences.push(format!("{label}: {}, so the limit is undecided", unknown(&limit.figure)));
            }
        }
    }
    let crossed = if crossed { Some(true) } else { (!undecided).then_some(false) };
    Verdict { expression: limit.to_string(), crossed, cells: sentences }
}

/// Why a figure has no value, and what gives it one.
fn unknown(figure: &str) -> String {
    let least = match figure {
        _ if figure.contains("p999") => LEAST_FOR_P999,
        _ if figure.contains("p99") => LEAST_FOR_P99,
        _ => return format!("{figure} is not known"),
    };
    format!("{figure} needs {least} readings (measure for longer)")
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

    fn known_of(text: &str) -> Result<Vec<Known>, Failure> {
        let names: Vec<String> = figures(&cell(), &IDENTITY).into_keys().collect();
        known(&[limit(text)], &names, "miss")
    }

    #[test]
    fn both_spellings_short_names_and_units_are_read() {
        for (text, expected) in [
            ("miss_p99_ns>=5_000", "miss_p99_ns >= 5000"),
            ("miss_ns.median > 1", "miss_median_ns > 1"),
            (" cpu_fraction < 1e-2 ", "cpu_fraction < 0.01"),
            ("p99 > 5ms", "miss_p99_ns > 5000000"),
            ("cpu > 8%", "cpu_fraction > 0.08"),
        ] {
            assert_eq!(known_of(text).expect(text)[0].to_string(), expected);
        }
        assert_eq!("help".parse(), Ok(Asked::Help));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_the_form_wanted() {
        for wrong in ["", "miss_p99_ns", "> 5", "a b > 5", "miss > lots", "miss > inf", "miss => 5"] {
            let error = wrong.parse::<Limit>().expect_err(wrong);
            assert!(error.contains("FIGURE OPERATOR NUMBER"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_figure_is_refused_with_the_nearest() {
        let error = known_of("mis_n > 1").expect_err("mis_n is unknown").to_string();
        assert!(error.contains("'mis_n'") && error.contains("Nearest: miss_n, "), "{error}");
    }

    #[test]
    fn help_shows_each_figure_with_its_value() {
        let text = listed(&[("a".to_owned(), cell()), ("b".to_owned(), cell())], &IDENTITY);
        assert!(text.starts_with("cpu_fraction    8.00 %\nmiss_median_ns  69.0 us\nmiss_n          10\n"), "{text}");
        assert!(text.contains("miss_p99_ns     -\n"), "{text}");
    }

    #[test]
    fn a_limit_is_crossed_kept_or_undecided() {
        let cells = [("usleep 1 us".to_owned(), cell())];
        let verdict = |text| judge(&known_of(text).expect(text), &cells, &IDENTITY).remove(0);
        assert_eq!(verdict("miss_median_ns > 69000").crossed, Some(true));
        assert_eq!(verdict("miss_median_ns > 70000").crossed, Some(false));
        let undecided = verdict("miss_p99_ns > 5000");
        assert_eq!(undecided.crossed, None);
        assert_eq!(
            undecided.cells,
            ["usleep 1 us: miss_p99_ns needs 299 readings (measure for longer), so the limit is undecided"]
        );
    }

    #[test]
    fn a_limit_over_nothing_is_undecided() {
        assert_eq!(judge(&known_of("miss_n > 1").expect("known"), &[], &IDENTITY)[0].crossed, None);
    }
}
