use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use vtare_clock::{Clock, ClockOptions};
use vtare_pathsim::Source;
use vtare_units::Random;

use super::*;
use crate::LoadError;

fn options(arrivals: Arrivals) -> SenderOptions {
    SenderOptions {
        to: (Ipv4Addr::LOCALHOST, 9).into(),
        rate_bit_per_s: 120_000_000,
        size_byte: 1_472,
        arrivals,
        seed: 1,
        limit: None,
        tolerance: Span::from_micros(1),
        catch_up: Span::from_millis(1),
        segments: true,
        cpu: None,
        bin: Span::from_millis(1),
    }
}

/// Times of the first packets, ns.
fn times(options: &SenderOptions, seed: u64, count: usize) -> Vec<u64> {
    let mut source = Source::new(&options.traffic().expect("right"), Random::part(seed, 0));
    (0..count).map_while(|_| source.take_until(u64::MAX)).map(|(at, _)| at).collect()
}

#[test]
fn constant_packets_are_evenly_spaced() {
    // 1500 B at 120 Mbit/s: 100 us.
    let found = times(&options(Arrivals::Constant), 1, 5);
    assert_eq!(found, [0, 100_000, 200_000, 300_000, 400_000]);
}

#[test]
fn poisson_gaps_are_exponential() {
    const N: usize = 20_000;
    for seed in 0..10 {
        let found = times(&options(Arrivals::Poisson), seed, N);
        let mut gaps: Vec<f64> = found.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        // Kolmogorov's distance from the exponential distribution of mean 100 us; 1.95 / sqrt(n) is passed once in a
        // thousand.
        let apart = gaps.iter().enumerate().map(|(rank, gap)| {
            let wanted = 1.0 - (-gap / 100_000.0).exp();
            (wanted - rank as f64 / n).abs().max(((rank + 1) as f64 / n - wanted).abs())
        });
        let farthest = apart.fold(0.0, f64::max);
        assert!(farthest < 1.95 / n.sqrt(), "seed {seed}: {farthest}");
        // Independent: neighbours do not correlate.
        let plain: Vec<f64> = found.windows(2).map(|pair| (pair[1] - pair[0]) as f64 - 100_000.0).collect();
        let together: f64 = plain.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / n / 1e10;
        assert!(together.abs() < 4.0 / n.sqrt(), "seed {seed}: {together}");
    }
}

#[test]
fn on_off_bursts_run_at_the_peak_and_keep_the_mean() {
    let arrivals = Arrivals::Onoff { peak_bit_per_s: 480_000_000, burst_ns: 5_000_000, shape: 3.0 };
    let found = times(&options(arrivals), 3, 200_000);
    let inside = found.windows(2).filter(|pair| pair[1] - pair[0] == 25_000).count();
    assert!(inside as f64 > 0.98 * found.len() as f64, "{inside}: packets of a burst are 25 us apart");
    let span = (found[found.len() - 1] - found[0]) as f64 / 1e9;
    let rate = found.len() as f64 * 12_000.0 / span;
    assert!((rate / 120e6 - 1.0).abs() < 0.1, "{rate}");
}

#[test]
fn traffic_that_cannot_be_is_refused() {
    let onoff = |peak_bit_per_s, shape| Arrivals::Onoff { peak_bit_per_s, burst_ns: 1_000_000, shape };
    assert!(options(onoff(120_000_000, 1.5)).traffic().expect_err("no peak").to_string().contains("below the peak"));
    assert!(options(onoff(200_000_000, 1.0)).traffic().expect_err("no mean").to_string().contains("more than 1"));
}

/// A port of this host that nobody has at the moment.
fn free_port() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    socket.local_addr().expect("it has one")
}

#[test]
fn the_sink_counts_every_byte_that_was_sent() {
    let clock = Clock::start(&ClockOptions::fast());
    for (arrivals, segments) in [(Arrivals::Constant, true), (Arrivals::Poisson, false)] {
        let at = free_port();
        let (stop, (ready, is_ready)) = (AtomicBool::new(false), channel());
        let (sent, counted) = thread::scope(|scope| {
            let sink = scope.spawn(|| {
                let mut bins = Vec::new();
                let options = SinkOptions { at, limit: None, cpu: None, bin: Span::from_micros(500) };
                let tell = || ready.send(()).expect("somebody waits");
                let report = count(&clock, &options, &stop, tell, &mut |bin| bins.push(bin)).expect("it counts");
                (report.net.expect("a net load"), bins)
            });
            is_ready.recv().expect("the sink gets ready");
            let mut bins = Vec::new();
            let limit = Some(Span::from_millis(100));
            // Skipping would not make the counts differ; but all of it is wanted here.
            let wish = SenderOptions { to: at, limit, segments, catch_up: Span::from_secs(1), ..options(arrivals) };
            let report =
                send(&clock, &wish, &AtomicBool::new(false), || {}, &mut |bin| bins.push(bin)).expect("it sends");
            stop.store(true, Ordering::Relaxed);
            ((report, bins), sink.join().expect("the sink ends"))
        });
        let ((report, sent_bins), (sink, sink_bins)) = (sent, counted);
        assert_eq!((report.kind, report.threads), ("net", 1));
        let net = report.net.expect("a net load");
        let sender = net.sender.clone().expect("a sender");
        assert_eq!((sender.skipped, sender.refused, sender.unreachable), (0, 0, 0));
        // One at 0, then one each 100 us up to the end, which comes before the one that would be due there.
        assert!(arrivals == Arrivals::Poisson || net.packets == 1_000, "{net:?}");
        assert!(net.packets > 700 && report.operations == net.packets);
        assert_eq!(net.ip_byte, net.packets * 1_500);
        if sink.sink.expect("a sink").socket_drops != Some(0) {
            // A small buffer (not root) and a pause of the machine; a large send that is dropped counts once.
            eprintln!("skipped: the sink's buffer was full: {sink:?}");
            continue;
        }
        assert_eq!((sink.packets, sink.ip_byte), (net.packets, net.ip_byte));
        let sum =
            |bins: &[NetBin]| (bins.iter().map(|bin| bin.packets).sum(), bins.iter().map(|bin| bin.ip_byte).sum());
        assert_eq!((sum(&sent_bins), sum(&sink_bins)), ((net.packets, net.ip_byte), (net.packets, net.ip_byte)));
        let is_whole =
            |bins: &[NetBin], step| bins.windows(2).all(|pair| pair[1].monotonic_ns - pair[0].monotonic_ns == step);
        assert!(is_whole(&sent_bins, 1_000_000) && is_whole(&sink_bins, 500_000));
    }
}

#[test]
fn a_packet_that_the_path_does_not_carry_is_refused_with_what_fits() {
    let clock = Clock::start(&ClockOptions::fast());
    let wish = SenderOptions { size_byte: 65_535, ..options(Arrivals::Constant) };
    let error = send(&clock, &wish, &AtomicBool::new(false), || {}, &mut |_| {}).expect_err("too large for any path");
    assert!(matches!(error, LoadError::Size { found: 65_535, .. }), "{error}");
    assert!(error.to_string().contains("--size"), "{error}");
}

#[test]
fn a_sink_on_an_address_that_is_not_here_states_so() {
    let clock = Clock::start(&ClockOptions::fast());
    let at = "192.0.2.1:5000".parse().expect("an address");
    let options = SinkOptions { at, limit: None, cpu: None, bin: Span::from_millis(1) };
    let error = count(&clock, &options, &AtomicBool::new(true), || {}, &mut |_| {}).expect_err("not of this host");
    assert!(error.to_string().contains("192.0.2.1:5000"), "{error}");
}
