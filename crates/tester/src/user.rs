//! Senders that are no program in the kernel: they lay each frame ready, with its number and the time, and send those
//! that are due together.

use std::io::{self, IoSlice};

use vtare_sys::clocks;
use vtare_sys::errno::{EBUSY, ENOBUFS};
use vtare_sys::net::control::SendControl;
use vtare_sys::net::frames::{FRAME_HEADER_BYTE, FrameHeader};
use vtare_sys::net::xsk::{Xsk, XskMode, XskSize};
use vtare_sys::net::{Message, SendBatch, Socket};
use vtare_units::{Monotonic, Span};

use crate::error::TesterError;
use crate::frame;
use crate::options::{Engine, Offer, TesterOptions};
use crate::port::Port;
use crate::shared::Shared;
use vtare_bpf::layout::throughput::setup as word;

/// Frames of one call.
const BATCH: usize = 64;
const XSK_FRAMES: u32 = 1_024;
/// How long, and how often, a queue that is still in use is asked for again.
const PATIENCE: Span = Span::from_millis(3_000);
const PAUSE: Span = Span::from_millis(10);

/// A socket that sends frames.
#[derive(Debug)]
pub(crate) enum UserSender {
    /// A packet socket, with room for the frames of one call.
    Packet {
        /// The socket.
        socket: Socket,
        /// What is sent with it.
        batch: SendBatch,
        /// The frames of one call.
        frames: Vec<Vec<u8>>,
    },
    /// An AF_XDP socket; its memory is the frames.
    Xdp(Box<Xsk>),
}

impl UserSender {
    pub(crate) fn open(options: &TesterOptions, tx: &Port) -> Result<Self, TesterError> {
        if options.engine == Engine::Packet {
            let frames = vec![vec![0; frame::bytes(options.frame_byte)]; BATCH];
            return Ok(Self::Packet { socket: Socket::frames(tx.index)?, batch: SendBatch::new(BATCH), frames });
        }
        let chunk_byte = if frame::bytes(options.frame_byte) <= 2_048 { 2_048 } else { 4_096 };
        let size = XskSize { chunk_byte, receive: 64, send: XSK_FRAMES };
        // The kernel lets go of a queue some time after the socket before was closed.
        let until = clocks::now::<Monotonic>() + PATIENCE;
        let socket = loop {
            let opened = Xsk::open(tx.index, 0, size, XskMode::ZeroCopy)
                .or_else(|_| Xsk::open(tx.index, 0, size, XskMode::Copy));
            match opened {
                Err(error) if error.errno() == Some(EBUSY) && clocks::now::<Monotonic>() < until => {
                    let _ = clocks::sleep_until(clocks::now::<Monotonic>() + PAUSE);
                }
                other => break other?,
            }
        };
        Ok(Self::Xdp(Box::new(socket)))
    }

    /// Sends by the schedule; gives the frames that the port refused.
    pub(crate) fn send(&mut self, shared: &Shared, options: &TesterOptions, offer: &Offer) -> Result<u64, TesterError> {
        let started = shared.get(word::START_NS);
        let run = shared.get(word::RUN) as u32;
        let due = |number: u64| started + offer.due_ns(number);
        let keep = |at: usize, value: u64| shared.word(at).store(value, std::sync::atomic::Ordering::Relaxed);
        let (mut next, mut skipped, mut refused) = (0_u64, 0_u64, 0_u64);
        let (mut lost_ns, mut longest_ns, mut last) = (0_u64, 0_u64, 0_u64);
        while next < offer.frames && shared.get(word::STOP) == 0 {
            let now = clocks::now::<Monotonic>().as_nanos();
            if last > 0 && now - last >= offer.gap_ns {
                lost_ns += now - last;
                longest_ns = longest_ns.max(now - last);
            }
            last = now;
            while next < offer.frames && now > due(next).saturating_add(offer.catch_up_ns) {
                shared.never_left(next);
                next += 1;
                skipped += 1;
            }
            let mut ready = 0;
            while ready < BATCH && next + (ready as u64) < offer.frames && due(next + ready as u64) <= now {
                ready += 1;
            }
            if ready == 0 {
                continue;
            }
            let numbers = next..next + ready as u64;
            let slot = |number: u64| options.slots[(number % options.slots.len() as u64) as usize];
            let fill = |bytes: &mut [u8], number: u64| {
                let flow = slot(number);
                frame::write(bytes, &shared.headers[usize::from(flow)], (run, flow, number as u32), now);
            };
            let (taken, dropped) = match self {
                Self::Packet { socket, batch, frames } => {
                    for (bytes, number) in frames.iter_mut().zip(numbers.clone()) {
                        fill(bytes, number);
                    }
                    packet(socket, batch, &frames[..ready]).map_err(|source| failed(options, source))?
                }
                Self::Xdp(socket) => {
                    let mut laid = 0;
                    let length = frame::bytes(options.frame_byte);
                    for number in numbers.clone() {
                        if !socket.put(length, |bytes| fill(bytes, number)) {
                            break;
                        }
                        laid += 1;
                    }
                    socket.send().map_err(|source| failed(options, source))?;
                    (laid, 0)
                }
            };
            (next..next + taken as u64).for_each(|number| shared.count_sent(slot(number)));
            next += taken as u64;
            refused += dropped;
        }
        if let Self::Xdp(socket) = self {
            // What the ring still holds; three calls that move nothing end it.
            while socket.send().map_err(|source| failed(options, source))? > 0 && shared.get(word::STOP) == 0 {}
        }
        keep(word::NEXT, next);
        keep(word::SKIPPED, skipped);
        keep(word::LOST_NS, lost_ns);
        keep(word::LONGEST_NS, longest_ns);
        keep(word::LOOKED_NS, clocks::now::<Monotonic>().as_nanos());
        Ok(refused)
    }
}

fn failed(options: &TesterOptions, source: io::Error) -> TesterError {
    let call = format!("send frames on {} (engine {})", options.tx, options.engine.name());
    TesterError::System(vtare_sys::SysError::Call { call, source, remedy: ": is it still up?" })
}

/// Sends frames in one call: how many have left or were refused by the port's other end, and how many of them were
/// refused.
fn packet(socket: &Socket, batch: &mut SendBatch, frames: &[Vec<u8>]) -> io::Result<(usize, u64)> {
    let plain: [u8; FRAME_HEADER_BYTE] = FrameHeader::PLAIN.write();
    let parts: Vec<[IoSlice<'_>; 2]> = frames.iter().map(|frame| [IoSlice::new(&plain), IoSlice::new(frame)]).collect();
    let messages: Vec<Message<'_>> =
        parts.iter().map(|parts| Message { parts, to: None, control: SendControl::default() }).collect();
    match batch.send(socket, &messages) {
        Ok(taken) => Ok((taken, 0)),
        // The other end of the port had no room: the frame has left, as one that a device does not take from the wire.
        Err(error) if error.raw_os_error() == Some(ENOBUFS) => Ok((1, 1)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok((0, 0)),
        Err(error) => Err(error),
    }
}
