//! What network cards report: stamps, turning them on, the clock they are on; receive queues.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use super::Socket;
use crate::SysError;

/// What a card reports of its stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardStamps {
    /// It stamps departures.
    pub departures: bool,
    /// It stamps all arrivals.
    pub arrivals: bool,
    /// The number of its clock: `/dev/ptpN`. `None`: it has none, so it stamps nothing.
    pub clock: Option<u32>,
}

/// `struct ethtool_ts_info`, `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct StampInfo {
    command: u32,
    flags: u32,
    clock: i32,
    tx_types: u32,
    _tx_reserved: [u32; 3],
    rx_filters: u32,
    _rx_reserved: [u32; 3],
}

const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// Asks what the card behind `interface` can stamp.
///
/// # Errors
/// Where the driver does not answer (most virtual interfaces do, and report that they have none).
pub fn card_stamps(socket: &Socket, interface: &str) -> Result<CardStamps, SysError> {
    let mut info = StampInfo { command: ETHTOOL_GET_TS_INFO, ..StampInfo::default() };
    call(socket, interface, libc::SIOCETHTOOL as _, (&raw mut info).cast(), "ioctl(ETHTOOL_GET_TS_INFO)", "")?;
    let sends = info.flags & libc::SOF_TIMESTAMPING_TX_HARDWARE != 0 && info.tx_types & 1 << libc::HWTSTAMP_TX_ON != 0;
    let receives =
        info.flags & libc::SOF_TIMESTAMPING_RX_HARDWARE != 0 && info.rx_filters & 1 << libc::HWTSTAMP_FILTER_ALL != 0;
    Ok(CardStamps { departures: sends, arrivals: receives, clock: u32::try_from(info.clock).ok() })
}

/// Turns the card's stamps on. They stay on when the program ends, as `hwstamp_ctl` leaves them: other programs may use
/// them.
///
/// # Errors
/// Without CAP_NET_ADMIN, or where the driver refuses.
pub fn turn_on(socket: &Socket, interface: &str, card: CardStamps) -> Result<(), SysError> {
    let mut wanted = libc::hwtstamp_config {
        flags: 0,
        tx_type: if card.departures { libc::HWTSTAMP_TX_ON } else { libc::HWTSTAMP_TX_OFF } as _,
        rx_filter: if card.arrivals { libc::HWTSTAMP_FILTER_ALL } else { libc::HWTSTAMP_FILTER_NONE } as _,
    };
    let place = (&raw mut wanted).cast();
    call(socket, interface, libc::SIOCSHWTSTAMP as _, place, "ioctl(SIOCSHWTSTAMP)", ": needs CAP_NET_ADMIN")
}

/// `struct ethtool_channels`, `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    _most: [u32; 4],
    receive: u32,
    _send: u32,
    _other: u32,
    combined: u32,
}

const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// How many receive queues `interface` has in use; `None` where its driver does not report it, as those with
/// one queue.
///
/// # Errors
/// Where there is no such interface.
pub fn receive_queues(socket: &Socket, interface: &str) -> Result<Option<u32>, SysError> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    let place = (&raw mut channels).cast();
    match call(socket, interface, libc::SIOCETHTOOL as _, place, "ioctl(ETHTOOL_GCHANNELS)", "") {
        Ok(()) => Ok(Some((channels.receive + channels.combined).max(1))),
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes an ioctl on an interface. `data` must point to what `request` wants.
fn call(
    socket: &Socket,
    interface: &str,
    request: libc::c_ulong,
    data: *mut libc::c_char,
    name: &str,
    remedy: &'static str,
) -> Result<(), SysError> {
    // SAFETY: all-zero is a valid ifreq.
    let mut ask: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = ask.ifr_name.len() - 1;
    for (to, from) in ask.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    ask.ifr_ifru.ifru_data = data;
    // SAFETY: the request is live, its name ends in a zero, and `data` points to what the request wants, live in the
    // caller.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut ask) };
    if answer == 0 { Ok(()) } else { Err(SysError::last(format!("{name} on {interface}"), remedy)) }
}

/// The clock of a network card.
#[derive(Debug)]
pub struct CardClock(File);

impl CardClock {
    /// Opens clock number `clock`.
    ///
    /// # Errors
    /// Without permission to read `/dev/ptpN`.
    pub fn open(clock: u32) -> Result<Self, SysError> {
        let path = PathBuf::from(format!("/dev/ptp{clock}"));
        File::open(&path).map(Self).map_err(|source| SysError::File { path, source })
    }

    /// Its time in ns. Takes a microsecond and more: the card is asked.
    ///
    /// # Errors
    /// Where the card is gone.
    pub fn now_ns(&self) -> io::Result<u64> {
        /// The kernel's rule for clocks behind a file: `FD_TO_CLOCKID`.
        const CLOCKFD: libc::clockid_t = 3;
        let id = (!self.0.as_raw_fd() << 3) | CLOCKFD;
        let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `at` is live; the kernel checks the number.
        if unsafe { libc::clock_gettime(id, &raw mut at) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64))
    }
}
