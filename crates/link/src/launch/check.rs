use std::net::SocketAddr;

use serde::Serialize;
use vtare_clock::Clock;
use vtare_probe::link::{LinkError, Outgoing, ProbeLink};
use vtare_units::{Monotonic, Span, Timestamp};

use super::Keeper;
use crate::Wait;
use crate::socket::{SocketLink, SocketOptions};

/// Packets of one trial.
const PACKETS: usize = 8;
/// Time between them.
const GAP: Span = Span::from_micros(500);
/// Time from handing them over to the first one's launch, in turn: a busy machine gets more.
const LEADS: [Span; 3] = [Span::from_millis(5), Span::from_millis(50), Span::from_millis(300)];
/// A stamp this much before its launch time is still none of a packet that left early: clocks are read one after
/// another.
const SLACK: Span = Span::from_micros(50);
/// A packet must have been in the kernel for this time before its launch that one that does not wait can be
/// distinguished.
const EARLIEST: Span = Span::from_millis(2);
/// Stamps are awaited for this time after the last launch.
const PATIENCE: Span = Span::from_millis(200);
/// The discard service: whoever listens there throws away what comes.
const PORT: u16 = 9;

/// One packet of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// When the kernel had taken it.
    pub handed: Timestamp<Monotonic>,
    /// When it was to leave.
    pub launch: Timestamp<Monotonic>,
    /// When it left, where that was stamped.
    pub left: Option<Timestamp<Monotonic>>,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// No packet left before its time, though each was there long before it.
    Kept,
    /// Packets left as soon as they were there.
    NotKept,
    /// Nobody stamped departures.
    NoStamps,
    /// The queue dropped them for their time.
    Dropped,
    /// The kernel took them only when their time had come: this machine is too busy.
    TooLate,
}

/// What packets with launch times did on their way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Check {
    /// What follows from it.
    pub judged: Judged,
    /// Packets that were handed over long enough before their time and stamped when they left.
    pub packets: usize,
    /// The least time from a packet's launch time to its departure, ns; negative before it. Null where there is no
    /// packet.
    pub earliest_ns: Option<i64>,
    /// The longest, ns.
    pub latest_ns: Option<i64>,
}

/// Judges packets that may leave up to `early` before their time; `dropped` more were reported as dropped for it.
#[must_use]
pub fn judge(trials: &[Trial], early: Span, dropped: u64) -> Check {
    let long_before = |trial: &&Trial| trial.launch - trial.handed >= EARLIEST + early;
    let told: Vec<i64> =
        trials.iter().filter(long_before).filter_map(|trial| Some((trial.left? - trial.launch).as_nanos())).collect();
    let (earliest_ns, latest_ns) = (told.iter().min().copied(), told.iter().max().copied());
    let judged = match earliest_ns {
        _ if !trials.iter().any(|trial| trial.left.is_some()) && dropped > 0 => Judged::Dropped,
        _ if !trials.iter().any(|trial| trial.left.is_some()) => Judged::NoStamps,
        // One that leaves before its time was not held; being late proves nothing, machines stall.
        Some(earliest) if earliest < -(early + SLACK).as_nanos() => Judged::NotKept,
        Some(_) if told.len() >= trials.len().div_ceil(2) => Judged::Kept,
        _ => Judged::TooLate,
    };
    Check { judged, packets: told.len(), earliest_ns, latest_ns }
}

/// Sends eight small UDP datagrams with launch times to the discard port of `peer`, and records when they leave. Takes
/// 10 ms, on a busy machine up to 2 s.
///
/// # Errors
/// Where no socket can be opened or the kernel refuses launch times.
pub fn check(clock: &Clock, peer: SocketAddr, local: Option<SocketAddr>, keeper: &Keeper) -> Result<Check, LinkError> {
    let mut found = judge(&[], Span::ZERO, 0);
    for lead in LEADS {
        found = attempt(clock, peer, local, keeper, lead)?;
        if matches!(found.judged, Judged::Kept | Judged::NotKept) {
            break;
        }
    }
    Ok(found)
}

fn attempt(
    clock: &Clock,
    mut peer: SocketAddr,
    local: Option<SocketAddr>,
    keeper: &Keeper,
    lead: Span,
) -> Result<Check, LinkError> {
    let options = SocketOptions {
        local,
        wait: Wait::Block,
        rx_stamps: false,
        gso: false,
        launch: Some(keeper.clone()),
        ..SocketOptions::default()
    };
    peer.set_port(PORT);
    let mut link = SocketLink::udp(clock, peer, &options, "a check of launch times")?;
    let refused = link.facts().refusals.iter().find(|refusal| refusal.wanted == "launch_time");
    if let Some(refusal) = refused {
        return Err(LinkError::System {
            doing: "ask for launch times",
            source: std::io::Error::other(refusal.reason.clone()),
        });
    }
    let early = Span::from_unsigned_nanos(keeper.early_ns);
    let first = link.now() + lead + early;
    let launches: [Timestamp<Monotonic>; PACKETS] = std::array::from_fn(|at| first + GAP * at as i64);
    let datagrams: [Outgoing<'_>; PACKETS] =
        std::array::from_fn(|at| Outgoing { sequence: at as u64, payload: &[0], launch: Some(launches[at]) });
    let burst = link.send(&datagrams)?;
    let mut trials: Vec<Trial> =
        launches[..burst.accepted].iter().map(|&launch| Trial { handed: burst.after, launch, left: None }).collect();
    let end = launches[PACKETS - 1] + PATIENCE;
    while trials.iter().any(|trial| trial.left.is_none()) && link.now() < end {
        link.pause(link.now() + GAP * 2)?;
        link.departures(&mut |departure| {
            if let Some(trial) = usize::try_from(departure.sequence).ok().and_then(|at| trials.get_mut(at)) {
                trial.left = Some(departure.stamp.at);
            }
        })?;
    }
    let drops = link.local_drops()?;
    let dropped = drops.launch_missed.unwrap_or(0) + drops.launch_invalid.unwrap_or(0);
    Ok(judge(&trials, early + link.facts().stamp_error(), dropped))
}
