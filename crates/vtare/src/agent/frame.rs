//! Frames on the control channel (docs/internals/guests.md).
//!
//! A serial line loses and invents bytes, and a kernel may print into it. So each frame begins with a mark, its head
//! and its payload have checks of their own, and the decoder looks for the next mark behind anything that is no frame.
//! It never holds more than one frame.

/// Bytes of payload at most.
pub(crate) const MAX_PAYLOAD_BYTE: usize = 1 << 16;
/// The mark of this version of the channel.
const MARK: [u8; 4] = *b"vtG1";
/// Mark, kind, job, length, check of these.
const HEAD_BYTE: usize = 17;
const CHECK_BYTE: usize = 4;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// To the agent: start a command of vtare.
    Start = 1,
    /// To the agent: send a signal to a started command.
    Signal = 2,
    /// To the agent: a file follows.
    Put = 3,
    /// To the agent: send a file.
    Get = 4,
    /// To the agent: report the facts of this machine.
    Facts = 6,
    /// To the agent: end all that runs, and end; as the first process of a guest, switch it off.
    End = 7,
    /// Both ways: a piece of a file.
    Data = 16,
    /// Both ways: the file is whole.
    Whole = 17,
    /// From the agent, first of all: it is there.
    Hello = 32,
    /// From the agent: the request was carried out.
    Answer = 33,
    /// From the agent: the request could not be carried out.
    Failed = 34,
    /// From the agent: what a command wrote to stdout.
    Stdout = 35,
    /// From the agent: what a command wrote to stderr.
    Stderr = 36,
    /// From the agent: a command has ended.
    Exited = 37,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Start,
        Self::Signal,
        Self::Put,
        Self::Get,
        Self::Facts,
        Self::End,
        Self::Data,
        Self::Whole,
        Self::Hello,
        Self::Answer,
        Self::Failed,
        Self::Stdout,
        Self::Stderr,
        Self::Exited,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One message. `job` is the request it belongs to; the host numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) job: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The bytes on the line: mark, kind, job and length (little-endian), check, payload, check.
    ///
    /// # Panics
    /// Where the payload is longer than [`MAX_PAYLOAD_BYTE`]: callers cut before.
    pub(crate) fn encode(kind: Kind, job: u32, payload: &[u8]) -> Vec<u8> {
        assert!(payload.len() <= MAX_PAYLOAD_BYTE, "callers cut payloads before");
        let mut bytes = Vec::with_capacity(HEAD_BYTE + payload.len() + CHECK_BYTE);
        bytes.extend_from_slice(&MARK);
        bytes.push(kind as u8);
        bytes.extend_from_slice(&job.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&check(&bytes).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&check(payload).to_le_bytes());
        bytes
    }
}

/// Finds frames in a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    held: Vec<u8>,
    /// Bytes that belonged to no frame.
    pub(crate) skipped_byte: u64,
    /// Whether there was a frame.
    pub(crate) has_decoded: bool,
}

impl Decoder {
    /// Takes bytes as they came, and gives the frames that they complete.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Vec<Frame> {
        let mut found = Vec::new();
        // In pieces, so that no more than one frame and a piece is ever held.
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(MAX_PAYLOAD_BYTE));
            self.held.extend_from_slice(piece);
            bytes = rest;
            let mut at = 0;
            loop {
                match look(&self.held[at..]) {
                    Look::Frame(frame, length) => {
                        found.push(frame);
                        self.has_decoded = true;
                        at += length;
                    }
                    Look::Wait => break,
                    Look::Skip(length) => {
                        self.skipped_byte += length as u64;
                        at += length;
                    }
                }
            }
            self.held.drain(..at);
        }
        found
    }

    /// What is wrong with a stream that ends here, in words.
    ///
    /// # Errors
    /// [`BrokenEnd`].
    pub(crate) fn finish(&self) -> Result<(), BrokenEnd> {
        match (self.held.len(), self.has_decoded, self.skipped_byte) {
            (0, false, byte @ 1..) => Err(BrokenEnd::NoFrame { byte }),
            (0, ..) => Ok(()),
            (byte, ..) => Err(BrokenEnd::Cut { byte }),
        }
    }
}

/// Why a stream cannot have been meant to end where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenEnd {
    /// It has bytes, and no frame.
    NoFrame {
        /// How many.
        byte: u64,
    },
    /// The last frame is not whole.
    Cut {
        /// Bytes of it that came.
        byte: usize,
    },
}

/// What the first bytes are.
enum Look {
    Frame(Frame, usize),
    /// The beginning of a frame, or nothing.
    Wait,
    /// This number of bytes of no frame.
    Skip(usize),
}

fn look(bytes: &[u8]) -> Look {
    let begun = bytes.len().min(MARK.len());
    if bytes[..begun] != MARK[..begun] {
        let next = bytes[1..].iter().position(|byte| *byte == MARK[0]);
        return Look::Skip(next.map_or(bytes.len(), |at| at + 1));
    }
    let Some(head) = bytes.get(..HEAD_BYTE) else { return Look::Wait };
    let length = word(&head[9..]) as usize;
    let kind = Kind::of(head[4]);
    let (Some(kind), true) = (kind, length <= MAX_PAYLOAD_BYTE && word(&head[13..]) == check(&head[..13])) else {
        return Look::Skip(1);
    };
    let Some(body) = bytes.get(HEAD_BYTE..HEAD_BYTE + length + CHECK_BYTE) else { return Look::Wait };
    let (payload, sum) = body.split_at(length);
    if word(sum) != check(payload) {
        return Look::Skip(1);
    }
    Look::Frame(Frame { kind, job: word(&head[5..]), payload: payload.to_vec() }, HEAD_BYTE + length + CHECK_BYTE)
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().copied().map_or(0, u32::from_le_bytes)
}

/// CRC-32 as in zlib and Ethernet (reflected polynomial 0xedb88320).
fn check(bytes: &[u8]) -> u32 {
    check_on(0, bytes)
}

/// The check of what has the check `before` with `bytes` behind it; that of nothing is 0.
pub(crate) fn check_on(before: u32, bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[usize::from((sum as u8) ^ byte)];
    !bytes.iter().fold(!before, step)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut sum, mut bit) = (index as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let payload = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            // What looks like the beginning of frames.
            proptest::collection::vec(proptest::sample::select(MARK.to_vec()), 0..40),
        ];
        (proptest::sample::select(Kind::ALL.to_vec()), any::<u32>(), payload).prop_map(|(kind, job, payload)| Frame {
            kind,
            job,
            payload,
        })
    }

    fn bytes_of(frames: &[Frame]) -> Vec<u8> {
        frames.iter().flat_map(|frame| Frame::encode(frame.kind, frame.job, &frame.payload)).collect()
    }

    fn in_pieces(bytes: &[u8], cuts: &[usize]) -> (Vec<Frame>, Decoder) {
        let (mut decoder, mut found, mut rest) = (Decoder::default(), Vec::new(), bytes);
        for cut in cuts {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            found.extend(decoder.take(piece));
            rest = behind;
        }
        found.extend(decoder.take(rest));
        (found, decoder)
    }

    #[test]
    fn the_check_is_that_of_zlib() {
        assert_eq!(check(b"123456789"), 0xcbf4_3926);
        assert_eq!(check_on(check_on(0, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn a_frame_is_laid_out_as_documented() {
        let bytes = Frame::encode(Kind::Facts, 0x0102_0304, b"{}");
        assert_eq!(&bytes[..13], b"vtG1\x06\x04\x03\x02\x01\x02\x00\x00\x00");
        assert_eq!((&bytes[17..19], bytes.len()), (b"{}".as_slice(), 23));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_the_line_cuts_them(
            sent in proptest::collection::vec(frames(), 0..8),
            cuts in proptest::collection::vec(0_usize..80, 0..40),
        ) {
            let (found, decoder) = in_pieces(&bytes_of(&sent), &cuts);
            prop_assert_eq!(found, sent);
            prop_assert_eq!(decoder.skipped_byte, 0);
        }

        #[test]
        fn noise_between_frames_costs_no_frame(
            sent in proptest::collection::vec(frames(), 1..6),
            noise in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut bytes = Vec::new();
            for frame in &sent {
                bytes.extend_from_slice(&noise);
                bytes.extend(bytes_of(std::slice::from_ref(frame)));
            }
            let (found, decoder) = in_pieces(&bytes, &[]);
            prop_assert_eq!(found, sent.clone());
            prop_assert_eq!(decoder.skipped_byte as usize, noise.len() * sent.len());
        }

        #[test]
        fn any_bytes_are_survived_and_accounted_for(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            cuts in proptest::collection::vec(0_usize..300, 0..20),
        ) {
            let (found, decoder) = in_pieces(&bytes, &cuts);
            let framed: usize = found.iter().map(|frame| HEAD_BYTE + frame.payload.len() + CHECK_BYTE).sum();
            prop_assert_eq!(framed as u64 + decoder.skipped_byte + decoder.held.len() as u64, bytes.len() as u64);
        }

        #[test]
        fn a_changed_byte_never_makes_another_frame(
            frame in frames(),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let mut bytes = bytes_of(std::slice::from_ref(&frame));
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            let next = Frame { kind: Kind::End, job: 7, payload: Vec::new() };
            // A payload's worth of silence behind it: a length that was changed into one that fits ends there.
            bytes.extend(vec![0; MAX_PAYLOAD_BYTE]);
            bytes.extend(bytes_of(std::slice::from_ref(&next)));
            let (found, _) = in_pieces(&bytes, &[]);
            prop_assert!(!found.contains(&frame) || frame == next);
            prop_assert_eq!(found.last(), Some(&next));
        }

        #[test]
        fn the_decoder_never_holds_more_than_a_frame_and_a_piece(
            bytes in proptest::collection::vec(proptest::sample::select(vec![b'v', b't', b'G', b'1', 1, 0]), 0..5000),
        ) {
            let mut decoder = Decoder::default();
            for _ in 0..60 {
                decoder.take(&bytes);
                prop_assert!(decoder.held.len() <= HEAD_BYTE + MAX_PAYLOAD_BYTE + CHECK_BYTE);
            }
        }
    }
}
