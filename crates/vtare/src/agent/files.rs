//! Files in and out of the guest, within reach only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

/// Bytes of a file that is put at most: the memory of a micro guest holds it.
const MOST_BYTE: u64 = 64 << 20;

/// Opening a pipe would wait for its other end, and a link may lead out of reach. Links within reach have been followed
/// before.
const NO_PIPE_AND_NO_LINK: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits() as i32;

/// Where files may be.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// `None`: anywhere. The machine is the lab's own and ends with the channel.
    below: Option<PathBuf>,
}

impl Reach {
    /// Everywhere on this machine.
    pub(crate) fn everywhere() -> Self {
        Self { below: None }
    }

    /// In `directory` and below.
    ///
    /// # Errors
    /// Where it is no directory.
    pub(crate) fn below(directory: &Path) -> io::Result<Self> {
        let below = directory.canonicalize()?;
        if below.is_dir() { Ok(Self { below: Some(below) }) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// The path, where it is within reach. Its directories that are there are followed through links first.
    ///
    /// # Errors
    /// With what was found and what is wanted.
    pub(crate) fn check(&self, path: &Path) -> Result<PathBuf, String> {
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !plain || path.file_name().is_none() {
            return Err(format!("path is {}: use an absolute one without '..'", path.display()));
        }
        let Some(below) = &self.below else { return Ok(path.to_owned()) };
        let there = path.ancestors().find(|part| part.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
        let real = there.canonicalize().map_err(|error| format!("path: {}: {error}", there.display()))?;
        let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
        let whole = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        if whole.starts_with(below) {
            return Ok(whole);
        }
        Err(format!("path is {}: use one below {}, the --directory", path.display(), below.display()))
    }
}

/// A file on its way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    target: PathBuf,
    partial: PathBuf,
    file: File,
    byte: u64,
}

impl Incoming {
    /// Begins a file beside its place, readable by its owner only; directories that are missing are made.
    ///
    /// # Errors
    /// In words, where the path is out of reach or cannot be written.
    pub(crate) fn begin(path: &Path, reach: &Reach) -> Result<Self, String> {
        let target = reach.check(path)?;
        let in_words = |error: io::Error| format!("{}: {error}", path.display());
        let parent = target.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(in_words)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let partial = parent.join(format!(".{name}.{}.partial", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(NO_PIPE_AND_NO_LINK);
        let file = options.open(&partial).map_err(in_words)?;
        if !file.metadata().map_err(in_words)?.is_file() {
            return Err(format!("{}: no regular file", partial.display()));
        }
        Ok(Self { target, partial, file, byte: 0 })
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// In words, where it is too long or there is no room.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), String> {
        self.byte += piece.len() as u64;
        if self.byte > MOST_BYTE {
            return Err(format!("{}: longer than {MOST_BYTE} B, which is the most taken", self.target.display()));
        }
        self.file.write_all(piece).map_err(|error| format!("{}: {error}", self.target.display()))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// In words, where its length is not the one that the other end states.
    pub(crate) fn keep(self, byte: u64) -> Result<(), String> {
        if self.byte != byte {
            return Err(format!("{}: {} B came instead of {byte} B: send it again", self.target.display(), self.byte));
        }
        fs::rename(&self.partial, &self.target).map_err(|error| format!("{}: {error}", self.target.display()))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Not there any more where it was kept.
        let _ = fs::remove_file(&self.partial);
    }
}

/// Opens a file that is to be sent.
///
/// # Errors
/// In words, where it is out of reach or no file.
pub(crate) fn outgoing(path: &Path, reach: &Reach) -> Result<File, String> {
    let place = reach.check(path)?;
    let in_words = |error: io::Error| format!("{}: {error}", path.display());
    let file = OpenOptions::new().read(true).custom_flags(NO_PIPE_AND_NO_LINK).open(place).map_err(in_words)?;
    if file.metadata().map_err(in_words)?.is_file() {
        return Ok(file);
    }
    Err(format!("{}: no regular file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of one test's own; gone with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("vtare-agent-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("inside")).expect("the temporary directory is writable");
            Self(path.canonicalize().expect("it was made"))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_appears_under_its_name_when_it_is_whole() {
        let place = Place::new("put");
        let path = place.0.join("new/run.json");
        let mut file = Incoming::begin(&path, &Reach::everywhere()).expect("it is writable");
        file.take(b"{").and_then(|()| file.take(b"}")).expect("there is room");
        assert!(!path.exists());
        file.keep(2).expect("it is whole");
        assert_eq!(fs::read(&path).expect("it is there"), b"{}");
        let mut short = Incoming::begin(&path, &Reach::everywhere()).expect("it is writable");
        short.take(b"x").expect("there is room");
        assert!(short.keep(9).expect_err("a piece was lost").contains("1 B came instead of 9 B"));
        assert_eq!(fs::read(&path).expect("it is there still"), b"{}");
    }

    #[test]
    fn what_lies_out_of_reach_is_refused_also_through_a_link() {
        let place = Place::new("reach");
        let reach = Reach::below(&place.0.join("inside")).expect("it is a directory");
        std::os::unix::fs::symlink(&place.0, place.0.join("inside/out")).expect("a link is made");
        for refused in ["out/x", "../x", "inside/../../x", "inside/out/x", "inside/out/new/x"] {
            let path = place.0.join(refused);
            assert!(reach.check(&path).is_err(), "{}", path.display());
        }
        for refused in ["/etc/passwd", "relative", "/", ""] {
            assert!(reach.check(Path::new(refused)).is_err(), "{refused}");
        }
        for fine in ["inside/x", "inside/new/deep/x"] {
            assert!(reach.check(&place.0.join(fine)).is_ok(), "{fine}");
        }
    }

    #[test]
    fn a_link_in_place_of_the_file_does_not_lead_out() {
        let place = Place::new("link");
        let reach = Reach::below(&place.0.join("inside")).expect("it is a directory");
        fs::write(place.0.join("secret"), "s").expect("it is ours");
        std::os::unix::fs::symlink(place.0.join("secret"), place.0.join("inside/x")).expect("a link is made");
        assert!(outgoing(&place.0.join("inside/x"), &reach).is_err());
        assert!(outgoing(&place.0.join("inside"), &reach).expect_err("no file").contains("no regular file"));
    }
}
