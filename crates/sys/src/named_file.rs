//! Files that a person or another program names: opened without waiting, and only where they are regular files.
//!
//! A pipe that nobody writes to would hold a reader up for ever, and a device may have no end.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens whatever stands there, without waiting for a writer, and states what it is.
///
/// # Errors
/// What the file system answers.
pub fn open_at_once(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let facts = file.metadata()?;
    Ok((file, facts))
}

/// What something is that is no regular file; `None` for one.
#[must_use]
pub fn other_kind(facts: &Metadata) -> Option<&'static str> {
    let kind = facts.file_type();
    Some(match kind {
        kind if kind.is_file() => return None,
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    })
}

/// Opens a regular file for reading, or an input that this process was started with (`/dev/stdin`, `/dev/fd/63`, which
/// is what a shell makes of `<(...)`).
///
/// # Errors
/// What the file system answers, and for anything else.
pub fn open(path: &Path) -> io::Result<File> {
    if path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") {
        return File::open(path);
    }
    let (file, facts) = open_at_once(path)?;
    match other_kind(&facts) {
        None => Ok(file),
        Some(kind) => Err(io::Error::other(format!("it is {kind}, not a regular file"))),
    }
}

/// Opens a regular file for writing, empty; makes it where there is none.
///
/// # Errors
/// What the file system answers, and where something else has that name.
pub fn create(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().write(true).create(true).truncate(false).custom_flags(flags).open(path)?;
    if let Some(kind) = other_kind(&file.metadata()?) {
        return Err(io::Error::other(format!("it is {kind}, not a regular file")));
    }
    file.set_len(0)?;
    Ok(file)
}

/// The text of such a file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and for text that is longer or is not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let byte = open(path)?.take(most + 1).read_to_string(&mut text)?;
    if byte as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} B, the most that is read")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        let place = std::env::temp_dir().join(format!("vtare-named-file-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("the temporary directory is writable");
        let pipe = place.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it is installed").success());
        std::fs::write(place.join("text"), "some text").expect("it is writable");
        let refused = |path: &Path| text(path, 9).expect_err("it is refused").to_string();
        assert_eq!(refused(&pipe), "it is a FIFO, not a regular file");
        assert_eq!(refused(&place), "it is a directory, not a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device, not a regular file");
        assert_eq!(text(&place.join("text"), 9).expect("it is a file"), "some text");
        assert_eq!(
            text(&place.join("text"), 8).expect_err("too long").to_string(),
            "it is longer than 8 B, the most that is read"
        );
        std::fs::remove_dir_all(place).expect("it is ours");
    }
}
