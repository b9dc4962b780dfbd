//! Paths drawn at random, so that nothing can be tuned on them.

use vtare_pathsim::{EndSpec, HopSpec, LossModel, Noise, PathSpec, Pause, PeerClock, Traffic};
use vtare_probe::sim::{SenderSpec, TrainSpec};
use vtare_units::Random;

/// Sizes of cross-traffic packets, bytes of IP.
const SIZES: [u32; 5] = [100, 300, 576, 1000, 1500];

/// From here on a token bucket is deep, s of its rate, and the deepest: one in three is.
const DEEP_S: f64 = 2e-3;
const DEEPEST_S: f64 = 2e-2;

/// Largest probe packet, bytes of IP.
pub(crate) const PROBE_BYTE: u32 = 1500;

/// What paths are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Links of any rate, with room for all.
    Any,
    /// Token buckets.
    Shaped,
    /// Links whose buffers hold 10 to 200 packets.
    Shallow,
    /// Policers.
    Policed,
    /// Each of these in turn.
    Mixed,
}

impl Family {
    /// Paths of it have one link to this many.
    pub(crate) const fn most_links(self) -> usize {
        match self {
            Self::Any | Self::Mixed => 4,
            Self::Shaped | Self::Shallow => 2,
            Self::Policed => 1,
        }
    }

    /// The path of a seed, with this number of links.
    pub(crate) fn draw(self, links: usize, seed: u64) -> TrainSpec {
        match self {
            Self::Any => draw(links, seed),
            Self::Shaped => draw_shaped(links, seed),
            Self::Shallow => draw_shallow(links, seed),
            Self::Policed => draw_policed(seed),
            Self::Mixed => {
                let of = [Self::Any, Self::Shaped, Self::Shallow, Self::Policed][(seed / 4 % 4) as usize];
                of.draw(links.min(of.most_links()), seed)
            }
        }
    }
}

/// A path as of [`draw`], of 20 Mbit/s to 10 Gbit/s and with loads of 0 to 80 %, whose buffers hold 10 to 200 packets,
/// as those of switches do.
fn draw_shallow(links: usize, seed: u64) -> TrainSpec {
    let random = &mut Random::part(seed, 3);
    let base = log_uniform(random, 2e7, 1e10);
    let room_byte = (log_uniform(random, 10.0, 200.0) * f64::from(PROBE_BYTE)) as u64;
    let hops = (0..links).map(|link| {
        let like = if link == 0 { 1.0 } else { uniform(random, 0.8, 4.0) };
        let capacity = base * like;
        let hop = HopSpec::new(capacity as u64, room_byte, log_uniform(random, 2e4, 1e7) as u64);
        let cross = capacity * uniform(random, 0.05, 0.8);
        match (random.unit() * 4.0) as u32 {
            0 => hop,
            1 => hop.with_cross(constant(random, cross)),
            _ => hop.with_cross(poisson(random, cross)),
        }
    });
    let hops = hops.collect::<Vec<_>>();
    let slowest = hops.iter().map(|hop| hop.capacity_bit_per_s).min().unwrap_or(0) as f64;
    let answer_ns = hops.iter().map(|hop| hop.delay_ns).sum::<u64>() + 50_000;
    let sender = sender(random, slowest);
    TrainSpec { path: PathSpec { hops, ..PathSpec::default() }, sender, answer_ns, seed, ..TrainSpec::default() }
}

/// The path of a seed, with this number of links: 8 Mbit/s to 20 Gbit/s, loads of 0 to 95 %, traffic of four kinds, and
/// hosts with up to six faults.
fn draw(links: usize, seed: u64) -> TrainSpec {
    let random = &mut Random::part(seed, 1);
    let base = log_uniform(random, 8e6, 2e10);
    let hops = (0..links).map(|link| hop(random, base, link == 0)).collect::<Vec<_>>();
    let slowest = hops.iter().map(|hop| hop.capacity_bit_per_s).min().unwrap_or(0) as f64;
    let back_ns: u64 = hops.iter().map(|hop| hop.delay_ns).sum();
    TrainSpec {
        path: PathSpec { hops, ..PathSpec::default() },
        sender: sender(random, slowest),
        receiver: EndSpec {
            coalesce_ns: if one_in(random, 6) { log_uniform(random, 1e4, 1e5) as u64 } else { 0 },
            ..EndSpec::default()
        },
        receiver_stalls: if one_in(random, 8) { pauses(random) } else { Vec::new() },
        receiver_clock: PeerClock {
            offset_ns: 10_000_000_000_000,
            skew_ppb: if one_in(random, 3) { uniform(random, -1e5, 1e5) as i64 } else { 0 },
        },
        answer_ns: back_ns + 50_000,
        seed,
        ..TrainSpec::default()
    }
}

/// A path like the real ones of `bench/avb/real --random`: one link or two of 10 Mbit/s to 1 Gbit/s, each a token
/// bucket, traffic at the last one or at both, and a sender whose calls take as long as a machine's.
fn draw_shaped(links: usize, seed: u64) -> TrainSpec {
    let random = &mut Random::part(seed, 2);
    // Apart, so that paths without a deep bucket are as they were drawn before there were deep ones.
    let depths = &mut Random::part(seed, 4);
    let base = log_uniform(random, 1e7, 1e9);
    let mut rates = vec![base];
    if links > 1 {
        let other = if one_in(random, 2) { uniform(random, 1.0, 1.2) } else { uniform(random, 1.5, 4.0) };
        rates.insert(0, (if one_in(random, 2) { base * other } else { base / other }).clamp(1e7, 1e9));
    }
    let narrow = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let cross = (uniform(random, 0.1, 0.85) * narrow).min(5e8);
    let (kind, through) = ((random.unit() * 4.0) as u32, one_in(random, 2));
    let last = rates.len() - 1;
    let hops = rates.iter().enumerate().map(|(place, &rate)| {
        let depth_s =
            if one_in(depths, 3) { log_uniform(depths, DEEP_S, DEEPEST_S) } else { log_uniform(random, 1e-5, DEEP_S) };
        let hop = HopSpec {
            bucket_byte: (depth_s * rate / 8.0).max(1514.0) as u64,
            ..HopSpec::new(rate as u64, (rate / 80.0) as u64 + 30_000, 20_000)
        };
        match kind {
            _ if place < last && !through => hop,
            0 => hop,
            1 => hop.with_cross(Traffic::Constant { rate_bit_per_s: cross as u64, size_byte: 1500 }),
            2 => hop.with_cross(Traffic::ParetoOnOff {
                rate_bit_per_s: cross as u64,
                peak_bit_per_s: (2.0 * cross) as u64,
                size_byte: 1500,
                on_ns: 1_000_000,
                shape: 1.5,
            }),
            _ => hop.with_cross(Traffic::Poisson { rate_bit_per_s: cross as u64, size_byte: 1500 }),
        }
    });
    let path = PathSpec { hops: hops.collect(), ..PathSpec::default() };
    TrainSpec { path, sender: slow_sender(random), answer_ns: 100_000, seed, ..TrainSpec::default() }
}

/// A link that is a policer of 10 Mbit/s to 1 Gbit/s and 10 us to 20 ms (at least four packets), with loads of 10 to
/// 85 % or none, and a sender as of [`draw_shaped`].
fn draw_policed(seed: u64) -> TrainSpec {
    let random = &mut Random::part(seed, 4);
    let rate = log_uniform(random, 1e7, 1e9);
    let bucket_byte = (log_uniform(random, 1e-5, 2e-2) * rate / 8.0).max(4.0 * f64::from(PROBE_BYTE)) as u64;
    let hop = HopSpec { bucket_byte, polices: true, ..HopSpec::new(rate as u64, 100_000, 20_000) };
    let cross = (uniform(random, 0.1, 0.85) * rate).min(5e8);
    let hop = match (random.unit() * 4.0) as u32 {
        0 => hop,
        1 => hop.with_cross(constant(random, cross)),
        2 => hop.with_cross(poisson(random, cross)),
        _ => on_off(random, hop, cross),
    };
    let path = PathSpec { hops: vec![hop], ..PathSpec::default() };
    TrainSpec { path, sender: slow_sender(random), answer_ns: 100_000, seed, ..TrainSpec::default() }
}

/// A sender whose calls take as long as a machine's.
fn slow_sender(random: &mut Random) -> SenderSpec {
    let call_ns = log_uniform(random, 8e3, 2.5e4);
    let late_ns = (0..1009).map(|_| random.exponential(0.05 * call_ns).min(2e4) as u32).collect();
    let noise = Noise { late_ns, ..Noise::default() };
    SenderSpec { call_ns, large_sends: true, line_bit_per_s: Some(1e10), noise, ..SenderSpec::default() }
}

/// Whether a token bucket of the path is deep.
pub(crate) fn is_deep(spec: &TrainSpec) -> bool {
    let deep = |hop: &HopSpec| hop.bucket_byte as f64 * 8.0 > DEEP_S * hop.capacity_bit_per_s as f64;
    spec.path.hops.iter().any(deep)
}

/// Time for which the path runs before the measurement, ns: 2000 packets of its slowest link, at least 20 ms.
pub(crate) fn warm_ns(spec: &TrainSpec) -> u64 {
    let slowest = spec.path.hops.iter().map(|hop| hop.capacity_bit_per_s).min().unwrap_or(1);
    (2_000 * u64::from(PROBE_BYTE) * 8_000_000_000 / slowest.max(1)).max(20_000_000)
}

/// What is special about a path, in a line.
pub(crate) fn label(spec: &TrainSpec) -> String {
    let traffic = |hop: &HopSpec| match hop.cross.iter().map(|it| &it.traffic).collect::<Vec<_>>()[..] {
        [] => "idle",
        [Traffic::Constant { .. }] => "constant",
        [Traffic::Poisson { .. }] => "poisson",
        [Traffic::Constant { .. }, Traffic::Poisson { .. }, ..] => "mixed",
        _ => "on-off",
    };
    let hops = spec.path.hops.iter().map(|hop| {
        let free = hop.available_at(0) as f64;
        format!(
            "{:.1}M {:.0}% {}{}",
            hop.capacity_bit_per_s as f64 / 1e6,
            100.0 - 100.0 * free / hop.capacity_bit_per_s as f64,
            traffic(hop),
            if hop.bucket_byte > 0 { format!(" bucket of {} B", hop.bucket_byte) } else { String::new() }
        )
    });
    let hosts = [
        (spec.sender.large_sends, format!("calls of {:.0} us", spec.sender.call_ns / 1e3)),
        (!spec.sender.noise.late_ns.is_empty(), "late".to_owned()),
        (!spec.sender.stamps, "no stamps".to_owned()),
        (!spec.sender.noise.pauses.is_empty(), "pauses".to_owned()),
        (spec.receiver.coalesce_ns > 0, format!("coalesced {} us", spec.receiver.coalesce_ns / 1_000)),
        (!spec.receiver_stalls.is_empty(), "stalls".to_owned()),
        (spec.path.hops.iter().any(|hop| hop.loss != LossModel::None), "loss".to_owned()),
    ];
    let hosts = hosts.into_iter().filter(|it| it.0).map(|it| it.1);
    hops.chain(hosts).collect::<Vec<_>>().join(", ")
}

fn uniform(random: &mut Random, low: f64, high: f64) -> f64 {
    low + (high - low) * random.unit()
}

fn log_uniform(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.unit())
}

fn one_in(random: &mut Random, count: u32) -> bool {
    random.unit() * f64::from(count) < 1.0
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[((random.unit() * from.len() as f64) as usize).min(from.len() - 1)]
}

/// A link: one in two within 20 % of the others, the rest up to ten times as fast.
fn hop(random: &mut Random, base: f64, first: bool) -> HopSpec {
    let like = if first {
        1.0
    } else if one_in(random, 2) {
        uniform(random, 0.8, 1.2)
    } else {
        log_uniform(random, 1.2, 10.0)
    };
    let capacity = (base * like) as u64;
    let load = if one_in(random, 10) { 0.0 } else { uniform(random, 0.0, 0.95) };
    // Half a second of room: cross traffic alone overflows nothing.
    let mut hop = HopSpec::new(capacity, (capacity / 16).max(100_000), log_uniform(random, 2e4, 1e7) as u64);
    if one_in(random, 12) {
        hop.loss = LossModel::Random { probability: log_uniform(random, 5e-4, 1e-2) };
    }
    let cross = capacity as f64 * load;
    if cross < 1e4 {
        return hop;
    }
    match (random.unit() * 4.0) as u32 {
        0 => hop.with_cross(constant(random, cross)),
        1 => hop.with_cross(poisson(random, cross)),
        2 => on_off(random, hop, cross),
        _ => {
            let (a, b) = (uniform(random, 0.1, 0.45), uniform(random, 0.1, 0.45));
            let hop = hop.with_cross(constant(random, cross * a)).with_cross(poisson(random, cross * b));
            on_off(random, hop, cross * (1.0 - a - b))
        }
    }
}

fn constant(random: &mut Random, rate: f64) -> Traffic {
    Traffic::Constant { rate_bit_per_s: rate as u64, size_byte: pick(random, &SIZES) }
}

fn poisson(random: &mut Random, rate: f64) -> Traffic {
    Traffic::Poisson { rate_bit_per_s: rate as u64, size_byte: pick(random, &SIZES) }
}

/// One to eight sources with 5 to 50 packets in a burst; their peaks are 1.2 to 10 times the mean, at most the link.
fn on_off(random: &mut Random, hop: HopSpec, rate: f64) -> HopSpec {
    let sources = 1 + (random.unit() * 8.0) as u32;
    let mean = rate / f64::from(sources);
    let peak = (mean * log_uniform(random, 1.2, 10.0)).min(hop.capacity_bit_per_s as f64).max(1.05 * mean);
    let size_byte = pick(random, &SIZES);
    let on_ns = log_uniform(random, 5.0, 50.0) * f64::from(size_byte) * 8e9 / peak;
    let shape = uniform(random, 1.3, 1.9);
    (0..sources).fold(hop, |hop, _| {
        hop.with_cross(Traffic::ParetoOnOff {
            rate_bit_per_s: mean as u64,
            peak_bit_per_s: peak as u64,
            size_byte,
            on_ns: on_ns as u64,
            shape,
        })
    })
}

/// A sender that is fast enough for the slowest link: single calls, or many packets a call.
fn sender(random: &mut Random, slowest: f64) -> SenderSpec {
    let packet_ns = f64::from(PROBE_BYTE) * 8e9 / slowest;
    let call_ns = log_uniform(random, 800.0, 2e4);
    let large_sends = call_ns > packet_ns / 3.0;
    let mut noise = Noise::default();
    if one_in(random, 3) {
        let mean = log_uniform(random, 3e2, 3e3);
        noise.late_ns = (0..1009).map(|_| random.exponential(mean).min(2e4) as u32).collect();
    }
    if one_in(random, 8) {
        noise.pauses = pauses(random);
    }
    SenderSpec {
        call_ns,
        large_sends,
        line_bit_per_s: Some((slowest * log_uniform(random, 1.5, 20.0)).max(1e9)),
        stamps: !one_in(random, 4),
        noise,
    }
}

/// Pauses of 0.5 to 5 ms, 100 ms apart in the mean.
fn pauses(random: &mut Random) -> Vec<Pause> {
    let mut at = 0.0;
    let times = (0..100).map(|_| {
        at += 5e6 + random.exponential(95e6);
        Pause { at_ns: at as u64, span_ns: log_uniform(random, 5e5, 5e6) as u64 }
    });
    times.collect()
}
