//! The UDP link: one connected socket to one far end.

use std::net::SocketAddr;

use vtare_clock::Clock;
use vtare_sys::net::{Layer, Socket};
use vtare_units::{Monotonic, Timestamp};

use super::socket::{Arrival, Canary, Engine, Framing, SocketOptions, system};
use super::{Burst, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink};

/// Probes as UDP datagrams.
///
/// Singles leave with one system call each. Several at once leave with `sendmmsg`, or, where they are of one size and the kernel can cut
/// (UDP_SEGMENT), as one large send; a kernel stamp of such a send is the first datagram's.
#[derive(Debug)]
pub struct UdpLink<'c>(Engine<'c>);

impl<'c> UdpLink<'c> {
    /// Opens a link to `peer`. What the kernel does not grant is in [`ProbeLink::facts`]; `because` is why this engine was chosen.
    ///
    /// # Errors
    /// Where there is no route to `peer`, or the local address is not of this host.
    pub fn open(
        clock: &'c Clock,
        peer: SocketAddr,
        options: &SocketOptions,
        because: impl Into<String>,
    ) -> Result<Self, LinkError> {
        let socket = Socket::open(Layer::Udp, peer).map_err(system("open a UDP socket"))?;
        if let Some(local) = options.local {
            socket.bind(SocketAddr::new(local, 0)).map_err(system("take a local address"))?;
        }
        socket.connect(peer).map_err(system("find a way to the peer"))?;
        Engine::new(clock, socket, peer, Framing::Udp, options, ("udp", because.into())).map(Self)
    }

    /// The local address.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.0.local_address()
    }

    /// Time that something took from this link's thread.
    #[must_use]
    pub const fn canary(&self) -> &Canary {
        &self.0.canary
    }
}

macro_rules! carried_by_a_socket {
    ($link:ty) => {
        impl ProbeLink for $link {
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

            fn receive(
                &mut self,
                until: Timestamp<Monotonic>,
                sink: &mut dyn FnMut(Incoming<'_>),
            ) -> Result<(), LinkError> {
                self.0.receive(until, &mut |arrived, Arrival { payload, stamp, ttl }| {
                    sink(Incoming { payload, arrived, stamp, ttl });
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
    };
}
pub(super) use carried_by_a_socket;

carried_by_a_socket!(UdpLink<'_>);
