use std::net::SocketAddr;

use vtare_sys::SysError;

/// Why a responder cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No key, and an address that others can reach.
    #[error(
        "{listen} can be reached by others and there is no key: give one with --key-file or VTARE_KEY (`vtare serve \
         --new-key FILE` writes one), or listen on 127.0.0.1"
    )]
    NeedsKey {
        /// The address.
        listen: SocketAddr,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {listen} ({layer}): {source}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// TCP or UDP.
        layer: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system refused something that a responder cannot do without.
    #[error(transparent)]
    System(#[from] SysError),
    /// As above, from the standard library.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}
