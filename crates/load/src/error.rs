use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a load could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The number of threads makes no such load.
    #[error("--threads {found} makes no {kind} load: use {wanted}")]
    Threads {
        /// The load asked for.
        kind: &'static str,
        /// The number found.
        found: usize,
        /// What would do.
        wanted: &'static str,
    },
    /// The system refused one of the threads.
    #[error(
        "thread {index} of {threads} could not be started: {source}: pass a smaller --threads, or raise the limit \
         (ulimit -u, pids.max)"
    )]
    Spawn {
        /// Which thread, from 0.
        index: usize,
        /// How many were asked for.
        threads: usize,
        /// What the system answered.
        source: io::Error,
    },
    /// A file of the load failed.
    #[error(
        "the io load cannot {action} its file in {directory}: {source}: pass --dir with a writable directory that has \
         {need_mebibyte} MiB free"
    )]
    File {
        /// What was tried.
        action: &'static str,
        /// Where.
        directory: PathBuf,
        /// What all streams need at most.
        need_mebibyte: u64,
        /// What the system answered.
        source: io::Error,
    },
    /// A socket of the load failed.
    #[error("the io load cannot {action} on 127.0.0.1: {source}: bring the loopback interface up (ip link set lo up)")]
    Socket {
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// The connection to the file service failed.
    #[error("the nbd load cannot {doing} {server}: {source}: is the server up (`vtare load nbd --serve {server}`)?")]
    Nbd {
        /// What was tried.
        doing: &'static str,
        /// The server.
        server: SocketAddr,
        /// What the system or the server answered.
        source: io::Error,
    },
    /// The file service has no room for such a load.
    #[error("the export of {server} {reason}: serve another, as `vtare load nbd --serve {server}` does")]
    Export {
        /// The server.
        server: SocketAddr,
        /// What it lacks.
        reason: String,
    },
    /// The program that serves could not be started.
    #[error("qemu-nbd cannot be started: {0}: install it (`apt-get install qemu-utils`)")]
    ServerStart(#[source] io::Error),
    /// The program that serves does not, or no longer.
    #[error("qemu-nbd {how}: {words}: is it installed (`apt-get install qemu-utils`), is the address free?")]
    ServerEnd {
        /// What happened.
        how: String,
        /// Its last words.
        words: String,
    },
    /// A block came back from file and socket with other content than was sent.
    #[error(
        "block {found} came back where block {wanted} was sent: the file system or memory of this machine, or of the \
         server, loses data"
    )]
    Content {
        /// The number in the block that came back.
        found: u64,
        /// The number that was sent.
        wanted: u64,
    },
    /// Traffic that cannot be.
    #[error("no such traffic: {0}")]
    Traffic(#[from] vtare_pathsim::SimError),
    /// A packet is larger than the path carries without cutting it.
    #[error("--size is {found} B of payload, but the path carries {most} B: use a smaller one")]
    Size {
        /// The payload asked for.
        found: u16,
        /// The payload that fits.
        most: u32,
    },
    /// The system refused something that the net load needs.
    #[error("the net load cannot {doing}: {source}{}",
        match .source.errno().map(|number| io::Error::from_raw_os_error(number).kind()) {
            Some(io::ErrorKind::AddrNotAvailable) => ": name an address of this machine (`ip address` shows them)",
            Some(io::ErrorKind::AddrInUse) => ": another program has that port, choose another",
            Some(io::ErrorKind::PermissionDenied) => ": ports below 1024 are for root, choose a higher one",
            _ => "",
        })]
    Net {
        /// What was tried.
        doing: &'static str,
        /// What the system answered.
        source: vtare_sys::SysError,
    },
    /// A packet could not be sent.
    #[error("the net load cannot send: {source}: is there a route to the sink, and is its interface up?")]
    Send {
        /// What the system answered.
        source: io::Error,
    },
    /// The sink's socket failed.
    #[error("the net load cannot receive: {source}")]
    Receive {
        /// What the system answered.
        source: io::Error,
    },
}
