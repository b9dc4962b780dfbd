//! This process as a whole: the CPU time it used, its tie to its parent, files without a name.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use vtare_units::Span;

use crate::SysError;

/// CPU time used by all threads of this process, in user mode and in the kernel.
#[must_use]
pub fn cpu_time() -> Span {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux this builds for, and `used` is a live timespec; so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) };
    Span::from_secs(used.tv_sec) + Span::from_nanos(used.tv_nsec)
}

/// What a program that has ended used, with all that it started and waited for (getrusage(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// CPU time in user mode.
    pub user: Span,
    /// CPU time in the kernel.
    pub system: Span,
    /// The most memory that one of its processes held at a time, bytes. Not less than the program that started it held
    /// itself: the kernel counts a process from its start on, before it becomes another program.
    pub most_resident_byte: u64,
    /// Pages that were found in memory.
    pub minor_faults: u64,
    /// Pages that had to be read from a device.
    pub major_faults: u64,
    /// Switches away because a thread waited.
    pub voluntary_switches: u64,
    /// Switches away although a thread could have run on.
    pub involuntary_switches: u64,
}

/// Waits until `child` has ended, and returns what it used. Nobody else may wait for it: `child` is to be dropped after
/// this.
///
/// # Errors
/// Where it is no child of this process, or somebody else has waited for it.
pub fn reap(child: &Child) -> Result<(ExitStatus, Used), SysError> {
    let pid = child.id().cast_signed();
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are live and of the types that wait4 writes.
        let answer = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if answer == pid {
            break;
        }
        let error = SysError::last(format!("wait4({pid})"), "");
        if error.errno() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: all-zero is a valid rusage, and the kernel filled in the rest.
    let usage = unsafe { usage.assume_init() };
    let span = |time: libc::timeval| Span::from_secs(time.tv_sec) + Span::from_micros(time.tv_usec);
    let used = Used {
        user: span(usage.ru_utime),
        system: span(usage.ru_stime),
        // Linux counts in units of 1024 bytes.
        most_resident_byte: usage.ru_maxrss.cast_unsigned() * 1024,
        minor_faults: usage.ru_minflt.cast_unsigned(),
        major_faults: usage.ru_majflt.cast_unsigned(),
        voluntary_switches: usage.ru_nvcsw.cast_unsigned(),
        involuntary_switches: usage.ru_nivcsw.cast_unsigned(),
    };
    Ok((ExitStatus::from_raw(status), used))
}

/// Has the kernel send SIGTERM to this process when its parent dies (`PR_SET_PDEATHSIG`), so that a killed parent takes
/// it along. "Parent" is the *thread* that started this process (prctl(2)). Answers false where the parent died before
/// the request was in force: nobody will send the signal then.
///
/// Where the parent stands outside this process's PID namespace, nothing is asked for: that is a container engine's
/// short-lived helper, not what wants this program, and the end of the container takes it along.
///
/// # Errors
/// Where the kernel refuses the request.
pub fn end_with_parent() -> Result<bool, SysError> {
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() };
    if parent == 0 {
        return Ok(true);
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) } != 0 {
        return Err(SysError::last("prctl(PR_SET_PDEATHSIG, SIGTERM)", ""));
    }
    // SAFETY: takes nothing and cannot fail.
    Ok(unsafe { libc::getppid() } == parent)
}

/// Closes every descriptor above standard error: what the starter of this process left open for it by mistake. To be
/// called before this process opens anything itself, and has threads.
///
/// # Errors
/// Where the kernel has no such call (before Linux 5.9) and `/proc` does not show the descriptors.
pub fn close_inherited() -> Result<(), SysError> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: takes numbers only. As stated above, nobody in this process has one of the descriptors yet.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) } == 0 {
        return Ok(());
    }
    let entries = std::fs::read_dir("/proc/self/fd").map_err(|source| SysError::Call {
        call: "close_range".to_owned(),
        source,
        remedy: ": needs Linux 5.9 or later, or /proc",
    })?;
    // Listed before the first is closed: the listing itself has a descriptor, whose number is closed already then.
    let open: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|number| *number >= FIRST.cast_signed()) {
        // SAFETY: takes a number only; as above.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Maps the first `pages` of a file, or as much new memory, for this process alone; reads a byte of each page of `read`
/// and then writes one of each of `written`, to copies of the file's; and unmaps them. The kernel gives no huge pages
/// for new memory, so each page is a fault of its own.
///
/// # Errors
/// Where there is no memory, or the file cannot be mapped.
///
/// # Panics
/// Where a page lies behind `pages`, and where the file has fewer: to touch it would end this process.
pub fn touch_pages(
    file: Option<&File>,
    pages: usize,
    read: impl IntoIterator<Item = usize>,
    written: impl IntoIterator<Item = usize>,
) -> io::Result<()> {
    const PAGE_BYTE: usize = 4096;
    let (size, nowhere) = (pages * PAGE_BYTE, std::ptr::null_mut());
    let (kind, fd) = match file {
        Some(file) => {
            assert!(file.metadata()?.len() >= size as u64, "the file has fewer than {pages} pages");
            (libc::MAP_PRIVATE, file.as_raw_fd())
        }
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: asks for a new mapping wherever the kernel has room, so nobody else's memory is touched.
    let memory = unsafe { libc::mmap(nowhere, size, libc::PROT_READ | libc::PROT_WRITE, kind, fd, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if file.is_none() {
        // SAFETY: the memory is this function's own. A kernel without huge pages refuses, which changes nothing.
        unsafe { libc::madvise(memory, size, libc::MADV_NOHUGEPAGE) };
    }
    let place = |page: usize| {
        assert!(page < pages, "page {page} of {pages}");
        // SAFETY: the page lies in the mapping.
        unsafe { memory.cast::<u8>().add(page * PAGE_BYTE) }
    };
    for page in read {
        // SAFETY: the mapping may be read, and the file reaches as far, as asserted above.
        std::hint::black_box(unsafe { place(page).read_volatile() });
    }
    for page in written {
        // SAFETY: as above, and what is written is this process's own.
        unsafe { place(page).write_volatile(1) };
    }
    // SAFETY: the mapping is this function's own, and nothing points to it any more.
    match unsafe { libc::munmap(memory, size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a new file in `directory` that has no name, for reading and writing: it is gone when the process ends, however
/// that happens. Where the file system has no unnamed files (O_TMPFILE), one is created and its name removed at once.
///
/// # Errors
/// Where the directory does not exist, is not writable or is full.
pub fn unnamed_file(directory: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        // EISDIR: kernel before 3.11; EOPNOTSUPP: the file system; ENOENT is not among them: the directory is missing.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            let thread = std::thread::current().id();
            let named = directory.join(format!(".vtare-load-{}-{thread:?}", std::process::id()));
            let file = options.create_new(true).open(&named)?;
            std::fs::remove_file(&named)?;
            Ok(file)
        }
        result => result,
    }
}

/// Opens a new file in `directory` that has no name yet, for writing, with the permission bits `mode` less the umask:
/// [`name_file`] gives it a name. Until then it is gone when the process ends, however that happens. `None` where the
/// file system has no unnamed files (O_TMPFILE), or where naming one will not work because `/proc` is not mounted.
///
/// # Errors
/// Where the directory does not exist, is not writable or is full.
pub fn nameless_file(directory: &Path, mode: u32) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt;

    match File::options().write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(directory) {
        Ok(file) => Ok(descriptor_path(&file).exists().then_some(file)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives `file`, opened by [`nameless_file`], the name `path`, at once and whole.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] where something has that name, which stays as it is; else what the file system
/// answers.
pub fn name_file(file: &File, path: &Path) -> io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
    let (from, to) = (text(&descriptor_path(file))?, text(path)?);
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both are live strings that end in NUL; the call only reads them.
    let answer = unsafe { libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), follow) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The link in `/proc` that leads to an open file.
fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Asks the kernel to drop the clean pages of `file` from memory, so that the next read goes to the device. A hint: a
/// file system that lives in memory keeps them.
///
/// # Errors
/// Where the kernel refuses the hint.
pub fn drop_cached_pages(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` lives; length 0 means to the end.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Has reads and writes of `file` go past the page cache, or by way of it again (`O_DIRECT`).
///
/// # Errors
/// `EINVAL` where its file system has no such access.
pub fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` lives; the call takes no memory.
    let found = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = if direct { found | libc::O_DIRECT } else { found & !libc::O_DIRECT };
    // SAFETY: as above.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The group by which the kernel judges this process.
#[must_use]
pub fn effective_group() -> u32 {
    // SAFETY: the call takes nothing and always succeeds.
    unsafe { libc::getegid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn an_unnamed_file_holds_data_and_leaves_no_name() {
        let directory = std::env::temp_dir().join(format!("vtare-unnamed-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("the temporary directory is writable");
        let mut file = unnamed_file(&directory).expect("the directory is writable");
        file.write_all(b"kept").expect("the file is open");
        file.rewind().expect("the file is open");
        drop_cached_pages(&file).expect("the hint is accepted");
        let mut back = String::new();
        file.read_to_string(&mut back).expect("the file is readable");
        assert_eq!(back, "kept");
        assert_eq!(std::fs::read_dir(&directory).expect("it exists").count(), 0);
        std::fs::remove_dir(&directory).expect("it is empty");
    }

    #[test]
    fn a_nameless_file_appears_whole_under_its_name_and_takes_no_others() {
        let directory = std::env::temp_dir().join(format!("vtare-nameless-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("the temporary directory is writable");
        let (free, taken) = (directory.join("free"), directory.join("taken"));
        std::fs::write(&taken, "before").expect("the directory is writable");
        if let Some(mut file) = nameless_file(&directory, 0o600).expect("the directory is writable") {
            file.write_all(b"whole").expect("the file is open");
            assert!(!free.exists(), "it has no name yet");
            let error = name_file(&file, &taken).expect_err("the name is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&taken).expect("it is there"), b"before");
            name_file(&file, &free).expect("the name is free");
            assert_eq!(std::fs::read(&free).expect("it is there"), b"whole");
        }
        std::fs::remove_dir_all(&directory).expect("it is ours");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no nameless files")]
    fn a_directory_that_is_missing_is_an_error() {
        let error = unnamed_file(Path::new("/nonexistent/vtare")).expect_err("there is no such directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = nameless_file(Path::new("/nonexistent/vtare"), 0o600).expect_err("there is no such directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_program_that_ended_says_what_it_used() {
        let start = |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().expect("sh starts");
        let (status, used) = reap(&start("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3")).expect("it ran");
        assert_eq!(status.code(), Some(3));
        assert!(used.user + used.system > Span::from_millis(1), "{used:?}");
        assert!(used.most_resident_byte > 100_000 && used.minor_faults > 0, "{used:?}");
        let (status, _) = reap(&start("kill -9 $$")).expect("it ran");
        assert_eq!(status.signal(), Some(9));
    }

    #[test]
    fn cpu_time_only_grows() {
        let before = cpu_time();
        assert!(cpu_time() >= before);
    }
}
