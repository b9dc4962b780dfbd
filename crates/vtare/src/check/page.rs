//! The page for people: verdict first, 80 columns, colour on terminals only.

use vtare_sys::facts::MachineFacts;
use vtare_units::figures::Figures;

use crate::answer::{Shape, VerdictLevel};
use crate::instrument::Note;
use crate::table::{Table, percent, spread, time};
use crate::terminal::wrap;

use super::advice::Advice;
use super::figures::Measured;
use super::published::Standing;
use super::sentences::{Finding, OTHER_TARGETS_NS, VERDICT_TARGET_NS, plain_time};

/// What the page shows.
pub(super) struct Page<'a> {
    pub(super) machine: &'a MachineFacts,
    pub(super) figures: &'a Measured,
    pub(super) verdict: &'a str,
    pub(super) level: VerdictLevel,
    pub(super) findings: &'a [Finding],
    pub(super) advice: &'a [Advice],
    pub(super) standings: &'a [Standing],
    pub(super) notes: &'a [Note],
    pub(super) interrupted: bool,
}

impl Page<'_> {
    /// The page as text.
    pub(super) fn render(&self, shape: Shape) -> String {
        let mut text = wrap(&format!("vtare check: {}", headline(self.machine)), "", "  ", shape.width);
        text.push('\n');
        text.push_str(&shape.verdict(self.verdict, self.level));
        if self.interrupted {
            text.push_str("  (interrupted: the figures cover what was measured until then)\n");
        }
        // What stands in the tables below is not repeated.
        let tabled = ["error_1ms", "sleep_1ms", "sleep_10ms"];
        let why = self
            .findings
            .iter()
            .filter(|finding| !self.verdict.contains(&finding.text) && !tabled.contains(&finding.id));
        let changes = self.advice.iter().map(|advice| shape.change(&advice.text, &advice.command));
        let standings = self.standings.iter().map(|standing| standing_lines(standing, shape));
        let sections = [
            ("Why", why.map(|finding| shape.item(&finding.text)).collect()),
            ("What to change", changes.collect()),
            ("Measured", tables(self.figures, shape.width)),
            ("Beside the published platforms without load", standings.collect()),
            ("Notes", self.notes.iter().map(|note| shape.item(&note.text)).collect()),
        ];
        text + &sections.map(|(title, body)| shape.section(title, body)).concat()
    }
}

fn headline(machine: &MachineFacts) -> String {
    let cpus = machine.cpus_online.map(|cpus| format!("{cpus} CPUs"));
    let on = match (cpus, &machine.cpu_model) {
        (Some(cpus), Some(model)) => Some(format!("{cpus}, {model}")),
        (cpus, model) => cpus.or(model.clone()),
    };
    let parts = [
        machine.hostname.clone(),
        on,
        machine.hypervisor.clone(),
        machine.virtual_machine.map(str::to_owned),
        machine.confidential.map(str::to_owned),
        machine.container.clone(),
        machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
        machine.clock_source.as_ref().map(|source| format!("clock source {source}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn standing_lines(standing: &Standing, shape: Shape) -> String {
    let show = |figure: f64| if standing.unit == "ns" { time(Some(figure)) } else { percent(Some(figure)) };
    let (Some(least), Some(greatest)) = (standing.published.first(), standing.published.last()) else {
        return String::new();
    };
    let sentence = format!(
        "{}: {} here, less than {} of {} ({} {} to {} {}; {})",
        standing.what,
        show(standing.here),
        standing.worse,
        standing.published.len(),
        least.platform,
        show(least.figure),
        greatest.platform,
        show(greatest.figure),
        standing.source,
    );
    shape.item(&sentence)
}

fn tables(figures: &Measured, width: usize) -> String {
    let tables: Vec<Table> = [durations(figures), timer(figures), sleep(figures), counter(figures), noise(figures)]
        .into_iter()
        .flatten()
        .collect();
    let note = tables.iter().map(Table::note).find(|note| !note.is_empty()).unwrap_or_default();
    let shown = tables
        .iter()
        .map(|table| {
            table
                .render_within(Some(width.saturating_sub(2)))
                .lines()
                .map(|line| format!("  {line}\n"))
                .collect::<String>()
        })
        .collect::<Vec<_>>()
        .join("\n");
    if note.is_empty() { shown } else { format!("{shown}\n  {note}") }
}

/// The powers of ten among the durations.
fn durations(figures: &Measured) -> Option<Table> {
    let trust = figures.trust.as_ref()?;
    let mut table = Table::new(&["duration", "95 in 100 off by at most", "half IQR", "parts"], 1);
    for point in trust.points.iter().filter(|point| 10_i64.pow(point.duration_ns.ilog10()) == point.duration_ns) {
        table.row(vec![
            plain_time(point.duration_ns),
            percent(point.error_p95.median),
            percent(point.error_p95.half_iqr),
            point.error_p95.n.to_string(),
        ]);
    }
    Some(table)
}

fn timer(figures: &Measured) -> Option<Table> {
    let mut table = Table::new(&["reading the time", "read cost", "half IQR", "single p99", "single max"], 1);
    for cell in &figures.timer {
        let (Figures { median, half_iqr, .. }, Figures { p99, max, .. }) = (&cell.read_cost_ns, &cell.cost_ns);
        table.row(vec![cell.source.clone(), time(*median), spread(*half_iqr), time(*p99), time(*max)]);
    }
    (!figures.timer.is_empty()).then_some(table)
}

fn sleep(figures: &Measured) -> Option<Table> {
    let targets = [VERDICT_TARGET_NS, OTHER_TARGETS_NS[0], OTHER_TARGETS_NS[1]];
    let names = targets.map(|target| plain_time(target.cast_signed()));
    let heading = ["sleep wakes late", &names[0], "half IQR", &names[1], "half IQR", &names[2], "half IQR"];
    let mut table = Table::new(&heading, 1);
    let mut methods: Vec<&str> = figures.sleep.iter().map(|cell| cell.method.as_str()).collect();
    methods.dedup();
    let mut shown: Vec<&str> = Vec::new();
    for method in methods {
        if shown.contains(&method) {
            continue;
        }
        shown.push(method);
        let mut row = vec![method.to_owned()];
        for target in targets {
            let miss = figures.sleep(method, target).map(|cell| &cell.miss_ns);
            row.push(time(miss.and_then(|miss| miss.median)));
            row.push(spread(miss.and_then(|miss| miss.half_iqr)));
        }
        table.row(row);
    }
    (!figures.sleep.is_empty()).then_some(table)
}

fn counter(figures: &Measured) -> Option<Table> {
    let mut table = Table::new(&["equal work of", "CV", "in batches", "between", "mostly from"], 1);
    for cell in &figures.counter {
        table.row(vec![
            time(cell.runtime_ns.median),
            percent(cell.cv),
            percent(cell.cv_within),
            percent(cell.cv_between),
            cell.dominant_cause.as_deref().unwrap_or("-").replace('_', " "),
        ]);
    }
    (!figures.counter.is_empty()).then_some(table)
}

fn noise(figures: &Measured) -> Option<Table> {
    let mut table = Table::new(&["noise on CPU", "gaps", "per s", "time lost", "median", "max", "mostly to"], 1);
    for cell in &figures.noise {
        table.row(vec![
            cell.cpu.to_string(),
            cell.gaps.to_string(),
            cell.gaps_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
            percent(cell.lost_fraction),
            time(cell.gap_ns.median),
            time(cell.gap_ns.max),
            cell.causes.dominant_cause.as_deref().unwrap_or("-").replace('_', " "),
        ]);
    }
    (!figures.noise.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::super::figures::{ClockFigures, CounterFigures, NoiseFigures, SleepFigures, TimerFigures};
    use super::super::{advice, published, sentences};
    use super::*;
    use crate::answer::WIDTH;

    fn wide() -> Figures {
        Figures {
            median: Some(123_456_789.0),
            half_iqr: Some(98_765_432.0),
            p99: Some(111_111_111.0),
            max: Some(-222_222_222.0),
            ..Figures::default()
        }
    }

    fn figures() -> Measured {
        let sleep = ["clock_nanosleep", "adaptive"].map(|method| {
            [50_000, 1_000_000, 10_000_000].map(|target_ns| SleepFigures {
                method: method.to_owned(),
                target_ns,
                miss_ns: wide(),
                cpu_fraction: Some(0.5),
            })
        });
        Measured {
            clock: ClockFigures {
                reasons: vec!["the kernel's clock source is hpet".to_owned()],
                ..ClockFigures::default()
            },
            timer: ["vtare", "clock_monotonic", "clock_monotonic_syscall"]
                .map(|source| TimerFigures { source: source.to_owned(), read_cost_ns: wide(), cost_ns: wide() })
                .to_vec(),
            sleep: sleep.concat(),
            counter: vec![CounterFigures {
                argument: 1,
                runtime_ns: wide(),
                cv: Some(0.123),
                cv_within: Some(0.1),
                cv_between: Some(0.01),
                dominant_cause: Some("other_threads".to_owned()),
            }],
            noise: vec![NoiseFigures {
                cpu: 127,
                gap_ns: wide(),
                gaps: 123_456,
                lost_fraction: Some(0.1234),
                gaps_per_s: Some(12_345.6),
                ..NoiseFigures::default()
            }],
            trust: None,
            busy: None,
        }
    }

    fn page(colour: bool) -> String {
        let figures = figures();
        let machine = MachineFacts {
            hostname: Some("a-host-with-a-long-name.example".to_owned()),
            cpus_online: Some(128),
            cpu_model: Some("A Processor With A Long Name @ 2.80 GHz".to_owned()),
            governor: Some("powersave".to_owned()),
            clock_source: Some("hpet".to_owned()),
            clock_sources_available: Some(vec!["tsc".to_owned()]),
            architecture: "x86_64".to_owned(),
            timer_slack_ns: Some(50_000),
            ..MachineFacts::default()
        };
        let around = advice::Surroundings { dma_latency_device: true, idle_states: true };
        let findings = sentences::findings(&figures);
        let (verdict, level) = sentences::verdict(&figures, &findings);
        Page {
            machine: &machine,
            figures: &figures,
            verdict: &verdict,
            level,
            findings: &findings,
            advice: &advice::advice(&figures, &machine, around),
            standings: &published::standings(&figures),
            notes: &[Note::new("some_cpus", "noise was weighed on some of the CPUs ".repeat(4))],
            interrupted: true,
        }
        .render(Shape { colour, width: WIDTH })
    }

    #[test]
    fn the_page_fits_80_columns_whatever_the_figures() {
        let text = page(false);
        let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }

    #[test]
    fn the_verdict_comes_first_and_every_part_has_its_place() {
        let text = page(false);
        let places: Vec<_> =
            ["Sleeps of 50 us wake", "Why", "What to change", "Measured", "Beside the published", "Notes"]
                .iter()
                .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}")))
                .collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!(text.matches("Sleeps of 50 us wake").count(), 1, "the reasons do not repeat the verdict");
        assert!(text.contains("interrupted"));
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let painted = page(true);
        assert!(painted.contains("\x1b[1;33m"));
        let mut plain = painted;
        for code in ["\x1b[1;33m", "\x1b[1m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, page(false));
    }

    #[test]
    fn a_long_word_stands_alone() {
        let long = "x".repeat(100);
        assert_eq!(wrap(&format!("a {long} b"), "- ", "  ", WIDTH), format!("- a\n  {long}\n  b\n"));
    }
}
