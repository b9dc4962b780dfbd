use std::net::SocketAddr;

use vtare_clock::Clock;
use vtare_probe::link::{Burst, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink, Refusal};
use vtare_sys::net::{Layer, Socket};
use vtare_units::{Monotonic, Timestamp};

use super::echo::{ECHO_REPLY, ECHO_REPLY_V6, Echo, HEADER_BYTE};
use super::engine::{Arrival, Engine, Framing};
use super::error::system;
use super::options::SocketOptions;
use super::packet_size::connect;
use crate::stall_detector::StallDetector;

/// Probes over one connected socket to one far end, as UDP datagrams or as ICMP echo requests.
///
/// Single datagrams leave with one system call each. Several at once leave with `sendmmsg`, or, where they are UDP
/// datagrams of one size and the kernel can cut (UDP_SEGMENT), as one large send; a kernel stamp of such a send is the
/// first datagram's.
#[derive(Debug)]
pub struct SocketLink<'c>(Engine<'c>);

impl<'c> SocketLink<'c> {
    /// Opens a link to `peer` over UDP. What the kernel does not grant is in [`ProbeLink::facts`]; `because` is why
    /// this engine was chosen.
    ///
    /// # Errors
    /// Where there is no route to `peer`, or the local address is not of this host.
    pub fn udp(
        clock: &'c Clock,
        peer: SocketAddr,
        options: &SocketOptions,
        because: impl Into<String>,
    ) -> Result<Self, LinkError> {
        let socket = Socket::open(Layer::Udp, peer).map_err(system("open a UDP socket"))?;
        connect(&socket, peer, options.local)?;
        Engine::new(clock, socket, peer, Framing::Udp, options, ("udp", because.into())).map(Self)
    }

    /// Opens a link of ICMP echo requests to `peer`, whose port is ignored: without privilege where the system allows
    /// it (`net.ipv4.ping_group_range`), else with a raw socket.
    ///
    /// # Errors
    /// Where this process may open neither kind of socket, or there is no route.
    pub fn icmp(
        clock: &'c Clock,
        peer: SocketAddr,
        options: &SocketOptions,
        because: impl Into<String>,
    ) -> Result<Self, LinkError> {
        let mut peer = peer;
        peer.set_port(0);
        let (socket, refused) = match Socket::open(Layer::Ping, peer) {
            Ok(socket) => (socket, None),
            Err(refused) => (Socket::open(Layer::RawIcmp, peer).map_err(|_| no_right_to_echo())?, Some(refused)),
        };
        let (raw, ipv6) = (socket.layer() == Layer::RawIcmp, peer.is_ipv6());
        if raw {
            let reply = if ipv6 { ECHO_REPLY_V6 } else { ECHO_REPLY };
            socket.only_icmp(&[reply]).map_err(system("filter ICMP messages"))?;
        }
        connect(&socket, peer, options.local)?;
        // The identifier of an unprivileged socket is its "port"; a raw one shares the host with others and draws its
        // own.
        let port = socket.local_address().map_or(0, |address| address.port());
        let framing = Framing::Echo(Echo::new(if raw { drawn() } else { port }, ipv6, raw));
        let options = SocketOptions { largest_byte: options.largest_byte + HEADER_BYTE + 60, ..options.clone() };
        let mut engine = Engine::new(clock, socket, peer, framing, &options, ("icmp", because.into()))?;
        if let Some(refused) = refused {
            let reason = format!("{refused}; a raw socket is used");
            engine.facts.refusals.push(Refusal { wanted: "icmp_unprivileged".to_owned(), reason });
        }
        Ok(Self(engine))
    }

    /// The local address.
    ///
    /// # Errors
    /// Where the kernel does not give it.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.0.local_address()
    }

    /// The identifier of its echo messages; `None` over UDP.
    #[must_use]
    pub const fn echo_identifier(&self) -> Option<u16> {
        match self.0.framing {
            Framing::Udp => None,
            Framing::Echo(echo) => Some(echo.identifier()),
        }
    }

    /// Time that something took from this link's thread.
    #[must_use]
    pub const fn stalls(&self) -> &StallDetector {
        &self.0.stalls
    }
}

/// Echo requests need the smaller of two rights: one for this group, which `vtare doctor` names, too.
fn no_right_to_echo() -> LinkError {
    let group = vtare_sys::process::effective_group();
    let text = format!(
        "this group is not in net.ipv4.ping_group_range: sudo sysctl -w net.ipv4.ping_group_range=\"{group} {group}\", \
         or run as root"
    );
    LinkError::System { doing: "send ICMP echo requests", source: std::io::Error::other(text) }
}

/// An identifier that other programs and other links hardly share.
fn drawn() -> u16 {
    let mut bytes = [0; 2];
    // Where the system has no random numbers, the process number will do.
    if getrandom::fill(&mut bytes).is_err() {
        bytes = (std::process::id() as u16).to_ne_bytes();
    }
    u16::from_ne_bytes(bytes)
}

impl ProbeLink for SocketLink<'_> {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn now(&self) -> Timestamp<Monotonic> {
        self.0.now()
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        let before = self.0.now();
        let accepted = self.0.send(datagrams)?;
        Ok(Burst { accepted, before, after: self.0.now() })
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        self.0.receive(until, &mut |arrived, Arrival { payload, stamp, ttl, class }| {
            sink(Incoming { payload, arrived, stamp, ttl, class });
        })
    }

    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), LinkError> {
        self.0.pause(until);
        Ok(())
    }

    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        self.0.departures(sink)
    }

    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        Ok(self.0.local_drops())
    }
}
