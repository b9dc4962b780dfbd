//! Capture files: pcap and pcapng, read as a stream in bounded memory.
//!
//! Sources: draft-ietf-opsawg-pcap (classic, both magic numbers), draft-ietf-opsawg-pcapng (section, interface,
//! enhanced, simple and statistics blocks). Both byte orders; a file that ends within a packet, as that of a killed
//! tcpdump, gives all whole ones, and reports the cut.

mod bytes;
mod classic;
mod format;
mod ng;

use std::io::Read;

use bytes::Source;
use classic::Classic;
pub use format::{LONGEST_BYTE, PcapError, WriterCounts};
use ng::Ng;

use crate::Direction;

/// A frame out of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it was captured, ns since 1970; `None` in simple packet blocks.
    pub captured_ns: Option<i64>,
    /// The link type's number in the registry: [`crate::frame::LinkType::from_number`].
    pub link: u16,
    /// The number of its interface in the file; 0 in classic files.
    pub interface: u32,
    /// Its direction, where the file records it.
    pub direction: Option<Direction>,
    /// Its length on the wire.
    pub original_byte: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

/// A file that ends within a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort {
    /// Where the packet begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes of it that are there.
    pub there_byte: u64,
}

/// The frames of a file, one after another.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    cut: Option<CutShort>,
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    Ng(Ng),
}

impl<R: Read> Reader<R> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// [`PcapError`]; an empty file and one that is cut within its head have no right magic.
    pub fn open(input: R) -> Result<Self, PcapError> {
        let mut source = Source::new(input);
        let magic = match source.take(4)? {
            Some(bytes) => [bytes[0], bytes[1], bytes[2], bytes[3]],
            None => return Err(PcapError::Magic { found: "fewer than 4 bytes".to_owned() }),
        };
        let format = match magic {
            // The section's own length and byte order follow; the reader begins at the block's type.
            [0x0a, 0x0d, 0x0d, 0x0a] => Format::Ng(Ng::open(&mut source)?),
            _ => Format::Classic(Classic::open(magic, &mut source)?),
        };
        Ok(Self { source, format, cut: None })
    }

    /// The next frame; `None` at the end of the file, or where it is cut ([`Reader::cut_short`]).
    ///
    /// # Errors
    /// [`PcapError`]. What was given before is right.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, PcapError> {
        if self.cut.is_some() {
            return Ok(None);
        }
        let head = match &mut self.format {
            Format::Classic(classic) => classic.next_frame(&mut self.source)?,
            Format::Ng(ng) => ng.next_frame(&mut self.source)?,
        };
        let Some(head) = head else {
            let begin = self.source.offset();
            let there_byte = self.source.end().saturating_sub(begin);
            self.cut = (there_byte > 0).then_some(CutShort { offset: begin, there_byte });
            return Ok(None);
        };
        let bytes = self.source.part(head.at, head.captured_byte);
        Ok(Some(Frame {
            captured_ns: head.captured_ns,
            link: head.link,
            interface: head.interface,
            direction: head.direction,
            original_byte: head.original_byte,
            bytes,
        }))
    }

    /// Where the file ends within a packet; known once [`Reader::next_frame`] has given `None`.
    #[must_use]
    pub const fn cut_short(&self) -> Option<CutShort> {
        self.cut
    }

    /// What the writer counted, over all interfaces, as far as was read.
    #[must_use]
    pub fn counts(&self) -> WriterCounts {
        match &self.format {
            Format::Classic(_) => WriterCounts::default(),
            Format::Ng(ng) => ng.counts(),
        }
    }

    /// `pcap` or `pcapng`.
    #[must_use]
    pub const fn format(&self) -> &'static str {
        match self.format {
            Format::Classic(_) => "pcap",
            Format::Ng(_) => "pcapng",
        }
    }
}

#[cfg(test)]
mod tests;
