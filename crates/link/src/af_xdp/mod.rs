//! The AF_XDP link: frames made here, laid ready and looked for in memory shared with the kernel.
//!
//! A program at the interface (`crates/bpf/af_xdp.c`) gives this link the replies of its session, with the time
//! at which the driver had them, and lets all else pass. Neither IP, UDP nor a queue discipline has a part in what it
//! sends; one system call sends all that is ready, and a look for arrivals takes none.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use vtare_bpf::layout::af_xdp::setup as word;
use vtare_clock::Clock;
use vtare_probe::link::{
    Burst, Capabilities, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink, Refusal, Stamp,
    StampSource,
};
use vtare_sys::SysError;
use vtare_sys::bpf::{MapView, Object, XdpLink, XdpMode};
use vtare_sys::net::interface::{self, LinkCounters};
use vtare_sys::net::xsk::{Frame, Xsk, XskMode, XskSize};
use vtare_sys::net::{Layer, Socket, hardware, wait_readable};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::{IPV4_UDP_BYTE, UDP_FRAME_HEADERS_BYTE};

use crate::socket::error::{dropped_since, system};
use crate::stall_detector::StallDetector;
use crate::wait::{Wait, pause, spin};
use crate::xdp::XdpError;
use crate::xdp::l2_path::{L2Path, headers, hold_port, most_payload_byte, native_refused, place};

/// The receive queue that the socket is bound to.
const QUEUE: u32 = 0;
/// Frames that may lie unread: at 300,000 packets a second 13 ms.
const MOST_UNREAD: u32 = 4_096;
/// Frames that may be on their way out.
const MOST_LEAVING: u32 = 1_024;
/// Datagrams of one call of [`ProbeLink::send`].
const BATCH: usize = 64;
/// Frames that share one time of arrival, and those of one look.
const TOGETHER: usize = 8;
const MOST_OF_A_LOOK: usize = 64;
/// Before a deadline nothing is looked for in this time: what came would be worked on beyond it.
const QUIET: Span = Span::from_nanos(250);

/// What is wanted of an AF_XDP link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpOptions {
    /// The far end.
    pub peer: SocketAddrV4,
    /// This end's address.
    pub local: Ipv4Addr,
    /// Bytes of the largest payload.
    pub largest_byte: u16,
    /// How to wait.
    pub wait: Wait,
    /// Differences between two readings of the clock that count as gaps, from this many ns on.
    pub gap_ns: u64,
}

/// Probes as UDP datagrams in frames of this program's own.
#[derive(Debug)]
pub struct AfXdpLink<'c> {
    clock: &'c Clock,
    // Dropped before the program: what comes in between goes to the network stack.
    socket: Xsk,
    setup: MapView,
    _program: XdpLink,
    path: L2Path,
    local: SocketAddrV4,
    peer: SocketAddrV4,
    /// Holds the port, and learns that nobody listens there.
    port: UdpSocket,
    /// Headers of a datagram of `size_byte`.
    headers: [u8; UDP_FRAME_HEADERS_BYTE],
    size_byte: u16,
    wait: Wait,
    facts: Facts,
    stalls: StallDetector,
    interface: Option<LinkCounters>,
    last_sent: Timestamp<Monotonic>,
    /// Datagrams that left with a later call than their own.
    held_up: u64,
    held: usize,
}

fn refusal(wanted: &str, reason: impl std::fmt::Display) -> Refusal {
    Refusal { wanted: wanted.to_owned(), reason: reason.to_string() }
}

impl<'c> AfXdpLink<'c> {
    /// Finds the way to the peer, attaches the program to the interface there, and binds a socket to its receive queue.
    /// `because` is why this engine was chosen.
    ///
    /// # Errors
    /// [`XdpError`], each with the way out.
    pub fn open(clock: &'c Clock, options: &AfXdpOptions, because: impl Into<String>) -> Result<Self, XdpError> {
        let path = L2Path::find(*options.peer.ip(), options.largest_byte)?;
        one_queue(&path)?;
        let (local_port, port) = hold_port(options.local, options.peer)?;
        let local = SocketAddrV4::new(options.local, local_port);
        let object = Object::parse("af_xdp.bpf.o", vtare_bpf::AF_XDP)?;
        let maps = object.create_maps()?;
        let setup = maps.get("setup_map").view()?;
        describe(&setup, local, options.peer);
        let program = XdpLink::attach(&object.load("to_socket", &maps)?, path.interface)?;
        let (socket, copies) = open_socket(&path, options.largest_byte, program.mode())?;
        maps.get("sockets").update(&0_u32.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())?;
        let mode = if socket.mode() == XskMode::ZeroCopy { "without copies" } else { "the kernel copies" };
        let facts = Facts {
            engine: "af_xdp".to_owned(),
            chosen_because: format!("{}; {}, queue {QUEUE}, {mode}", because.into(), place(&path, &program)),
            capabilities: Capabilities {
                rx_stamp: Some(StampSource::Software),
                counts_drops: true,
                batch: BATCH,
                ..Capabilities::default()
            },
            refusals: native_refused(&path, &program).into_iter().chain(copies).collect(),
            stamp_error_ns: None,
            ip_header_byte: IPV4_UDP_BYTE,
            most_payload_byte: Some(most_payload_byte(path.mtu_byte)),
        };
        let headers = headers(&path, local, options.peer, options.largest_byte);
        Ok(Self {
            clock,
            socket,
            setup,
            _program: program,
            interface: counters(&path.name),
            path,
            local,
            peer: options.peer,
            port,
            headers,
            size_byte: options.largest_byte,
            wait: options.wait,
            facts,
            stalls: StallDetector::new(options.gap_ns),
            last_sent: Timestamp::ZERO,
            held_up: 0,
            held: 0,
        })
    }

    /// Time that something took from this link's thread.
    #[must_use]
    pub const fn stalls(&self) -> &StallDetector {
        &self.stalls
    }

    fn counted(&self, at: usize) -> u64 {
        self.setup.words()[at].load(Ordering::Relaxed)
    }

    /// Lays one datagram ready; whether there was room for it.
    fn put(&mut self, payload: &[u8]) -> Result<bool, LinkError> {
        let most_byte = most_payload_byte(self.path.mtu_byte);
        let size_byte = match u16::try_from(payload.len()) {
            Ok(size) if payload.len() <= most_byte => size,
            _ => return Err(LinkError::TooLarge { found_byte: payload.len(), most_byte }),
        };
        if size_byte != self.size_byte {
            self.headers = headers(&self.path, self.local, self.peer, size_byte);
            self.size_byte = size_byte;
        }
        let headers = &self.headers;
        Ok(self.socket.put(UDP_FRAME_HEADERS_BYTE + payload.len(), |frame| {
            frame[..UDP_FRAME_HEADERS_BYTE].copy_from_slice(headers);
            frame[UDP_FRAME_HEADERS_BYTE..].copy_from_slice(payload);
        }))
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.held = self.socket.send().map_err(|source| LinkError::System { doing: "send frames (AF_XDP)", source })?;
        Ok(())
    }

    /// Takes what is there, once, and gives how many datagrams that were.
    fn read_once(&mut self, sink: &mut dyn FnMut(Incoming<'_>)) -> usize {
        let mut total = 0;
        while total < MOST_OF_A_LOOK && self.socket.ready() > 0 {
            let arrived = self.clock.now_ordered();
            total += self.socket.receive(TOGETHER, &mut |frame| {
                if let Some(incoming) = datagram(&frame, arrived) {
                    sink(incoming);
                }
            });
        }
        total
    }

    /// Sleeps in the kernel where that is what this link does now, and gives the time after it.
    fn sleep(
        &mut self,
        now: Timestamp<Monotonic>,
        until: Timestamp<Monotonic>,
    ) -> Result<Timestamp<Monotonic>, LinkError> {
        let Some(wake) = self.wait.sleep_until(now, until, self.last_sent) else { return Ok(now) };
        wait_readable(&self.socket, now, wake).map_err(system("wait for replies"))?;
        Ok(self.clock.now())
    }

    /// Whether the far end's host refused a datagram (no socket on the port): the network stack gives that error to
    /// the socket that has the port here.
    fn refused(&self) -> Result<(), LinkError> {
        match self.port.take_error() {
            Ok(Some(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(LinkError::Refused { peer: self.peer.to_string() })
            }
            _ => Ok(()),
        }
    }
}

impl ProbeLink for AfXdpLink<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn now(&self) -> Timestamp<Monotonic> {
        self.clock.now_ordered()
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        let before = self.clock.now_ordered();
        let mut accepted = 0;
        for part in datagrams.chunks(BATCH) {
            let mut laid = 0;
            for datagram in part {
                if !self.put(datagram.payload)? {
                    break;
                }
                laid += 1;
            }
            accepted += laid;
            self.flush()?;
            self.held_up += self.held as u64;
            if laid < part.len() || self.held > 0 {
                break;
            }
        }
        let after = self.clock.now_ordered();
        self.last_sent = after;
        Ok(Burst { accepted, before, after })
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        let mut last = self.clock.now();
        loop {
            if self.held > 0 {
                self.flush()?;
            }
            let found = self.read_once(sink);
            let now = self.clock.now();
            if found == 0 {
                self.stalls.watch(last, now);
            }
            if now >= until {
                return Ok(());
            }
            if until - now <= QUIET {
                spin(self.clock, &mut self.stalls, now, until);
                return Ok(());
            }
            last = if found == 0 { self.sleep(now, until)? } else { now };
        }
    }

    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), LinkError> {
        pause(self.clock, &mut self.stalls, until);
        Ok(())
    }

    /// Gives none: nobody stamps what leaves this path.
    fn departures(&mut self, _sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        self.refused()
    }

    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        let elsewhere = self.counted(word::ELSEWHERE);
        let mut refusals = Vec::new();
        if elsewhere > 0 {
            let text = format!(
                "{elsewhere} replies came to other receive queues of {} than queue {QUEUE}, and are lost to \
                 this link: use --engine socket, or have one queue (ethtool -L {} combined 1)",
                self.path.name, self.path.name
            );
            refusals.push(refusal("receive_queue", text));
        }
        let unstamped = self.counted(word::UNSTAMPED);
        if unstamped > 0 {
            refusals.push(refusal(
                "rx_stamp",
                format_args!("the driver of {} left no room for {unstamped}", self.path.name),
            ));
        }
        if self.held_up > 0 {
            let text =
                format!("{} datagrams left later than they were given: {} took no more", self.held_up, self.path.name);
            refusals.push(refusal("send_ring", text));
        }
        self.facts.refusals.retain(|known| !refusals.iter().any(|new| new.wanted == known.wanted));
        self.facts.refusals.extend(refusals);
        let counts = self.socket.counts().ok();
        let interface = self.interface.and_then(|before| dropped_since(&self.path.name, before));
        Ok(LocalDrops {
            receive_buffer: counts.map(|counts| counts.dropped + counts.ring_full + elsewhere),
            interface_tx: interface.map(|(tx, _)| tx),
            interface_rx: interface.map(|(_, rx)| rx),
            ..LocalDrops::default()
        })
    }
}

/// The datagram in a frame that the program let through; it has checked headers and lengths.
fn datagram<'a>(frame: &Frame<'a>, arrived: Timestamp<Monotonic>) -> Option<Incoming<'a>> {
    let udp_byte = usize::from(u16::from_be_bytes([*frame.bytes.get(38)?, *frame.bytes.get(39)?]));
    let payload = frame.bytes.get(UDP_FRAME_HEADERS_BYTE..34 + udp_byte)?;
    let stamp =
        (frame.note != 0).then(|| Stamp { at: Timestamp::from_nanos(frame.note), source: StampSource::Software });
    Some(Incoming { payload, arrived, stamp, ttl: Some(frame.bytes[22]), class: Some(frame.bytes[15]) })
}

/// Writes into the program's setup which datagrams are replies.
fn describe(setup: &MapView, local: SocketAddrV4, peer: SocketAddrV4) {
    let address = |address: &Ipv4Addr| u64::from(u32::from_ne_bytes(address.octets()));
    for (at, value) in [
        (word::PEER_ADDRESS, address(peer.ip())),
        (word::LOCAL_ADDRESS, address(local.ip())),
        (word::PEER_PORT, peer.port().to_be().into()),
        (word::LOCAL_PORT, local.port().to_be().into()),
        (word::QUEUE, QUEUE.into()),
    ] {
        setup.words()[at].store(value, Ordering::Relaxed);
    }
}

/// Refuses interfaces that spread arrivals over several queues: a socket takes those of one.
fn one_queue(path: &L2Path) -> Result<(), XdpError> {
    let socket = Socket::open(Layer::Udp, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0).into())?;
    match hardware::receive_queues(&socket, &path.name)? {
        Some(queues @ 2..) => Err(XdpError::Unfit(format!(
            "{} spreads what arrives over {queues} receive queues, and an AF_XDP socket takes that of one: have one \
             (ethtool -L {} combined 1, or rx 1), or use another engine",
            path.name, path.name
        ))),
        _ => Ok(()),
    }
}

/// The socket, without copies where driver and card can; else with the reason that they gave.
fn open_socket(path: &L2Path, largest_byte: u16, mode: XdpMode) -> Result<(Xsk, Option<Refusal>), SysError> {
    let frame_byte = UDP_FRAME_HEADERS_BYTE + usize::from(largest_byte);
    let size = |chunk_byte| XskSize { chunk_byte, receive: MOST_UNREAD, send: MOST_LEAVING };
    let size = if frame_byte <= size(2_048).most_byte() { size(2_048) } else { size(4_096) };
    let refused = if mode == XdpMode::Native {
        match Xsk::open(path.interface, QUEUE, size, XskMode::ZeroCopy) {
            Ok(socket) => return Ok((socket, None)),
            Err(error) => error.to_string(),
        }
    } else {
        "programs run in the network stack".to_owned()
    };
    let socket = Xsk::open(path.interface, QUEUE, size, XskMode::Copy)?;
    Ok((socket, Some(refusal("zero_copy", format_args!("{}: {refused}: the kernel copies each frame", path.name)))))
}

fn counters(name: &str) -> Option<LinkCounters> {
    interface::all().ok()?.into_iter().find(|interface| interface.name == name)?.counters
}

#[cfg(test)]
mod tests;
