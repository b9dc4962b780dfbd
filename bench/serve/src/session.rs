//! The session that must not suffer: 1 kpps, open loop.

use std::fmt;
use std::net::UdpSocket;

use bench_figures::figure;
use vtare_control::client;
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::full;
use vtare_wire::session::{Counters, Open, Purpose, WireForm};

use crate::daemon::Daemon;

const RATE_PACKET_PER_S: u64 = 1_000;
const SIZE_BYTE: usize = 64;
/// How long replies are waited for after the last probe.
const STRAGGLERS: Span = Span::from_secs(1);

pub(crate) struct Outcome {
    sent: u64,
    received: u64,
    responder: Counters,
}

impl Outcome {
    pub(crate) const fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// Probes that are missing and that the kernel did not drop at the responder's full buffer.
    pub(crate) fn unexplained(&self, dropped_by_kernel: Option<u64>) -> u64 {
        let forward = self.sent - self.responder.accepted;
        let reverse = self.responder.replied - self.received;
        let inside = self.responder.accepted - self.responder.replied;
        forward.saturating_sub(dropped_by_kernel.unwrap_or(0)) + inside + reverse
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { accepted, replied, forged, over_rate, unsent, .. } = self.responder;
        write!(
            f,
            "{} probes sent, {accepted} accepted there, {replied} answered, {} answers came: {} lost forward, {} \
             backward; {forged} forgeries refused, {over_rate} above the rate, {unsent} answers not taken by the \
             kernel",
            self.sent,
            self.received,
            self.sent - accepted,
            replied - self.received
        )
    }
}

pub(crate) fn run(daemon: &Daemon, length: Span) -> Result<Outcome, String> {
    let seconds = length.as_nanos_unsigned() / 1_000_000_000;
    let request = Open {
        purpose: Purpose::Rtt,
        form: WireForm::Full,
        rate_packet_per_s: RATE_PACKET_PER_S,
        // This sender shares its CPU with the attack: after a stall it catches up.
        burst_packet: RATE_PACKET_PER_S,
        duration_ns: length.as_nanos_unsigned() + 5_000_000_000,
        packets: RATE_PACKET_PER_S * (seconds + 1),
        size_byte: SIZE_BYTE as u16,
        flows: None,
        ecn: false,
    };
    let session = client::open(daemon.address, Some(&daemon.key), &request, "bench-serve", Span::from_secs(10))
        .map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("the session's socket: {error}");
    let socket = UdpSocket::bind((session.local_address().ip(), 0)).map_err(failed)?;
    socket.connect(daemon.address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;

    let grant = session.grant().clone();
    let mut got = vec![false; (RATE_PACKET_PER_S * seconds) as usize];
    let mut datagram = [0; SIZE_BYTE];
    let start = clocks::now::<Monotonic>();
    for sequence in 0..got.len() as u64 {
        let due = start + Span::from_nanos((sequence * 1_000_000_000 / RATE_PACKET_PER_S).cast_signed());
        clocks::sleep_until(due).map_err(|error| error.to_string())?;
        let probe = full::Probe { session: grant.session, sequence, sent: clocks::now(), wants_reply: true };
        probe.encode(&grant.key, &mut datagram).map_err(|error| error.to_string())?;
        socket.send(&datagram).map_err(failed)?;
        drain(&socket, &grant.key, &mut got);
    }
    let end = clocks::now::<Monotonic>() + STRAGGLERS;
    while clocks::now::<Monotonic>() < end && got.contains(&false) {
        drain(&socket, &grant.key, &mut got);
        let next: Timestamp<Monotonic> = clocks::now::<Monotonic>() + Span::from_millis(1);
        clocks::sleep_until(next).map_err(|error| error.to_string())?;
    }
    let responder = session.close().map_err(|error| error.to_string())?;
    let received = got.iter().filter(|got| **got).count() as u64;
    figure("probes sent", got.len() as f64, "");
    figure("answers", received as f64, "");
    Ok(Outcome { sent: got.len() as u64, received, responder })
}

fn drain(socket: &UdpSocket, key: &vtare_wire::SessionKey, got: &mut [bool]) {
    let mut buffer = [0; 2 * SIZE_BYTE];
    while let Ok(length) = socket.recv(&mut buffer) {
        let reply = full::Unverified::parse(&buffer[..length]).and_then(|reply| reply.reply(key));
        if let Some(slot) = reply.ok().and_then(|reply| got.get_mut(reply.probe.sequence as usize)) {
            *slot = true;
        }
    }
}
