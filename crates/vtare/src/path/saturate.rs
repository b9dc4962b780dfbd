//! `--saturate`: TCP that fills the way up for a time and round trips meanwhile, to compare what the probes found with.

use serde::Serialize;
use vtare_control::streams::{Quota, Streams};
use vtare_control::{PresharedKey, client};
use vtare_methods::avb::{Observation, Train};
use vtare_units::{Monotonic, Span, Timestamp};

use super::parameters::PathParameters;
use crate::avb::probe_path::ProbePath;
use crate::avb::tcp;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::Note;
use crate::peers::{self, PATIENCE, PROGRAM, control_failure};
use crate::sentences::path as words;

/// Those that are tried, one after the other, where the kernel has them.
const CONGESTION: [&str; 2] = ["cubic", "bbr"];
/// Slow start, which is left out of the round trips: as `vtare avb --method tcp` leaves it out.
const SLOW_START: Span = Span::from_secs(1);
/// Packets of full size that show the delay beside it: this number at once, so far apart.
const PACKETS: u32 = 10;
const GAP_NS: f64 = 10e6;

/// What TCP did that filled the way up.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Saturated {
    /// Its congestion control.
    pub(crate) congestion: String,
    /// Time of sending, s.
    pub(crate) seconds: f64,
    /// Bytes that it sent (IP), those sent again among them.
    pub(crate) byte: u64,
    /// Round trip meanwhile: the idle round trip and the median of what packets of another flow were delayed by; null
    /// where that is not known.
    pub(crate) rtt_ns: Option<f64>,
}

/// The path whose idle delay and round trip are known.
pub(super) struct Idle {
    /// Receive stamp less send stamp of the fastest packet up, ns.
    pub(super) least_delay_ns: Option<i64>,
    pub(super) rtt_ns: Option<f64>,
}

/// Fills the way up with each congestion control that there is, for `lasts` each.
pub(super) fn saturate(
    path: &mut ProbePath<'_>,
    parameters: &PathParameters,
    (idle, lasts): (&Idle, Span),
    (context, notes): (&Context, &mut Vec<Note>),
) -> Result<Vec<Saturated>, Failure> {
    let key = peers::key(parameters.key_file.as_deref())?;
    path.set_reverse(false);
    let mut found = Vec::new();
    for congestion in CONGESTION {
        match fill(path, key.as_ref(), congestion, (idle, lasts), context) {
            Ok(one) => found.push(one),
            Err(error) => notes.push(Note::new("not_saturated", words::not_saturated(congestion, error))),
        }
    }
    Ok(found)
}

fn fill(
    path: &mut ProbePath<'_>,
    key: Option<&PresharedKey>,
    congestion: &str,
    (idle, lasts): (&Idle, Span),
    context: &Context,
) -> Result<Saturated, Failure> {
    let open = tcp::request(lasts, 1, None);
    let mut far = client::open(path.address, key, &open, PROGRAM, PATIENCE).map_err(|error| control_failure(&error))?;
    let streams = Streams::open(path.address, far.grant(), Some(congestion), PATIENCE)
        .map_err(|error| tcp::stream_failure(&error))?;
    let quota = Quota::new(open.flows.map_or(0, |plan| plan.byte));
    let from = path.now();
    let size_byte = path.ability.most_packet_byte;
    let train = Train::constant(PACKETS, size_byte, f64::from(size_byte) * 8e9 / GAP_NS);
    let mut added = Vec::new();
    streams
        .send(&quota, |done| {
            while path.now() - from < lasts && !done() && !context.stop_requested() {
                // Where the far end is gone the connections break as well.
                let Ok(seen) = path.send(&train, None) else { return };
                added.extend(delays_ns(&seen, from + SLOW_START, idle.least_delay_ns));
            }
        })
        .map_err(|error| tcp::stream_failure(&error))?;
    let seconds = (path.now() - from).as_secs_f64();
    streams.finish();
    // Until what is under way has arrived: the next one is to find the path idle.
    let _ = tcp::collect(&mut far);
    let accounts = tcp::infos(&streams)?;
    let segment_byte = accounts.iter().map(|info| info.segment_byte).max().unwrap_or(0).max(1);
    let header_byte = tcp::header_byte(path.address, &accounts);
    let account = tcp::Account::of(&accounts, quota.taken(), header_byte, segment_byte);
    let congestion = streams.congestion().to_owned();
    streams.abandon();
    let _ = far.close();
    added.sort_by(f64::total_cmp);
    let median_ns = added.get(added.len() / 2);
    let rtt_ns = idle.rtt_ns.zip(median_ns).map(|(idle_ns, added_ns)| idle_ns + added_ns);
    Ok(Saturated { congestion, seconds, byte: account.ip_byte, rtt_ns })
}

/// What packets that left from `from` on took longer than the fastest on the idle path, ns.
fn delays_ns(seen: &Observation, from: Timestamp<Monotonic>, least_delay_ns: Option<i64>) -> Vec<f64> {
    let delay = |packet: &vtare_methods::avb::Packet| {
        let left = packet.left().filter(|left| *left >= from)?;
        let took_ns = packet.received?.as_nanos().cast_signed() - left.as_nanos().cast_signed();
        Some((took_ns - least_delay_ns?) as f64)
    };
    seen.packets.iter().filter_map(delay).collect()
}
