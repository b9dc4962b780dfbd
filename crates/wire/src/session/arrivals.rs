//! What a responder records of one-way probes, and how a client learns of it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use vtare_units::{Peer, Timestamp};

use crate::SessionId;

/// The longest answer with arrivals, in bytes before encryption: about 5,000 packets of an ordinary train.
pub const LARGEST_ARRIVALS_BYTE: usize = 32_768;

/// The first byte of an answer with arrivals. JSON begins with '{'.
pub const ARRIVALS_MARK: u8 = 1;

/// Bytes before the first record.
const HEADER_BYTE: usize = 1 + 8 * 6 + 4;

/// The longest record: flags and two numbers of ten bytes.
const LONGEST_RECORD_BYTE: usize = 21;

/// Stands for "the kernel does not report it" among socket drops.
const UNKNOWN: u64 = u64::MAX;

/// Who stamped an arrival at the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalSource {
    /// The responder's program, when it looked.
    Program,
    /// The responder's kernel.
    Kernel,
    /// The responder's network card.
    Card,
}

/// The arrival of one one-way probe at the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub sequence: u64,
    /// When, on the responder's clock.
    pub received: Timestamp<Peer>,
    /// Who took that stamp.
    pub source: ArrivalSource,
    /// It has the stamp of the record before: both came as one piece (GRO, a large send that was cut at the receiver,
    /// one look of the program). Only the first of such a group has a time of its own.
    pub joined: bool,
    /// Its ECN field, two bits; `None` where the kernel does not report it, or the session was opened without.
    pub ecn: Option<u8>,
}

/// A part of what a responder has recorded in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Which session.
    pub session: SessionId,
    /// The place of the first record among all of the session, from 0. Where more was asked for than there is: the
    /// end.
    pub from: u64,
    /// In the order of arrival.
    pub records: Vec<Arrived>,
    /// Records behind these that are there now.
    pub left: u64,
    /// Probes that were accepted and not recorded because the session's records were full, so far.
    pub overflow: u64,
    /// Probes of the session that came and were not accepted (rate, number, time, size, age), so far.
    pub refused: u64,
    /// Datagrams of all senders that found the responder's receive buffer full while this session was open; `None`
    /// where its kernel does not report them.
    pub socket_drops: Option<u64>,
}

/// Bytes that are no answer with arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalsError {
    /// They end too early.
    #[error("arrivals of {found_byte} B end in the middle")]
    Cut {
        /// Bytes there are.
        found_byte: usize,
    },
    /// More bytes than the stated records have.
    #[error("{found_byte} B behind the last arrival")]
    Beyond {
        /// Bytes too many.
        found_byte: usize,
    },
    /// A byte or a number that no record has.
    #[error("an arrival with {found:#x}, which means nothing")]
    Value {
        /// What it is.
        found: u64,
    },
}

impl Arrivals {
    /// Writes as many of the records as [`LARGEST_ARRIVALS_BYTE`] has room for; the others are counted as left.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity((HEADER_BYTE + self.records.len() * 6).min(LARGEST_ARRIVALS_BYTE));
        out.resize(HEADER_BYTE, 0);
        let mut before = Before::default();
        let mut taken = 0_u32;
        for record in &self.records {
            if out.len() + LONGEST_RECORD_BYTE > LARGEST_ARRIVALS_BYTE {
                break;
            }
            before.write(record, &mut out);
            taken += 1;
        }
        let left = self.left.saturating_add(self.records.len() as u64 - u64::from(taken));
        let drops = self.socket_drops.unwrap_or(UNKNOWN);
        out[0] = ARRIVALS_MARK;
        let numbers = [self.session.0, self.from, left, self.overflow, self.refused, drops];
        for (place, number) in out[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        out[HEADER_BYTE - 4..HEADER_BYTE].copy_from_slice(&taken.to_be_bytes());
        out
    }

    /// Reads what [`Arrivals::encode`] wrote.
    ///
    /// # Errors
    /// Each of [`ArrivalsError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ArrivalsError> {
        let cut = ArrivalsError::Cut { found_byte: bytes.len() };
        let (header, mut rest) = bytes.split_at_checked(HEADER_BYTE).ok_or(cut)?;
        if header[0] != ARRIVALS_MARK {
            return Err(ArrivalsError::Value { found: header[0].into() });
        }
        let number = |index: usize| {
            let at = 1 + 8 * index;
            header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
        };
        let count = header.last_chunk().copied().map_or(0, u32::from_be_bytes);
        // Each record has three bytes at least: a false count cannot make this reserve more than was sent.
        let mut records = Vec::with_capacity((count as usize).min(rest.len() / 3));
        let mut before = Before::default();
        for _ in 0..count {
            records.push(before.read(&mut rest).map_err(|error| error.unwrap_or(cut))?);
        }
        if !rest.is_empty() {
            return Err(ArrivalsError::Beyond { found_byte: rest.len() });
        }
        Ok(Self {
            session: SessionId(number(0)),
            from: number(1),
            records,
            left: number(2),
            overflow: number(3),
            refused: number(4),
            socket_drops: Some(number(5)).filter(|drops| *drops != UNKNOWN),
        })
    }
}

/// Each record is written as its differences from the one before: a packet of a train takes four to six bytes.
#[derive(Default)]
struct Before {
    sequence: u64,
    received_ns: u64,
}

const JOINED: u8 = 4;
/// Above the other flags: the ECN field and one, 0 where it is not known.
const ECN_SHIFT: u32 = 3;

impl Before {
    fn write(&mut self, record: &Arrived, out: &mut Vec<u8>) {
        let source = match record.source {
            ArrivalSource::Program => 0,
            ArrivalSource::Kernel => 1,
            ArrivalSource::Card => 2,
        };
        let ecn = record.ecn.map_or(0, |ecn| (ecn & 3) + 1) << ECN_SHIFT;
        out.push(source | ecn | if record.joined { JOINED } else { 0 });
        let received_ns = record.received.as_nanos();
        for difference in [record.sequence.wrapping_sub(self.sequence), received_ns.wrapping_sub(self.received_ns)] {
            put(out, zigzag(difference.cast_signed()));
        }
        (self.sequence, self.received_ns) = (record.sequence, received_ns);
    }

    /// `Err(None)` where the bytes end.
    fn read(&mut self, rest: &mut &[u8]) -> Result<Arrived, Option<ArrivalsError>> {
        let (&flags, mut behind) = rest.split_first().ok_or(None)?;
        let ecn = match flags >> ECN_SHIFT {
            0 => None,
            more @ 1..=4 => Some(more - 1),
            _ => return Err(Some(ArrivalsError::Value { found: flags.into() })),
        };
        let source = match flags & (JOINED - 1) {
            0 => ArrivalSource::Program,
            1 => ArrivalSource::Kernel,
            2 => ArrivalSource::Card,
            _ => return Err(Some(ArrivalsError::Value { found: flags.into() })),
        };
        let [sequence, received_ns] = [take(&mut behind)?, take(&mut behind)?].map(|it| unzigzag(it).cast_unsigned());
        *rest = behind;
        self.sequence = self.sequence.wrapping_add(sequence);
        self.received_ns = self.received_ns.wrapping_add(received_ns);
        let received = Timestamp::from_nanos(self.received_ns);
        Ok(Arrived { sequence: self.sequence, received, source, joined: flags & JOINED != 0, ecn })
    }
}

const fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Seven bits a byte, the lowest first; the upper bit is set where more follow.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, Option<ArrivalsError>> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first().ok_or(None)?;
        *rest = behind;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Some(ArrivalsError::Value { found: value }))
}

/// The records of one session that its client has not fetched yet. Their number is bounded, and all memory is taken
/// when the session is opened: a page fault later would be measured.
#[derive(Debug)]
pub(super) struct Recorder {
    records: VecDeque<Arrived>,
    capacity: usize,
    /// The place of the first one that is kept.
    first: u64,
    overflow: u64,
    newest: Option<Timestamp<Peer>>,
}

impl Recorder {
    pub(super) fn new(capacity: usize) -> Self {
        Self { records: VecDeque::with_capacity(capacity), capacity, first: 0, overflow: 0, newest: None }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) const fn overflow(&self) -> u64 {
        self.overflow
    }

    pub(super) fn record(&mut self, sequence: u64, received: Timestamp<Peer>, source: ArrivalSource, ecn: Option<u8>) {
        let joined = self.newest.replace(received) == Some(received);
        if self.records.len() >= self.capacity {
            self.overflow += 1;
        } else {
            self.records.push_back(Arrived { sequence, received, source, joined, ecn });
        }
    }

    /// The records from place `from` on, at most `most`, and how many are left behind them. Those before `from` are
    /// given up: the client has them.
    pub(super) fn read(&mut self, from: u64, most: usize) -> (u64, Vec<Arrived>, u64) {
        let known = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.records.len());
        self.records.drain(..known);
        self.first += known as u64;
        let records: Vec<Arrived> = self.records.iter().take(most).copied().collect();
        let left = (self.records.len() - records.len()) as u64;
        (self.first, records, left)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrived(sequence: u64, received_ns: u64) -> Arrived {
        let received = Timestamp::from_nanos(received_ns);
        Arrived { sequence, received, source: ArrivalSource::Kernel, joined: false, ecn: None }
    }

    fn answer(records: Vec<Arrived>) -> Arrivals {
        let session = SessionId(0x1234_5678_9abc_def0);
        Arrivals { session, from: 7, records, left: 0, overflow: 2, refused: 3, socket_drops: Some(4) }
    }

    #[test]
    fn a_packet_of_an_ordinary_train_takes_five_bytes() {
        let records = (0..1_000).map(|number| arrived(500 + number, 1_000_000_000_000 + number * 12_000)).collect();
        let bytes = answer(records).encode();
        assert_eq!(bytes.len(), HEADER_BYTE + (1 + 2 + 6) + 999 * 5);
    }

    #[test]
    fn what_has_no_room_is_left_for_the_next_answer() {
        let mut seed = 1_u64;
        let mut wild = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed
        };
        let all = answer((0..5_000).map(|_| arrived(wild(), wild())).collect());
        let bytes = all.encode();
        assert!(bytes.len() <= LARGEST_ARRIVALS_BYTE, "{}", bytes.len());
        let first = Arrivals::decode(&bytes).expect("it was written by us");
        assert_eq!(first.records, all.records[..first.records.len()]);
        assert_eq!(first.left, 5_000 - first.records.len() as u64);
    }

    #[test]
    fn unknown_drops_are_not_zero_drops() {
        let unknown = Arrivals { socket_drops: None, ..answer(vec![]) };
        assert_eq!(Arrivals::decode(&unknown.encode()), Ok(unknown));
    }

    #[test]
    fn what_is_cut_longer_or_senseless_is_refused() {
        let bytes = answer(vec![arrived(1, 2)]).encode();
        for length in 0..bytes.len() {
            assert_eq!(Arrivals::decode(&bytes[..length]), Err(ArrivalsError::Cut { found_byte: length }));
        }
        assert_eq!(Arrivals::decode(&[&bytes[..], &[0]].concat()), Err(ArrivalsError::Beyond { found_byte: 1 }));
        let mut strange = bytes;
        strange[HEADER_BYTE] = 0x83;
        assert_eq!(Arrivals::decode(&strange), Err(ArrivalsError::Value { found: 0x83 }));
        let endless = [&answer(vec![arrived(1, 2)]).encode()[..=HEADER_BYTE], &[0xff; 12]].concat();
        assert!(matches!(Arrivals::decode(&endless), Err(ArrivalsError::Value { .. })));
    }

    #[test]
    fn records_are_kept_until_their_client_has_them_and_never_more_than_granted() {
        let mut recorder = Recorder::new(4);
        for number in 0..6 {
            recorder.record(number, Timestamp::from_nanos(number / 2), ArrivalSource::Program, None);
        }
        assert_eq!(recorder.overflow(), 2);
        let (from, records, left) = recorder.read(0, 3);
        assert_eq!((from, records.len(), left), (0, 3, 1));
        assert_eq!(records.iter().map(|record| record.joined).collect::<Vec<_>>(), [false, true, false]);
        let again = recorder.read(0, 3);
        assert_eq!(again.1, records, "an answer that was lost can be asked for again");
        let (from, records, left) = recorder.read(3, 9);
        assert_eq!((from, records[0].sequence, left), (3, 3, 0));
        assert_eq!(recorder.read(1_000, 9), (4, vec![], 0), "beyond the end is the end");
        recorder.record(9, Timestamp::from_nanos(9), ArrivalSource::Program, Some(3));
        assert_eq!(recorder.read(4, 9).1.len(), 1, "there is room again");
    }

    proptest! {
        #[test]
        fn any_records_survive_the_way(
            records in proptest::collection::vec((any::<u64>(), any::<u64>(), 0_u8..3, any::<bool>(), 0_u8..5), 0..200),
            numbers in any::<[u64; 5]>(), drops in proptest::option::of(0..u64::MAX),
        ) {
            let record = |(sequence, received, source, joined, ecn): (u64, u64, u8, bool, u8)| Arrived {
                sequence,
                received: Timestamp::from_nanos(received),
                source: [ArrivalSource::Program, ArrivalSource::Kernel, ArrivalSource::Card][usize::from(source)],
                joined,
                ecn: ecn.checked_sub(1),
            };
            let [session, from, left, overflow, refused] = numbers;
            let records = records.into_iter().map(record).collect();
            let session = SessionId(session);
            let all = Arrivals { session, from, records, left, overflow, refused, socket_drops: drops };
            prop_assert_eq!(Arrivals::decode(&all.encode()), Ok(all));
        }

        #[test]
        fn any_bytes_are_arrivals_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = ARRIVALS_MARK;
            }
            if let Ok(found) = Arrivals::decode(&bytes) {
                prop_assert_eq!(Arrivals::decode(&found.encode()), Ok(found));
            }
        }
    }
}
