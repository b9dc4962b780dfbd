//! Why nothing, or no more, could be measured or served.

/// The message names what was found and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpmError {
    /// The job cannot be carried out as it is.
    #[error("{0}")]
    Input(String),
    /// This machine refuses it.
    #[error("{0}")]
    Machine(String),
    /// The far end does not answer, or not as the draft wants.
    #[error("{0}")]
    Peer(String),
}

impl RpmError {
    /// The exit code that follows.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Machine(_) => 3,
            Self::Peer(_) => 4,
        }
    }

    pub(crate) fn peer(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Peer(format!("{what}: {error}"))
    }
}
