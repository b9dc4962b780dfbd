/// Reads `N` bytes at `at`. Callers have checked the length; where they have not, zeros come out instead of a panic.
pub(crate) fn bytes_at<const N: usize>(datagram: &[u8], at: usize) -> [u8; N] {
    datagram.get(at..at + N).and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}

/// Writes `bytes` at `at`, where there is room.
pub(crate) fn put(datagram: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(slot) = datagram.get_mut(at..at + bytes.len()) {
        slot.copy_from_slice(bytes);
    }
}
