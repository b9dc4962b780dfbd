//! Frames on which tests call single programs: of a client to a responder, in IPv4. Compiled into the tests of the
//! crates that load the programs. Where this process may not load programs, the tests are skipped, which is printed.

use std::net::{Ipv4Addr, SocketAddrV4};

use vtare_sys::bpf::BpfError;
use vtare_wire::{SessionId, SessionKey, udp_frame_headers};

use super::XdpError;

pub(crate) const CARD: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const CLIENT_CARD: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const PORT: u16 = 8_462;
pub(crate) const CLIENT_PORT: u16 = 40_000;
pub(crate) static KEY: SessionKey = SessionKey::new(*b"sixteen bytes ok");
pub(crate) const SESSION: SessionId = SessionId(0x0123_4567_89ab_cdef);
pub(crate) const DROP: u32 = 1;
pub(crate) const PASS: u32 = 2;
pub(crate) const TX: u32 = 3;
pub(crate) const REDIRECT: u32 = 4;

/// `None`, which is printed, where programs cannot be loaded.
pub(crate) fn allowed<T>(result: Result<T, XdpError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(XdpError::Program(error @ (BpfError::NotPermitted { .. } | BpfError::NotSupported { .. }))) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A frame from the client's port to the responder.
pub(crate) fn frame(from: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let peer = SocketAddrV4::new(HOST, PORT);
    let mut bytes = udp_frame_headers([CLIENT_CARD, CARD], [from, peer], payload.len() as u16).to_vec();
    bytes[40..42].copy_from_slice(&[0x12, 0x34]);
    bytes.extend_from_slice(payload);
    bytes
}

pub(crate) fn client() -> SocketAddrV4 {
    SocketAddrV4::new(CLIENT, CLIENT_PORT)
}
