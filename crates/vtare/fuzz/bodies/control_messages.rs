//! Every decoder of the control connection on the same bytes: a value or an error, and a value survives being
//! encoded again.

use vtare_control::{PresharedKey, decode, decode_answer, encode, encode_answer, frame};
use vtare_wire::preamble;
use vtare_wire::session::{Arrivals, LARGEST_ARRIVALS_BYTE, Limits, ToClient, ToResponder};

/// One case.
pub(crate) fn run(data: &[u8]) {
    if let Ok(message) = decode::<ToResponder>(data) {
        let text = encode(&message).expect("what was decoded encodes");
        assert_eq!(decode::<ToResponder>(&text).expect("and decodes"), message);
        if let ToResponder::Open(open) = message {
            // The refusal is shown to people: its words must hold for any request.
            let _ = Limits::default().check(&open).map_err(|refusal| refusal.to_string());
        }
    }
    if let Ok(message) = decode_answer(data) {
        let text = encode_answer(&message).expect("what was decoded encodes");
        assert_eq!(decode_answer(&text).expect("and decodes"), message);
        if let ToClient::Refused(refusal) = message {
            let _ = refusal.to_string();
        }
    }
    if let Ok(arrivals) = Arrivals::decode(data) {
        let bytes = arrivals.encode();
        assert!(bytes.len() <= LARGEST_ARRIVALS_BYTE);
        let first = Arrivals::decode(&bytes).expect("it was written by us");
        let whole = |part: &Arrivals| part.left.saturating_add(part.records.len() as u64);
        assert_eq!(whole(&first), whole(&arrivals));
    }
    if let Ok(Some(body)) = frame::first(data, 2_000) {
        assert!(body.len() + frame::LENGTH_BYTE <= data.len());
    }
    if let Some(bytes) = data.first_chunk() {
        let _ = (preamble::read_client(bytes), preamble::read_responder(bytes));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = PresharedKey::parse("fuzz", text);
    }
}
