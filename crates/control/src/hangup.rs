use vtare_wire::preamble::VERSION;
use vtare_wire::session::FlowCause;

/// Messages that a client may send in one second at most. Opening, counting once a second and closing take far
/// fewer.
pub(crate) const MESSAGES_PER_S: u64 = 20;

/// Why a connection is to be closed, once its outbox has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Hangup {
    /// The first bytes are another protocol's.
    #[error("not a vtare client: another protocol's bytes")]
    OtherProtocol,
    /// Another version of the encrypted connection.
    #[error("connection version {found}, this program speaks {VERSION}: install the same release at both ends")]
    Version {
        /// The client's.
        found: u8,
    },
    /// The client has no key.
    #[error("a client without a key: give it the key file")]
    NeedsKey,
    /// The client has a key and this responder has none.
    #[error("a client with a key, and this responder has none: start it with --key-file")]
    HasNoKey,
    /// The client's key is another one, or the handshake was changed on the way.
    #[error("wrong key")]
    WrongKey,
    /// A copy of a first message that came before.
    #[error("a copy of a first handshake message that came before")]
    Replayed,
    /// A frame longer than any message.
    #[error("a frame of {found_byte} B, at most {most_byte} B are taken")]
    TooLong {
        /// Bytes that its header states.
        found_byte: usize,
        /// Bytes that are taken.
        most_byte: usize,
    },
    /// A frame that does not decrypt.
    #[error("a frame that does not decrypt")]
    Seal,
    /// A decrypted frame that is no message.
    #[error("no message of this control version")]
    Message,
    /// The cipher could not be set up or used.
    #[error("the cipher failed")]
    Cipher,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    SlowHandshake,
    /// No message came for too long, and no session is open.
    #[error("no session and no message for too long")]
    Idle,
    /// More messages than anybody needs.
    #[error("more than {MESSAGES_PER_S} messages a second")]
    TooManyMessages,
    /// As many connections with the key as are allowed.
    #[error("as many connections with the key as are allowed")]
    TooManyConnections,
    /// A data connection that is not let in.
    #[error(transparent)]
    Stream(FlowCause),
    /// The client sent a message out of turn, or has no control version in common. The refusal has been sent.
    #[error("refused: no control version in common, or a message out of turn")]
    Refused,
}
