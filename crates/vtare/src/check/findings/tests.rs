use super::super::figures::ClockFigures;
use super::*;
use crate::counter::{Cause, CounterCell};
use crate::noise::{Causes, NoiseCell};
use crate::timer::TimerCell;
use vtare_units::figures::Figures;

fn spread(median: f64, half_iqr: f64) -> Figures {
    Figures { median: Some(median), half_iqr: Some(half_iqr), max: Some(median * 10.0), ..Figures::default() }
}

fn sleep_cell(method: Method, target_ns: u64, median: f64, half_iqr: f64) -> SleepCell {
    let miss_ns = spread(median, half_iqr);
    SleepCell { method: Some(method), target_ns, miss_ns, cpu_fraction: Some(0.52), ..SleepCell::default() }
}

fn point(duration_ns: i64, median: f64) -> TrustPoint {
    let error_p95 = Figures { n: 10, median: Some(median), half_iqr: Some(0.001), ..Figures::default() };
    TrustPoint { duration_ns, error_p95 }
}

fn noise_cell(lost_fraction: f64, causes: Causes) -> NoiseCell {
    NoiseCell { gap_ns: spread(20_000.0, 1_000.0), lost_fraction: Some(lost_fraction), causes, ..NoiseCell::default() }
}

fn good_host() -> Measured {
    let causes = Causes {
        lost_ns: 1_000_000,
        steal_ns: Some(0),
        other_threads_ns: Some(250_000),
        unattributed_ns: Some(750_000),
        quota_ns: Some(0),
        outside_ns_min: Some(0),
        gaps_from_outside_min: Some(0),
        dominant_cause: Some("unattributed".to_owned()),
        ..Causes::default()
    };
    Measured {
        clock: ClockFigures {
            source: "tsc",
            trusted: true,
            residual_ppm: Some(0.0023),
            read_cost_ns: Some(9.7),
            quantum_ns: Some(10.0),
            ..ClockFigures::default()
        },
        timer: vec![
            TimerCell { source: Some(Source::ClockMonotonic), read_cost_ns: spread(23.7, 0.2), ..TimerCell::default() },
            TimerCell {
                source: Some(Source::ClockMonotonicSyscall),
                read_cost_ns: spread(258.0, 3.0),
                ..TimerCell::default()
            },
        ],
        sleep: vec![
            sleep_cell(Method::Usleep, 50_000, 80_000.0, 5_000.0),
            sleep_cell(Method::Adaptive, 50_000, 100.0, 8.0),
        ],
        counter: vec![CounterCell {
            argument: 1,
            runtime_ns: spread(10_000_000.0, 1_000.0),
            cv: Some(0.0021),
            cv_within: Some(0.0019),
            cv_between: Some(0.0008),
            dominant_cause: Some(Cause::OtherThreads),
            ..CounterCell::default()
        }],
        noise: vec![noise_cell(0.000_125, causes.clone()), noise_cell(0.000_375, causes)],
        trust: Some(Trust {
            level: 0.01,
            points: vec![point(500_000, 0.02), point(1_000_000, 0.008), point(10_000_000, 0.001)],
            least_ns: Some(1_000_000),
            least_by_part_ns: vec![Some(500_000), Some(1_000_000), Some(2_000_000)],
            holds_beyond: true,
            longer: spread(0.000_3, 0.0),
        }),
    }
}

fn resolution(figures: &Measured) -> Option<Resolution> {
    Resolution::of(&super::super::resolution::rows(figures.trust.as_ref()?))
}

fn found(figures: &Measured) -> Vec<Finding> {
    findings(figures, resolution(figures).as_ref())
}

/// The verdict in words, and its colour.
fn shown(figures: &Measured) -> (String, VerdictLevel) {
    let resolution = resolution(figures);
    (verdict(&first_line(resolution.as_ref()), &found(figures)), level(resolution.as_ref()))
}

fn text_of<'f>(found: &'f [Finding], id: &str) -> &'f str {
    &found.iter().find(|finding| finding.id == id).expect(id).text
}

#[test]
fn a_good_host_is_shown_so_in_two_sentences() {
    let figures = good_host();
    let (text, level) = shown(&figures);
    assert_eq!(
        text,
        "GOOD: differences of 1 % are visible in timings of 1 ms and longer. \
         Sleeps of 50 us wake 80.0 us late with usleep (the middle half of them spans 10.0 us) and 100 ns late with \
         vtare's sleep (the middle half of them spans 16.0 ns), which uses 52.0 % of a CPU."
    );
    assert_eq!(level, VerdictLevel::Good);
}

#[test]
fn every_finding_has_its_figure() {
    let figures = good_host();
    let found = found(&figures);
    let figure = |id: &str| found.iter().find(|finding| finding.id == id).map(|finding| (finding.figure, finding.unit));
    assert_eq!(figure("durations"), Some((1_000_000.0, "ns")));
    assert_eq!(figure("error_1ms"), Some((0.008, "1")));
    assert_eq!(figure("sleep_50us"), Some((80_000.0, "ns")));
    assert_eq!(figure("clock"), Some((9.7, "ns")));
    assert_eq!(figure("kernel_clock"), Some((23.7, "ns")));
    assert_eq!(figure("noise"), Some((0.000_25, "1")));
    assert_eq!(figure("steal"), Some((0.0, "1")));
    assert_eq!(figure("work"), Some((0.0021, "1")));
    assert_eq!(figure("sleep_10ms"), None, "it was not measured");
    assert!(text_of(&found, "work").contains("mostly from other threads"));
    assert!(!text_of(&found, "steal").contains("account"), "nothing proves an outside cause");
}

#[test]
fn a_noisy_guest_is_shown_that_no_duration_holds_and_that_steal_is_blind() {
    let mut figures = good_host();
    figures.trust = Some(Trust {
        level: 0.01,
        points: vec![point(1_000_000, 0.052), point(10_000_000, 0.031)],
        least_ns: None,
        least_by_part_ns: vec![None; 10],
        holds_beyond: false,
        longer: spread(0.02, 0.0),
    });
    for cell in &mut figures.noise {
        cell.lost_fraction = Some(0.019);
        cell.causes.gaps_from_outside_min = Some(1_900);
    }
    let found = found(&figures);
    let (text, level) = shown(&figures);
    assert!(text.starts_with("USABLE: differences of 10 % are visible in timings of 1 ms and longer."));
    assert_eq!(level, VerdictLevel::Poor);
    assert!(
        text_of(&found, "steal").contains("At least 3800 gaps")
            && text_of(&found, "steal").contains("account does not show")
    );
    assert!(text_of(&found, "noise").starts_with("A busy loop lost 1.9 % of its time, most of it to interrupts"));
}

#[test]
fn an_untrusted_clock_is_named_with_its_reason() {
    let mut figures = good_host();
    figures.clock = ClockFigures {
        source: "os",
        trusted: false,
        reasons: vec!["the kernel's clock source is hpet.".to_owned(), "second".to_owned()],
        read_cost_ns: Some(612.0),
        ..ClockFigures::default()
    };
    assert_eq!(
        text_of(&found(&figures), "clock"),
        "The CPU's counter is not trusted (the kernel's clock source is hpet), so vtare reads the kernel's clock. One \
         reading costs 612 ns."
    );
}

#[test]
fn a_vdso_that_costs_a_system_call_is_named() {
    let mut figures = good_host();
    figures.timer[0].read_cost_ns = spread(250.0, 1.0);
    let found = found(&figures);
    assert!(text_of(&found, "kernel_clock").contains("cannot be read without a system call"));
}

#[test]
fn a_part_without_figures_gets_no_sentence() {
    let figures = Measured { sleep: good_host().sleep, ..Measured::default() };
    let found = found(&figures);
    let ids: Vec<_> = found.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["sleep_50us"]);
    let (text, level) = shown(&figures);
    assert!(text.starts_with("NOT KNOWN: ") && text.contains("Sleeps of 50 us"), "{text}");
    assert_eq!(level, VerdictLevel::Undecided, "nothing is known of durations");

    let only_own = Measured { sleep: vec![sleep_cell(Method::Adaptive, 50_000, -30.0, 2.0)], ..Measured::default() };
    let found = super::tests::found(&only_own);
    assert!(text_of(&found, "sleep_50us").starts_with("Sleeps of 50 us wake 30.0 ns early with vtare's sleep"));

    assert_eq!(super::tests::found(&Measured::default()), []);
    let (text, level) = shown(&Measured::default());
    assert_eq!(text, "NOT KNOWN: the time that a busy loop loses was not measured.");
    assert_eq!(level, VerdictLevel::Undecided);
}

#[test]
fn steal_that_no_cpu_states_is_not_called_zero() {
    let mut figures = good_host();
    figures.noise[1].causes.steal_ns = None;
    assert!(found(&figures).iter().all(|finding| finding.id != "steal"));
}

#[test]
fn other_work_is_named_only_where_it_took_time_during_the_check() {
    assert!(found(&good_host()).iter().all(|finding| finding.id != "busy"));
    let mut figures = good_host();
    for cell in &mut figures.noise {
        cell.lost_fraction = Some(0.2);
    }
    let found = found(&figures);
    assert_eq!(text_of(&found, "busy"), "The machine was not idle.");
    let busy = found.iter().find(|finding| finding.id == "busy").map(|finding| (finding.figure, finding.unit));
    assert_eq!(busy, Some((0.05, "1")));
}

#[test]
fn no_spread_of_readings_reads_as_an_error_bar_or_as_zero() {
    let of = |half_iqr| middle_half("9 ns".to_owned(), half_iqr, "its readings", time);
    assert_eq!(of(Some(0.0)), "9 ns (the middle half of its readings is within one step of the clock)");
    assert_eq!(of(Some(2.5)), "9 ns (the middle half of its readings spans 5.00 ns)");
    assert_eq!(of(None), "9 ns");
    let shown = found(&good_host()).iter().map(|finding| finding.text.clone()).collect::<String>();
    assert!(!shown.contains("half IQR") && !shown.contains(" 0 ns"), "{shown}");
}
