use std::fmt::Debug;
use std::net::IpAddr;

use vtare_units::{Monotonic, Timestamp};

use super::messages::{Counters, Grant};

/// What another judge knows of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadState {
    /// What it counted.
    pub counters: Counters,
    /// When it met the first valid datagram.
    pub started: Option<Timestamp<Monotonic>>,
    /// When it met the last one.
    pub last_received: Option<Timestamp<Monotonic>>,
}

/// A judge beside [`Table`](super::Table), before the socket: a program in the kernel.
///
/// Two judges with a window each would answer a replay once each. So each session has one: the first to meet a valid
/// datagram of it. The other refuses from then on.
pub trait Offload: Send + Debug {
    /// A session was opened; `burst_packet` packets may come at once. The judge need not take it.
    fn open(&mut self, now: Timestamp<Monotonic>, peer: IpAddr, grant: &Grant, burst_packet: u64);

    /// What it knows of the session of this handle; `None` where it did not take it.
    fn state(&self, handle: u16) -> Option<OffloadState>;

    /// The session's client sent a message on its control connection.
    fn note_control_message(&self, handle: u16, now: Timestamp<Monotonic>);

    /// A valid datagram of the session came to the table: whether the table judges the session, now and from now on.
    fn claim_for_userspace(&self, handle: u16) -> bool;

    /// The session ends; its last counters.
    fn close(&mut self, handle: u16) -> Option<Counters>;
}
