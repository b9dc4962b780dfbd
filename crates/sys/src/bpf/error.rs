use std::io;

/// Why a kernel program cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The right is missing.
    #[error("{doing}: not permitted without {need}: run as root, or grant it with setcap")]
    NotPermitted {
        /// What was being done.
        doing: String,
        /// The capability that allows it.
        need: &'static str,
    },
    /// The kernel, or the interface's driver, does not know it.
    #[error("{doing}: not supported by this kernel ({source}), needs {want}")]
    NotSupported {
        /// What was being done.
        doing: String,
        /// From which release on, or which option.
        want: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The verifier refused the program.
    #[error("program {program} is refused by this kernel's verifier ({source}); its log:\n{log}")]
    Verifier {
        /// The program.
        program: String,
        /// Its log; the end of it, where it is long.
        log: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The bytes are no program file that can be loaded.
    #[error("kernel program file {file}: {found}")]
    Object {
        /// The file.
        file: String,
        /// What is wrong with it.
        found: String,
    },
    /// Any other refusal.
    #[error("{doing}: {source}{remedy}")]
    Call {
        /// What was being done.
        doing: String,
        /// What the kernel answered.
        source: io::Error,
        /// Empty, or `: ` and the way out.
        remedy: &'static str,
    },
}

impl BpfError {
    /// Sorts what the kernel answered; `want` is what it would take to support this, `need` the capability.
    pub(super) fn of(source: io::Error, doing: impl Into<String>, need: &'static str, want: &'static str) -> Self {
        let doing = doing.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { doing, need },
            Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | libc::E2BIG | 524) => {
                Self::NotSupported { doing, want, source }
            }
            Some(libc::EBUSY | libc::EEXIST) => Self::Call {
                doing,
                source,
                remedy: ": another program is attached there; remove it first (ip link, bpftool net)",
            },
            _ => Self::Call { doing, source, remedy: "" },
        }
    }

    /// Whether a signal ended it.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.errno() == Some(libc::EINTR)
    }

    /// The `errno` behind the error, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::NotSupported { source, .. } | Self::Verifier { source, .. } | Self::Call { source, .. } => {
                source.raw_os_error()
            }
            Self::NotPermitted { .. } => Some(libc::EPERM),
            Self::Object { .. } => None,
        }
    }
}
