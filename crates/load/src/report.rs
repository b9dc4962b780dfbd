use serde::Serialize;

/// The load that was really made, schema `vtare.load/1`. Counted from the moment all threads worked to the moment the
/// load was asked to stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `vtare.load/1`.
    pub schema: &'static str,
    /// `idle`, `cpu`, `io` or `net`.
    pub kind: &'static str,
    /// How long the load was at work, in s.
    pub elapsed_s: f64,
    /// Threads that worked.
    pub threads: usize,
    /// What was done: square roots taken (cpu), blocks of 64 KiB stored or fetched over the socket (io), packets sent
    /// or received (net), nothing (idle).
    pub operations: u64,
    /// The same in a second; `None` where no time passed.
    pub operations_per_s: Option<f64>,
    /// CPU time of this process, as a share of the time of all CPUs it may use: 1 is all of them, all the time. `None`
    /// where no time passed or the CPUs are not known.
    pub cpu_fraction: Option<f64>,
    /// What the io load moved; `None` for the other kinds.
    pub io: Option<IoReport>,
    /// What the net load sent or received; `None` for the other kinds.
    pub net: Option<crate::net::NetReport>,
}

/// What the io load moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IoReport {
    /// Bytes written to files.
    pub written_byte: u64,
    /// Bytes read back from files.
    pub read_byte: u64,
    /// Times the written bytes were forced to the device (`fdatasync`).
    pub fsyncs: u64,
    /// Bytes received from sockets, both directions together.
    pub socket_byte: u64,
}

impl IoReport {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            written_byte: self.written_byte.saturating_sub(earlier.written_byte),
            read_byte: self.read_byte.saturating_sub(earlier.read_byte),
            fsyncs: self.fsyncs.saturating_sub(earlier.fsyncs),
            socket_byte: self.socket_byte.saturating_sub(earlier.socket_byte),
        }
    }
}
