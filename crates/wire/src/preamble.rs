//! The bytes in the clear before the handshake: which program, which release of the encrypted connection, whether there
//! is a key.
//!
//! | bytes | client | responder |
//! |---|---|---|
//! | 0..5 | `vtare` | `vtare` |
//! | 5 | version of the connection | version of the connection |
//! | 6 | 1 with a key, 0 without; 2: a stream of a session, [`crate::hello`] | [`Answer`] |
//! | 7 | 0; of a stream its number | 0 |
//!
//! The client's are the prologue of the handshake, so whoever changes them on the way breaks it. The responder's answer
//! is a hint for people: forging it breaks the connection, which whoever sits on the path can do anyway.

/// Bytes of either preamble.
pub const PREAMBLE_BYTE: usize = 8;

/// The version of preamble, handshake and framing. The messages inside have their own:
/// [`crate::session::CONTROL_VERSION`].
pub const VERSION: u8 = 1;

const MAGIC: &[u8; 5] = b"vtare";

/// Marks a stream.
const STREAM: u8 = 2;

/// What the responder makes of the client's preamble and of message 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Message 2 follows.
    GoOn,
    /// The responder speaks only the version in its preamble.
    Version,
    /// The responder has a key, the client has none.
    NeedsKey,
    /// The client has a key, the responder has none.
    HasNoKey,
    /// Message 1 does not fit the key.
    WrongKey,
    /// Too many connections.
    Busy,
    /// No such stream is granted; the reason goes to the control connection and the responder's journal, not
    /// to strangers.
    NoStream,
}

impl Answer {
    const ALL: [Self; 7] =
        [Self::GoOn, Self::Version, Self::NeedsKey, Self::HasNoKey, Self::WrongKey, Self::Busy, Self::NoStream];
}

/// What a client begins with.
#[must_use]
pub const fn of_client(keyed: bool) -> [u8; PREAMBLE_BYTE] {
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], MAGIC[4], VERSION, keyed as u8, 0]
}

/// What a stream begins with: the first third of its [`crate::hello::Hello`].
#[must_use]
pub const fn of_stream(number: u8) -> [u8; PREAMBLE_BYTE] {
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], MAGIC[4], VERSION, STREAM, number]
}

/// The number of the stream that begins so; `None` where it is no stream of this version.
#[must_use]
pub fn read_stream(bytes: &[u8; PREAMBLE_BYTE]) -> Option<u8> {
    (may_begin(bytes) && bytes[5] == VERSION && bytes[6] == STREAM).then_some(bytes[7])
}

/// What a responder begins with.
#[must_use]
pub const fn of_responder(answer: Answer) -> [u8; PREAMBLE_BYTE] {
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], MAGIC[4], VERSION, answer as u8, 0]
}

/// Whether these bytes can still become a preamble: to hang up on strangers at their first wrong byte.
#[must_use]
pub fn may_begin(bytes: &[u8]) -> bool {
    bytes.iter().zip(MAGIC).all(|(found, wanted)| found == wanted)
}

/// The client's version and whether it has a key; `None` where these bytes are no preamble.
#[must_use]
pub fn read_client(bytes: &[u8; PREAMBLE_BYTE]) -> Option<(u8, bool)> {
    may_begin(bytes).then_some((bytes[5], bytes[6] & 1 == 1))
}

/// The responder's version and answer; `None` where these bytes are no preamble.
#[must_use]
pub fn read_responder(bytes: &[u8; PREAMBLE_BYTE]) -> Option<(u8, Answer)> {
    let answer = Answer::ALL.into_iter().find(|answer| *answer as u8 == bytes[6]);
    answer.filter(|_| may_begin(bytes)).map(|answer| (bytes[5], answer))
}
