//! Aligned text tables.

use std::fmt::Write as _;

use crate::terminal::wrap;

/// Between two columns.
const GAP: &str = "  ";

/// A table: a heading and rows of cells; the first columns are text, the others numbers.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    heading: Vec<String>,
    text_columns: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings, of which the first `text_columns` stand left, the others right.
    pub(crate) fn new(heading: &[&str], text_columns: usize) -> Self {
        Self { heading: heading.iter().map(|&name| name.to_owned()).collect(), text_columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heading.len(), "a row has a cell for each heading");
        self.rows.push(cells);
    }

    /// The table for a terminal of that number of columns: where it is too wide, its last columns are left out, and a
    /// line names them.
    pub(crate) fn render_within(&self, columns: Option<usize>) -> String {
        let Some(columns) = columns else { return self.render() };
        let (widths, all) = (self.widths(), self.heading.len());
        let width = |kept: usize| widths[..kept].iter().sum::<usize>() + GAP.len() * (kept - 1);
        let kept = (1..=all).rev().find(|&kept| width(kept) <= columns).unwrap_or(1);
        let mut text = self.render_columns(&(0..kept).collect::<Vec<_>>());
        if kept < all {
            let hidden = format!("no room for: {} (a wider terminal, or --json)", self.heading[kept..].join(", "));
            text.push_str(&wrap(&hidden, "", "  ", columns));
        }
        text
    }

    /// What a reader must know of a column of spreads; empty where there is none.
    pub(crate) fn note(&self) -> &'static str {
        if self.heading.iter().any(|name| name == HALF_IQR) { NO_ERROR_BAR } else { "" }
    }

    /// The table as lines of text, each ended, without spaces at the ends.
    pub(crate) fn render(&self) -> String {
        self.render_columns(&(0..self.heading.len()).collect::<Vec<_>>())
    }

    fn render_columns(&self, columns: &[usize]) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            let mut line = String::new();
            for (place, &column) in columns.iter().enumerate() {
                let (gap, cell, width) = (if place == 0 { "" } else { GAP }, &row[column], widths[column]);
                let written = if column < self.text_columns {
                    write!(line, "{gap}{cell:<width$}")
                } else {
                    write!(line, "{gap}{cell:>width$}")
                };
                written.expect("writing to a string does not fail");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.heading.len()];
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

/// A time given in ns for people: three significant digits in the unit that fits; `-` where it is not estimable.
pub(crate) fn time(nanos: Option<f64>) -> String {
    let Some(nanos) = nanos else { return "-".to_owned() };
    let size = nanos.abs();
    let (value, unit) = match size {
        s if s < 999.5 => (nanos, "ns"),
        s if s < 999.5e3 => (nanos / 1e3, "us"),
        s if s < 999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let decimals = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// The heading of a column of half interquartile ranges.
const HALF_IQR: &str = "half IQR";

/// What such a column is not: run medians of further starts differed by 26 to 127 times of it.
const NO_ERROR_BAR: &str = "half IQR: half the width of the middle half; starts may differ by more\n";

/// A spread given in ns for people: 0 means that it lies below the steps of the clock, and is shown so.
pub(crate) fn spread(nanos: Option<f64>) -> String {
    if nanos == Some(0.0) { "<quantum".to_owned() } else { time(nanos) }
}

/// A share as a percentage with a sensible number of digits; `-` where it is not estimable.
pub(crate) fn percent(share: Option<f64>) -> String {
    let Some(share) = share else { return "-".to_owned() };
    let value = share * 100.0;
    let decimals = match value.abs() {
        v if v >= 10.0 || v == 0.0 => 1,
        v if v >= 0.1 => 2,
        v if v >= 0.001 => 4,
        _ => 6,
    };
    format!("{value:.decimals$} %")
}

/// A time that is a round number, without needless digits: `50 us`, `1 ms`.
pub(crate) fn plain_time(nanos: i64) -> String {
    let (value, unit) = match nanos {
        n if n < 1_000 => (n as f64, "ns"),
        n if n < 1_000_000 => (n as f64 / 1e3, "us"),
        n if n < 1_000_000_000 => (n as f64 / 1e6, "ms"),
        n => (n as f64 / 1e9, "s"),
    };
    format!("{value} {unit}")
}

/// A share as a percentage in a sentence: two significant digits, `90 %`, `4.3 %`, `0.04 %`.
pub(crate) fn rough_percent(share: f64) -> String {
    let value = share * 100.0;
    if value == 0.0 {
        return "0 %".to_owned();
    }
    let digits_before = value.abs().log10().floor();
    let text = format!("{value:.*}", (1.0 - digits_before).clamp(0.0, 9.0) as usize);
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_in_sentences_have_two_digits() {
        for (share, text) in
            [(0.9046, "90 %"), (0.0427, "4.3 %"), (0.000_4, "0.04 %"), (0.0, "0 %"), (2.029, "203 %"), (0.1, "10 %")]
        {
            assert_eq!(rough_percent(share), text);
        }
    }

    #[test]
    fn a_table_with_a_spread_states_that_it_is_none_of_starts() {
        assert!(Table::new(&["method", "half IQR"], 1).note().contains("starts may differ by more"));
        assert_eq!(Table::new(&["method", "median"], 1).note(), "");
    }

    #[test]
    fn text_stands_left_and_numbers_right() {
        let mut table = Table::new(&["method", "n", "median"], 1);
        table.row(vec!["spin".to_owned(), "1000".to_owned(), "29.0 ns".to_owned()]);
        table.row(vec!["usleep".to_owned(), "5".to_owned(), "-".to_owned()]);
        assert_eq!(table.render(), "method     n   median\nspin    1000  29.0 ns\nusleep     5        -\n");
    }

    #[test]
    fn the_last_columns_are_left_out_and_named_where_there_is_no_room() {
        let mut table = Table::new(&["method", "n", "median"], 1);
        table.row(vec!["spin".to_owned(), "1000".to_owned(), "29.0 ns".to_owned()]);
        table.row(vec!["usleep".to_owned(), "5".to_owned(), "-".to_owned()]);
        let narrow =
            "method     n\nspin    1000\nusleep     5\nno room for: median\n  (a wider terminal,\n  or --json)\n";
        assert_eq!(table.render_within(Some(20)), narrow);
        assert_eq!(table.render_within(Some(21)), table.render(), "it fits");
        assert_eq!(table.render_within(None), table.render(), "no terminal");
        assert!(table.render_within(Some(3)).starts_with("method\nspin\nusleep\n"), "the first column stays");
    }

    #[test]
    fn times_keep_three_digits_in_the_unit_that_fits() {
        for (nanos, shown) in [
            (9.6, "9.60 ns"),
            (23.71, "23.7 ns"),
            (258.0, "258 ns"),
            (999.7, "1.00 us"),
            (69_300.0, "69.3 us"),
            (-1_234_000.0, "-1.23 ms"),
            (2.0e9, "2.00 s"),
            (0.0, "0 ns"),
        ] {
            assert_eq!(time(Some(nanos)), shown);
        }
        assert_eq!(time(None), "-");
    }

    #[test]
    fn a_spread_of_zero_is_below_the_quantum() {
        assert_eq!(spread(Some(0.0)), "<quantum");
        assert_eq!(spread(Some(5.0)), "5.00 ns");
        assert_eq!(spread(None), "-");
    }

    #[test]
    fn shares_are_shown_in_percent() {
        assert_eq!(percent(Some(0.385)), "38.5 %");
        assert_eq!(percent(Some(0.0012)), "0.12 %");
        assert_eq!(percent(Some(0.00001)), "0.0010 %");
        assert_eq!(percent(None), "-");
    }
}
