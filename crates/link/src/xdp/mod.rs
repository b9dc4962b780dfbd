//! Probes that the kernel sends and takes itself (docs/internals/xdp.md): up to 1 Mpps and more, without a wake-up of
//! any program.
//!
//! [`probe`] is the sending end. A program paces itself on the schedule and stamps; another takes the replies. The
//! answering end is `vtare_serve::kernel`.
//!
//! The programs are `crates/bpf/*.c`; what they share with this process lies in mapped arrays, so that neither end
//! needs a system call to learn of the other.

mod error;
pub(crate) mod l2_path;
pub mod probe;
mod secrets;

pub use error::XdpError;
pub use secrets::secrets;

#[cfg(test)]
mod tests;
