//! The file service outside the guest: a client of the NBD protocol, and the server that `qemu-nbd` is.
//!
//! Kirova and others used an NFS server. A network block device is reached over the network card as that is, with reads
//! and writes that a server carries out on files of its own; its client needs no kernel module (docs/guide/load.md).

pub(crate) mod client;
mod messages;
mod server;

pub use server::{SERVED_BYTE, ServerOptions, serve};
