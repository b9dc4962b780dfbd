//! The classic format: a head of 24 B, and 16 B before each packet.

use std::io::Read;

use super::bytes::{Order, Source};
use super::format::{Head, LONGEST_BYTE, PcapError};

const RECORD_BYTE: usize = 16;

#[derive(Debug)]
pub(super) struct Classic {
    order: Order,
    /// Nanoseconds in one unit of the second field of a stamp.
    unit_ns: i64,
    link: u16,
}

impl Classic {
    pub(super) fn open<R: Read>(magic: [u8; 4], source: &mut Source<R>) -> Result<Self, PcapError> {
        let (order, unit_ns) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1_000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1_000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1),
            other => return Err(PcapError::Magic { found: words(other) }),
        };
        let Some(head) = source.take(20)? else {
            return Err(PcapError::Magic { found: "the head of a pcap file that ends within it".to_owned() });
        };
        let major = order.u16(head, 0);
        if major != 2 {
            return Err(PcapError::Damaged {
                offset: 4,
                what: "the version of the format",
                found: major.into(),
                wanted: "2".to_owned(),
            });
        }
        // The upper bits state whether frames carry their check sequence.
        let link = order.u32(head, 16) as u16;
        Ok(Self { order, unit_ns, link })
    }

    pub(super) fn next_frame<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Head>, PcapError> {
        let offset = source.offset();
        let Some(record) = source.peek(RECORD_BYTE)? else {
            source.take(RECORD_BYTE)?;
            return Ok(None);
        };
        let word = |at| self.order.u32(record, at);
        let (seconds, part, captured, original_byte) = (word(0), word(4), word(8), word(12));
        if captured > LONGEST_BYTE {
            return Err(PcapError::Damaged {
                offset: offset + 8,
                what: "the length of a packet",
                found: captured.into(),
                wanted: format!("at most {LONGEST_BYTE}"),
            });
        }
        let captured_byte = captured as usize;
        if source.take(RECORD_BYTE + captured_byte)?.is_none() {
            return Ok(None);
        }
        let captured_ns = i64::from(seconds) * 1_000_000_000 + i64::from(part) * self.unit_ns;
        Ok(Some(Head {
            captured_ns: Some(captured_ns),
            link: self.link,
            interface: 0,
            direction: None,
            original_byte,
            at: RECORD_BYTE,
            captured_byte,
        }))
    }
}

fn words(magic: [u8; 4]) -> String {
    match magic {
        [0x1f, 0x8b, ..] => "gzip's magic number (decompress it first: zcat FILE > OTHER)".to_owned(),
        [0x28, 0xb5, 0x2f, 0xfd] => "zstd's magic number (decompress it first: zstdcat FILE > OTHER)".to_owned(),
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
            "the magic number of a variant of pcap with longer records (rewrite it: editcap FILE OTHER)".to_owned()
        }
        [a, b, c, d] => format!("the bytes {a:02x} {b:02x} {c:02x} {d:02x}"),
    }
}
