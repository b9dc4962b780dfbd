//! The thread that sends trains to clients that asked for them and have paid for them with what they sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use vtare_probe::link::Burst;
use vtare_probe::train::pacing::{Calls, Outlet, pace};
use vtare_probe::train::{Behind, MOST_IN_BURST, most_group};
use vtare_sys::net::control::SendControl;
use vtare_sys::net::{Message, SendBatch, Socket};
use vtare_sys::{clocks, sched};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::{ReverseOrder, Table};
use vtare_wire::{ECN_CAPABLE, LARGEST_BYTE, full};

use crate::probe_socket::on_the_wire;

/// The time before a packet is due that is spun away; longer waits sleep.
const SPIN: Span = Span::from_millis(1);

/// A train back leaves on time even where others want the CPU: as the sender of trains there, before all of ordinary
/// priority, where it may.
const NICE: i32 = -19;

/// A train to be sent, and the address to send it from; `None` leaves that to the kernel.
pub(super) type Order = (ReverseOrder, Option<IpAddr>);

/// Sends trains, one after the other, until `ended`. Each is of a bounded length, and a session has one at a time, so
/// what waits is bounded by the number of sessions.
pub(super) fn send_trains(
    socket: &Socket,
    table: &Mutex<Table>,
    orders: &Receiver<Order>,
    segments: bool,
    ended: &dyn Fn() -> bool,
) {
    // Without the right to it the thread keeps its priority: delays by others are seen in the send times.
    let _ = sched::set_nice(NICE);
    let segments = segments && socket.probe_segmentation().is_ok();
    let mut bytes = vec![0; MOST_IN_BURST * LARGEST_BYTE];
    let mut batch = SendBatch::new(1);
    // The thread that gives orders ends with all others, and its end ends the wait.
    while let Ok((order, source)) = orders.recv() {
        if ended() {
            return;
        }
        // Its client may have gone while the order waited.
        if !table.lock().unwrap_or_else(PoisonError::into_inner).is_open(order.session) {
            continue;
        }
        let plan = &order.plan;
        let due: Vec<Span> = plan.spacing.due(plan.packets).collect();
        let fits = most_group(plan.size_byte.into()) as usize;
        let most = if segments { usize::from(plan.burst_packet).clamp(1, fits) } else { 1 };
        // A spacing that defines what leaves together is not to be cut otherwise.
        let calls = if plan.spacing.is_grouped() { Calls::Together(most) } else { Calls::Of(most) };
        let mut outlet = Back { socket, order: &order, source, bytes: &mut bytes, batch: &mut batch };
        let behind = if plan.spacing.keeps_a_queue() { Behind::CaughtUp } else { Behind::Moved };
        let Ok(paced) = pace(&mut outlet, &due, calls, behind);
        let sent = paced.calls.iter().map(|call| call.burst.accepted as u64).sum();
        table.lock().unwrap_or_else(PoisonError::into_inner).reversed(&order, sent);
    }
}

struct Back<'a> {
    socket: &'a Socket,
    order: &'a ReverseOrder,
    /// The address to send from; `None` leaves the choice to the kernel.
    source: Option<IpAddr>,
    bytes: &'a mut [u8],
    batch: &'a mut SendBatch,
}

impl Outlet for Back<'_> {
    type Error = std::convert::Infallible;

    fn now(&self) -> Timestamp<Monotonic> {
        clocks::now()
    }

    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), Self::Error> {
        loop {
            let left = until - self.now();
            if left <= Span::ZERO {
                return Ok(());
            }
            if left > SPIN + SPIN {
                // Where it cannot sleep it spins: the wait is at most as long as the longest train.
                let _ = clocks::sleep_until(until - SPIN);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn send(&mut self, first: usize, count: usize) -> Result<Burst, Self::Error> {
        let size = usize::from(self.order.plan.size_byte);
        let before = self.now();
        for (index, datagram) in self.bytes[..count * size].chunks_exact_mut(size).enumerate() {
            let sequence = self.order.first_sequence + (first + index) as u64;
            let packet = full::Reverse { session: self.order.session, sequence, sent: on_the_wire(before) };
            packet.encode(&self.order.key, datagram).expect("the size was checked when the train was granted");
        }
        let parts = [std::io::IoSlice::new(&self.bytes[..count * size])];
        let segment_byte = (count > 1).then_some(self.order.plan.size_byte);
        let class = self.order.ecn.then_some(ECN_CAPABLE);
        let control = SendControl { segment_byte, source: self.source, class, ..SendControl::default() };
        let message = Message { parts: &parts, to: Some(for_socket(self.socket, self.order.to)), control };
        // What the kernel does not take is not tried again: it would leave at another time than planned.
        let taken = self.batch.send(self.socket, &[message]).unwrap_or(0);
        Ok(Burst { accepted: if taken > 0 { count } else { 0 }, before, after: self.now() })
    }
}

/// A socket for both families wants IPv4 addresses in IPv6's form.
fn for_socket(socket: &Socket, to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(v4) if socket.is_ipv6() => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
}
