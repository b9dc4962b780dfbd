//! Files of `/proc` and `/sys`: read whole where they are files, and never waited for.
//!
//! In a container anything may be mounted in their place. A pipe would hold a reader up for ever, and a device may have
//! no end; what is no ordinary file, or is longer than any file of the kernel, counts as missing.

use std::io::Read as _;
use std::path::Path;

use crate::named_file::{open_at_once, other_kind};

/// Bytes of a file at most: `/proc/interrupts` of a machine with 512 CPUs has about 2 MB.
const MOST_BYTE: u64 = 16 << 20;

/// The content of a file; `None` where there is none, or where it is not one of the kernel's.
///
/// ```
/// assert_eq!(vtare_sys::kernel_file::bytes("/dev/zero"), None);
/// ```
#[must_use]
pub fn bytes(path: impl AsRef<Path>) -> Option<Vec<u8>> {
    let (file, facts) = open_at_once(path.as_ref()).ok()?;
    if other_kind(&facts).is_some() {
        return None;
    }
    // A page at once: their size is stated as 0, and from an empty buffer ten reads would take what one takes.
    let mut content = Vec::with_capacity(4096);
    let byte = file.take(MOST_BYTE + 1).read_to_end(&mut content).ok()?;
    (byte as u64 <= MOST_BYTE).then_some(content)
}

/// The same as text, in which bytes that are none are replaced.
#[must_use]
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let replaced = |error: std::string::FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    bytes(path).map(|content| String::from_utf8(content).unwrap_or_else(replaced))
}

/// The name of this boot of the kernel, another after each.
#[must_use]
pub fn boot_id() -> Option<String> {
    text("/proc/sys/kernel/random/boot_id").map(|line| line.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Whether `/proc` is mounted.
#[must_use]
pub fn has_proc() -> bool {
    text("/proc/self/stat").is_some_and(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_a_directory_and_what_is_too_long_are_missing() {
        let place = std::env::temp_dir().join(format!("vtare-kernel-file-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("the temporary directory is writable");
        let made = std::process::Command::new("mkfifo").arg(place.join("pipe")).status().expect("it is installed");
        assert!(made.success());
        let long = std::fs::File::create(place.join("long")).expect("it is writable");
        long.set_len(MOST_BYTE + 1).expect("it is sparse");
        std::fs::write(place.join("bytes"), [0xff, b'a']).expect("it is writable");
        for name in ["pipe", "long", ".", "none"] {
            assert_eq!(bytes(place.join(name)), None, "{name}");
        }
        assert_eq!(text(place.join("bytes")).as_deref(), Some("\u{fffd}a"));
        std::fs::remove_dir_all(place).expect("it is ours");
    }
}
