//! Links over one socket: its stamps on the program's clock, and waiting by spinning or in the kernel.

pub mod echo;
mod engine;
pub(crate) mod error;
mod link;
pub(crate) mod options;
mod packet_size;
mod tx_keys;

pub use link::SocketLink;
pub use options::SocketOptions;
pub use packet_size::PacketSize;
