//! The server: `qemu-nbd` on an unnamed file, which is gone when this process ends, however that happens.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vtare_sys::block::{self, DeviceTraffic};
use vtare_sys::{clocks, process};
use vtare_units::{Monotonic, Span};

use crate::io::FILE_BYTE;
use crate::nbd::client::MOST_STREAMS;
use crate::nbd::messages;
use crate::report::{NbdReport, NbdServed};
use crate::run::{LOOK, Reading, nbd_report, wait};
use crate::{LoadError, Report};

/// The size of the export. The file behind it is sparse: it takes [`crate::FILE_BYTE`] for each stream.
pub const SERVED_BYTE: u64 = MOST_STREAMS as u64 * FILE_BYTE;
const PROGRAM: &str = "qemu-nbd";
const STARTED: Span = Span::from_secs(10);
const ANSWERED: Duration = Duration::from_secs(1);
/// What of the program's last words is shown.
const MOST_WORDS_BYTE: u64 = 2000;

/// A server to run.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where clients reach it.
    pub at: SocketAddr,
    /// Where its unnamed file is.
    pub directory: PathBuf,
    /// Words in front of the server's own: a launcher after whose end, or the end of its parent, none is left.
    pub before: Vec<OsString>,
    /// For how long, from `ready`; `None` until stopped.
    pub limit: Option<Span>,
}

/// Serves until `stop` is set or the time is over; calls `ready` once the server answers.
///
/// # Errors
/// Where the file cannot be made, and where `qemu-nbd` is missing, does not start or ends by itself.
pub fn serve(options: &ServerOptions, stop: &AtomicBool, ready: impl FnOnce()) -> Result<Report, LoadError> {
    let file = image(&options.directory).map_err(|source| LoadError::File {
        action: "create",
        directory: options.directory.clone(),
        need_mebibyte: FILE_BYTE >> 20,
        source,
    })?;
    // Read back from memory, the files would never have been on a device.
    let page_cache = process::set_direct(&file, true).is_err();
    let mut server = Server(command(options, &file, page_cache).spawn().map_err(LoadError::ServerStart)?);
    let until = clocks::now::<Monotonic>() + STARTED;
    while !answers(options.at) {
        server.check()?;
        if clocks::now::<Monotonic>() > until {
            return Err(LoadError::ServerEnd {
                how: format!("does not answer at {}", options.at),
                words: String::new(),
            });
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        wait(LOOK, None);
    }
    let file_system = block::file_system_of(&options.directory);
    let device = file_system.as_ref().and_then(|system| system.device.clone());
    let traffic = || -> Option<DeviceTraffic> { block::traffic_of(device.as_ref()?) };
    let (start, before) = (Reading::bare(clocks::now(), process::cpu_time()), traffic());
    if !stop.load(Ordering::Relaxed) {
        ready();
    }
    let deadline = options.limit.map(|limit| start.at() + limit);
    while !stop.load(Ordering::Relaxed) && deadline.is_none_or(|deadline| clocks::now::<Monotonic>() < deadline) {
        server.check()?;
        wait(LOOK, deadline);
    }
    let end = Reading::bare(clocks::now(), process::cpu_time());
    let served = NbdServed {
        program: PROGRAM,
        size_byte: SERVED_BYTE,
        stored_byte: file.metadata().ok().map(|found| found.blocks() * 512),
        page_cache,
        device: traffic().zip(before).map(|(end, start)| end.since(start)),
        file_system,
    };
    let nbd = NbdReport { role: "server", address: options.at.to_string(), client: None, server: Some(served) };
    Ok(nbd_report(&start, &end, nbd))
}

fn image(directory: &Path) -> io::Result<File> {
    let file = process::unnamed_file(directory)?;
    file.set_len(SERVED_BYTE)?;
    Ok(file)
}

fn command(options: &ServerOptions, file: &File, page_cache: bool) -> Command {
    let own = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let mut words = options.before.clone();
    words.extend([PROGRAM, "--format=raw", "--persistent", "--shared=0"].map(OsString::from));
    words.push(if page_cache { "--cache=writeback" } else { "--cache=none" }.into());
    words.push(format!("--bind={}", options.at.ip()).into());
    words.push(format!("--port={}", options.at.port()).into());
    words.push(own.into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn answers(at: SocketAddr) -> bool {
    TcpStream::connect_timeout(&at, ANSWERED)
        .and_then(|mut socket| {
            socket.set_read_timeout(Some(ANSWERED))?;
            messages::negotiate(&mut socket)
        })
        .is_ok()
}

/// The running program: it has nothing to save, and ends with this value.
struct Server(Child);

impl Server {
    fn check(&mut self) -> Result<(), LoadError> {
        let Some(status) = self.0.try_wait().map_err(LoadError::ServerStart)? else { return Ok(()) };
        let mut words = String::new();
        if let Some(from) = self.0.stderr.take() {
            // What is no text is left out: it only explains.
            let _ = from.take(MOST_WORDS_BYTE).read_to_string(&mut words);
        }
        Err(LoadError::ServerEnd { how: format!("ended ({status})"), words: words.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
