//! A file that appears under its name only when it is whole.
//!
//! Where the file system can, it has no name at all while it is written (O_TMPFILE), so that nothing is left behind however the
//! process ends. It then takes its name at once; where a file of that name is there already, it is put beside it as
//! `.NAME.PID.partial` for the moment before the rename. Elsewhere it is written under that name from the start: a process that is
//! killed leaves it there. The contents are fsynced before the name is given and the directory after it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use vtare_sys::process;

/// A file on its way to its name. Dropped before [`WholeFile::keep`], it leaves nothing behind.
pub(crate) struct WholeFile {
    target: PathBuf,
    partial: PathBuf,
    directory: File,
    file: File,
    named: bool,
}

impl WholeFile {
    /// Opens a file for writing that is to appear at `path`, in place of what is there.
    ///
    /// # Errors
    /// Where the path names a directory, a device or nothing, or the directory is missing or not writable.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let target = target(path)?;
        let parent = parent(&target);
        match process::nameless_file(parent)? {
            Some(file) => Self::with(&target, file, false),
            None => Self::create_named(&target),
        }
    }

    /// As [`WholeFile::create`], for a file system without unnamed files.
    fn create_named(target: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(partial(target)?)?;
        Self::with(target, file, true)
    }

    fn with(target: &Path, file: File, named: bool) -> io::Result<Self> {
        let directory = File::open(parent(target))?;
        Ok(Self { target: target.to_owned(), partial: partial(target)?, directory, file, named })
    }

    /// The file's name once it is whole: the path asked for, links followed.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// A second handle, for a writer that wants to own it.
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Makes the contents safe and gives them their name.
    ///
    /// # Errors
    /// Where the disk is full or the file system refuses; nothing is left behind then.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.named {
            match process::name_file(&self.file, &self.target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    process::name_file(&self.file, &self.partial)?;
                    self.named = true;
                }
                other => other?,
            }
        }
        if self.named {
            fs::rename(&self.partial, &self.target)?;
            self.named = false;
        }
        // Else a crash could forget the name although the contents are safe.
        match self.directory.sync_all() {
            // Some network file systems cannot: their servers decide when names are safe.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            other => other,
        }
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.named {
            // On failure nothing more can be done about it.
            let _gone = fs::remove_file(&self.partial);
        }
    }
}

/// Where the file goes: a link is followed, because replacing it (think of /dev/stdout) is not what was asked for.
fn target(path: &Path) -> io::Result<PathBuf> {
    let target = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
    match fs::metadata(&target) {
        Ok(facts) if facts.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Renaming over a device (think of /dev/null) would put a file in its place.
        Ok(facts) if !facts.is_file() => Err(io::Error::other("this is no regular file")),
        _ => Ok(target),
    }
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The temporary name: hidden, and no other process of this system has it.
fn partial(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.partial", std::process::id()));
    Ok(parent(target).join(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A fresh directory for one test, removed when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("vtare-whole-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("the temporary directory is writable");
            Self(path)
        }

        fn files(&self) -> Vec<OsString> {
            fs::read_dir(&self.0).expect("the place exists").map(|entry| entry.expect("readable").file_name()).collect()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the place was ours");
        }
    }

    type Create = fn(&Path) -> io::Result<WholeFile>;

    /// Both ways to write, so that the second is tested where the file system has unnamed files.
    const WAYS: [(&str, Create); 2] = [("any", WholeFile::create), ("named", WholeFile::create_named)];

    #[test]
    fn a_file_appears_whole_and_replaces_what_was_there() {
        for (way, create) in WAYS {
            let place = Place::new(way);
            let path = place.0.join("s");
            for text in ["first", "second"] {
                let file = create(&path).expect("the place is writable");
                file.handle().expect("it is open").write_all(text.as_bytes()).expect("it is open");
                assert_ne!(fs::read(&path).unwrap_or_default(), text.as_bytes(), "{way}: not yet");
                file.keep().expect("the place is writable");
                assert_eq!(fs::read_to_string(&path).expect("it is there"), text, "{way}");
                assert_eq!(place.files(), ["s"], "{way}");
            }
        }
    }

    #[test]
    fn a_file_that_is_given_up_leaves_nothing_and_keeps_the_old_one() {
        for (way, create) in WAYS {
            let place = Place::new(&format!("dropped-{way}"));
            drop(create(&place.0.join("s")).expect("the place is writable"));
            assert!(place.files().is_empty(), "{way}");
            fs::write(place.0.join("s"), "old").expect("the place is writable");
            drop(create(&place.0.join("s")).expect("the place is writable"));
            assert_eq!(fs::read_to_string(place.0.join("s")).expect("it is there"), "old", "{way}");
        }
    }

    #[test]
    fn a_directory_that_went_away_is_an_error() {
        for (way, create) in WAYS {
            let place = Place::new(&format!("gone-{way}"));
            let inner = place.0.join("inner");
            fs::create_dir(&inner).expect("the place is writable");
            let file = create(&inner.join("s")).expect("the place is writable");
            fs::remove_dir_all(&inner).expect("it is ours");
            assert_eq!(file.keep().expect_err("it went away").kind(), io::ErrorKind::NotFound, "{way}");
        }
    }
}
