//! What passes between the command and the program that drives a run: a job in, an event a line back. Both ends use
//! these types, so that neither can be out of step with the other.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{RpmFigures, RpmProbe, RpmSettings};

/// What the driver is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum RpmJob {
    /// Measure both directions of the path to a far end.
    Measure {
        /// Its name, with a port or without, or the address of its configuration.
        peer: String,
        /// Which load-generating connection has a self probe is drawn from this.
        seed: u64,
        /// Of each direction.
        settings: RpmSettings,
    },
    /// Be the far end.
    Serve {
        /// Where to listen.
        listen: SocketAddr,
        /// What clients may use up.
        limits: RpmLimits,
        /// Whether `vtare serve` started it: it reports [`RpmEvent::Serving`], and ends when its input does.
        #[serde(default)]
        below_serve: bool,
    },
}

/// What the clients of a far end may use up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpmLimits {
    /// Connections with a request at the same time; as many may have made none yet.
    pub connections: usize,
    /// Those of one address (IPv6: of one /64) with a request, at the same time.
    pub connections_per_peer: usize,
    /// Time of a connection, ns.
    pub connection_ns: u64,
    /// Bytes of a connection, both directions, TLS and HTTP among them.
    pub connection_byte: u64,
    /// Rate of all connections together, bit/s, each direction.
    pub rate_bit_per_s: u64,
}

impl Default for RpmLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            connections_per_peer: 192,
            connection_ns: 60_000_000_000,
            connection_byte: 10_000_000_000,
            rate_bit_per_s: 1_000_000_000,
        }
    }
}

/// What the driver reports, one a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RpmEvent {
    /// A far end answers from now on.
    Serving {
        /// Where it listens.
        address: SocketAddr,
        /// The rest, for people.
        words: String,
    },
    /// The far end has a valid configuration and answers.
    Reached {
        /// The address to which all connections go.
        address: SocketAddr,
        /// TCP congestion control of what is sent to it.
        congestion: String,
        /// Median TCP handshake of the idle path, ns.
        idle_rtt_ns: u64,
    },
    /// A probe was answered.
    Probe {
        /// Which direction is loaded.
        direction: Direction,
        /// Number of the interval in which it was answered, from 0.
        interval: u64,
        /// Its times.
        probe: RpmProbe,
    },
    /// A direction has ended.
    Direction {
        /// Which.
        direction: Direction,
        /// What it showed.
        figures: RpmFigures,
        /// Probes that failed or were not answered in time.
        failed_probes: u64,
        /// Why it ended early: a load-generating connection was lost.
        lost: Option<String>,
    },
    /// Nothing could be measured.
    Failed {
        /// The exit code that follows.
        exit_code: u8,
        /// What was found and what is wanted.
        error: String,
    },
}

/// Which way the load goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the far end.
    #[default]
    Down,
    /// To the far end.
    Up,
}

impl Direction {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}
