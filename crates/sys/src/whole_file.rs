//! A file that appears under its name only when it is whole.
//!
//! Where the file system can, it has no name at all while it is written (O_TMPFILE), so that nothing is left behind
//! however the process ends. It then takes its name at once; where a file of that name is there already, it is put
//! beside it as `.NAME.PID.partial` for the moment before the rename. Elsewhere it is written under that name from the
//! start: a process that is killed leaves it there. The contents are fsynced before the name is given and the directory
//! after it.
//!
//! ```
//! use std::io::Write;
//! use vtare_sys::whole_file::WholeFile;
//! let path = std::env::temp_dir().join(format!("vtare-doc-{}", std::process::id()));
//! let file = WholeFile::create(&path)?;
//! file.handle()?.write_all(b"21 us")?;
//! assert!(!path.exists());
//! file.keep()?;
//! assert_eq!(std::fs::read(&path)?, b"21 us");
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::process;

/// A file on its way to its name. Dropped before [`WholeFile::keep`], it leaves nothing behind.
#[derive(Debug)]
pub struct WholeFile {
    target: PathBuf,
    partial: PathBuf,
    directory: File,
    file: File,
    /// Whether it has its temporary name.
    named: bool,
    /// Whether it takes the place of what is there.
    replaces: bool,
}

/// Permission bits, less the umask: for everybody, as the shell's `>` gives them, and for the owner alone.
const ORDINARY: u32 = 0o666;
const PRIVATE: u32 = 0o600;

impl WholeFile {
    /// Opens a file for writing that is to appear at `path`, in place of what is there.
    ///
    /// # Errors
    /// Where the path names a directory, a device or nothing, or the directory is missing or not writable.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(&target(path)?, ORDINARY, true)
    }

    /// Opens a file for writing that is to appear at `path`, readable by its owner alone (0600). It replaces nothing:
    /// where `path` is taken by then, [`WholeFile::keep`] fails.
    ///
    /// # Errors
    /// Where something has that name already ([`io::ErrorKind::AlreadyExists`]), or the directory is missing or not
    /// writable.
    pub fn create_private(path: &Path) -> io::Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Self::open(path, PRIVATE, false)
    }

    fn open(target: &Path, mode: u32, replaces: bool) -> io::Result<Self> {
        match process::nameless_file(parent(target), mode)? {
            Some(file) => Self::with(target, file, false, replaces),
            None => Self::open_named(target, mode, replaces),
        }
    }

    /// As [`WholeFile::open`], for a file system without unnamed files.
    fn open_named(target: &Path, mode: u32, replaces: bool) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(partial(target)?)?;
        Self::with(target, file, true, replaces)
    }

    fn with(target: &Path, file: File, named: bool, replaces: bool) -> io::Result<Self> {
        let directory = File::open(parent(target))?;
        Ok(Self { target: target.to_owned(), partial: partial(target)?, directory, file, named, replaces })
    }

    /// The file's name once it is whole: the path asked for, links followed.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A second handle, for a writer that wants to own it.
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Makes the contents safe and gives them their name.
    ///
    /// # Errors
    /// Where the disk is full, the file system refuses, or the name of a file that replaces nothing is taken by now
    /// ([`io::ErrorKind::AlreadyExists`]); nothing is left behind then.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.named {
            match process::name_file(&self.file, &self.target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.replaces => {
                    process::name_file(&self.file, &self.partial)?;
                    self.named = true;
                }
                other => other?,
            }
        }
        if self.named && self.replaces {
            fs::rename(&self.partial, &self.target)?;
            self.named = false;
        } else if self.named {
            // A rename would replace what is there; a second name does not. The first goes when this is dropped.
            fs::hard_link(&self.partial, &self.target)?;
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
    use std::os::unix::fs::PermissionsExt as _;

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
    const WAYS: [(&str, Create); 2] =
        [("any", WholeFile::create), ("named", |path| WholeFile::open_named(path, ORDINARY, true))];

    #[test]
    fn a_private_file_appears_whole_for_its_owner_only_and_replaces_nothing() {
        const WAYS: [(&str, Create); 2] =
            [("private", WholeFile::create_private), ("named", |path| WholeFile::open_named(path, PRIVATE, false))];
        for (way, create) in WAYS {
            let place = Place::new(&format!("alone-{way}"));
            let path = place.0.join("s");
            let (first, second) = (create(&path).expect("the place is writable"), WholeFile::create_private(&path));
            first.handle().expect("it is open").write_all(b"first").expect("it is open");
            first.keep().expect("the place is writable");
            let late = second.expect("the name was free").keep().expect_err("it was taken since");
            assert_eq!(late.kind(), io::ErrorKind::AlreadyExists, "{way}");
            let refused = WholeFile::create_private(&path).expect_err("it is taken");
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{way}");
            assert_eq!(fs::read(&path).expect("it is there"), b"first", "{way}");
            assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, PRIVATE, "{way}");
            assert_eq!(place.files(), ["s"], "{way}");
        }
    }

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
