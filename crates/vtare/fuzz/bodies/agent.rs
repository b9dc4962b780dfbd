//! Any bytes on the control channel of a guest: the frames in them, the messages in those, and the paths in these.

use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "../../src/agent/files.rs"]
#[allow(dead_code, reason = "only what decodes is called here")]
mod files;
#[path = "../../src/agent/frame.rs"]
#[allow(dead_code, reason = "as above")]
pub(crate) mod frame;
#[path = "../../src/agent/messages.rs"]
#[allow(dead_code, reason = "as above")]
mod messages;

use files::Reach;
use frame::{Decoder, Frame, MAX_PAYLOAD_BYTE};

/// Bytes of a frame beside its payload.
const AROUND_BYTE: usize = 21;

/// One case: the bytes as a stream that is cut in pieces, as payloads of frames with noise between, and as each
/// message.
pub(crate) fn run(bytes: &[u8]) {
    stream(bytes);
    framed(bytes);
    payload(bytes);
}

/// With right checks, so that more than one frame in 2^32 is one.
fn framed(bytes: &[u8]) {
    let mut sent = Vec::new();
    for chunk in bytes.chunks(23) {
        sent.extend(Frame::encode(frame::Kind::Data, u32::from(chunk[0]), &chunk[1..]));
        // Noise between frames is passed over; it must not begin one.
        sent.extend(chunk.iter().filter(|byte| **byte != b'v'));
    }
    let found = Decoder::default().take(&sent);
    assert_eq!(found.len(), bytes.chunks(23).len(), "noise costs no frame");
    for (frame, chunk) in found.iter().zip(bytes.chunks(23)) {
        assert_eq!((frame.job, &frame.payload[..]), (u32::from(chunk[0]), &chunk[1..]));
    }
}

fn stream(bytes: &[u8]) {
    let whole = Decoder::default().take(bytes);
    let (mut decoder, mut found, mut rest) = (Decoder::default(), Vec::new(), bytes);
    while let Some(first) = rest.first() {
        let (piece, behind) = rest.split_at((usize::from(*first) + 1).min(rest.len()));
        found.extend(decoder.take(piece));
        rest = behind;
    }
    assert_eq!(found, whole, "it does not matter how the line cuts them");
    let framed: usize = found.iter().map(|frame| AROUND_BYTE + frame.payload.len()).sum();
    let held = bytes.len() - framed - decoder.skipped_byte as usize;
    assert!(held <= AROUND_BYTE + MAX_PAYLOAD_BYTE, "{held} B are kept");
    for frame in found {
        let again = Frame::encode(frame.kind, frame.job, &frame.payload);
        assert!(bytes.windows(again.len()).any(|window| window == again), "a frame that was not sent");
    }
}

fn payload(bytes: &[u8]) {
    survives::<messages::Start>(bytes);
    survives::<messages::Signal>(bytes);
    survives::<messages::Whole>(bytes);
    survives::<messages::Path>(bytes);
    if let Ok(messages::Path { path }) = serde_json::from_slice(bytes) {
        stays_below(&path);
    }
    stays_below(Path::new(&*String::from_utf8_lossy(bytes)));
}

/// What decodes is the same after it was encoded.
fn survives<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(bytes) else { return };
    let text = serde_json::to_vec(&message).expect("it was JSON before");
    let again: T = serde_json::from_slice(&text).expect("it was just written");
    assert_eq!(serde_json::to_vec(&again).expect("as before"), text);
}

/// A path that is let pass leads to a place below the directory of the agent, on this machine's own file system.
fn stays_below(path: &Path) {
    static REACH: OnceLock<Reach> = OnceLock::new();
    const BELOW: &str = "/proc/self";
    let reach = REACH.get_or_init(|| Reach::below(Path::new(BELOW)).expect("it is a directory"));
    let below = Path::new(BELOW).canonicalize().expect("it is there");
    for path in [path.to_owned(), below.join(path), Path::new(BELOW).join(path)] {
        if let Ok(real) = reach.check(&path) {
            let there = real.ancestors().find(|part| part.symlink_metadata().is_ok()).expect("/ is");
            let real = there.canonicalize().expect("it is there");
            assert!(real.starts_with(&below), "{} leads to {}", path.display(), real.display());
        }
    }
}
