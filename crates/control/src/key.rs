use std::fmt;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vtare_sys::named_file::{open_at_once, other_kind};
use vtare_sys::secret::LockedBytes;
use vtare_sys::whole_file::WholeFile;
use vtare_wire::heartbeat::HeartbeatKey;
use vtare_wire::stamp::StampKey;

const KEY_BYTE: usize = 32;

/// Stands in for a key where there is none. It is public: the connection is then encrypted against bystanders who only
/// listen, and authenticated by nothing, which is why a responder without a key serves its own host only.
const NO_KEY: [u8; KEY_BYTE] = *b"vtare without a key: loopback :)";

/// The key that clients and a responder share: 256 random bits, written as 64 hexadecimal digits.
///
/// There are no pass phrases: whoever records a handshake could try them one after another.
///
/// A clone shares the bytes: however often it is handed on, they are in memory once, locked there, and overwritten
/// after the last use.
#[derive(Clone)]
pub struct PresharedKey(Arc<LockedBytes>);

/// The longest text that is read from a key file.
const FILE_BYTE: usize = 1_024;

/// Rights over a file that its owner does not need to keep a key: those of the group and of all others.
const RIGHTS_OF_OTHERS: u32 = 0o077;

/// A key that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not 64 hexadecimal digits. The text itself is left out: it may be most of a key.
    #[error("{from} is not a key: it has {found_digits} characters{}, a key has 64 hexadecimal digits. Make one: \
        `vtare serve --new-key FILE`",
        if *.all_hex { "" } else { ", some of them not hexadecimal" })]
    Malformed {
        /// Where the key came from.
        from: String,
        /// How many characters there are.
        found_digits: usize,
        /// Whether all are hexadecimal digits.
        all_hex: bool,
    },
    /// The file cannot be read.
    #[error("cannot read the key file {path}: {source}{}",
        match .source.kind() {
            std::io::ErrorKind::NotFound => ": `vtare serve --new-key FILE` writes one, of which both ends have a copy",
            std::io::ErrorKind::PermissionDenied => ": only its owner may read it, so run this as its owner",
            _ => "",
        })]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is no ordinary one: reading a FIFO would wait for its writer.
    #[error("the key file {path} is {found}, not a regular file: copy the key into one, or give it in VTARE_KEY")]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// Others than its owner can read or write the file.
    #[error("the key file {path} has mode {mode:04o}, so others may use it: `chmod 600 {path}`")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its rights.
        mode: u32,
    },
    /// There is no memory for the key.
    #[error("no memory for a key: {source}")]
    Memory {
        /// The system's error.
        source: std::io::Error,
    },
    /// The file cannot be written. A file that exists is never replaced: others may hold that key.
    #[error("cannot write the key file {path}: {source}{}",
        if .source.kind() == std::io::ErrorKind::AlreadyExists {
            ": choose another name, or remove it first"
        } else {
            ""
        }
        )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system has no random bytes.
    #[error("the system's random source failed: {message}")]
    Random {
        /// Its message.
        message: String,
    },
}

impl PresharedKey {
    /// A new key from the system's random source.
    ///
    /// # Errors
    /// [`KeyError::Random`], [`KeyError::Memory`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = memory(KEY_BYTE)?;
        getrandom::fill(&mut bytes).map_err(|error| KeyError::Random { message: error.to_string() })?;
        Ok(Self(Arc::new(bytes)))
    }

    /// A new key with its digits, to be shown to whoever starts the responder. The digits of a key that existed before
    /// cannot be had.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub fn generate_with_digits() -> Result<(Self, LockedBytes), KeyError> {
        let key = Self::generate()?;
        let mut digits = memory(2 * KEY_BYTE)?;
        digits.copy_from_slice(&key.to_hex()?[..2 * KEY_BYTE]);
        Ok((key, digits))
    }

    /// Whether the kernel keeps the key in memory and never swaps it out.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// Reads 64 hexadecimal digits; white space around them is ignored. `from` names their source in errors.
    ///
    /// # Errors
    /// [`KeyError::Malformed`], [`KeyError::Memory`].
    ///
    /// ```
    /// use vtare_control::PresharedKey;
    /// let key = PresharedKey::parse("VTARE_KEY", &"0f".repeat(32))?;
    /// assert_eq!(format!("{key:?}"), "PresharedKey(..)");
    /// assert!(PresharedKey::parse("VTARE_KEY", "secret").is_err());
    /// # Ok::<(), vtare_control::KeyError>(())
    /// ```
    pub fn parse(from: &str, text: &str) -> Result<Self, KeyError> {
        // Some editors put a byte order mark before a text.
        let text = text.trim().trim_start_matches('\u{feff}');
        let digits = text.as_bytes();
        let all_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let found_digits = text.chars().count();
        if digits.len() != 2 * KEY_BYTE || !all_hex {
            return Err(KeyError::Malformed { from: from.to_owned(), found_digits, all_hex });
        }
        let mut bytes = memory(KEY_BYTE)?;
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(Self(Arc::new(bytes)))
    }

    /// Reads a key file, which must be a regular one that its owner alone can read.
    ///
    /// # Errors
    /// [`KeyError::Read`], [`KeyError::NotAFile`], [`KeyError::Exposed`], [`KeyError::Malformed`],
    /// [`KeyError::Memory`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fail = |source| KeyError::Read { path: path.to_owned(), source };
        let (mut file, facts) = open_at_once(path).map_err(fail)?;
        if let Some(found) = other_kind(&facts) {
            return Err(KeyError::NotAFile { path: path.to_owned(), found });
        }
        if facts.mode() & RIGHTS_OF_OTHERS != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode: facts.mode() & 0o7777 });
        }
        // A key is 64 digits: what is longer is some other file, perhaps one without an end.
        let mut text = memory(FILE_BYTE)?;
        let mut length = 0;
        while length < text.len() {
            match file.read(&mut text[length..]) {
                Ok(0) => break,
                Ok(got) => length += got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(error)),
            }
        }
        let text = std::str::from_utf8(&text[..length]);
        Self::parse(&path.display().to_string(), text.map_err(|error| fail(std::io::Error::other(error)))?)
    }

    /// Writes a key file that only its owner can read (0600). Nothing is replaced, and the file has its name only when
    /// it is whole and on the disk.
    ///
    /// # Errors
    /// [`KeyError::Write`], [`KeyError::Memory`].
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let fail = |source| KeyError::Write { path: path.to_owned(), source };
        let text = self.to_hex()?;
        let file = WholeFile::create_private(path).map_err(fail)?;
        file.handle().and_then(|mut handle| handle.write_all(&text)).map_err(fail)?;
        file.keep().map_err(fail)
    }

    /// The digits and the end of the line.
    fn to_hex(&self) -> Result<LockedBytes, KeyError> {
        let mut text = memory(2 * KEY_BYTE + 1)?;
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0.iter()) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        text[2 * KEY_BYTE] = b'\n';
        Ok(text)
    }

    /// The same key for STAMP's authenticated mode.
    #[must_use]
    pub fn for_stamp(&self) -> StampKey {
        StampKey::new(*Self::bytes_or_public(Some(self)))
    }

    /// The key of a file; without one that of the variable `VTARE_KEY`, where it is set.
    ///
    /// # Errors
    /// As [`PresharedKey::read`] and [`PresharedKey::parse`].
    pub fn of_file_or_variable(file: Option<&Path>) -> Result<Option<Self>, KeyError> {
        match (file, std::env::var("VTARE_KEY")) {
            (Some(path), _) => Self::read(path).map(Some),
            (None, Ok(text)) => Self::parse("VTARE_KEY", &text).map(Some),
            (None, Err(_)) => Ok(None),
        }
    }

    /// The key of time heartbeats; without a key one that anybody knows, for witnesses on this host only.
    #[must_use]
    pub fn for_heartbeats(key: Option<&Self>) -> HeartbeatKey {
        HeartbeatKey::derive(&StampKey::new(*Self::bytes_or_public(key)))
    }

    /// The bytes for the handshake.
    pub(super) fn bytes_or_public(key: Option<&Self>) -> &[u8; KEY_BYTE] {
        key.and_then(|key| key.0.first_chunk()).unwrap_or(&NO_KEY)
    }
}

impl PartialEq for PresharedKey {
    fn eq(&self, other: &Self) -> bool {
        self.0[..] == other.0[..]
    }
}

impl Eq for PresharedKey {}

fn memory(length: usize) -> Result<LockedBytes, KeyError> {
    LockedBytes::new(length).map_err(|source| KeyError::Memory { source })
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

const fn digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[(nibble & 0xf) as usize]
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(..)")
    }
}
