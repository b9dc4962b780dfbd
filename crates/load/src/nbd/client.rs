//! The client's streams: each has a connection and a region of the export to itself.
//!
//! A round is 16 blocks written and read back. Rounds take turns: one whose writes the server may keep in its memory
//! until the flush that ends it, one whose every write is answered only once it is on stable storage (FUA).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::LoadError;
use crate::io::{BLOCK_BYTE, FILE_BYTE, ROUND_BLOCKS};
use crate::nbd::messages::{self, Export, Request};
use crate::report::{MovedAll, NbdMoved, NbdReport};
use crate::workers::{Counters, Crew, Shared};

/// Streams that an export has room for.
pub(crate) const MOST_STREAMS: usize = 64;
/// A server that is there answers sooner.
const CONNECTED: Duration = Duration::from_secs(10);

/// Connects to the server and starts a thread for each stream; returns what the server states of its export.
pub(crate) fn start(crew: &mut Crew, streams: usize, server: SocketAddr) -> Result<Export, LoadError> {
    let failed = |doing| move |source| LoadError::Nbd { doing, server, source };
    let mut stated = None;
    for stream in 0..streams as u64 {
        let mut socket = TcpStream::connect_timeout(&server, CONNECTED).map_err(failed("connect to"))?;
        // A request's head and its block are a write each: the second must not wait for an acknowledgement.
        socket.set_nodelay(true).map_err(failed("connect to"))?;
        socket.set_read_timeout(Some(CONNECTED)).map_err(failed("connect to"))?;
        let export = messages::negotiate(&mut socket).map_err(failed("negotiate with"))?;
        socket.set_read_timeout(None).map_err(failed("connect to"))?;
        check(export, streams as u64, server)?;
        stated = Some(export);
        crew.sockets.push(socket.try_clone().map_err(failed("hold the connection to"))?);
        let connection = Connection { socket, server, region: stream * FILE_BYTE, cookie: 0, export };
        crew.start(streams, move |shared, counters| work(shared, counters, connection))?;
    }
    stated.ok_or(LoadError::Threads { kind: "nbd", found: streams, wanted: "1 to 64" })
}

fn check(export: Export, streams: u64, server: SocketAddr) -> Result<(), LoadError> {
    let want = streams * FILE_BYTE;
    let reason = if export.read_only {
        "is read-only".to_owned()
    } else if !export.takes_flush {
        "takes no flush".to_owned()
    } else if export.size_byte < want {
        format!("has {} B, but {streams} streams need {want} B", export.size_byte)
    } else {
        return Ok(());
    };
    Err(LoadError::Export { server, reason })
}

impl Export {
    /// The client's end of the service, with what it moved.
    pub(crate) fn report(self, server: SocketAddr, moved: MovedAll) -> NbdReport {
        let both = moved.buffered.plus(moved.direct);
        let client = NbdMoved {
            size_byte: self.size_byte,
            written_byte: both.written_byte,
            read_byte: both.read_byte,
            flushes: moved.fsyncs,
            buffered: moved.buffered,
            fua: self.takes_fua.then_some(moved.direct),
        };
        NbdReport { role: "client", address: server.to_string(), client: Some(client), server: None }
    }
}

struct Connection {
    socket: TcpStream,
    server: SocketAddr,
    region: u64,
    cookie: u64,
    export: Export,
}

impl Connection {
    /// Sends a request and waits for its reply; `block` is what is written, or read.
    fn ask(&mut self, asked: Request, offset: u64, block: &mut [u8]) -> Result<(), LoadError> {
        let failed = |doing, server| move |source| LoadError::Nbd { doing, server, source };
        self.carry_out(asked, offset, block).map_err(match asked {
            Request::Read => failed("read from", self.server),
            Request::Flush => failed("flush", self.server),
            Request::Write { .. } | Request::Disconnect => failed("write to", self.server),
        })
    }

    fn carry_out(&mut self, asked: Request, offset: u64, block: &mut [u8]) -> io::Result<()> {
        self.cookie += 1;
        self.socket.write_all(&messages::request(asked, self.cookie, self.region + offset))?;
        if matches!(asked, Request::Write { .. }) {
            self.socket.write_all(block)?;
        }
        messages::expect_reply(&mut self.socket, self.cookie)?;
        if asked == Request::Read { self.socket.read_exact(block) } else { Ok(()) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without it the server notes a connection that broke; one that did needs none.
        let _ = self.socket.write_all(&messages::request(Request::Disconnect, 0, 0));
    }
}

fn work(shared: &Shared, counters: &Counters, mut connection: Connection) -> Result<(), LoadError> {
    let mut block = vec![0x5a_u8; BLOCK_BYTE];
    let mut first = 0_u64;
    while !shared.stopping() {
        let fua = connection.export.takes_fua && first / ROUND_BLOCKS % 2 == 1;
        // Past the server's memory, as direct access is past that of a machine.
        let moved = if fua { &counters.direct } else { &counters.buffered };
        for number in first..first + ROUND_BLOCKS {
            block[..8].copy_from_slice(&number.to_le_bytes());
            connection.ask(Request::Write { fua }, crate::io::offset(number), &mut block)?;
            Counters::add(&moved.written_byte, BLOCK_BYTE as u64);
            Counters::add(&moved.operations, 1);
            Counters::add(&counters.operations, 1);
        }
        if !fua {
            connection.ask(Request::Flush, 0, &mut [])?;
            Counters::add(&counters.fsyncs, 1);
        }
        for wanted in first..first + ROUND_BLOCKS {
            connection.ask(Request::Read, crate::io::offset(wanted), &mut block)?;
            Counters::add(&moved.read_byte, BLOCK_BYTE as u64);
            Counters::add(&moved.operations, 1);
            Counters::add(&counters.operations, 1);
            crate::io::check_number(&block, wanted)?;
        }
        if first == 0 {
            shared.note_working();
        }
        first += ROUND_BLOCKS;
    }
    Ok(())
}
