//! The input/output- and network-bound load: a file server and its client over loopback sockets.
//!
//! Kirova and others put an NFS server on the machine and sent and fetched data with ordinary read and write calls.
//! Here a stream is a client thread and a server thread, joined by a TCP connection on 127.0.0.1. In each round the
//! client sends 16 blocks; the server writes them to its file, forces them to the device, reads them back and returns
//! them. Rounds take turns: one by way of the page cache, one past it (`O_DIRECT`).

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use vtare_sys::process;

use crate::LoadError;
use crate::aligned::AlignedBlock;
use crate::workers::{Counters, Crew, Shared};

/// One read or write call moves this many bytes.
pub const BLOCK_BYTE: usize = 64 * 1024;
/// A stream's file grows to this size and is then written over: the most disk space that one stream takes.
pub const FILE_BYTE: u64 = 16 * 1024 * 1024;
/// Blocks sent before the file is forced to the device and read back.
pub(crate) const ROUND_BLOCKS: u64 = 16;

pub(crate) fn start(crew: &mut Crew, threads: usize, directory: &Path) -> Result<(), LoadError> {
    let streams = threads / 2;
    let place = Place { directory: directory.to_path_buf(), need_mebibyte: streams as u64 * (FILE_BYTE >> 20) };
    for _ in 0..streams {
        let file = process::unnamed_file(directory).map_err(|source| place.failed("create", source))?;
        let (client, server) = connected_pair()?;
        for end in [&client, &server] {
            crew.sockets
                .push(end.try_clone().map_err(|source| LoadError::Socket { action: "hold a connection", source })?);
        }
        crew.start(threads, move |shared, counters| ask(shared, counters, client))?;
        let place = place.clone();
        crew.start(threads, move |shared, counters| serve(shared, counters, server, &file, &place))?;
    }
    Ok(())
}

#[derive(Clone)]
struct Place {
    directory: PathBuf,
    need_mebibyte: u64,
}

impl Place {
    fn failed(&self, action: &'static str, source: std::io::Error) -> LoadError {
        LoadError::File { action, directory: self.directory.clone(), need_mebibyte: self.need_mebibyte, source }
    }
}

fn connected_pair() -> Result<(TcpStream, TcpStream), LoadError> {
    let failed = |action| move |source| LoadError::Socket { action, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("listen"))?;
    let address = listener.local_addr().map_err(failed("listen"))?;
    let client = TcpStream::connect(address).map_err(failed("connect"))?;
    let own = client.local_addr().map_err(failed("connect"))?;
    // Another program may reach the port first; its connection is dropped and the next one taken.
    loop {
        let (server, peer) = listener.accept().map_err(failed("accept"))?;
        if peer == own {
            return Ok((client, server));
        }
    }
}

/// The client: sends a round of numbered blocks and takes them back.
fn ask(shared: &Shared, counters: &Counters, mut socket: TcpStream) -> Result<(), LoadError> {
    let failed = |action| move |source| LoadError::Socket { action, source };
    let mut block = vec![0x5a_u8; BLOCK_BYTE];
    let mut first = 0_u64;
    while !shared.stopping() {
        for number in first..first + ROUND_BLOCKS {
            block[..8].copy_from_slice(&number.to_le_bytes());
            socket.write_all(&block).map_err(failed("send"))?;
            Counters::add(&counters.operations, 1);
        }
        for wanted in first..first + ROUND_BLOCKS {
            socket.read_exact(&mut block).map_err(failed("receive"))?;
            Counters::add(&counters.socket_byte, BLOCK_BYTE as u64);
            Counters::add(&counters.operations, 1);
            check_number(&block, wanted)?;
        }
        if first == 0 {
            shared.note_working();
        }
        first += ROUND_BLOCKS;
    }
    Ok(())
}

/// The server: stores a round of blocks, forces them to the device, fetches and returns them.
fn serve(
    shared: &Shared,
    counters: &Counters,
    mut socket: TcpStream,
    file: &File,
    place: &Place,
) -> Result<(), LoadError> {
    let failed = |action| move |source| LoadError::Socket { action, source };
    let mut block = AlignedBlock::new(BLOCK_BYTE);
    let block = block.bytes();
    let mut first = 0_u64;
    while !shared.stopping() {
        // A file system that refuses has one access only, and its report states so.
        let direct = first / ROUND_BLOCKS % 2 == 1 && process::set_direct(file, true).is_ok();
        let moved = if direct { &counters.direct } else { &counters.buffered };
        for number in first..first + ROUND_BLOCKS {
            socket.read_exact(block).map_err(failed("receive"))?;
            Counters::add(&counters.socket_byte, BLOCK_BYTE as u64);
            file.write_all_at(block, offset(number)).map_err(|source| place.failed("write", source))?;
            Counters::add(&moved.written_byte, BLOCK_BYTE as u64);
            Counters::add(&moved.operations, 1);
        }
        file.sync_data().map_err(|source| place.failed("sync", source))?;
        Counters::add(&counters.fsyncs, 1);
        // Without this the pages just written would be read from memory.
        process::drop_cached_pages(file).map_err(|source| place.failed("drop the cached pages of", source))?;
        for number in first..first + ROUND_BLOCKS {
            file.read_exact_at(block, offset(number)).map_err(|source| place.failed("read", source))?;
            Counters::add(&moved.read_byte, BLOCK_BYTE as u64);
            Counters::add(&moved.operations, 1);
            socket.write_all(block).map_err(failed("send"))?;
        }
        if direct {
            process::set_direct(file, false).map_err(|source| place.failed("end direct access to", source))?;
        }
        if first == 0 {
            shared.note_working();
        }
        first += ROUND_BLOCKS;
    }
    Ok(())
}

/// Checks that a block is the one with this number.
pub(crate) fn check_number(block: &[u8], wanted: u64) -> Result<(), LoadError> {
    let mut number = [0_u8; 8];
    number.copy_from_slice(&block[..8]);
    let found = u64::from_le_bytes(number);
    if found == wanted { Ok(()) } else { Err(LoadError::Content { found, wanted }) }
}

/// Where block `number` lies: the file is written round and round.
pub(crate) fn offset(number: u64) -> u64 {
    number % (FILE_BYTE / BLOCK_BYTE as u64) * BLOCK_BYTE as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_lies_beyond_the_stated_size_of_the_file() {
        let highest = (0..100_000).map(offset).max().expect("there are blocks");
        assert_eq!(highest + BLOCK_BYTE as u64, FILE_BYTE);
    }

    #[test]
    fn a_round_never_writes_over_its_own_blocks() {
        for first in (0..4_096).step_by(ROUND_BLOCKS as usize) {
            let mut offsets: Vec<_> = (first..first + ROUND_BLOCKS).map(offset).collect();
            offsets.dedup();
            assert_eq!(offsets.len() as u64, ROUND_BLOCKS);
        }
    }
}
