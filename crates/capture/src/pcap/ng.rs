//! pcapng: blocks, each with its length at both ends; a section has its own byte order and interfaces.

use std::io::Read;

use super::bytes::{Order, Source};
use super::format::{Head, LONGEST_BYTE, MOST_INTERFACES, PcapError, WriterCounts};
use crate::Direction;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED: u32 = 6;

const MAGIC: u32 = 0x1a2b_3c4d;
/// Type and length in front, length behind.
const FRAME_BYTE: usize = 12;
const SECTION_BYTE: usize = 28;

const OPTION_END: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const EPB_FLAGS: u16 = 2;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;

#[derive(Debug)]
pub(super) struct Ng {
    order: Order,
    interfaces: Vec<Interface>,
    /// What earlier sections' interfaces counted.
    before: WriterCounts,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    snap_byte: u32,
    resolution: Resolution,
    /// Seconds to add to each stamp.
    offset_s: i64,
    /// The latest statistics: they count from the start of the capture.
    counts: WriterCounts,
}

/// How long one unit of a stamp is.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// 10 to the minus this, in seconds.
    Decimal(u8),
    /// 2 to the minus this, in seconds.
    Binary(u8),
}

impl Resolution {
    fn of(byte: u8) -> Self {
        if byte & 0x80 == 0 { Self::Decimal(byte) } else { Self::Binary(byte & 0x7f) }
    }

    /// `units` in ns; `None` beyond 64 bits.
    fn nanos(self, units: u64) -> Option<i64> {
        let wide = u128::from(units);
        let nanos = match self {
            Self::Decimal(power @ 0..=9) => wide * 10_u128.pow(u32::from(9 - power)),
            Self::Decimal(power) => wide.checked_div(10_u128.checked_pow(u32::from(power - 9))?)?,
            // Whole units first, or the product would not fit.
            Self::Binary(power @ 0..=63) => {
                let (whole, part) = (wide >> power, wide & ((1 << power) - 1));
                whole * 1_000_000_000 + ((part * 1_000_000_000) >> power)
            }
            Self::Binary(power) => (wide * 1_000_000_000) >> power.min(127),
        };
        i64::try_from(nanos).ok()
    }
}

impl Ng {
    /// Reads the first section block, whose type was taken already.
    pub(super) fn open<R: Read>(source: &mut Source<R>) -> Result<Self, PcapError> {
        let mut found = Self { order: Order::Little, interfaces: Vec::new(), before: WriterCounts::default() };
        let Some(length) = found.section(source, 0)? else {
            return Err(PcapError::Magic { found: "the head of a pcapng file that ends within it".to_owned() });
        };
        if source.take(length - 4)?.is_none() {
            return Err(PcapError::Magic { found: "the head of a pcapng file that ends within it".to_owned() });
        }
        Ok(found)
    }

    /// Begins a section: `ahead` bytes before its length field. Gives the block's length.
    fn section<R: Read>(&mut self, source: &mut Source<R>, ahead: usize) -> Result<Option<usize>, PcapError> {
        let offset = source.offset() + ahead as u64;
        let Some(head) = source.peek(ahead + 8)? else { return Ok(None) };
        let head = &head[ahead..];
        self.order = match (Order::Little.u32(head, 4), Order::Big.u32(head, 4)) {
            (MAGIC, _) => Order::Little,
            (_, MAGIC) => Order::Big,
            (found, _) => {
                return Err(PcapError::Damaged {
                    offset: offset + 4,
                    what: "the byte order's magic number",
                    found: found.into(),
                    wanted: format!("{MAGIC:#x} in either order"),
                });
            }
        };
        let length = self.order.u32(head, 0);
        self.before = self.counts();
        self.interfaces.clear();
        block_length(length, SECTION_BYTE, offset).map(Some)
    }

    pub(super) fn counts(&self) -> WriterCounts {
        self.interfaces.iter().fold(self.before, |sum, interface| {
            let plus = |a: Option<u64>, b: Option<u64>| match (a, b) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            };
            WriterCounts {
                received: plus(sum.received, interface.counts.received),
                dropped_by_interface: plus(sum.dropped_by_interface, interface.counts.dropped_by_interface),
                dropped_by_system: plus(sum.dropped_by_system, interface.counts.dropped_by_system),
            }
        })
    }

    pub(super) fn next_frame<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Head>, PcapError> {
        loop {
            let offset = source.offset();
            let Some(head) = source.peek(8)? else {
                source.take(8)?;
                return Ok(None);
            };
            let kind = self.order.u32(head, 0);
            let stated = self.order.u32(head, 4);
            let length = if kind == SECTION {
                match self.section(source, 4)? {
                    Some(length) => length,
                    None => {
                        source.take(FRAME_BYTE)?;
                        return Ok(None);
                    }
                }
            } else {
                block_length(stated, FRAME_BYTE, offset + 4)?
            };
            let order = self.order;
            let Some(block) = source.take(length)? else { return Ok(None) };
            let behind = order.u32(block, length - 4);
            if behind as usize != length {
                return Err(PcapError::Damaged {
                    offset: offset + length as u64 - 4,
                    what: "the length behind a block",
                    found: behind.into(),
                    wanted: format!("{length}, as in front"),
                });
            }
            let body = &block[8..length - 4];
            match kind {
                INTERFACE => self.interface(body, offset)?,
                STATISTICS => self.statistics(body),
                ENHANCED => return self.enhanced(body, offset).map(Some),
                SIMPLE => return self.simple(body, offset).map(Some),
                // Names, secrets, custom blocks, and what is yet to be invented.
                _ => {}
            }
        }
    }

    fn interface(&mut self, body: &[u8], offset: u64) -> Result<(), PcapError> {
        least(body, 8, offset)?;
        if self.interfaces.len() >= MOST_INTERFACES {
            return Err(PcapError::Damaged {
                offset,
                what: "the number of interfaces",
                found: MOST_INTERFACES as u64 + 1,
                wanted: format!("at most {MOST_INTERFACES}"),
            });
        }
        let mut found = Interface {
            link: self.order.u16(body, 0),
            snap_byte: self.order.u32(body, 4),
            resolution: Resolution::Decimal(6),
            offset_s: 0,
            counts: WriterCounts::default(),
        };
        for (code, value) in options(self.order, &body[8..]) {
            match code {
                IF_TSRESOL => found.resolution = value.first().map_or(found.resolution, |&byte| Resolution::of(byte)),
                IF_TSOFFSET if value.len() >= 8 => found.offset_s = self.order.u64(value, 0).cast_signed(),
                _ => {}
            }
        }
        self.interfaces.push(found);
        Ok(())
    }

    fn statistics(&mut self, body: &[u8]) {
        let order = self.order;
        let number = order.u32(body, 0) as usize;
        let Some(interface) = self.interfaces.get_mut(number) else { return };
        for (code, value) in options(order, body.get(12..).unwrap_or_default()) {
            if value.len() < 8 {
                continue;
            }
            let count = Some(order.u64(value, 0));
            match code {
                ISB_IFRECV => interface.counts.received = count,
                ISB_IFDROP => interface.counts.dropped_by_interface = count,
                ISB_OSDROP => interface.counts.dropped_by_system = count,
                _ => {}
            }
        }
    }

    fn known(&self, number: u32, offset: u64) -> Result<&Interface, PcapError> {
        self.interfaces.get(number as usize).ok_or_else(|| PcapError::Damaged {
            offset,
            what: "the interface of a packet",
            found: number.into(),
            wanted: format!("one of the {} that the section has named", self.interfaces.len()),
        })
    }

    fn enhanced(&self, body: &[u8], offset: u64) -> Result<Head, PcapError> {
        least(body, 20, offset)?;
        let word = |at| self.order.u32(body, at);
        let (number, captured, original_byte) = (word(0), word(12), word(16));
        let interface = self.known(number, offset + 8)?;
        let captured_byte = fitting(captured, body.len() - 20, offset + 20)?;
        let units = u64::from(word(4)) << 32 | u64::from(word(8));
        let captured_ns = interface
            .resolution
            .nanos(units)
            .and_then(|ns| ns.checked_add(interface.offset_s.checked_mul(1_000_000_000)?));
        let mut direction = None;
        for (code, value) in options(self.order, body.get(20 + captured_byte.next_multiple_of(4)..).unwrap_or_default())
        {
            if code == EPB_FLAGS && value.len() >= 4 {
                direction = match self.order.u32(value, 0) & 3 {
                    1 => Some(Direction::Rx),
                    2 => Some(Direction::Tx),
                    _ => None,
                };
            }
        }
        // 8 B of type and length lie before the body.
        Ok(Head {
            captured_ns,
            link: interface.link,
            interface: number,
            direction,
            original_byte,
            at: 28,
            captured_byte,
        })
    }

    fn simple(&self, body: &[u8], offset: u64) -> Result<Head, PcapError> {
        least(body, 4, offset)?;
        let original_byte = self.order.u32(body, 0);
        let interface = self.known(0, offset)?;
        let limit = if interface.snap_byte == 0 { u32::MAX } else { interface.snap_byte };
        let captured_byte = fitting(original_byte.min(limit), body.len() - 4, offset + 8)?;
        let link = interface.link;
        Ok(Head { captured_ns: None, link, interface: 0, direction: None, original_byte, at: 12, captured_byte })
    }
}

fn block_length(found: u32, least: usize, offset: u64) -> Result<usize, PcapError> {
    let length = found as usize;
    if found <= LONGEST_BYTE && length >= least && length.is_multiple_of(4) {
        return Ok(length);
    }
    Err(PcapError::Damaged {
        offset,
        what: "the length of a block",
        found: found.into(),
        wanted: format!("a multiple of 4 from {least} to {LONGEST_BYTE}"),
    })
}

fn least(body: &[u8], wanted: usize, offset: u64) -> Result<(), PcapError> {
    if body.len() >= wanted {
        return Ok(());
    }
    Err(PcapError::Damaged {
        offset: offset + 4,
        what: "the length of a block",
        found: (body.len() + FRAME_BYTE) as u64,
        wanted: format!("at least {} for its kind", wanted + FRAME_BYTE),
    })
}

fn fitting(captured: u32, room: usize, offset: u64) -> Result<usize, PcapError> {
    let length = captured as usize;
    if length <= room {
        return Ok(length);
    }
    Err(PcapError::Damaged {
        offset,
        what: "the length of a packet",
        found: captured.into(),
        wanted: format!("at most the {room} that its block has room for"),
    })
}

/// The options in `bytes`: `(code, value)`. Ends at the end mark and at what does not fit.
fn options(order: Order, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.len() < 4 {
            return None;
        }
        let (code, length) = (order.u16(bytes, 0), usize::from(order.u16(bytes, 2)));
        let value = bytes.get(4..4 + length).filter(|_| code != OPTION_END)?;
        bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}
