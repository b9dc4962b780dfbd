//! Any bytes as a capture file.

use vtare_capture::pcap::Reader;

/// One case.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(mut reader) = Reader::open(bytes) else { return };
    let mut captured = 0;
    while let Ok(Some(frame)) = reader.next_frame() {
        captured += frame.bytes.len();
    }
    assert!(captured <= bytes.len());
    let _ = (reader.cut_short(), reader.counts());
}
