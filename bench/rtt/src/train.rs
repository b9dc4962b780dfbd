//! How well one-way trains hold their gaps at the sender, and what limits them there.

use std::path::Path;

use vtare_clock::{Clock, ClockOptions};
use vtare_control::{PresharedKey, client};
use vtare_link::socket::{SocketLink, SocketOptions};
use vtare_probe::link::ProbeLink;
use vtare_probe::train::{AvbSession, Bursts, TrainPlan, TrainReport};
use vtare_units::Span;
use vtare_wire::session::{Open, Purpose, WireForm};

use crate::Failed;

/// What is measured.
pub(crate) struct Asked<'a> {
    pub(crate) address: &'a str,
    pub(crate) key: &'a str,
    pub(crate) gap_ns: i64,
    pub(crate) size_byte: u16,
    pub(crate) seconds: f64,
    pub(crate) bursts: Bursts,
}

/// Packets of one train: at most 10 ms of them, so that the responder is never asked for many at once.
fn packets(gap_ns: i64) -> u32 {
    u32::try_from((10_000_000 / gap_ns.max(1)).clamp(50, 2_000)).unwrap_or(2_000)
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
    let train = TrainPlan::even(packets(asked.gap_ns), asked.size_byte, Span::from_nanos(asked.gap_ns))
        .with_bursts(asked.bursts);
    // The first train learns what a send costs.
    session.send_train(&train)?;
    let end = clock.now() + Span::try_from_secs_f64(asked.seconds).ok_or("too many seconds")?;
    let (mut errors, mut all, mut lost, mut moves, mut burst) = (Vec::new(), Sums::default(), 0, 0, 1);
    while clock.now() < end {
        let report = session.send_train(&train)?;
        errors.extend(gap_errors(&report, asked.gap_ns));
        all.add(&report, asked.gap_ns);
        lost += report.lost;
        moves += report.moves.unwrap_or(0);
        burst = report.burst_packet;
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

/// Error of each gap between calls, over the packets of a call.
fn gap_errors(report: &TrainReport, gap_ns: i64) -> Vec<i64> {
    let calls = report.packets.iter().filter_map(|fate| fate.sent.filter(|sent| !sent.joined));
    let times: Vec<i64> = calls.map(|sent| sent.before.as_nanos().cast_signed()).collect();
    let wanted = gap_ns * i64::from(report.burst_packet);
    times.windows(2).map(|pair| pair[1] - pair[0] - wanted).collect()
}

/// What trains were to take, and took.
#[derive(Default)]
struct Sums {
    planned_ns: i64,
    took_ns: i64,
    sent: u64,
}

impl Sums {
    fn add(&mut self, report: &TrainReport, gap_ns: i64) {
        let calls: Vec<_> = report.packets.iter().filter_map(|fate| fate.sent.filter(|sent| !sent.joined)).collect();
        if let (Some(first), Some(last)) = (calls.first(), calls.last()) {
            self.planned_ns += gap_ns * i64::from(report.burst_packet) * (calls.len() as i64 - 1);
            self.took_ns += (last.before - first.before).as_nanos();
        }
        self.sent += report.sent;
    }
}
