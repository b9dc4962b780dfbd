/// The ones' complement sum of `bytes` as 16-bit words in network order, on top of `sum`; an odd last byte counts as
/// the upper half of a word.
//= RFC 1071
#[must_use]
pub fn internet_sum(mut sum: u64, bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |last| u64::from(*last) << 8);
    sum += words.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>() + odd;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The Internet checksum of `bytes`, as it stands in a header whose checksum field was 0.
#[must_use]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    !internet_sum(0, bytes)
}
