/// Which way a packet crossed the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// It came in.
    Rx,
    /// It went out.
    Tx,
}

impl Direction {
    /// `rx` or `tx`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
        }
    }
}
