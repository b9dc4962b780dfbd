//! Frames on which tests call single programs: of a client to a responder, in IPv4. Compiled into the tests of the
//! crates that load the programs. Where this process may not load programs, the tests are skipped, which is printed.

use std::net::{Ipv4Addr, SocketAddrV4};

use vtare_sys::bpf::BpfError;
use vtare_wire::{SessionId, SessionKey};

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

pub(crate) fn ip_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) as u16 + (folded >> 16) as u16
}

/// A frame from the client's port to the responder.
pub(crate) fn frame(from: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&CARD);
    bytes.extend_from_slice(&CLIENT_CARD);
    bytes.extend_from_slice(&[8, 0, 0x45, 0]);
    bytes.extend_from_slice(&(28 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, 57, 17, 0, 0]);
    bytes.extend_from_slice(&from.ip().octets());
    bytes.extend_from_slice(&HOST.octets());
    let sum = !ip_checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(&from.port().to_be_bytes());
    bytes.extend_from_slice(&PORT.to_be_bytes());
    bytes.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0x12, 0x34]);
    bytes.extend_from_slice(payload);
    bytes
}

pub(crate) fn client() -> SocketAddrV4 {
    SocketAddrV4::new(CLIENT, CLIENT_PORT)
}
