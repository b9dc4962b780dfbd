//! What the UDP and the ICMP link share: one socket, its stamps on the program's clock, and waiting by spinning or in the kernel.

mod canary;
mod engine;
mod offset;
mod options;
mod tx_keys;

pub use canary::Canary;
pub(super) use engine::{Arrival, Engine, Framing, LINGER, WAKE_BEFORE, dropped_since, system};
pub use offset::ClockOffset;
pub use options::{SocketOptions, Wait};
