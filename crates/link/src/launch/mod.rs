//! Launch times: packets that are handed to the kernel early, each with the time at which it leaves (SO_TXTIME).
//!
//! A kernel takes such times on every socket and drops them in silence where no queue discipline on the way keeps them.
//! So two questions are asked before they are relied on: does the interface's queue keep them by its kind ([`keeper`]),
//! and does it in truth ([`check`])?

mod check;

pub use check::{Check, Judged, Trial, check, judge};
use vtare_probe::open_loop::Lead;
use vtare_sys::net::LaunchClock;
use vtare_sys::net::queue::Queue;

/// What keeps the launch times of packets on their way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// The interface.
    pub interface: String,
    /// The kind of its queue discipline: `fq` or `etf`; `mq` before it where each of the card's queues has one.
    pub queue: String,
    /// The clock that it reads launch times on.
    pub clock: LaunchClock,
    /// Added to the time at which a packet shall leave, ns, to get its launch time: an `etf` without help of the
    /// card lets a packet go in the `delta` before its time, and drops it after that.
    pub shift_ns: u64,
    /// It gives packets away this long before their time, ns: to a card that keeps the time itself.
    pub early_ns: u64,
    /// Packets of one socket that it holds at most, as far as it reports.
    pub room: Option<u32>,
    /// Whether it drops a packet whose time has passed; else such a packet leaves at once.
    pub drops_late: bool,
}

/// Most packets that are under way in the queue: `fq` holds 100 of one socket unless configured otherwise, and drops
/// what is beyond.
const MOST_AHEAD: u64 = 48;
/// Longest time that a packet is handed over before its launch, ns.
const LONGEST_AHEAD_NS: u64 = 20_000_000;
/// `etf` drops what comes too late: a packet that is late already is launched this long after it is handed over, ns.
const LATE_BY_NS: u64 = 500_000;

impl Keeper {
    /// How early packets with this gap are handed over: not more than the queue has room for, and far less than it
    /// would drop.
    #[must_use]
    pub fn lead(&self, gap_ns: u64) -> Lead {
        let packets = self.room.map_or(MOST_AHEAD, |room| u64::from(room / 2).clamp(1, MOST_AHEAD));
        let ahead_ns = gap_ns.saturating_mul(packets).clamp(1, LONGEST_AHEAD_NS);
        let least_ns = if self.drops_late { (self.early_ns + LATE_BY_NS).saturating_sub(self.shift_ns) } else { 0 };
        Lead { ahead_ns: ahead_ns.max(2 * least_ns), least_ns }
    }
}

/// What keeps launch times among the queues of `interface`.
///
/// # Errors
/// Where nothing does: what was found and what is needed, as text.
pub fn keeper(interface: &str, queues: &[Queue]) -> Result<Keeper, String> {
    let wanted = format!("use fq or etf: tc qdisc replace dev {interface} root fq");
    let Some(root) = queues.iter().find(|queue| queue.parent.is_none()) else {
        return Err(format!("{interface} has no queue discipline: {wanted}"));
    };
    if root.kind != "mq" {
        return of_kind(interface, root, &root.kind)
            .unwrap_or_else(|| Err(format!("{interface} has the queue discipline {}: {wanted}", root.kind)));
    }
    let children: Vec<&Queue> = queues.iter().filter(|queue| queue.hangs_on(root)).collect();
    let mut kinds: Vec<&str> = children.iter().map(|child| child.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // Any of the card's queues may carry the packets.
    let found = match (kinds.as_slice(), children.first()) {
        ([kind], Some(first)) => of_kind(interface, first, &format!("mq with {kind}")),
        _ => None,
    };
    let names = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
    found.unwrap_or_else(|| Err(format!("{interface} has the queue discipline mq with {names}: {wanted}")))
}

/// The keeper that `queue` is; `None` for a kind that keeps no launch times.
fn of_kind(interface: &str, queue: &Queue, name: &str) -> Option<Result<Keeper, String>> {
    let keeper = |clock, (shift_ns, early_ns), drops_late| Keeper {
        interface: interface.to_owned(),
        queue: name.to_owned(),
        clock,
        shift_ns,
        early_ns,
        room: queue.flow_limit,
        drops_late,
    };
    match (queue.kind.as_str(), queue.etf) {
        ("fq", _) => Some(Ok(keeper(LaunchClock::Monotonic, (0, 0), false))),
        ("etf", Some(etf)) => {
            let delta_ns = u64::try_from(etf.delta_ns).unwrap_or(0);
            let by_card = etf.flags & 2 != 0;
            Some(match LaunchClock::of(etf.clock_id) {
                _ if delta_ns == 0 && !by_card => {
                    Err(format!("{interface} has an etf without delta, which drops every packet: give it delta 500000"))
                }
                _ if etf.flags & 1 != 0 => {
                    Err(format!("{interface} has an etf with deadlines: use one with launch times (no deadline_mode)"))
                }
                Some(clock) => Ok(keeper(clock, if by_card { (0, delta_ns) } else { (delta_ns, 0) }, true)),
                None => Err(format!("{interface} has an etf on clock {}: use CLOCK_TAI", etf.clock_id)),
            })
        }
        ("etf", None) => Some(Err(format!("{interface} has an etf that does not report its clock"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
