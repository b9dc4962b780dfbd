//! Messages of the NBD protocol, as far as one export without structured replies needs them.
//!
//! Source: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>, sections "Fixed newstyle negotiation"
//! and "Transmission phase".

use std::io::{self, Read, Write};

use crate::io::BLOCK_BYTE;

const GREETING: [u8; 16] = *b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const FIXED_NEWSTYLE: u16 = 1;
const OPTION_GO: u32 = 7;
const REPLY_ACKNOWLEDGED: u32 = 1;
const REPLY_INFORMATION: u32 = 3;
const REPLY_ERROR: u32 = 1 << 31;
const INFORMATION_EXPORT: u16 = 0;
const READ_ONLY: u16 = 1 << 1;
const SEND_FLUSH: u16 = 1 << 2;
const SEND_FUA: u16 = 1 << 3;
/// The longest reply to an option that is read: an error text, or a block size.
const MOST_REPLY_BYTE: u32 = 4096;
/// As many replies to one option; a server sends three or so.
const MOST_REPLIES: usize = 16;
const REQUEST_BYTE: usize = 28;

/// What a server states of its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) size_byte: u64,
    pub(crate) read_only: bool,
    pub(crate) takes_flush: bool,
    pub(crate) takes_fua: bool,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read,
    /// Whether the server is to answer only once the bytes are on stable storage (FUA, force unit access).
    Write {
        fua: bool,
    },
    Flush,
    Disconnect,
}

fn broken(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Negotiates the default export, which is the one with the empty name.
///
/// # Errors
/// Where the connection ends, or the other end speaks another protocol or refuses the export.
pub(crate) fn negotiate(connection: &mut (impl Read + Write)) -> io::Result<Export> {
    let mut greeting = [0_u8; 18];
    connection.read_exact(&mut greeting)?;
    if greeting[..16] != GREETING {
        return Err(broken("the other end does not greet as an NBD server does: pass the server's address".to_owned()));
    }
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    if flags & FIXED_NEWSTYLE == 0 {
        return Err(broken("the server has no fixed newstyle handshake: use qemu-nbd or nbdkit".to_owned()));
    }
    let mut asked = u32::from(FIXED_NEWSTYLE).to_be_bytes().to_vec();
    asked.extend(OPTION_MAGIC.to_be_bytes());
    asked.extend(OPTION_GO.to_be_bytes());
    // The length of an empty name, and no kind of information beside the export's own.
    asked.extend(6_u32.to_be_bytes());
    asked.extend([0; 6]);
    connection.write_all(&asked)?;
    let mut export = None;
    for _ in 0..MOST_REPLIES {
        let (kind, data) = option_reply(connection)?;
        match kind {
            REPLY_ACKNOWLEDGED => return export.ok_or_else(|| broken("the server names no size".to_owned())),
            REPLY_INFORMATION => export = export_in(&data).or(export),
            _ if kind & REPLY_ERROR != 0 => {
                let text = String::from_utf8_lossy(&data);
                return Err(broken(format!("the server refuses its default export (error {kind:#x} {text:?})")));
            }
            _ => {}
        }
    }
    Err(broken(format!("the server did not acknowledge in {MOST_REPLIES} replies")))
}

fn option_reply(connection: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0_u8; 20];
    connection.read_exact(&mut head)?;
    let [magic, option, kind, length] = [0..8, 8..12, 12..16, 16..20].map(|part| number(&head[part]));
    if magic != OPTION_REPLY_MAGIC || option != u64::from(OPTION_GO) {
        return Err(broken(format!("{magic:#x} is not the reply to an option")));
    }
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if length > MOST_REPLY_BYTE {
        return Err(broken(format!("a reply of {length} B is longer than {MOST_REPLY_BYTE} B")));
    }
    let mut data = vec![0; length as usize];
    connection.read_exact(&mut data)?;
    Ok((u32::try_from(kind).unwrap_or(u32::MAX), data))
}

/// A big-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The export in a piece of information; `None` where it is about something else.
fn export_in(data: &[u8]) -> Option<Export> {
    if data.len() != 12 || number(&data[..2]) != u64::from(INFORMATION_EXPORT) {
        return None;
    }
    let flags = u16::from_be_bytes([data[10], data[11]]);
    let has = |flag| flags & flag != 0;
    Some(Export {
        size_byte: number(&data[2..10]),
        read_only: has(READ_ONLY),
        takes_flush: has(SEND_FLUSH),
        takes_fua: has(SEND_FUA),
    })
}

/// The head of a request; a write's block follows it.
pub(crate) fn request(asked: Request, cookie: u64, offset: u64) -> [u8; REQUEST_BYTE] {
    let (flags, kind, length) = match asked {
        Request::Read => (0_u16, 0_u16, BLOCK_BYTE),
        Request::Write { fua } => (u16::from(fua), 1, BLOCK_BYTE),
        Request::Disconnect => (0, 2, 0),
        Request::Flush => (0, 3, 0),
    };
    let mut head = [0; REQUEST_BYTE];
    head[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    head[4..6].copy_from_slice(&flags.to_be_bytes());
    head[6..8].copy_from_slice(&kind.to_be_bytes());
    head[8..16].copy_from_slice(&cookie.to_be_bytes());
    head[16..24].copy_from_slice(&offset.to_be_bytes());
    head[24..].copy_from_slice(&(length as u32).to_be_bytes());
    head
}

/// Reads the reply to the request with this cookie; the block of a read follows it.
///
/// # Errors
/// Where the connection ends, the reply is another's, or the server could not do what was asked.
pub(crate) fn expect_reply(connection: &mut impl Read, cookie: u64) -> io::Result<()> {
    let mut head = [0_u8; 16];
    connection.read_exact(&mut head)?;
    let [magic, error, found] = [0..4, 4..8, 8..16].map(|part| number(&head[part]));
    if magic != u64::from(REPLY_MAGIC) || found != cookie {
        return Err(broken(format!("the reply {magic:#x} is to request {found}, not to request {cookie}")));
    }
    // The protocol's numbers are those of Linux.
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(i32::MAX))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// Both directions of a connection: what the other end sends, and what it is sent.
    struct Ends {
        from: Cursor<Vec<u8>>,
        to: Vec<u8>,
    }

    impl Read for Ends {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.from.read(buffer)
        }
    }

    impl Write for Ends {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.to.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        for word in [OPTION_GO, kind, data.len() as u32] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(data);
        bytes
    }

    fn export(size_byte: u64, flags: u16) -> Vec<u8> {
        let mut data = INFORMATION_EXPORT.to_be_bytes().to_vec();
        data.extend(size_byte.to_be_bytes());
        data.extend(flags.to_be_bytes());
        reply(REPLY_INFORMATION, &data)
    }

    fn negotiated(flags: u16, replies: &[Vec<u8>]) -> (io::Result<Export>, Vec<u8>) {
        let mut from = GREETING.to_vec();
        from.extend(flags.to_be_bytes());
        from.extend(replies.concat());
        let mut ends = Ends { from: Cursor::new(from), to: Vec::new() };
        (negotiate(&mut ends), ends.to)
    }

    #[test]
    fn the_handshake_asks_for_the_default_export_and_reads_its_size_and_what_it_takes() {
        let block_sizes = reply(REPLY_INFORMATION, &[0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
        let replies = [block_sizes, export(1 << 30, 0b1101), reply(REPLY_ACKNOWLEDGED, &[])];
        let (found, sent) = negotiated(FIXED_NEWSTYLE, &replies);
        let wanted = Export { size_byte: 1 << 30, read_only: false, takes_flush: true, takes_fua: true };
        assert_eq!(found.expect("a whole handshake"), wanted);
        assert_eq!(sent, b"\0\0\0\x01IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
    }

    #[test]
    fn what_is_no_server_or_refuses_is_named() {
        let refused = [reply(REPLY_ERROR | 6, b"no such export")];
        let endless = vec![export(1, 0); MOST_REPLIES];
        let acknowledged = [reply(REPLY_ACKNOWLEDGED, &[])];
        let mut long = reply(REPLY_INFORMATION, &[]);
        long[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        for (flags, replies, part) in [
            (0, &[][..], "fixed newstyle"),
            (1, &refused[..], "no such export"),
            (1, &endless[..], "16 replies"),
            (1, &acknowledged[..], "no size"),
            (1, &[long][..], "4096 B"),
            (1, &[vec![0; 20]][..], "reply to an option"),
        ] {
            let text = negotiated(flags, replies).0.expect_err("no export").to_string();
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut other = Ends { from: Cursor::new(b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec()), to: Vec::new() };
        assert!(negotiate(&mut other).expect_err("no NBD server").to_string().contains("greet"));
    }

    #[test]
    fn a_request_has_magic_flags_kind_cookie_offset_and_length_in_network_order() {
        let head = request(Request::Write { fua: true }, 7, 0x10000);
        assert_eq!(head[..8], [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1]);
        assert_eq!((number(&head[8..16]), number(&head[16..24]), number(&head[24..])), (7, 0x10000, 65_536));
        assert_eq!(request(Request::Flush, 1, 0)[4..8], [0, 0, 0, 3]);
        assert_eq!(request(Request::Read, 1, 0)[4..8], [0, 0, 0, 0]);
    }

    #[test]
    fn a_reply_to_another_request_or_with_an_error_is_none() {
        let reply = |error: u32, cookie: u64| {
            let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
            bytes.extend(error.to_be_bytes());
            bytes.extend(cookie.to_be_bytes());
            Cursor::new(bytes)
        };
        expect_reply(&mut reply(0, 3), 3).expect("its own reply");
        assert!(expect_reply(&mut reply(0, 4), 3).expect_err("another's").to_string().contains("request 4"));
        assert_eq!(expect_reply(&mut reply(28, 3), 3).expect_err("no space").raw_os_error(), Some(28));
    }
}
