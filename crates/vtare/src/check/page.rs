//! The page for people: verdict first, 80 columns, colour on terminals only. A few lines, or with `--verbose` all
//! tables.

use vtare_sys::facts::MachineFacts;
use vtare_units::figures::Figures;

use crate::answer::Shape;
use crate::instrument::Note;
use crate::sentences::{advice, answer as usual, check as words};
use crate::table::{Table, percent, plain_time, spread, time};
use crate::terminal::wrap;

use super::advice::Advice;
use super::causes::Cause;
use super::figures::Measured;
use super::findings::{self, Finding, OTHER_TARGETS_NS, VERDICT_TARGET_NS};
use super::published::Standing;
use super::resolution::{self, Resolution};
use super::utc::UtcCheck;

/// The most lines of the short page.
const MOST_LINES: usize = 8;

/// What the page shows.
pub(super) struct Page<'a> {
    pub(super) machine: &'a MachineFacts,
    pub(super) figures: &'a Measured,
    pub(super) resolution: Option<&'a Resolution>,
    pub(super) causes: &'a [Cause],
    pub(super) findings: &'a [Finding],
    pub(super) advice: &'a [Advice],
    pub(super) standings: &'a [Standing],
    pub(super) utc: Option<&'a UtcCheck>,
    pub(super) notes: &'a [Note],
    pub(super) interrupted: bool,
}

impl Page<'_> {
    /// The verdict and at most seven lines more, what matters least left out where there is no room.
    pub(super) fn short(&self, shape: Shape) -> String {
        let line = |text: &str| wrap(text, "", "  ", shape.width);
        let advice = self.advice.first();
        let command = advice.map(|advice| format!("Try: {}\n", advice.command.replace('\n', " && ")));
        let more = advice.map_or_else(words::more, |advice| words::effect_and_more(&advice.purpose, &advice.cost));
        // Each with its rank: the greatest goes first.
        let mut blocks = [
            (0, self.first_line(shape)),
            (1, if self.interrupted { line(&usual::interrupted()) } else { String::new() }),
            (4, findings::short_noise(self.figures).map(|text| line(&text)).unwrap_or_default()),
            (5, findings::short_sleeps(self.figures).map(|text| line(&text)).unwrap_or_default()),
            (3, command.unwrap_or_default()),
            (2, line(&more)),
        ];
        let lines = |blocks: &[(u8, String)]| blocks.iter().map(|(_, text)| text.lines().count()).sum::<usize>();
        for rank in (1..=5).rev() {
            if lines(&blocks) > MOST_LINES {
                blocks.iter_mut().filter(|(own, _)| *own == rank).for_each(|(_, text)| text.clear());
            }
        }
        blocks.map(|(_, text)| text).concat()
    }

    /// The verdict, and what was asked of witnesses.
    fn first_line(&self, shape: Shape) -> String {
        let utc = self.utc.map(|utc| wrap(utc.text(), "", "  ", shape.width)).unwrap_or_default();
        shape.verdict(&findings::first_line(self.resolution), findings::level(self.resolution), "") + &utc
    }

    /// Everything.
    pub(super) fn whole(&self, shape: Shape) -> String {
        let mut text = self.first_line(shape);
        if self.interrupted {
            text.push_str(&wrap(&usual::interrupted(), "", "  ", shape.width));
        }
        text.push_str(&wrap(&format!("vtare check: {}", headline(self.machine)), "", "  ", shape.width));
        // What stands in the first line, below or in the tables is not repeated.
        let elsewhere = ["durations", "error_1ms", "sleep_1ms", "sleep_10ms"];
        let why = self.findings.iter().filter(|finding| !elsewhere.contains(&finding.id)).map(|finding| &finding.text);
        let changes = self
            .advice
            .iter()
            .map(|advice| shape.change(&advice::with_cost(&advice.text, &advice.cost), &advice.command));
        let standings = self.standings.iter().map(|standing| standing_lines(standing, shape));
        let sections = [
            ("Causes", self.causes.iter().map(|cause| shape.item(&cause.text)).collect()),
            ("In short", why.map(|text| shape.item(text)).collect()),
            ("What to change", changes.collect()),
            ("Measured", tables(self.figures, self.resolution, shape.width)),
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
    let (what, here, all) = (&standing.what, show(standing.here), standing.published.len());
    let [low, high] = [least, greatest].map(|end| show(end.figure));
    let range = words::range(low, &least.platform, high, &greatest.platform, &standing.source);
    shape.item(&match standing.worse {
        0 => words::worse_than_all(what, here, all, range),
        worse if worse == all => words::better_than_all(what, here, all, range),
        worse => words::better_than(what, here, worse, all, range),
    })
}

fn tables(figures: &Measured, resolution: Option<&Resolution>, width: usize) -> String {
    let tables: Vec<Table> =
        [durations(figures, resolution), timer(figures), sleep(figures), counter(figures), noise(figures)]
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

/// Every row that the verdict may rest on.
fn durations(figures: &Measured, resolution: Option<&Resolution>) -> Option<Table> {
    let trust = figures.trust.as_ref()?;
    let mut table = Table::new(&["duration", "95 in 100 off by at most", "half IQR", "parts", "first line"], 1);
    let rests_on = resolution.map(|found| found.rests_on);
    for row in resolution::rows(trust) {
        let spread = match row.duration_ns {
            Some(ns) => &trust.points.iter().find(|point| point.duration_ns == ns)?.error_p95,
            None => &trust.longer,
        };
        table.row(vec![
            row.duration_ns.map_or_else(|| "longer".to_owned(), plain_time),
            percent(Some(row.error)),
            percent(spread.half_iqr),
            spread.n.to_string(),
            if rests_on == Some(row) { "rests on this" } else { "" }.to_owned(),
        ]);
    }
    Some(table)
}

fn timer(figures: &Measured) -> Option<Table> {
    let mut table = Table::new(&["reading the time", "read cost", "half IQR", "single p99", "single max"], 1);
    for cell in &figures.timer {
        let (Figures { median, half_iqr, .. }, Figures { p99, max, .. }) = (&cell.read_cost_ns, &cell.cost_ns);
        table.row(vec![
            cell.source.map_or_else(String::new, |source| source.to_string()),
            time(*median),
            spread(*half_iqr),
            time(*p99),
            time(*max),
        ]);
    }
    (!figures.timer.is_empty()).then_some(table)
}

fn sleep(figures: &Measured) -> Option<Table> {
    let targets = [VERDICT_TARGET_NS, OTHER_TARGETS_NS[0], OTHER_TARGETS_NS[1]];
    let names = targets.map(|target| plain_time(target.cast_signed()));
    let heading = ["sleep wakes late", &names[0], "half IQR", &names[1], "half IQR", &names[2], "half IQR"];
    let mut table = Table::new(&heading, 1);
    let methods = figures.sleep.iter().filter_map(|cell| cell.method);
    let mut shown = Vec::new();
    for method in methods {
        if shown.contains(&method) {
            continue;
        }
        shown.push(method);
        let mut row = vec![method.to_string()];
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
            cell.dominant_cause.map_or("-", |cause| cause.words()).to_owned(),
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
    use super::super::advice::Surroundings;
    use super::super::figures::ClockFigures;
    use super::super::trust::{Trust, TrustPoint};
    use super::super::{advice, causes, published};
    use super::*;
    use crate::answer::WIDTH;
    use crate::counter::CounterCell;
    use crate::noise::{Causes, NoiseCell};
    use crate::sleep::SleepCell;
    use crate::timer::{Source, TimerCell};
    use vtare_clock::sleep::Method;

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
        let sleep = [Method::ClockNanosleep, Method::Adaptive].map(|method| {
            [50_000, 1_000_000, 10_000_000].map(|target_ns| SleepCell {
                method: Some(method),
                target_ns,
                miss_ns: wide(),
                cpu_fraction: Some(0.5),
                ..SleepCell::default()
            })
        });
        Measured {
            clock: ClockFigures {
                reasons: vec!["the kernel's clock source is hpet".to_owned()],
                ..ClockFigures::default()
            },
            timer: [Source::Vtare, Source::ClockMonotonic, Source::ClockMonotonicSyscall]
                .map(|source| TimerCell {
                    source: Some(source),
                    read_cost_ns: wide(),
                    cost_ns: wide(),
                    ..TimerCell::default()
                })
                .to_vec(),
            sleep: sleep.concat(),
            counter: vec![CounterCell {
                argument: 1,
                runtime_ns: wide(),
                cv: Some(0.123),
                cv_within: Some(0.1),
                cv_between: Some(0.01),
                dominant_cause: Some(crate::counter::Cause::OtherThreads),
                ..CounterCell::default()
            }],
            noise: vec![NoiseCell {
                cpu: 127,
                gap_ns: wide(),
                gaps: 123_456,
                lost_fraction: Some(0.1234),
                gaps_per_s: Some(12_345.6),
                ..NoiseCell::default()
            }],
            trust: None,
        }
    }

    fn machine() -> MachineFacts {
        MachineFacts {
            hostname: Some("a-host-with-a-long-name.example".to_owned()),
            cpus_online: Some(128),
            cpu_model: Some("A Processor With A Long Name @ 2.80 GHz".to_owned()),
            governor: Some("powersave".to_owned()),
            clock_source: Some("hpet".to_owned()),
            clock_sources_available: Some(vec!["tsc".to_owned()]),
            architecture: "x86_64".to_owned(),
            timer_slack_ns: Some(50_000),
            ..MachineFacts::default()
        }
    }

    fn shown(
        figures: &Measured,
        machine: &MachineFacts,
        around: Surroundings,
        show: impl Fn(&Page<'_>) -> String,
    ) -> String {
        let resolution = figures.trust.as_ref().and_then(|trust| Resolution::of(&resolution::rows(trust)));
        let causes = causes::causes(figures, resolution.as_ref());
        show(&Page {
            machine,
            figures,
            resolution: resolution.as_ref(),
            causes: &causes,
            findings: &findings::findings(figures, resolution.as_ref()),
            advice: &advice::advice(figures, machine, around, &causes),
            standings: &published::standings(figures),
            utc: None,
            notes: &[Note::new("some_cpus", "noise was weighed on some of the CPUs ".repeat(4))],
            interrupted: figures.counter.is_empty(),
        })
    }

    fn page(colour: bool) -> String {
        let around = Surroundings { dma_latency_device: true, idle_states: true, halts_at_once: true };
        shown(&figures(), &machine(), around, |page| page.whole(Shape { colour, width: WIDTH }))
    }

    /// A machine with these errors, in percent, in the rows of 10 us, 1 ms, 10 ms and longer, that lost this share of
    /// its time to other programs, the quota and nobody who accounts for it.
    fn simulated(errors: [f64; 4], lost: f64, [others, quota, unknown]: [i64; 3]) -> Measured {
        let error = |percent: f64| Figures { n: 10, median: Some(percent / 100.0), ..Figures::default() };
        let points = [10_000, 1_000_000, 10_000_000].into_iter().zip(errors);
        let causes = Causes {
            lost_ns: 100,
            steal_ns: Some(0),
            other_threads_ns: Some(others),
            quota_ns: Some(quota),
            unattributed_ns: Some(unknown),
            ..Causes::default()
        };
        let late = |method, median| SleepCell {
            method: Some(method),
            target_ns: 50_000,
            miss_ns: Figures { median: Some(median), ..Figures::default() },
            ..SleepCell::default()
        };
        let gap_ns = Figures { max: Some(8_620_000.0), ..Figures::default() };
        Measured {
            sleep: vec![
                late(Method::Usleep, 69_400.0),
                late(Method::ClockNanosleep, 68_500.0),
                late(Method::Adaptive, 115.0),
            ],
            counter: figures().counter,
            noise: vec![NoiseCell { lost_fraction: Some(lost), gap_ns, causes, ..NoiseCell::default() }],
            trust: Some(Trust {
                level: 0.01,
                points: points
                    .map(|(duration_ns, percent)| TrustPoint { duration_ns, error_p95: error(percent) })
                    .collect(),
                least_ns: None,
                least_by_part_ns: Vec::new(),
                holds_beyond: false,
                longer: error(errors[3]),
            }),
            ..Measured::default()
        }
    }

    /// What a guest under KVM with halt polling off, or a container with a quota, shows at 80 columns.
    fn short(figures: &Measured, cpu_max: Option<&str>) -> String {
        let mut machine = MachineFacts { hypervisor: Some("kvm".to_owned()), ..MachineFacts::default() };
        machine.cgroup.cpu_max = cpu_max.map(str::to_owned);
        let around = Surroundings { halts_at_once: true, ..Surroundings::default() };
        shown(figures, &machine, around, |page| page.short(Shape { colour: false, width: WIDTH }))
    }

    #[test]
    fn a_healthy_idle_vm_is_good_in_five_lines() {
        let expected = "\
GOOD: differences of 2 % are visible in timings of 10 us and longer.
A busy loop lost 0.04 % of its time, most of it to interrupts or the host.
Sleeps of 50 us wake 69.4 us late with usleep, 115 ns late with vtare's sleep.
Try: echo 200000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns
To wake faster. Cost: idle CPUs poll 0.2 ms: more power. More: vtare check -v
";
        assert_eq!(short(&simulated([0.2, 0.9, 1.6, 0.04], 0.000_4, [20, 0, 80]), None), expected);
    }

    #[test]
    fn a_busy_machine_is_not_now_and_names_the_programs_and_not_the_load_average() {
        let expected = "\
NOT NOW: 1 in 20 measurements of 1 ms is at least 149 % too long.
A busy loop lost 20 % of its time, nearly all of it to other programs.
Sleeps of 50 us wake 69.4 us late with usleep, 115 ns late with vtare's sleep.
Try: ps -eo pcpu,pid,comm --sort=-pcpu | head
To find what uses the CPUs. Cost: their work waits. More: vtare check -v
";
        assert_eq!(short(&simulated([0.5, 149.4, 60.0, 20.0], 0.2, [95, 0, 5]), None), expected);
    }

    #[test]
    fn a_quota_is_named_with_the_command_that_lifts_it() {
        let expected = "\
NOT NOW: measurements longer than 10 ms are about 100 % too long.
A busy loop lost 50 % of its time, nearly all of it to its CPU quota.
Sleeps of 50 us wake 69.4 us late with usleep, 115 ns late with vtare's sleep.
Try: systemctl set-property --runtime UNIT CPUQuota=
To lift the CPU quota. Cost: less CPU time for others. More: vtare check -v
";
        let quota = short(&simulated([0.2, 0.02, 0.02, 100.0], 0.5, [2, 98, 0]), Some("50000 100000"));
        assert_eq!(quota, expected);
    }

    #[test]
    fn one_row_that_contradicts_the_others_decides_and_is_marked_in_the_table() {
        let figures = simulated([0.1, 0.1, 30.0, 0.1], 0.000_4, [20, 0, 80]);
        assert!(short(&figures, None).starts_with("NOT NOW: only differences of 50 % are visible"));
        let whole = shown(&figures, &machine(), Surroundings::default(), |page| {
            page.whole(Shape { colour: false, width: WIDTH })
        });
        let marked: Vec<&str> = whole.lines().filter(|line| line.ends_with("rests on this")).collect();
        assert!(marked.len() == 1 && marked[0].contains("10 ms") && marked[0].contains("30.0 %"), "{whole}");
    }

    #[test]
    fn the_short_page_never_exceeds_8_lines_and_keeps_its_verdict() {
        let interrupted = Measured { counter: Vec::new(), ..simulated([0.2, 0.9, 1.6, 0.04], 0.000_4, [20, 0, 80]) };
        for width in [30, 60, WIDTH] {
            let text = shown(&interrupted, &machine(), Surroundings::default(), |page| {
                page.short(Shape { colour: false, width })
            });
            assert!(text.lines().count() <= MOST_LINES && text.starts_with("GOOD: "), "{text}");
        }
        let nothing = short(&Measured::default(), None);
        assert!(nothing.starts_with("NOT KNOWN: ") && nothing.contains("Interrupted: "), "{nothing}");
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
        let titles = ["NOT KNOWN", "\nIn short\n", "What to change", "\nMeasured\n", "Beside the published", "Notes"];
        let places: Vec<_> =
            titles.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"))).collect();
        assert!(places.is_sorted() && places[0] == 0, "{text}");
        assert_eq!(text.matches("Sleeps of 50 us wake").count(), 1);
        assert!(text.contains("Cost:"), "{text}");
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let painted = page(true);
        assert!(painted.contains("\x1b[1m"));
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
