//! Queue disciplines: what an interface does with packets before it sends them, read and set through rtnetlink.

use libc::{TCA_KIND, TCA_OPTIONS};

use super::configure::change;
use super::netlink::{ask, attribute, attributes, failed, messages, word};
use crate::SysError;

/// Bytes of `struct tcmsg`.
const HEADER: usize = 20;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_ETF_PARMS: u16 = 1;
/// The parent of a queue that hangs on the interface itself (TC_H_ROOT, `linux/pkt_sched.h`).
const ROOT: u32 = u32::MAX;

/// A queue discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its kind, as `noqueue`, `mq`, `fq`.
    pub kind: String,
    /// Its number; the upper 16 bits name it. Queues that the kernel made itself have 0.
    pub handle: u32,
    /// The class of another queue that it hangs on; `None` where it hangs on the interface itself.
    pub parent: Option<u32>,
    /// The options of an `etf`.
    pub etf: Option<EtfOptions>,
    /// The most packets of one socket that an `fq` holds.
    pub flow_limit: Option<u32>,
}

/// The options of an `etf` (`struct tc_etf_qopt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtfOptions {
    /// How long before their launch time packets are given to the card, ns.
    pub delta_ns: i32,
    /// The number of the clock that its launch times are on.
    pub clock_id: i32,
    /// The flags: 1 for deadlines instead of launch times, 2 for a card that keeps the times itself, 4 for packets of
    /// any socket.
    pub flags: u32,
}

impl Queue {
    /// Whether this queue hangs on a class of `other`.
    #[must_use]
    pub fn hangs_on(&self, other: &Self) -> bool {
        self.parent.is_some_and(|parent| parent >> 16 == other.handle >> 16)
    }
}

/// The queue disciplines of interface `index`, for what leaves.
///
/// # Errors
/// Where the kernel refuses the request.
pub fn of_interface(index: u32) -> Result<Vec<Queue>, SysError> {
    let answer = ask(libc::RTM_GETQDISC, libc::NLM_F_DUMP, &[0; HEADER])
        .map_err(failed("ask for queue disciplines (RTM_GETQDISC)".to_owned()))?;
    Ok(queues_of(&answer, index))
}

/// Gives interface number `interface` a queue discipline of its own for all that leaves, instead of what it has.
///
/// # Errors
/// Where the kernel has no such queue discipline, or without CAP_NET_ADMIN.
pub fn give(interface: u32, kind: &str, etf: Option<EtfOptions>) -> Result<(), SysError> {
    let mut body = vec![0; 4];
    for number in [interface, 0, ROOT, 0] {
        body.extend_from_slice(&number.to_ne_bytes());
    }
    attribute(&mut body, TCA_KIND, format!("{kind}\0").as_bytes());
    if let Some(EtfOptions { delta_ns, clock_id, flags }) = etf {
        let parameters = [delta_ns.to_ne_bytes(), clock_id.to_ne_bytes(), flags.to_ne_bytes()].concat();
        let mut options = Vec::new();
        attribute(&mut options, TCA_ETF_PARMS, &parameters);
        attribute(&mut body, TCA_OPTIONS, &options);
    }
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    change(libc::RTM_NEWQDISC, flags, &body, format!("give interface {interface} the queue {kind}"))
}

/// The queue disciplines of interface `index` in an answer of the kernel, which is about all interfaces.
#[must_use]
pub fn queues_of(answer: &[u8], index: u32) -> Vec<Queue> {
    let of_interface = |(kind, body): (u16, &[u8])| {
        let at = |from: usize| body.get(from..from + 4).and_then(word);
        if kind != libc::RTM_NEWQDISC || at(4)? != index {
            return None;
        }
        let (handle, parent) = (at(8)?, at(12)?);
        let mut queue = Queue { kind: String::new(), handle, parent: None, etf: None, flow_limit: None };
        // What takes arrivals hangs one below the root's number.
        if parent == ROOT - 0xe {
            return None;
        }
        queue.parent = (parent != ROOT).then_some(parent);
        let mut options: &[u8] = &[];
        for (kind, value) in attributes(body, HEADER) {
            match kind {
                TCA_KIND => queue.kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
                TCA_OPTIONS => options = value,
                _ => {}
            }
        }
        match queue.kind.as_str() {
            "fq" => queue.flow_limit = first(options, TCA_FQ_FLOW_PLIMIT).and_then(word),
            "etf" => queue.etf = first(options, TCA_ETF_PARMS).and_then(etf_of),
            "" => return None,
            _ => {}
        }
        Some(queue)
    };
    messages(answer).filter_map(of_interface).collect()
}

fn first(options: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(options, 0).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn etf_of(value: &[u8]) -> Option<EtfOptions> {
    let at = |from: usize| value.get(from..from + 4).and_then(word);
    Some(EtfOptions { delta_ns: at(0)?.cast_signed(), clock_id: at(4)?.cast_signed(), flags: at(8)? })
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
