//! How a responder serves, and what bounds strangers.

use std::net::SocketAddr;

use serde::Serialize;
use vtare_control::{PresharedKey, TimeLimits};
use vtare_wire::connections::PlaceLimits;
use vtare_wire::session::Limits;

/// How a responder serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen, TCP and UDP.
    pub listen: SocketAddr,
    /// The keys, any of which lets a client in: one, or two while the clients change to another. Without any, `listen`
    /// must be a loopback address.
    pub keys: Vec<PresharedKey>,
    /// What each session and all of them may take.
    pub limits: Limits,
    /// Bounds of the control connections.
    pub connections: ConnectionLimits,
    /// Whether the reflecting thread spins, so that no probe waits for a wake-up.
    pub spin: bool,
    /// The CPU of the reflecting thread.
    pub cpu: Option<usize>,
    /// Whether replies that are due together may leave as one large send (UDP_SEGMENT). A capture point sees it as one
    /// packet.
    pub segments: bool,
    /// The program's name and release, sent to clients that have the key.
    pub program: String,
}

/// Bounds of the control connections, which strangers can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ConnectionLimits {
    /// Connections in their handshake, all peers together. Where there are more, the oldest of the network that has
    /// most goes.
    pub handshakes: usize,
    /// Connections with the key, all peers together.
    pub connections: usize,
    /// Connections with the key of one address.
    pub connections_per_peer: usize,
    /// Connections accepted in one second; the others wait in the kernel's queue.
    pub accepts_per_s: u64,
    /// Time limits.
    #[serde(skip)]
    pub patience: TimeLimits,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            handshakes: 1_024,
            connections: 320,
            connections_per_peer: 32,
            accepts_per_s: 20_000,
            patience: TimeLimits::default(),
        }
    }
}

impl ConnectionLimits {
    /// The numbers alone.
    #[must_use]
    pub const fn places(&self) -> PlaceLimits {
        PlaceLimits {
            handshakes: self.handshakes,
            connections: self.connections,
            connections_per_peer: self.connections_per_peer,
            connections_of_crowded_network: None,
        }
    }
}
