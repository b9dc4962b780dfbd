//! Options of the kernel's TCP, and what it reports of a connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::SysError;

/// Bytes of the longest name of a congestion control, with its end (`TCP_CA_NAME_MAX`).
const NAME_BYTE: usize = 16;

/// What the kernel reports of a connection (TCP_INFO). What this kernel does not report is `None`.
//= linux/tcp.h, struct tcp_info
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Whether segments carry time stamps, 12 B of options each.
    pub timestamps: bool,
    /// Payload bytes of a full segment, options taken off.
    pub segment_byte: u32,
    /// Smoothed round-trip time, us.
    pub rtt_us: u32,
    /// Segments sent again, so far.
    pub resent: u32,
    /// The least round-trip time of the last minutes, us (Linux 4.6).
    pub least_rtt_us: Option<u32>,
    /// Segments with payload sent, with those sent again (Linux 4.6).
    pub data_segments: Option<u32>,
    /// Time with something to send, us (Linux 4.10).
    pub busy_us: Option<u64>,
    /// Part of that in which the receiver's window forbade to send, us (Linux 4.10).
    pub receiver_limited_us: Option<u64>,
    /// Part of that in which the send buffer was too small, us (Linux 4.10).
    pub buffer_limited_us: Option<u64>,
    /// Payload bytes sent, with those sent again (Linux 4.19).
    pub sent_byte: Option<u64>,
    /// Payload bytes sent again (Linux 4.19).
    pub resent_byte: Option<u64>,
}

impl TcpInfo {
    /// Reads what the kernel wrote: newer kernels write more, older ones less.
    fn read(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let u64_at = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        /// `linux/tcp.h`: the option bit of time stamps.
        const TIMESTAMPS: u8 = 1;
        /// The kernel's word for "no round trip seen yet".
        const NO_RTT: u32 = u32::MAX;
        Self {
            timestamps: bytes.get(5).is_some_and(|options| options & TIMESTAMPS != 0),
            segment_byte: u32_at(16).unwrap_or(0),
            rtt_us: u32_at(68).unwrap_or(0),
            resent: u32_at(100).unwrap_or(0),
            least_rtt_us: u32_at(148).filter(|rtt| *rtt != NO_RTT),
            data_segments: u32_at(156),
            busy_us: u64_at(168),
            receiver_limited_us: u64_at(176),
            buffer_limited_us: u64_at(184),
            sent_byte: u64_at(200),
            resent_byte: u64_at(208),
        }
    }
}

/// The kernel's record of a connection.
///
/// # Errors
/// Where it is no TCP socket.
pub fn info(stream: impl AsFd) -> Result<TcpInfo, SysError> {
    let mut bytes = [0_u8; 256];
    let length = get(stream.as_fd(), libc::TCP_INFO, &mut bytes, "getsockopt(TCP_INFO)")?;
    Ok(TcpInfo::read(&bytes[..length]))
}

/// The congestion control that a connection really has.
///
/// # Errors
/// Where it is no TCP socket.
pub fn congestion(stream: impl AsFd) -> Result<String, SysError> {
    let mut name = [0_u8; NAME_BYTE];
    let length = get(stream.as_fd(), libc::TCP_CONGESTION, &mut name, "getsockopt(TCP_CONGESTION)")?;
    let end = name[..length].iter().position(|byte| *byte == 0).unwrap_or(length);
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Chooses the congestion control of a connection.
///
/// # Errors
/// Where this kernel has none of that name, or not for this user.
pub fn set_congestion(stream: impl AsFd, name: &str) -> Result<(), SysError> {
    let call = format!("setsockopt(TCP_CONGESTION, {name})");
    set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes(), &call)
}

/// Has a write wait while `byte` bytes stand unsent in the send buffer: what is queued there cannot be taken back.
///
/// # Errors
/// Where the kernel refuses.
pub fn set_unsent_most(stream: impl AsFd, byte: u32) -> Result<(), SysError> {
    let bytes = byte.to_ne_bytes();
    set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes, "setsockopt(TCP_NOTSENT_LOWAT)")
}

/// Lets up to `most` connections of a listening socket wait until they are accepted; the kernel's own bound
/// (`net.core.somaxconn`) holds too.
///
/// # Errors
/// Where the kernel refuses, as for a socket that does not listen.
pub fn wait_in_queue(listener: impl AsFd, most: u16) -> Result<(), SysError> {
    // SAFETY: takes numbers only; the descriptor is open as long as `listener` is borrowed.
    let answer = unsafe { libc::listen(listener.as_fd().as_raw_fd(), most.into()) };
    if answer == 0 { Ok(()) } else { Err(SysError::last("listen", "")) }
}

/// Has the end of a connection throw away what was not sent yet and send a reset to the far end.
///
/// # Errors
/// Where the kernel refuses.
pub fn reset_at_close(stream: impl AsFd) -> Result<(), SysError> {
    // struct linger { on, seconds }
    let bytes = [1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat();
    set(stream.as_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &bytes, "setsockopt(SO_LINGER)")
}

/// Takes up to `most` bytes that have come and throws them away without a copy; does not wait. 0: the far end has ended
/// the connection.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] where none are there; where the connection broke.
//= tcp(7), MSG_TRUNC
pub fn discard(stream: impl AsFd, most: usize) -> io::Result<usize> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket, so there need be none.
    let got = unsafe { libc::recv(stream.as_fd().as_raw_fd(), std::ptr::null_mut(), most, flags) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

fn get(socket: BorrowedFd<'_>, option: i32, room: &mut [u8], call: &str) -> Result<usize, SysError> {
    let mut length = room.len() as libc::socklen_t;
    let place = room.as_mut_ptr().cast();
    // SAFETY: `room` is live, and `length` is its length.
    let answer = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, place, &raw mut length) };
    if answer == 0 { Ok((length as usize).min(room.len())) } else { Err(SysError::last(call, "")) }
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: &[u8], call: &str) -> Result<(), SysError> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: `value` is live and of the length given.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length) };
    if answer == 0 { Ok(()) } else { Err(SysError::last(call, "")) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        (near, listener.accept().expect("it came").0)
    }

    #[test]
    fn bytes_are_thrown_away_and_counted_and_the_end_is_seen() {
        let (mut near, far) = pair();
        assert_eq!(discard(&far, 100).expect_err("nothing was sent").kind(), io::ErrorKind::WouldBlock);
        near.write_all(&[7; 5_000]).expect("it fits the buffers");
        drop(near);
        let mut taken = 0;
        loop {
            match discard(&far, 1_000) {
                Ok(0) => break,
                Ok(some) => taken += some,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(taken, 5_000);
    }

    #[test]
    fn the_congestion_control_is_what_was_chosen_and_an_unknown_one_is_refused() {
        let (near, _far) = pair();
        // Every kernel has it.
        set_congestion(&near, "reno").expect("every kernel has it");
        assert_eq!(congestion(&near).expect("a TCP socket"), "reno");
        let error = set_congestion(&near, "none-such").expect_err("no kernel has it");
        assert!(error.to_string().contains("none-such"), "{error}");
        assert_eq!(congestion(&near).expect("a TCP socket"), "reno");
    }

    #[test]
    fn the_kernels_account_of_a_connection_agrees_with_what_was_written() {
        let (mut near, far) = pair();
        near.write_all(&[7; 5_000]).expect("it fits the buffers");
        let mut taken = 0;
        while taken < 5_000 {
            taken += discard(&far, 5_000).unwrap_or(0);
        }
        let found = info(&near).expect("a TCP socket");
        assert!(found.segment_byte > 500, "{found:?}");
        // Older kernels do not report these.
        assert!(found.sent_byte.is_none_or(|sent| sent >= 5_000), "{found:?}");
        assert!(found.data_segments.is_none_or(|segments| segments >= 1), "{found:?}");
    }

    #[test]
    fn what_an_older_kernel_does_not_write_is_missing_and_not_zero() {
        let mut bytes = [0_u8; 104];
        bytes[5] = 1;
        bytes[16..20].copy_from_slice(&1_448_u32.to_ne_bytes());
        bytes[100..104].copy_from_slice(&3_u32.to_ne_bytes());
        let found = TcpInfo::read(&bytes);
        assert_eq!((found.timestamps, found.segment_byte, found.resent), (true, 1_448, 3));
        assert_eq!((found.least_rtt_us, found.data_segments, found.sent_byte), (None, None, None));
        let mut newer = [0_u8; 232];
        newer[200..208].copy_from_slice(&9_000_u64.to_ne_bytes());
        newer[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let found = TcpInfo::read(&newer);
        assert_eq!((found.sent_byte, found.least_rtt_us), (Some(9_000), None));
    }
}
