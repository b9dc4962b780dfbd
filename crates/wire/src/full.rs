//! The full form: 60 B of header, padded to the datagram's size.
//!
//! | bytes | field | in a request | in a reply |
//! |---|---|---|---|
//! | 0 | version, kind | 0x11, one-way 0x13, of a train back 0x14 | 0x12 |
//! | 1 | flags | 0 | [`ReplyFlags`] |
//! | 2..4 | size of the datagram in bytes | set | as asked |
//! | 4..12 | session id | set | as asked |
//! | 12..20 | sequence number | set | as asked |
//! | 20..28 | send time of the request, ns on the sender's monotonic clock | set | as asked |
//! | 28..36 | arrival of the request, ns on the responder's clock | 0 | set |
//! | 36..44 | departure of the reply, ns on the responder's clock | 0 | set |
//! | 44..52 | distinct requests the responder has accepted, with this one | 0 | set |
//! | 52..60 | tag over bytes 0..52 | set | set |
//! | 60.. | padding, not covered by the tag | any | as asked |
//!
//! All numbers are big-endian.

use vtare_units::{Monotonic, Peer, Timestamp};

use crate::bytes::{bytes_at, put};
use crate::form::{Form, Kind, first_byte, kind_and_size};
use crate::format::FULL_HEADER_BYTE;
use crate::{SessionId, SessionKey, WireError};

/// Bytes of the header: the smallest datagram of this form. In a frame with IPv4 and UDP: 106 B.
pub const HEADER_BYTE: usize = FULL_HEADER_BYTE;

const TAG_AT: usize = 52;

/// What is known of the stamps in a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReplyFlags {
    /// The arrival was stamped by the responder's kernel, not by its program.
    pub rx_by_kernel: bool,
    /// The arrival was stamped by the responder's network card.
    pub rx_by_hardware: bool,
    /// The responder's stamps count from 1970 (CLOCK_REALTIME), not from its own start.
    pub wall_clock: bool,
}

impl ReplyFlags {
    const fn to_byte(self) -> u8 {
        self.rx_by_kernel as u8 | (self.rx_by_hardware as u8) << 1 | (self.wall_clock as u8) << 2
    }

    fn from_byte(byte: u8) -> Result<Self, WireError> {
        if byte & !0x7 != 0 {
            return Err(WireError::Reserved { found: byte });
        }
        Ok(Self { rx_by_kernel: byte & 1 != 0, rx_by_hardware: byte & 2 != 0, wall_clock: byte & 4 != 0 })
    }
}

/// A probe as its sender makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its number, counted from 0 and never used twice in a session.
    pub sequence: u64,
    /// When it was handed to the kernel, on the sender's clock.
    pub sent: Timestamp<Monotonic>,
    /// Whether the far end shall answer.
    pub wants_reply: bool,
}

impl Probe {
    /// Writes the header into `datagram`, whose length is the size of the datagram; the padding stays as it is.
    ///
    /// # Errors
    /// [`WireError::TooShort`] below [`HEADER_BYTE`], [`WireError::TooLong`] above
    /// [`LARGEST_BYTE`](crate::LARGEST_BYTE).
    ///
    /// ```
    /// use vtare_wire::{SessionId, SessionKey, full};
    /// use vtare_units::Timestamp;
    /// let key = SessionKey::new([7; 16]);
    /// let (session, sent) = (SessionId(1), Timestamp::from_nanos(9));
    /// let probe = full::Probe { session, sequence: 5, sent, wants_reply: true };
    /// let mut datagram = [0_u8; 100];
    /// probe.encode(&key, &mut datagram)?;
    /// assert_eq!(full::Unverified::parse(&datagram[..])?.probe(&key)?, probe);
    /// # Ok::<(), vtare_wire::WireError>(())
    /// ```
    pub fn encode(&self, key: &SessionKey, datagram: &mut [u8]) -> Result<(), WireError> {
        let kind = if self.wants_reply { Kind::Request } else { Kind::OneWay };
        write_header(kind, (self.session, self.sequence, self.sent.as_nanos()), key, datagram)
    }
}

/// A packet of a train that the responder sends, as it makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its number, counted on over all trains of the session.
    pub sequence: u64,
    /// When it was handed to the kernel, on the responder's clock.
    pub sent: Timestamp<Peer>,
}

impl Reverse {
    /// Writes the header into `datagram`, whose length is the size of the datagram; the padding stays as it is.
    ///
    /// # Errors
    /// As [`Probe::encode`].
    pub fn encode(&self, key: &SessionKey, datagram: &mut [u8]) -> Result<(), WireError> {
        write_header(Kind::Reverse, (self.session, self.sequence, self.sent.as_nanos()), key, datagram)
    }
}

fn write_header(
    kind: Kind,
    (session, sequence, sent_ns): (SessionId, u64, u64),
    key: &SessionKey,
    datagram: &mut [u8],
) -> Result<(), WireError> {
    let size = Form::Full.check_size(datagram.len())?;
    datagram[..HEADER_BYTE].fill(0);
    datagram[0] = first_byte(Form::Full, kind);
    put(datagram, 2, &size.to_be_bytes());
    put(datagram, 4, &session.0.to_be_bytes());
    put(datagram, 12, &sequence.to_be_bytes());
    put(datagram, 20, &sent_ns.to_be_bytes());
    seal(key, datagram);
    Ok(())
}

/// What a responder adds to a request to make it a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turnaround {
    /// When the request arrived.
    pub received: Timestamp<Peer>,
    /// When the reply was handed to the kernel.
    pub replied: Timestamp<Peer>,
    /// Distinct requests of this session that the responder has accepted so far, with this one.
    pub accepted: u64,
    /// Where the stamps come from.
    pub flags: ReplyFlags,
}

/// A verified reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request it answers, as its sender made it.
    pub probe: Probe,
    /// What the responder added.
    pub turnaround: Turnaround,
}

/// A datagram of the full form whose tag has not been checked yet. `B` is `&[u8]` to read it, `&mut [u8]` to answer it.
#[derive(Debug)]
pub struct Unverified<B> {
    datagram: B,
    kind: Kind,
    session: SessionId,
}

impl<B: AsRef<[u8]>> Unverified<B> {
    /// Checks everything that needs no key.
    ///
    /// # Errors
    /// Each of [`WireError`] but [`WireError::Tag`].
    pub fn parse(datagram: B) -> Result<Self, WireError> {
        let bytes = datagram.as_ref();
        let (kind, size) = kind_and_size(Form::Full, bytes)?;
        let stated = u16::from_be_bytes(bytes_at(bytes, 2));
        if stated != size {
            return Err(WireError::Size { found_byte: size.into(), stated_byte: stated.into() });
        }
        if kind != Kind::Reply && bytes[1] != 0 {
            return Err(WireError::Reserved { found: bytes[1] });
        }
        if kind != Kind::Reply
            && let Some(&found) = bytes[28..TAG_AT].iter().find(|&&byte| byte != 0)
        {
            return Err(WireError::Reserved { found });
        }
        let session = SessionId(u64::from_be_bytes(bytes_at(bytes, 4)));
        Ok(Self { datagram, kind, session })
    }

    /// The session it claims to belong to: to find the key with.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// What it claims to be.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The verified request or one-way probe.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for what comes from a responder.
    pub fn probe(&self, key: &SessionKey) -> Result<Probe, WireError> {
        let bytes = self.datagram.as_ref();
        if !matches!(self.kind, Kind::Request | Kind::OneWay) {
            return Err(WireError::Kind { found: bytes[0] & 0xf });
        }
        self.check_tag(key)?;
        Ok(self.probe_fields())
    }

    /// The verified packet of a train from the responder.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for anything else.
    pub fn reverse(&self, key: &SessionKey) -> Result<Reverse, WireError> {
        if self.kind != Kind::Reverse {
            return Err(WireError::Kind { found: self.datagram.as_ref()[0] & 0xf });
        }
        self.check_tag(key)?;
        let Probe { session, sequence, sent, .. } = self.probe_fields();
        Ok(Reverse { session, sequence, sent: Timestamp::from_nanos(sent.as_nanos()) })
    }

    /// The verified reply.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for anything but a reply; [`WireError::Reserved`].
    pub fn reply(&self, key: &SessionKey) -> Result<Reply, WireError> {
        let bytes = self.datagram.as_ref();
        if self.kind != Kind::Reply {
            return Err(WireError::Kind { found: bytes[0] & 0xf });
        }
        let flags = ReplyFlags::from_byte(bytes[1])?;
        self.check_tag(key)?;
        let turnaround = Turnaround {
            received: Timestamp::from_nanos(u64::from_be_bytes(bytes_at(bytes, 28))),
            replied: Timestamp::from_nanos(u64::from_be_bytes(bytes_at(bytes, 36))),
            accepted: u64::from_be_bytes(bytes_at(bytes, 44)),
            flags,
        };
        Ok(Reply { probe: self.probe_fields(), turnaround })
    }

    fn check_tag(&self, key: &SessionKey) -> Result<(), WireError> {
        let bytes = self.datagram.as_ref();
        let found = u64::from_be_bytes(bytes_at(bytes, TAG_AT));
        if key.tag(&bytes[..TAG_AT]) == found { Ok(()) } else { Err(WireError::Tag) }
    }

    fn probe_fields(&self) -> Probe {
        let bytes = self.datagram.as_ref();
        Probe {
            session: self.session,
            sequence: u64::from_be_bytes(bytes_at(bytes, 12)),
            sent: Timestamp::from_nanos(u64::from_be_bytes(bytes_at(bytes, 20))),
            wants_reply: self.kind != Kind::OneWay,
        }
    }
}

impl<'a> Unverified<&'a mut [u8]> {
    /// The verified request together with its bytes, ready to be answered in place.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for anything but a request.
    pub fn request(self, key: &SessionKey) -> Result<Request<'a>, WireError> {
        if self.kind != Kind::Request {
            return Err(WireError::Kind { found: self.datagram[0] & 0xf });
        }
        let probe = self.probe(key)?;
        Ok(Request { probe, datagram: self.datagram })
    }
}

/// A verified request and the bytes it came in. A reply can only be made by rewriting those bytes, so it is never
/// longer.
#[derive(Debug)]
pub struct Request<'a> {
    probe: Probe,
    datagram: &'a mut [u8],
}

impl<'a> Request<'a> {
    /// The request.
    #[must_use]
    pub const fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Rewrites the request into its reply, padding kept, and gives the bytes to send: exactly as many as came.
    #[must_use]
    pub fn into_reply(self, key: &SessionKey, turnaround: &Turnaround) -> &'a mut [u8] {
        let datagram = self.datagram;
        datagram[0] = first_byte(Form::Full, Kind::Reply);
        datagram[1] = turnaround.flags.to_byte();
        put(datagram, 28, &turnaround.received.as_nanos().to_be_bytes());
        put(datagram, 36, &turnaround.replied.as_nanos().to_be_bytes());
        put(datagram, 44, &turnaround.accepted.to_be_bytes());
        seal(key, datagram);
        datagram
    }
}

fn seal(key: &SessionKey, datagram: &mut [u8]) {
    let tag = key.tag(&datagram[..TAG_AT]);
    put(datagram, TAG_AT, &tag.to_be_bytes());
}
