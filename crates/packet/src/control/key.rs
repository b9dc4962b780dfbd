use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use zeroize::{Zeroize, ZeroizeOnDrop};

const KEY_BYTE: usize = 32;

/// Stands in for a key where there is none. It is public: the connection is then encrypted against bystanders who only listen, and
/// authenticated by nothing, which is why a responder without a key serves its own host only.
const NO_KEY: [u8; KEY_BYTE] = *b"vtare without a key: loopback :)";

/// The key that clients and a responder share: 256 random bits, written as 64 hexadecimal digits.
///
/// There are no pass phrases: whoever records a handshake could try them one after another.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey([u8; KEY_BYTE]);

/// A key that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not 64 hexadecimal digits. The text itself is not shown: it may be most of a key.
    #[error("{from}: found {found_digits} characters{}, want 64 hexadecimal digits: `vtare serve --new-key FILE` writes such a key",
        if *.all_hex { "" } else { ", not all of them hexadecimal digits" })]
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
            std::io::ErrorKind::PermissionDenied => ": it is for its owner's eyes only, so run this as its owner",
            _ => "",
        })]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file cannot be written. A file that exists is never replaced: others may hold that key.
    #[error("cannot write the key file {path}: {source}{}",
        if .source.kind() == std::io::ErrorKind::AlreadyExists { ": choose another name, or remove it first" } else { "" })]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system has no random bytes.
    #[error("the system's random source failed: {said}")]
    Random {
        /// What it said.
        said: String,
    },
}

impl PresharedKey {
    /// A new key from the system's random source.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; KEY_BYTE];
        getrandom::fill(&mut bytes).map_err(|error| KeyError::Random { said: error.to_string() })?;
        Ok(Self(bytes))
    }

    /// Reads 64 hexadecimal digits; white space around them is ignored. `from` says in errors where they came from.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    ///
    /// ```
    /// use vtare_packet::control::PresharedKey;
    /// let key = PresharedKey::parse("VTARE_KEY", &"0f".repeat(32))?;
    /// assert_eq!(format!("{key:?}"), "PresharedKey(..)");
    /// assert!(PresharedKey::parse("VTARE_KEY", "secret").is_err());
    /// # Ok::<(), vtare_packet::control::KeyError>(())
    /// ```
    pub fn parse(from: &str, text: &str) -> Result<Self, KeyError> {
        let digits = text.trim().as_bytes();
        let all_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let found_digits = text.trim().chars().count();
        if digits.len() != 2 * KEY_BYTE || !all_hex {
            return Err(KeyError::Malformed { from: from.to_owned(), found_digits, all_hex });
        }
        let mut bytes = [0; KEY_BYTE];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(Self(bytes))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`KeyError::Read`], [`KeyError::Malformed`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fail = |source| KeyError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        // A key is 64 digits: what is longer is some other file, perhaps one without an end.
        std::fs::File::open(path).map_err(fail)?.take(1024).read_to_string(&mut text).map_err(fail)?;
        let key = Self::parse(&path.display().to_string(), &text);
        text.zeroize();
        key
    }

    /// Writes a key file that only its owner can read (0600). Nothing is replaced; nothing half written is left.
    ///
    /// # Errors
    /// [`KeyError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        use std::os::unix::fs::OpenOptionsExt;

        let fail = |source| KeyError::Write { path: path.to_owned(), source };
        let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).map_err(fail)?;
        let mut text = self.to_hex();
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        text.zeroize();
        written.map_err(|source| {
            // Best effort: the error that matters is the one being told.
            let _ = std::fs::remove_file(path);
            fail(source)
        })
    }

    fn to_hex(&self) -> String {
        let mut text: String = self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect();
        text.push('\n');
        text
    }

    /// The bytes for the handshake.
    pub(super) fn bytes_or_public(key: Option<&Self>) -> &[u8; KEY_BYTE] {
        key.map_or(&NO_KEY, |key| &key.0)
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).unwrap_or('0')
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(..)")
    }
}
