use vtare_wire::{SessionId, SessionKey};

/// Key and name of a session as programs hold them: `struct secrets`.
#[must_use]
pub fn secrets(key: &SessionKey, session: SessionId) -> [u64; 3] {
    let [low, high] = [0, 8].map(|at| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&key.expose()[at..at + 8]);
        u64::from_le_bytes(bytes)
    });
    [low, high, u64::from_ne_bytes(session.0.to_be_bytes())]
}
