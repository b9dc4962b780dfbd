use std::io;
use std::path::PathBuf;

/// What the operating system refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SysError {
    /// A system call failed. `remedy`: what lets it succeed, where that is known.
    #[error("{call} failed: {source}{remedy}")]
    Call {
        /// The call with the arguments that matter.
        call: String,
        /// What the kernel answered.
        source: io::Error,
        /// Empty, or `: ` and the way out.
        remedy: &'static str,
    },
    /// A file of `/proc` or `/sys` could not be read or understood.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl SysError {
    pub(crate) fn last(call: impl Into<String>, remedy: &'static str) -> Self {
        Self::Call { call: call.into(), source: io::Error::last_os_error(), remedy }
    }

    /// The `errno` behind the error, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { source, .. } | Self::File { source, .. } => source.raw_os_error(),
        }
    }
}

/// The kernel's own answer where there is one, so that its kind is kept; else the message.
impl From<SysError> for io::Error {
    fn from(error: SysError) -> Self {
        error.errno().map_or_else(|| Self::other(error), Self::from_raw_os_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_kernel_keeps_its_number_and_any_other_its_message() {
        let call = |source| SysError::Call { call: "bind".to_owned(), source, remedy: ": choose another port" };
        let in_use = io::Error::from(call(io::Error::from_raw_os_error(libc::EADDRINUSE)));
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        let other = io::Error::from(call(io::Error::other("no such layer")));
        assert_eq!(other.to_string(), "bind failed: no such layer: choose another port");
    }
}
