use crate::error::WireError;
use crate::format::{FULL_HEADER_BYTE, LARGEST_BYTE, LEAST_HEADER_BYTE, VERSION};

/// What a datagram is for; the lower half of its first byte, without the bit of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Wants one reply.
    Request,
    /// Answers one request.
    Reply,
    /// Wants no reply: the far end records its arrival (trains, throughput).
    OneWay,
    /// Of a train that the responder sends because its client asked for it; full form only. A kind of its own, so that
    /// none of them can be sent to the responder as a probe.
    Reverse,
}

/// Which native form a datagram has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// [`full`](crate::full).
    Full,
    /// [`short`](crate::short).
    Short,
}

const SHORT_BIT: u8 = 0x8;

/// The first byte of a datagram of this form and kind.
pub const fn first_byte(form: Form, kind: Kind) -> u8 {
    let kind = match kind {
        Kind::Request => 1,
        Kind::Reply => 2,
        Kind::OneWay => 3,
        Kind::Reverse => 4,
    };
    let form = match form {
        Form::Full => 0,
        Form::Short => SHORT_BIT,
    };
    VERSION << 4 | form | kind
}

/// Form and kind of a datagram, from its first byte.
///
/// # Errors
/// [`WireError::TooShort`] for no bytes, [`WireError::Version`], [`WireError::Kind`].
pub fn peek(datagram: &[u8]) -> Result<(Form, Kind), WireError> {
    let &first = datagram.first().ok_or(WireError::TooShort { found_byte: 0, need_byte: LEAST_HEADER_BYTE })?;
    if first >> 4 != VERSION {
        return Err(WireError::Version { found: first >> 4 });
    }
    let form = if first & SHORT_BIT == 0 { Form::Full } else { Form::Short };
    match first & 0x7 {
        1 => Ok((form, Kind::Request)),
        2 => Ok((form, Kind::Reply)),
        3 => Ok((form, Kind::OneWay)),
        4 if form == Form::Full => Ok((form, Kind::Reverse)),
        _ => Err(WireError::Kind { found: first & 0xf }),
    }
}

impl Form {
    /// Bytes of its header: the smallest datagram.
    const fn header_byte(self) -> usize {
        match self {
            Self::Full => FULL_HEADER_BYTE,
            Self::Short => LEAST_HEADER_BYTE,
        }
    }

    /// The size of a datagram, where the header fits in and the format allows it.
    pub(crate) fn check_size(self, found_byte: usize) -> Result<u16, WireError> {
        let need_byte = self.header_byte();
        match u16::try_from(found_byte) {
            _ if found_byte < need_byte => Err(WireError::TooShort { found_byte, need_byte }),
            Ok(size) if found_byte <= LARGEST_BYTE => Ok(size),
            _ => Err(WireError::TooLong { found_byte }),
        }
    }
}

/// Kind and size of a datagram that must be of this form.
pub(crate) fn kind_and_size(wanted: Form, datagram: &[u8]) -> Result<(Kind, u16), WireError> {
    let (form, kind) = peek(datagram)?;
    if form != wanted {
        return Err(WireError::Kind { found: datagram[0] & 0xf });
    }
    Ok((kind, wanted.check_size(datagram.len())?))
}
