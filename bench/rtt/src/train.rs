//! How well one-way trains hold their gaps at the sender, and what limits them there.

use std::path::Path;

use vtare_clock::{Clock, ClockOptions};
use vtare_control::{PresharedKey, client};
use vtare_link::socket::{SocketLink, SocketOptions};
use vtare_probe::link::ProbeLink;
use vtare_probe::train::{AvbSession, Grouped, most_group};
use vtare_traffic::{Observation, Spacing, Train};
use vtare_units::Span;
use vtare_wire::session::{Open, Purpose, WireForm};

use crate::Failed;

/// What is measured.
pub(crate) struct Asked<'a> {
    pub(crate) address: &'a str,
    pub(crate) key: &'a str,
    pub(crate) gap_ns: u32,
    pub(crate) size_byte: u16,
    pub(crate) seconds: f64,
    /// Packets of one call; 0: as few as keep the gap.
    pub(crate) burst: u32,
}

/// Packets of one train: at most 10 ms of them, so that the responder is never asked for many at once.
fn packets(gap_ns: u32) -> u32 {
    (10_000_000 / gap_ns.max(1)).clamp(50, 2_000)
}

/// Sends trains for the seconds asked for and prints one JSON line.
pub(crate) fn measure(asked: &Asked<'_>) -> Result<(), Failed> {
    let clock = Clock::start(&ClockOptions::default());
    let key = PresharedKey::read(Path::new(asked.key))?;
    let request = Open {
        purpose: Purpose::Avb,
        form: if asked.size_byte < 60 { WireForm::Short } else { WireForm::Full },
        rate_packet_per_s: 1_000_000,
        burst_packet: 4_000,
        duration_ns: 120_000_000_000,
        packets: 100_000_000,
        size_byte: asked.size_byte,
        flows: None,
        ecn: false,
    };
    // Stamps of departures cost a system call each.
    let options = SocketOptions { tx_stamp_every: 0, gro: true, ..SocketOptions::default() };
    let patience = Span::from_secs(5);
    let address = asked.address.parse()?;
    let far = client::open(address, Some(&key), &request, "bench", patience)?;
    let options = SocketOptions { local: Some(far.local_address()), ..options };
    let link = SocketLink::udp(&clock, address, &options, "trains over UDP")?;
    let grant = far.grant().clone();
    let mut session = AvbSession::new(link, far, grant);
    let size_byte = u32::from(asked.size_byte) + session.link().facts().ip_header_byte as u32;
    let train = |burst: u32| {
        let spacing = Spacing::groups(burst, f64::from(asked.gap_ns) * f64::from(burst));
        Train { packets: packets(asked.gap_ns), size_byte, spacing, idle_before_ns: 0 }
    };
    // The first train learns what a send costs. A third of the time is kept free, so that a small delay can be caught
    // up.
    session.send(&train(1), Grouped::Never)?;
    let needed = (session.send_cost().as_nanos_unsigned() * 3 / 2).div_ceil(u64::from(asked.gap_ns.max(1)));
    let burst = if asked.burst == 0 { u32::try_from(needed).unwrap_or(u32::MAX) } else { asked.burst };
    let most = if session.link().facts().capabilities.gso { most_group(asked.size_byte.into()) } else { 1 };
    let burst = burst.clamp(1, most);
    let train = train(burst);
    let end = clock.now() + Span::try_from_secs_f64(asked.seconds).ok_or("too many seconds")?;
    let gap_ns = i64::from(asked.gap_ns) * i64::from(burst);
    let (mut errors, mut all, mut lost, mut moves) = (Vec::new(), Sums::default(), 0, 0);
    while clock.now() < end {
        let seen = session.send(&train, Grouped::Groups)?;
        let calls = calls(&seen);
        errors.extend(calls.windows(2).map(|pair| pair[1] - pair[0] - gap_ns));
        all.add(&calls, gap_ns);
        all.sent += seen.sent();
        lost += seen.sent() - seen.received();
        moves += moved(&seen);
    }
    errors.sort_unstable();
    let at = |share: f64| errors.get(((errors.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0);
    print!(
        r#"{{"median_ns": {}, "half_iqr_ns": {}, "n": {}, "reached": {:.4}, "burst_packet": {burst}, "#,
        at(0.5),
        (at(0.75) - at(0.25)) / 2,
        errors.len(),
        all.planned_ns as f64 / all.took_ns.max(1) as f64,
    );
    println!(
        r#""send_cost_ns": {}, "moves": {moves}, "sent": {}, "lost": {lost}, "gso": {}}}"#,
        session.send_cost().as_nanos(),
        all.sent,
        session.link().facts().capabilities.gso,
    );
    Ok(())
}

/// When each call left, ns.
fn calls(seen: &Observation) -> Vec<i64> {
    let calls = seen.packets.chunk_by(|one, next| one.call == next.call);
    calls.filter_map(|call| Some(call[0].sent?.as_nanos().cast_signed())).collect()
}

/// How often the rest of the train was moved.
fn moved(seen: &Observation) -> usize {
    let shift = |(packet, due): (&vtare_traffic::Packet, f64)| packet.scheduled.as_nanos() - due.round() as u64;
    let shifts: Vec<u64> = seen.packets.iter().zip(seen.train.offsets_ns()).map(shift).collect();
    shifts.windows(2).filter(|pair| pair[1] > pair[0]).count()
}

/// What trains were to take, and took.
#[derive(Default)]
struct Sums {
    planned_ns: i64,
    took_ns: i64,
    sent: usize,
}

impl Sums {
    fn add(&mut self, calls: &[i64], gap_ns: i64) {
        if let (Some(first), Some(last)) = (calls.first(), calls.last()) {
            self.planned_ns += gap_ns * (calls.len() as i64 - 1);
            self.took_ns += last - first;
        }
    }
}
