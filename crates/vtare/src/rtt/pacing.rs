//! What holds packets until they are due: this program, or the kernel's queue (SO_TXTIME). Chosen before a run, and
//! recorded in its result.

use std::net::SocketAddr;

use serde::Serialize;
use vtare_clock::Clock;
use vtare_link::launch::{self, Check, Judged, Keeper};
use vtare_link::rate::Carrier;
use vtare_methods::rtt::Launches;
use vtare_probe::open_loop::Lead;
use vtare_sys::net::{queue, route};

use super::parameters::{self, Parameters};
use crate::failure::Failure;
use crate::table::time;

/// What held packets until they were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Holder {
    /// The sending thread, looking at the clock.
    Spin,
    /// The sending thread, asleep.
    Sleep,
    /// The kernel's queue, by launch times.
    Txtime,
    /// Programs in the kernel.
    KernelProgram,
    /// The reply to the packet before.
    Reply,
}

impl Holder {
    const fn of_program(blocking: bool) -> Self {
        if blocking { Self::Sleep } else { Self::Spin }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Sleep => "sleep",
            Self::Txtime => "txtime",
            Self::KernelProgram => "kernel_program",
            Self::Reply => "reply",
        }
    }
}

/// How packets were held until they were due, in a cell.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct PacingFacts {
    /// What held them.
    holder: Holder,
    /// Why that.
    because: String,
    /// The interface and its queue, where launch times were asked about and something keeps them.
    queue: Option<String>,
    /// What a check of that queue found; null where there was none.
    check: Option<Check>,
    /// How early packets were handed over; null without launch times.
    lead: Option<Lead>,
    /// The least time from a packet's hand-over to its launch, ns; negative where one was handed over late. Null
    /// without launch times.
    handed_ahead_least_ns: Option<i64>,
    /// The longest.
    handed_ahead_most_ns: Option<i64>,
    /// What became of the launch times.
    launches: Option<Launches>,
}

impl PacingFacts {
    fn of(holder: Holder, because: String) -> Self {
        Self {
            holder,
            because,
            queue: None,
            check: None,
            lead: None,
            handed_ahead_least_ns: None,
            handed_ahead_most_ns: None,
            launches: None,
        }
    }

    /// How early packets are handed over; `None` without launch times.
    pub(super) fn lead(&self) -> Option<Lead> {
        self.lead
    }

    /// The program paces after all: one thread sends to all peers, and the queue towards another one keeps no launch
    /// times.
    pub(super) fn without_launch_times(&mut self, blocking: bool) {
        if self.lead.take().is_some() {
            self.holder = Holder::of_program(blocking);
            self.because = "the queue on the way to another peer keeps no launch times".to_owned();
        }
    }

    /// Records the result.
    pub(super) fn take(&mut self, launches: Option<Launches>) {
        self.launches = launches;
    }

    /// Takes down how long packets were in the queue.
    pub(super) fn handed(&mut self, ahead_ns: Option<(i64, i64)>) {
        (self.handed_ahead_least_ns, self.handed_ahead_most_ns) = ahead_ns.unzip();
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let mut line = format!("pacing {}: {}", self.holder.name(), self.because);
        if let Some(launches) = self.launches {
            let earliest = time(launches.earliest_ns.map(|ns| ns as f64));
            line.push_str(&format!(
                "; {} departures stamped, the earliest {earliest} after its time",
                launches.stamped
            ));
            if launches.asked_only > 0 {
                let count = launches.asked_only;
                line.push_str(&format!("; of {count} packets only the launch time asked for is known"));
            }
        }
        line.push('\n');
        line
    }
}

/// What the machine offers of launch times towards a peer.
pub(super) type Offer = Result<(Keeper, Check), String>;

/// Chooses what holds the packets to `peer`; with the keeper of launch times where it is that.
///
/// # Errors
/// [`Failure::Input`] where launch times are asked for and nothing keeps them.
pub(super) fn choose(
    clock: &Clock,
    parameters: &Parameters,
    carrier: Carrier,
    peer: SocketAddr,
    local: Option<SocketAddr>,
) -> Result<(PacingFacts, Option<Keeper>), Failure> {
    decide(parameters, carrier, || offer(clock, peer, local))
}

/// The choice, where `offer` asks the machine.
fn decide(
    parameters: &Parameters,
    carrier: Carrier,
    offer: impl FnOnce() -> Offer,
) -> Result<(PacingFacts, Option<Keeper>), Failure> {
    let plain = |holder, because: &str| Ok((PacingFacts::of(holder, because.to_owned()), None));
    let own = Holder::of_program(parameters.blocking);
    if parameters.flood {
        return plain(Holder::Reply, "a flood sends when the reply to the packet before has come");
    }
    if carrier == Carrier::Programs {
        return plain(Holder::KernelProgram, "the engine's programs in the kernel send on time");
    }
    let asked = match parameters.pacing {
        parameters::Pacing::Txtime => true,
        parameters::Pacing::Program => return plain(own, "asked for with --pacing program"),
        parameters::Pacing::Auto if carrier == Carrier::Frames => {
            return plain(own, "frames of this program's own pass no queue");
        }
        parameters::Pacing::Auto if !parameters.blocking => {
            return plain(own, "a spinning thread is as punctual as the kernel's queue, and knows when it sent");
        }
        parameters::Pacing::Auto if parameters.policy().tx_stamp_every > 1 => {
            return plain(own, "at this rate not every departure is stamped, so a queue's would not be known");
        }
        parameters::Pacing::Auto => false,
    };
    match offer() {
        Ok((keeper, check)) => {
            let gap_ns = (1e9 / parameters.rate()) as u64;
            let because = if asked {
                format!("asked for with --pacing txtime; {} on {} keeps launch times", keeper.queue, keeper.interface)
            } else {
                let (queue, interface) = (&keeper.queue, &keeper.interface);
                format!("{queue} on {interface} keeps launch times, and wake-ups of a sleeping program are late")
            };
            let facts = PacingFacts {
                queue: Some(format!("{} on {}", keeper.queue, keeper.interface)),
                check: Some(check),
                lead: Some(keeper.lead(gap_ns)),
                ..PacingFacts::of(Holder::Txtime, because)
            };
            Ok((facts, Some(keeper)))
        }
        Err(why) if asked => Err(Failure::Input(format!("pacing is txtime, but {why}; or use --pacing program"))),
        Err(why) => plain(own, &format!("nothing on the way out keeps launch times: {why}")),
    }
}

/// What there is on the way to `peer`, and whether it keeps launch times as its name implies.
fn offer(clock: &Clock, peer: SocketAddr, local: Option<SocketAddr>) -> Offer {
    let words = |error: vtare_sys::SysError| error.to_string();
    let index = match peer {
        SocketAddr::V6(peer) if peer.scope_id() != 0 => peer.scope_id(),
        _ => route::interface_to(peer.ip()).map_err(words)?,
    };
    let name = route::link(index).map_err(words)?.name;
    let keeper = launch::keeper(&name, &queue::of_interface(index).map_err(words)?)?;
    let found = launch::check(clock, peer, local, &keeper).map_err(|error| error.to_string())?;
    let queue = &keeper.queue;
    match found.judged {
        Judged::Kept => Ok((keeper, found)),
        Judged::NotKept => {
            let early = time(found.earliest_ns.map(|ns| -ns as f64));
            Err(format!("{name} has the queue discipline {queue}, and a packet left {early} before its launch time"))
        }
        Judged::NoStamps => Err(format!(
            "{name} has the queue discipline {queue}, and its driver stamps no departures, so it cannot be verified \
             that it keeps launch times"
        )),
        Judged::Dropped => Err(format!(
            "{name} has the queue discipline {queue}, which dropped packets for their launch time: a larger delta \
             gives it time to send them"
        )),
        Judged::TooLate => Err(format!(
            "{name} has the queue discipline {queue}, and this machine is too busy to hand packets over before their \
             launch time"
        )),
    }
}

#[cfg(test)]
#[path = "pacing_tests.rs"]
mod tests;
