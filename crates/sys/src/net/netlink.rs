//! Messages of rtnetlink: how they are framed, and one request with its answer. Written here and not taken from a
//! crate: docs/internals/architecture.md has the measured reason.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::SysError;

/// Bytes of `struct nlmsghdr`.
const MESSAGE_HEADER: usize = 16;

/// The messages of an answer: `(type, body)`. Ends at the first that does not fit.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(MESSAGE_HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

pub(super) fn failed(call: String) -> impl FnOnce(io::Error) -> SysError {
    |source| SysError::Call { call, source, remedy: "" }
}

/// Appends an attribute of this type to a message, padded to a multiple of 4 B.
///
/// # Panics
/// Where `value` is longer than an attribute can be, 65,531 B.
pub fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).expect("an attribute's length has 16 bits");
    body.extend_from_slice(&length.to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes behind the first `header` bytes of a message: `(type, value)`. Ends at the first that does not fit.
pub fn attributes(body: &[u8], header: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(header..).unwrap_or_default();
    std::iter::from_fn(move || {
        let &[a, b, c, d] = rest.first_chunk()?;
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The two upper bits are flags.
        Some((kind & 0x3fff, value))
    })
}

pub(super) fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Sends one request to rtnetlink and returns the answer; empty where the kernel has just acknowledged (`NLM_F_ACK`).
pub(super) fn ask(kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<Vec<u8>> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above and no other code has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = Vec::new();
    request.extend_from_slice(&((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(body);
    // SAFETY: the bytes are live and of the length given.
    if unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = Vec::new();
    let mut part = vec![0_u8; 1 << 16];
    loop {
        // SAFETY: the bytes are live and of the length given.
        let got = unsafe { libc::recv(socket.as_raw_fd(), part.as_mut_ptr().cast(), part.len(), 0) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        if let Some((_, body)) = messages(&part[..got]).find(|(kind, _)| i32::from(*kind) == libc::NLMSG_ERROR) {
            let code = body.first_chunk().copied().map_or(libc::EIO, i32::from_ne_bytes);
            if code == 0 && flags & libc::NLM_F_ACK != 0 {
                return Ok(answer);
            }
            return Err(io::Error::from_raw_os_error(code.saturating_neg()));
        }
        answer.extend_from_slice(&part[..got]);
        let done = messages(&part[..got]).any(|(kind, _)| i32::from(kind) == libc::NLMSG_DONE);
        if got == 0 || done || flags & libc::NLM_F_DUMP != libc::NLM_F_DUMP {
            return Ok(answer);
        }
    }
}
