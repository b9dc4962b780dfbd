//! Runs over a path of known capacity and buffer: connections with a window each, one queue.

use super::*;
use vtare_units::Random;

/// Payload that a connection has in flight at most, bytes.
const WINDOW_BYTE: f64 = 500e3;

struct Path {
    bit_per_s: f64,
    rtt_ns: f64,
    buffer_byte: f64,
    /// Relative deviation of what an interval carries and of each round trip.
    noise: f64,
}

impl Path {
    /// Goodput and round trip with this number of connections.
    fn with(&self, connections: usize) -> (f64, f64) {
        let flight = connections as f64 * WINDOW_BYTE;
        let carried = self.bit_per_s * self.rtt_ns / 8e9;
        let queue = (flight - carried).clamp(0.0, self.buffer_byte);
        (self.bit_per_s.min(flight * 8e9 / self.rtt_ns), self.rtt_ns + queue * 8e9 / self.bit_per_s)
    }

    /// The figures of a run, and the most connections that it had.
    fn measured(&self, settings: RpmSettings) -> RpmFigures {
        let mut random = Random::new(7);
        let mut run = RpmRun::new(settings);
        let mut connections = settings.initial_connections;
        loop {
            let (goodput, rtt_ns) = self.with(connections);
            let mut noisy = |value: f64| value * (1.0 + self.noise * random.normal()).max(0.1);
            let gap_ns = run.pair_gap_ns();
            for _ in 0..settings.interval_ns / gap_ns {
                let mut ns = || noisy(rtt_ns) as u64;
                run.observe(RpmProbe::Foreign { tcp_ns: ns(), tls_ns: ns(), http_ns: ns() });
                run.observe(RpmProbe::OnLoad { http_ns: ns() });
            }
            match run.close_interval(noisy(goodput / 8.0) as u64, settings.interval_ns) {
                RpmStep::Add(added) => connections += added,
                RpmStep::Done => return run.figures(),
            }
        }
    }
}

const SHALLOW: Path = Path { bit_per_s: 50e6, rtt_ns: 20e6, buffer_byte: 60e3, noise: 0.01 };
const DEEP: Path = Path { buffer_byte: 2e6, ..SHALLOW };

#[test]
fn a_shallow_buffer_has_a_high_rpm_and_a_deep_one_a_low_rpm() {
    for (path, connections) in [(SHALLOW, 16), (DEEP, 16)] {
        let found = path.measured(RpmSettings::default());
        let (_, loaded_ns) = path.with(connections);
        let truth = 60e9 / loaded_ns;
        let rpm = found.responsiveness.expect("probes were answered").rpm;
        assert!((rpm / truth - 1.0).abs() < 0.05, "{rpm} beside {truth}");
        assert_eq!((found.confidence, found.goodput_confidence), (Confidence::High, Confidence::High));
        let goodput = found.goodput_bit_per_s.expect("bytes moved");
        assert!((goodput / path.bit_per_s - 1.0).abs() < 0.05, "{goodput}");
    }
}

#[test]
fn connections_are_added_until_the_path_is_full_and_no_more_than_allowed() {
    // A window fills 40 Mbit/s of it: 13 connections are needed.
    let path = Path { bit_per_s: 500e6, rtt_ns: 100e6, buffer_byte: 1e6, noise: 0.0 };
    let settings = RpmSettings { most_ns: 60_000_000_000, ..RpmSettings::default() };
    let found = path.measured(settings);
    assert_eq!((found.connections, found.confidence), (16, Confidence::High));
    assert!((found.goodput_bit_per_s.expect("bytes moved") / 500e6 - 1.0).abs() < 0.05);
}

#[test]
fn what_does_not_settle_ends_in_time_with_less_confidence() {
    let unsteady = Path { noise: 0.5, ..SHALLOW };
    let found = unsteady.measured(RpmSettings { tolerance: 1e-3, ..RpmSettings::default() });
    assert_eq!((found.goodput_confidence, found.confidence), (Confidence::Medium, Confidence::Medium));
    assert!((19.0..=20.0).contains(&found.elapsed_s), "{}", found.elapsed_s);
    let short = SHALLOW.measured(RpmSettings { most_ns: 3_000_000_000, ..RpmSettings::default() });
    assert_eq!((short.goodput_confidence, short.confidence), (Confidence::Low, Confidence::Low));
    assert!(short.responsiveness.is_some());
}

#[test]
fn without_an_answer_on_loaded_connections_there_is_no_rpm() {
    let mut run = RpmRun::new(RpmSettings::default());
    run.observe(RpmProbe::Foreign { tcp_ns: 1, tls_ns: 1, http_ns: 1 });
    assert_eq!(run.close_interval(1_000, 1_000_000_000), RpmStep::Add(1));
    let found = run.figures();
    assert_eq!((found.responsiveness, found.foreign_probes, found.self_probes), (None, 1, 0));
}

#[test]
fn probes_keep_to_their_share_of_the_path_and_to_the_most_in_a_second() {
    let mut run = RpmRun::new(RpmSettings::default());
    assert_eq!(run.pair_gap_ns(), 100_000_000);
    // 2.4 Mbit/s: 5 % are 15 kB/s, two and a half pairs.
    let _ = run.close_interval(300_000, 1_000_000_000);
    assert_eq!(run.pair_gap_ns(), 400_000_000);
    let _ = run.close_interval(100_000_000, 1_000_000_000);
    assert_eq!(run.pair_gap_ns(), 20_000_000);
    let _ = run.close_interval(0, 1_000_000_000);
    assert_eq!(run.pair_gap_ns(), 2_000_000_000);
}
