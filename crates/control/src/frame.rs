//! Frames: two bytes of length, big-endian, then this many bytes.

/// Bytes of the length.
pub const LENGTH_BYTE: usize = 2;

/// A frame that is longer than its reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {found_byte} B, at most {most_byte} B are taken")]
pub struct TooLong {
    /// Bytes that its header states.
    pub found_byte: usize,
    /// Bytes that are taken.
    pub most_byte: usize,
}

/// The first frame in `bytes`, without its length; `None` while it is not whole. A length above `most_byte` is refused
/// before a byte of it has come.
///
/// # Errors
/// [`TooLong`].
///
/// ```
/// use vtare_control::frame;
/// assert_eq!(frame::first(&[0, 3, 7, 8, 9, 0], 100), Ok(Some(&[7, 8, 9][..])));
/// assert_eq!(frame::first(&[0, 3, 7, 8], 100), Ok(None));
/// assert!(frame::first(&[0xff, 0xff], 100).is_err());
/// ```
pub fn first(bytes: &[u8], most_byte: usize) -> Result<Option<&[u8]>, TooLong> {
    let Some(&[high, low]) = bytes.get(..LENGTH_BYTE) else { return Ok(None) };
    let found_byte = usize::from(u16::from_be_bytes([high, low]));
    if found_byte > most_byte {
        return Err(TooLong { found_byte, most_byte });
    }
    Ok(bytes.get(LENGTH_BYTE..LENGTH_BYTE + found_byte))
}

/// Appends a frame of `body` to `out`; bodies above 65,535 B do not occur, see [`super::LARGEST_ANSWER_BYTE`].
///
/// # Errors
/// [`TooLong`].
pub fn append(out: &mut Vec<u8>, body: &[u8]) -> Result<(), TooLong> {
    let too_long = TooLong { found_byte: body.len(), most_byte: u16::MAX.into() };
    let length = u16::try_from(body.len()).map_err(|_| too_long)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}
