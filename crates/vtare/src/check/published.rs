//! Where this machine stands beside the platforms of the papers.

use serde::{Deserialize, Serialize};

use super::figures::Measured;
use crate::sentences::check as words;
use crate::timer::Source;
use vtare_clock::sleep::Method;

/// The published tables: a copy of python/src/vtare/papers/data/published.json, so that this crate builds alone.
const PUBLISHED: &str = include_str!("../../data/published.json");
/// Lampe and others print four decimals: a printed 0.0000 means "below half of this".
const CV_QUANTUM: f64 = 0.0001;
/// Kirova and others do not print the target of their sleeps.
const SLEEP_TARGET_NS: u64 = 1_000_000;

/// One figure of this machine among the published ones.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Standing {
    /// What is compared, for people.
    pub(crate) what: String,
    /// `ns`, or `1` for a coefficient.
    pub(crate) unit: &'static str,
    /// The figure here.
    pub(crate) here: f64,
    /// The published ones, least first.
    pub(crate) published: Vec<Published>,
    /// Published platforms that are worse (have a greater figure).
    pub(crate) worse: usize,
    /// Where it is printed.
    pub(crate) source: String,
}

/// One published figure.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Published {
    /// The platform's name.
    pub(crate) platform: String,
    /// Its figure, in the unit of the standing.
    pub(crate) figure: f64,
}

#[derive(Deserialize)]
struct Tables {
    timer_cost: Vec<TimeRow>,
    sleep_miss: Vec<TimeRow>,
    counter_cv: Vec<CvRow>,
}

#[derive(Deserialize)]
struct TimeRow {
    function: String,
    platform: String,
    load: String,
    median_ns: Option<f64>,
    source: String,
}

#[derive(Deserialize)]
struct CvRow {
    config_id: serde_json::Value,
    machine_type: String,
    virtualization_software: String,
    host_utilization: String,
    programming_language: String,
    argument: u64,
    cv: Option<f64>,
    source: String,
}

/// The published median lateness of a way to sleep under a load, least first, in ns.
pub(crate) fn published_sleeps(function: &str, load: &str) -> Vec<(String, f64)> {
    let rows = tables().sleep_miss.into_iter().filter(|row| row.function == function && row.load == load);
    let mut found: Vec<(String, f64)> = rows.filter_map(|row| Some((row.platform, row.median_ns?))).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    found
}

fn tables() -> Tables {
    serde_json::from_str(PUBLISHED).expect("the tables are part of the program and a test reads them")
}

/// Places each figure that has a published counterpart, beside the platforms without load.
pub(super) fn standings(figures: &Measured) -> Vec<Standing> {
    let tables = tables();
    let timer = |source: Source, function, what: String| {
        let here = figures.timer(source)?.median?;
        place(what, "ns", here, idle(&tables.timer_cost, function))
    };
    let sleep = |method: Method, function, what: String| {
        let here = figures.sleep(method, SLEEP_TARGET_NS)?.miss_ns.median?;
        place(what, "ns", here, idle(&tables.sleep_miss, function))
    };
    let counter = figures.counter.iter().min_by_key(|cell| cell.argument).and_then(|cell| {
        let rows = tables.counter_cv.iter().filter(|row| row.argument == cell.argument);
        place(words::standing_of_work(cell.argument), "1", cell.cv?, rows.filter_map(named).collect())
    });
    [
        timer(Source::Vtare, "TSC", words::standing_of_timer()),
        timer(Source::ClockMonotonic, "System Call", words::standing_of_clock_gettime()),
        sleep(Method::Usleep, "uSleep", words::standing_of_usleep()),
        sleep(Method::Adaptive, "HPTSleep", words::standing_of_spinning_sleep()),
        counter,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn idle(rows: &[TimeRow], function: &str) -> Vec<(Published, String)> {
    rows.iter()
        .filter(|row| row.function == function && row.load == "idle")
        .filter_map(|row| {
            Some((Published { platform: row.platform.clone(), figure: row.median_ns? }, row.source.clone()))
        })
        .collect()
}

fn named(row: &CvRow) -> Option<(Published, String)> {
    let id = row.config_id.as_str().map_or_else(|| row.config_id.to_string(), str::to_owned);
    let software = if row.virtualization_software == "none" { "" } else { &row.virtualization_software };
    let words = [&id, &row.machine_type, software, &row.host_utilization, &row.programming_language];
    let platform = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    Some((Published { platform, figure: row.cv?.max(CV_QUANTUM / 2.0) }, row.source.clone()))
}

fn place(what: String, unit: &'static str, here: f64, rows: Vec<(Published, String)>) -> Option<Standing> {
    let source = rows.first()?.1.clone();
    let mut published: Vec<Published> = rows.into_iter().map(|(row, _)| row).collect();
    published.sort_by(|a, b| a.figure.total_cmp(&b.figure));
    let worse = published.iter().filter(|row| row.figure > here).count();
    Some(Standing { what, unit, here, published, worse, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::CounterCell;
    use crate::sleep::SleepCell;
    use crate::timer::TimerCell;
    use vtare_units::figures::Figures;

    fn median(median: f64) -> Figures {
        Figures { median: Some(median), ..Figures::default() }
    }

    #[test]
    fn the_copy_of_the_published_tables_is_the_one_of_the_lab() {
        let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/src/vtare/papers/data/published.json");
        let text = std::fs::read_to_string(lab).expect("the lab stands beside the crates in the repository");
        assert!(text == PUBLISHED, "copy {lab} to crates/vtare/data/published.json");
    }

    #[test]
    fn a_figure_is_counted_against_the_idle_platforms() {
        let figures = Measured {
            timer: vec![TimerCell { source: Some(Source::Vtare), read_cost_ns: median(18.0), ..TimerCell::default() }],
            sleep: vec![SleepCell {
                method: Some(Method::Adaptive),
                target_ns: SLEEP_TARGET_NS,
                miss_ns: median(1e9),
                ..SleepCell::default()
            }],
            ..Measured::default()
        };
        let found = standings(&figures);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].published.len(), 5, "ESXi, HostOS, QEMU, VBox and Xen");
        assert!(found[0].published.is_sorted_by(|a, b| a.figure <= b.figure));
        // Kirova 2019, Table 1, TSC, idle: HostOS 17.2, Xen 18.6, ESXi 20.1, QEMU 21.5, VBox 2053.9.
        assert_eq!(found[0].worse, 4);
        assert_eq!(found[1].worse, 0, "nobody sleeps a second too long");
        assert!(found[0].source.contains("Kirova"));
    }

    #[test]
    fn a_printed_zero_is_half_of_the_last_decimal() {
        let cell = CounterCell { argument: 1, cv: Some(0.000_01), ..CounterCell::default() };
        let found = standings(&Measured { counter: vec![cell], ..Measured::default() });
        assert_eq!(found[0].published.len(), 16);
        assert!(found[0].published[0].figure >= CV_QUANTUM / 2.0);
        assert_eq!(found[0].worse, 16);
    }

    #[test]
    fn without_figures_there_is_no_standing() {
        assert_eq!(standings(&Measured::default()), []);
    }
}
