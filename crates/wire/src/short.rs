//! The short form: 18 B, all that a 64 B Ethernet frame has room for under IPv4 and UDP.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version, kind: 0x19 request, 0x1a reply, 0x1b one-way |
//! | 1..3 | handle: the responder's number for the session |
//! | 3..7 | the lower half of the sequence number |
//! | 7..11 | request, one-way: send time, ns, lower 32 bits; reply: time from arrival to departure at the responder, ns |
//! | 11..18 | the upper 56 bits of the tag |
//! | 18.. | padding |
//!
//! The session id and the whole sequence number are not sent but covered by the tag, so a packet of another session or
//! of another 2^32 packets fails the check. What has no room (responder's stamps, counters) is missing, never zero:
//! counters come over the control connection.

use vtare_units::{Monotonic, Span, Timestamp};

use crate::bytes::{bytes_at, put};
use crate::form::{Form, Kind, first_byte, kind_and_size};
use crate::format::LEAST_HEADER_BYTE;
use crate::{SessionId, SessionKey, WireError};

/// Bytes of the header: the smallest datagram of this form.
pub const HEADER_BYTE: usize = LEAST_HEADER_BYTE;

const TAG_AT: usize = 11;

/// What both ends know of a session and no short datagram carries.
#[derive(Clone, Copy, Debug)]
pub struct Context<'k> {
    /// The session.
    pub session: SessionId,
    /// The responder's number for it.
    pub handle: u16,
    /// Its key.
    pub key: &'k SessionKey,
}

/// A short request or one-way probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its whole number.
    pub sequence: u64,
    /// The lower 32 bits of its send time in ns: [`Probe::sent_near`] gives the whole.
    pub sent_low_ns: u32,
    /// Whether the far end shall answer.
    pub wants_reply: bool,
}

impl Probe {
    /// A probe sent at `sent`.
    #[must_use]
    pub const fn new(sequence: u64, sent: Timestamp<Monotonic>, wants_reply: bool) -> Self {
        Self { sequence, sent_low_ns: sent.as_nanos() as u32, wants_reply }
    }

    /// The send time that is nearest to `arrived`, on the sender's clock: right where it is less than 2.1 s away.
    #[must_use]
    pub fn sent_near(&self, arrived: Timestamp<Monotonic>) -> Timestamp<Monotonic> {
        let since = (arrived.as_nanos() as u32).wrapping_sub(self.sent_low_ns).cast_signed();
        arrived - Span::from_nanos(since.into())
    }

    /// Writes the header into `datagram`, whose length is the size of the datagram; the padding stays as it is.
    ///
    /// # Errors
    /// [`WireError::TooShort`] below [`HEADER_BYTE`], [`WireError::TooLong`] above
    /// [`LARGEST_BYTE`](crate::LARGEST_BYTE).
    pub fn encode(&self, context: &Context<'_>, datagram: &mut [u8]) -> Result<(), WireError> {
        Form::Short.check_size(datagram.len())?;
        let kind = if self.wants_reply { Kind::Request } else { Kind::OneWay };
        datagram[0] = first_byte(Form::Short, kind);
        put(datagram, 1, &context.handle.to_be_bytes());
        put(datagram, 3, &(self.sequence as u32).to_be_bytes());
        put(datagram, 7, &self.sent_low_ns.to_be_bytes());
        seal(context, self.sequence, datagram);
        Ok(())
    }
}

/// A verified short reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The whole number of the request it answers.
    pub sequence: u64,
    /// Time from the request's arrival to the reply's departure at the responder; `None` where that was 4.29 s or
    /// more.
    pub turnaround: Option<Span>,
}

/// A datagram of the short form whose tag has not been checked yet. `B` is `&[u8]` to read it, `&mut [u8]` to answer
/// it.
#[derive(Debug)]
pub struct Unverified<B> {
    datagram: B,
    kind: Kind,
}

impl<B: AsRef<[u8]>> Unverified<B> {
    /// Checks everything that needs no key.
    ///
    /// # Errors
    /// [`WireError::TooShort`], [`WireError::TooLong`], [`WireError::Version`], [`WireError::Kind`].
    pub fn parse(datagram: B) -> Result<Self, WireError> {
        let bytes = datagram.as_ref();
        let (kind, _) = kind_and_size(Form::Short, bytes)?;
        Ok(Self { datagram, kind })
    }

    /// The handle: to find the session with.
    #[must_use]
    pub fn handle(&self) -> u16 {
        u16::from_be_bytes(bytes_at(self.datagram.as_ref(), 1))
    }

    /// What it claims to be.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The verified request or one-way probe. `near` is the highest sequence number seen so far: of all numbers with
    /// the lower half that was sent, the one nearest to it is meant.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for a reply.
    pub fn probe(&self, context: &Context<'_>, near: u64) -> Result<Probe, WireError> {
        if self.kind == Kind::Reply {
            return Err(WireError::Kind { found: self.datagram.as_ref()[0] & 0xf });
        }
        let sequence = self.verified_sequence(context, near)?;
        let sent_low_ns = u32::from_be_bytes(bytes_at(self.datagram.as_ref(), 7));
        Ok(Probe { sequence, sent_low_ns, wants_reply: self.kind == Kind::Request })
    }

    /// The verified reply; `near` is the highest sequence number sent so far.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for anything but a reply.
    pub fn reply(&self, context: &Context<'_>, near: u64) -> Result<Reply, WireError> {
        if self.kind != Kind::Reply {
            return Err(WireError::Kind { found: self.datagram.as_ref()[0] & 0xf });
        }
        let sequence = self.verified_sequence(context, near)?;
        let turnaround = match u32::from_be_bytes(bytes_at(self.datagram.as_ref(), 7)) {
            u32::MAX => None,
            ns => Some(Span::from_nanos(ns.into())),
        };
        Ok(Reply { sequence, turnaround })
    }

    fn verified_sequence(&self, context: &Context<'_>, near: u64) -> Result<u64, WireError> {
        let bytes = self.datagram.as_ref();
        let sequence = whole_sequence(u32::from_be_bytes(bytes_at(bytes, 3)), near);
        let expected = tag(context, sequence, bytes);
        if self.handle() == context.handle && bytes_at::<7>(bytes, TAG_AT) == expected {
            Ok(sequence)
        } else {
            Err(WireError::Tag)
        }
    }
}

impl<'a> Unverified<&'a mut [u8]> {
    /// The verified request together with its bytes, ready to be answered in place.
    ///
    /// # Errors
    /// [`WireError::Tag`]; [`WireError::Kind`] for anything but a request.
    pub fn request(self, context: &Context<'_>, near: u64) -> Result<Request<'a>, WireError> {
        if self.kind != Kind::Request {
            return Err(WireError::Kind { found: self.datagram[0] & 0xf });
        }
        let probe = self.probe(context, near)?;
        Ok(Request { probe, datagram: self.datagram })
    }
}

/// A verified short request and the bytes it came in. A reply can only be made by rewriting those, so it is never
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

    /// Rewrites the request into its reply and gives the bytes to send: exactly as many as came. `turnaround` is the
    /// time since the request's arrival.
    #[must_use]
    pub fn into_reply(self, context: &Context<'_>, turnaround: Span) -> &'a mut [u8] {
        let datagram = self.datagram;
        datagram[0] = first_byte(Form::Short, Kind::Reply);
        let turnaround = u32::try_from(turnaround.as_nanos_unsigned()).unwrap_or(u32::MAX);
        put(datagram, 7, &turnaround.to_be_bytes());
        seal(context, self.probe.sequence, datagram);
        datagram
    }
}

/// The number with lower half `low` that is nearest to `near`; ties go up, and below 0 there is nothing.
#[must_use]
pub fn whole_sequence(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(ahead.into()).unwrap_or(u64::from(low) | (near & !u64::from(u32::MAX)))
}

fn tag(context: &Context<'_>, sequence: u64, datagram: &[u8]) -> [u8; 7] {
    let mut covered = [0_u8; TAG_AT + 16];
    covered[..TAG_AT].copy_from_slice(&bytes_at::<TAG_AT>(datagram, 0));
    put(&mut covered, TAG_AT, &context.session.0.to_be_bytes());
    put(&mut covered, TAG_AT + 8, &sequence.to_be_bytes());
    bytes_at(&context.key.tag(&covered).to_be_bytes(), 0)
}

fn seal(context: &Context<'_>, sequence: u64, datagram: &mut [u8]) {
    let tag = tag(context, sequence, datagram);
    put(datagram, TAG_AT, &tag);
}
