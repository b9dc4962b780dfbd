//! Time heartbeats: a client asks a witness for its UTC. Both datagrams have [`HEARTBEAT_BYTE`] bytes, so that a
//! responder never sends more than it received, and end in HMAC-SHA-256, cut to 128 bits, over those before.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version and kind: 5 request, 6 reply |
//! | 1 | status of the interval, as `enum vtare_utc_status` |
//! | 2..8 | 0 |
//! | 8..24 | nonce: random, the same in both |
//! | 24..32, 32..40 | the earliest and the latest that UTC is, ns since 1970 |
//! | 40..48 | generation of the witness's clock |
//! | 48..56 | the witness's CLOCK_MONOTONIC, ns |
//! | 56..64 | its host: a code over the boot's identity, which only holders of the key can compare |
//! | 64..80 | code |
//!
//! In a request all fields but the nonce are 0. No session is needed: a request that is replayed gets an answer with
//! its old nonce, which nobody waits for.

use crate::WireError;
use crate::bytes::{bytes_at, put};
use crate::format::VERSION;
use crate::stamp::StampKey;

/// Bytes of a heartbeat, in either direction.
pub const HEARTBEAT_BYTE: usize = 80;

const REQUEST: u8 = VERSION << 4 | 5;
const REPLY: u8 = VERSION << 4 | 6;
const STATUS_AT: usize = 1;
const NONCE_AT: usize = 8;
const EARLIEST_AT: usize = 24;
const LATEST_AT: usize = 32;
const GENERATION_AT: usize = 40;
const STAMP_AT: usize = 48;
const HOST_AT: usize = 56;
const CODE_AT: usize = 64;

/// The greatest status.
const MOST_STATUS: u8 = 3;

/// The number that ties a reply to its request: 128 random bits.
pub type Nonce = [u8; 16];

/// The key of heartbeats, derived from the one that clients and responder share, so that no code of STAMP or of the
/// control connection is one of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatKey(StampKey);

impl HeartbeatKey {
    /// The key of heartbeats between holders of `shared`.
    #[must_use]
    pub fn derive(shared: &StampKey) -> Self {
        Self(StampKey::new(shared.whole_code(&[b"vtare heartbeat 1"])))
    }

    /// The identity of the host whose boot has this name.
    #[must_use]
    pub fn host(&self, boot: &[u8]) -> u64 {
        u64::from_be_bytes(bytes_at(&self.0.code(&[b"host", boot]), 0))
    }

    fn seal(&self, datagram: &mut [u8; HEARTBEAT_BYTE]) {
        let code = self.0.code(&[&datagram[..CODE_AT]]);
        put(datagram, CODE_AT, &code);
    }

    fn fits(&self, datagram: &[u8]) -> bool {
        self.0.fits(&[&datagram[..CODE_AT]], &datagram[CODE_AT..])
    }
}

/// What a witness states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// What the interval is worth: 0 synchronized, 1 free running, 2 disrupted, 3 unknown.
    pub status: u8,
    /// The earliest that UTC is, ns since 1970; 0 where nothing is known.
    pub earliest_ns: u64,
    /// The latest; [`u64::MAX`] where nothing is known.
    pub latest_ns: u64,
    /// The generation of its clock: it grows after a disruption.
    pub generation: u64,
    /// Its monotonic clock, ns.
    pub stamp_ns: u64,
    /// Its host ([`HeartbeatKey::host`]); 0 where that is not known.
    pub host: u64,
}

/// Whether a datagram wants to be a request, by its first byte.
#[must_use]
pub fn is_request(datagram: &[u8]) -> bool {
    datagram.first() == Some(&REQUEST)
}

/// A request with this nonce.
#[must_use]
pub fn request(key: &HeartbeatKey, nonce: &Nonce) -> [u8; HEARTBEAT_BYTE] {
    let mut datagram = [0; HEARTBEAT_BYTE];
    datagram[0] = REQUEST;
    put(&mut datagram, NONCE_AT, nonce);
    key.seal(&mut datagram);
    datagram
}

/// The nonce of a request, and which of `keys` sealed it.
///
/// # Errors
/// [`WireError::TooShort`], [`WireError::Size`], [`WireError::Kind`], [`WireError::Reserved`]; [`WireError::Tag`] where
/// no key fits.
pub fn read_request(keys: &[HeartbeatKey], datagram: &[u8]) -> Result<(Nonce, usize), WireError> {
    check(REQUEST, datagram)?;
    let reserved = datagram[1..NONCE_AT].iter().chain(&datagram[EARLIEST_AT..CODE_AT]).find(|byte| **byte != 0);
    if let Some(&found) = reserved {
        return Err(WireError::Reserved { found });
    }
    let key = keys.iter().position(|key| key.fits(datagram)).ok_or(WireError::Tag)?;
    Ok((bytes_at(datagram, NONCE_AT), key))
}

/// The reply to the request with this nonce.
#[must_use]
pub fn reply(key: &HeartbeatKey, nonce: &Nonce, statement: &Statement) -> [u8; HEARTBEAT_BYTE] {
    let mut datagram = [0; HEARTBEAT_BYTE];
    datagram[0] = REPLY;
    datagram[STATUS_AT] = statement.status.min(MOST_STATUS);
    put(&mut datagram, NONCE_AT, nonce);
    for (at, value) in [
        (EARLIEST_AT, statement.earliest_ns),
        (LATEST_AT, statement.latest_ns),
        (GENERATION_AT, statement.generation),
        (STAMP_AT, statement.stamp_ns),
        (HOST_AT, statement.host),
    ] {
        put(&mut datagram, at, &value.to_be_bytes());
    }
    key.seal(&mut datagram);
    datagram
}

/// The nonce of a reply, and what it states.
///
/// # Errors
/// As [`read_request`]; [`WireError::Reserved`] also for a status that does not exist.
pub fn read_reply(key: &HeartbeatKey, datagram: &[u8]) -> Result<(Nonce, Statement), WireError> {
    check(REPLY, datagram)?;
    if !key.fits(datagram) {
        return Err(WireError::Tag);
    }
    let status = datagram[STATUS_AT];
    let reserved = datagram[2..NONCE_AT].iter().find(|byte| **byte != 0);
    if let Some(&found) = reserved.or(Some(&status).filter(|status| **status > MOST_STATUS)) {
        return Err(WireError::Reserved { found });
    }
    let number = |at| u64::from_be_bytes(bytes_at(datagram, at));
    let statement = Statement {
        status,
        earliest_ns: number(EARLIEST_AT),
        latest_ns: number(LATEST_AT),
        generation: number(GENERATION_AT),
        stamp_ns: number(STAMP_AT),
        host: number(HOST_AT),
    };
    Ok((bytes_at(datagram, NONCE_AT), statement))
}

fn check(kind: u8, datagram: &[u8]) -> Result<(), WireError> {
    let found_byte = datagram.len();
    match datagram.first() {
        _ if found_byte < HEARTBEAT_BYTE => Err(WireError::TooShort { found_byte, need_byte: HEARTBEAT_BYTE }),
        _ if found_byte > HEARTBEAT_BYTE => Err(WireError::Size { found_byte, stated_byte: HEARTBEAT_BYTE }),
        Some(&first) if first == kind => Ok(()),
        first => Err(WireError::Kind { found: first.copied().unwrap_or(0) & 0xf }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    const STATEMENT: Statement =
        Statement { status: 1, earliest_ns: 0x11, latest_ns: 0x22, generation: 0x33, stamp_ns: 0x44, host: 0x55 };

    fn key(first: u8) -> HeartbeatKey {
        HeartbeatKey::derive(&StampKey::new([first; 32]))
    }

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let asked = request(&key(1), &NONCE);
        assert_eq!(asked[..8], [0x15, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((&asked[8..24], &asked[24..64]), (&NONCE[..], &[0; 40][..]));
        let answered = reply(&key(1), &NONCE, &STATEMENT);
        assert_eq!(answered[..8], [0x16, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            (answered[31], answered[39], answered[47], answered[55], answered[63]),
            (0x11, 0x22, 0x33, 0x44, 0x55)
        );
        assert_eq!(read_reply(&key(1), &answered), Ok((NONCE, STATEMENT)));
        assert_eq!(read_request(&[key(2), key(1)], &asked), Ok((NONCE, 1)));
    }

    #[test]
    fn each_flipped_bit_another_length_and_another_key_are_refused() {
        let (asked, answered) = (request(&key(1), &NONCE), reply(&key(1), &NONCE, &STATEMENT));
        for bit in 0..HEARTBEAT_BYTE * 8 {
            let flipped = |datagram: &[u8; HEARTBEAT_BYTE]| {
                let mut changed = *datagram;
                changed[bit / 8] ^= 1 << (bit % 8);
                changed
            };
            assert!(read_request(&[key(1)], &flipped(&asked)).is_err(), "bit {bit}");
            assert!(read_reply(&key(1), &flipped(&answered)).is_err(), "bit {bit}");
        }
        assert_eq!(read_request(&[key(2)], &asked), Err(WireError::Tag));
        assert_eq!(read_reply(&key(2), &answered), Err(WireError::Tag));
        assert_eq!(
            read_reply(&key(1), &answered[1..]).map(drop),
            Err(WireError::TooShort { found_byte: 79, need_byte: 80 })
        );
        assert!(read_request(&[key(1)], &[&asked[..], &[0]].concat()).is_err());
        assert!(read_request(&[key(1)], &answered).is_err() && read_reply(&key(1), &asked).is_err());
    }

    #[test]
    fn a_code_of_stamp_with_the_same_bytes_is_none_of_a_heartbeat() {
        let shared = StampKey::new([1; 32]);
        let mut asked = request(&key(1), &NONCE);
        let code = shared.code(&[&asked[..CODE_AT]]);
        put(&mut asked, CODE_AT, &code);
        assert_eq!(read_request(&[key(1)], &asked), Err(WireError::Tag));
        assert_ne!(key(1).host(b"one"), key(1).host(b"two"));
        assert_ne!(key(1).host(b"one"), key(2).host(b"one"));
    }
}
