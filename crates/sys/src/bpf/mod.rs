//! Programs in the kernel: a thin layer over `bpf(2)`, without libbpf.
//!
//! - [`Object`]: a program file as `clang -target bpf` makes it, read and loaded with its maps.
//! - [`Map`], [`MapView`], [`RingBuffer`]: what program and kernel share.
//! - [`Program`]: a loaded program; [`Program::run_once`] and [`Program::run_live`] call it.
//! - [`Interrupt`]: ends a run of live frames from another thread.
//! - [`XdpLink`], [`TcLink`]: a program at an interface for as long as the value lives.
//!
//! Objects need neither BTF nor CO-RE: programs for XDP and tc read packets, not structures of the kernel. What the
//! verifier wants to know of callbacks ([`Object::load`]) is made here.

mod call;
mod error;
mod interrupt;
mod link;
mod map;
mod map_shape;
mod object;
mod program;
mod ring;
mod types;

pub use error::BpfError;
pub use interrupt::Interrupt;
pub use link::{TcLink, TcSide, XdpLink, XdpMode};
pub(crate) use map::Pages;
pub use map::{Map, MapView};
pub use map_shape::{MapKind, MapShape};
pub use object::{Maps, Object};
pub use program::{LiveRun, Program, ProgramKind};
pub use ring::RingBuffer;

#[cfg(test)]
mod tests;
