use serde::Serialize;
use vtare_sys::block::{DeviceTraffic, FileSystem};

/// The load that was really made, schema `vtare.load/1`. Counted from the moment all threads worked to the moment the
/// load was asked to stop.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// `vtare.load/1`.
    pub schema: &'static str,
    /// `idle`, `cpu`, `counter`, `io`, `nbd` or `net`.
    pub kind: &'static str,
    /// How long the load was at work, in s.
    pub elapsed_s: f64,
    /// Threads that worked.
    pub threads: usize,
    /// What was done: square roots taken (cpu), steps counted (counter), blocks of 64 KiB stored or fetched over the
    /// socket (io), blocks written to or read from the server (nbd), packets sent or received (net), nothing (idle).
    pub operations: u64,
    /// The same in a second; `None` where no time passed.
    pub operations_per_s: Option<f64>,
    /// CPU time of this process, as a share of the time of all CPUs it may use: 1 is all of them, all the time. `None`
    /// where no time passed or the CPUs are not known.
    pub cpu_fraction: Option<f64>,
    /// What the io load moved; `None` for the other kinds.
    pub io: Option<IoReport>,
    /// What the nbd load moved, or served; `None` for the other kinds.
    pub nbd: Option<NbdReport>,
    /// What the net load sent or received; `None` for the other kinds.
    pub net: Option<crate::net::NetReport>,
}

/// What the io load moved, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct IoReport {
    /// Bytes written to files, by either access.
    pub written_byte: u64,
    /// Bytes read back from files, by either access.
    pub read_byte: u64,
    /// Times the written bytes were forced to the device (`fdatasync`).
    pub fsyncs: u64,
    /// Bytes received from sockets, both directions together.
    pub socket_byte: u64,
    /// What went by way of the page cache.
    pub buffered: Moved,
    /// What went past it (`O_DIRECT`); `None` where the file system refuses that.
    pub direct: Option<Moved>,
    /// The file system of the files; `None` where the kernel does not show it.
    pub file_system: Option<FileSystem>,
    /// What the device under it moved meanwhile, for whomever; `None` where there is none or it does not count.
    pub device: Option<DeviceTraffic>,
}

/// One end of the file service outside the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NbdReport {
    /// `client` or `server`.
    pub role: &'static str,
    /// The server's address and port.
    pub address: String,
    /// What the client moved over its network card; `None` at the server.
    pub client: Option<NbdMoved>,
    /// Where the server has the bytes; `None` at the client.
    pub server: Option<NbdServed>,
}

/// What a client moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NbdMoved {
    /// The size that the server states.
    pub size_byte: u64,
    /// Bytes written, in either way.
    pub written_byte: u64,
    /// Bytes read back.
    pub read_byte: u64,
    /// Times the server was asked to bring all it had been given to stable storage.
    pub flushes: u64,
    /// What was written for a later flush.
    pub buffered: Moved,
    /// What was written with FUA, so that each answer came after stable storage; `None` where the server has no FUA.
    pub fua: Option<Moved>,
}

/// Where a server has the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NbdServed {
    /// The program that serves.
    pub program: &'static str,
    /// The size of its export.
    pub size_byte: u64,
    /// What the sparse file behind it takes at the end; `None` where the kernel does not show it.
    pub stored_byte: Option<u64>,
    /// Whether it reads and writes by way of this machine's page cache: its file system has no direct access.
    pub page_cache: bool,
    /// The file system of its file; `None` where the kernel does not show it.
    pub file_system: Option<FileSystem>,
    /// What the device under it moved meanwhile, for whomever; `None` where there is none or it does not count.
    pub device: Option<DeviceTraffic>,
}

/// What one kind of access to files moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Moved {
    /// Bytes written.
    pub written_byte: u64,
    /// Bytes read back.
    pub read_byte: u64,
    /// Reads and writes, of [`crate::BLOCK_BYTE`] each.
    pub operations: u64,
}

impl Moved {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            written_byte: self.written_byte + other.written_byte,
            read_byte: self.read_byte + other.read_byte,
            operations: self.operations + other.operations,
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            written_byte: self.written_byte.saturating_sub(earlier.written_byte),
            read_byte: self.read_byte.saturating_sub(earlier.read_byte),
            operations: self.operations.saturating_sub(earlier.operations),
        }
    }
}

/// What all threads moved until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovedAll {
    pub(crate) buffered: Moved,
    pub(crate) direct: Moved,
    pub(crate) fsyncs: u64,
    pub(crate) socket_byte: u64,
}

impl MovedAll {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            buffered: self.buffered.plus(other.buffered),
            direct: self.direct.plus(other.direct),
            fsyncs: self.fsyncs + other.fsyncs,
            socket_byte: self.socket_byte + other.socket_byte,
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            buffered: self.buffered.since(earlier.buffered),
            direct: self.direct.since(earlier.direct),
            fsyncs: self.fsyncs.saturating_sub(earlier.fsyncs),
            socket_byte: self.socket_byte.saturating_sub(earlier.socket_byte),
        }
    }
}

impl IoReport {
    pub(crate) fn of(
        moved: MovedAll,
        takes_direct: bool,
        file_system: Option<FileSystem>,
        device: Option<DeviceTraffic>,
    ) -> Self {
        let both = moved.buffered.plus(moved.direct);
        Self {
            written_byte: both.written_byte,
            read_byte: both.read_byte,
            fsyncs: moved.fsyncs,
            socket_byte: moved.socket_byte,
            buffered: moved.buffered,
            direct: takes_direct.then_some(moved.direct),
            file_system,
            device,
        }
    }
}
