//! One reply of a server, whatever it sends: bounded in bytes, and by its source in time.

use std::io::{self, Read};

/// A head, or a line of a body in chunks, that is longer is none.
const MOST_HEAD_BYTE: usize = 64 << 10;
const VERSION: &[u8] = b"HTTP/1.";
/// A longer reply is given up.
const MOST_BYTE: u64 = 64 << 20;

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Of HTTP.
    pub(super) status: Option<u16>,
    pub(super) bytes: u64,
    /// Whether the connection goes on.
    pub(super) keeps: bool,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("the connection was closed without a reply")]
    Closed,
    #[error("the connection was closed within a reply")]
    ClosedWithin,
    #[error("no whole reply came in time")]
    Late,
    #[error("a reply had more than {} MiB", MOST_BYTE >> 20)]
    TooLong,
    #[error("its reply is not HTTP/1: write what its protocol asks for as --request TEXT")]
    NotHttp,
    #[error("it answered with status {0}")]
    Status(u16),
    #[error("{0}")]
    System(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::System(error.to_string()),
        }
    }
}

/// What comes from a connection, read in pieces.
#[derive(Debug)]
pub(super) struct Incoming<R> {
    pub(super) source: R,
    piece: Box<[u8]>,
    next: usize,
    end: usize,
    bytes: u64,
}

impl<R: Read> Incoming<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, piece: vec![0; 32 << 10].into(), next: 0, end: 0, bytes: 0 }
    }

    /// The next bytes; none at the end.
    fn more(&mut self) -> Result<&[u8], Broken> {
        if self.next == self.end {
            self.end = loop {
                match self.source.read(&mut self.piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            self.next = 0;
            self.bytes += self.end as u64;
            if self.bytes > MOST_BYTE {
                return Err(Broken::TooLong);
            }
        }
        Ok(&self.piece[self.next..self.end])
    }

    /// Why the end of the connection is no end of the reply.
    fn ended(&self) -> Broken {
        if self.bytes == 0 { Broken::Closed } else { Broken::ClosedWithin }
    }

    /// A line without its end; one that begins otherwise than this may never have one.
    fn line(&mut self, begin: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut line = Vec::new();
        loop {
            let more = self.more()?;
            if more.is_empty() {
                return Err(self.ended());
            }
            let end = more.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&more[..end.unwrap_or(more.len())]);
            let used = end.map_or(more.len(), |end| end + 1);
            self.next += used;
            let size = begin.len().min(line.len());
            if line.len() > MOST_HEAD_BYTE || line[..size] != begin[..size] {
                return Err(Broken::NotHttp);
            }
            if end.is_some() {
                line.pop_if(|last| *last == b'\r');
                return Ok(line);
            }
        }
    }

    fn skip(&mut self, mut byte: u64) -> Result<(), Broken> {
        if byte > MOST_BYTE {
            return Err(Broken::TooLong);
        }
        while byte > 0 {
            let more = self.more()?.len();
            if more == 0 {
                return Err(self.ended());
            }
            let used = byte.min(more as u64) as usize;
            self.next += used;
            byte -= used as u64;
        }
        Ok(())
    }

    fn skip_all(&mut self) -> Result<(), Broken> {
        while !self.more()?.is_empty() {
            self.next = self.end;
        }
        Ok(())
    }

    /// Reads one reply of HTTP/1.
    pub(super) fn http(&mut self) -> Result<Reply, Broken> {
        self.bytes = (self.end - self.next) as u64;
        loop {
            let (status, mut keeps) = status_line(&self.line(VERSION)?)?;
            let (mut length, mut in_chunks, mut head_byte) = (None, false, 0);
            loop {
                let line = self.line(b"")?;
                head_byte += line.len();
                if head_byte > MOST_HEAD_BYTE {
                    return Err(Broken::NotHttp);
                }
                if line.is_empty() {
                    break;
                }
                let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
                let (name, value) = text.split_once(':').ok_or(Broken::NotHttp)?;
                match (name.trim(), value.trim()) {
                    ("content-length", value) => length = Some(value.parse().map_err(|_| Broken::NotHttp)?),
                    ("transfer-encoding", value) => in_chunks = value.contains("chunked"),
                    ("connection", value) => keeps = !value.contains("close") && (keeps || value.contains("keep")),
                    _ => {}
                }
            }
            match (status, length) {
                // What comes before the reply.
                (100..=199, _) => continue,
                (204 | 304, _) => {}
                _ if in_chunks => self.chunks()?,
                (_, Some(length)) => self.skip(length)?,
                (_, None) => {
                    self.skip_all()?;
                    keeps = false;
                }
            }
            return Ok(Reply { status: Some(status), bytes: self.bytes, keeps });
        }
    }

    fn chunks(&mut self) -> Result<(), Broken> {
        loop {
            let line = String::from_utf8_lossy(&self.line(b"")?).into_owned();
            let size = line.split(';').next().unwrap_or_default().trim();
            match u64::from_str_radix(size, 16).map_err(|_| Broken::NotHttp)? {
                0 => break,
                size => self.skip(size)?,
            }
            self.line(b"")?;
        }
        while !self.line(b"")?.is_empty() {}
        Ok(())
    }

    /// Reads until this number of bytes has come; what is beyond is dropped.
    pub(super) fn bytes(&mut self, wanted: u64) -> Result<Reply, Broken> {
        self.bytes = 0;
        self.next = self.end;
        while self.bytes < wanted {
            if self.more()?.is_empty() {
                return Err(self.ended());
            }
            self.next = self.end;
        }
        Ok(Reply { status: None, bytes: self.bytes, keeps: true })
    }

    /// Reads what comes until the source is silent or ends: at least a byte.
    pub(super) fn all(&mut self) -> Result<Reply, Broken> {
        self.bytes = 0;
        self.next = self.end;
        loop {
            match self.more().map(<[u8]>::len) {
                Ok(0) if self.bytes == 0 => return Err(Broken::Closed),
                Ok(0) => return Ok(Reply { status: None, bytes: self.bytes, keeps: false }),
                Ok(_) => self.next = self.end,
                Err(Broken::Late) if self.bytes > 0 => {
                    return Ok(Reply { status: None, bytes: self.bytes, keeps: true });
                }
                Err(broken) => return Err(broken),
            }
        }
    }
}

/// The status, and whether the version keeps connections by itself.
fn status_line(line: &[u8]) -> Result<(u16, bool), Broken> {
    let rest = line.strip_prefix(VERSION).ok_or(Broken::NotHttp)?;
    let status = rest.get(2..5).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match (rest.first(), rest.get(1), status) {
        (Some(minor), Some(b' '), Some(status)) if minor.is_ascii_digit() && status >= 100 => {
            Ok((status, *minor != b'0'))
        }
        _ => Err(Broken::NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that gives a byte at a time, or all at once.
    struct Given<'a>(&'a [u8], usize);

    impl Read for Given<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.0.len().min(self.1).min(into.len());
            let (now, later) = self.0.split_at(size);
            into[..size].copy_from_slice(now);
            self.0 = later;
            Ok(size)
        }
    }

    fn http(text: &[u8]) -> Result<Reply, Broken> {
        let [slow, fast] = [1, usize::MAX].map(|step| Incoming::new(Given(text, step)).http());
        assert_eq!(slow.as_ref().map(|it| (it.status, it.keeps)), fast.as_ref().map(|it| (it.status, it.keeps)));
        fast
    }

    #[test]
    fn replies_end_where_their_heads_state_it() {
        for (text, status, keeps) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, true),
            ("HTTP/1.0 200 OK\nContent-Length: 2\n\nok", 200, false),
            ("HTTP/1.0 404 No\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", 404, true),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhat comes until the end", 200, false),
            ("HTTP/1.1 204 Nothing\r\n\r\n", 204, true),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n", 201, true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nA: b\r\n\r\n", 200, true),
        ] {
            let reply = http(text.as_bytes()).unwrap_or_else(|broken| panic!("{text:?}: {broken}"));
            assert_eq!((reply.status, reply.keeps, reply.bytes), (Some(status), keeps, text.len() as u64), "{text:?}");
        }
    }

    #[test]
    fn two_replies_on_a_connection_are_read_in_turn() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
        let mut incoming = Incoming::new(Given(text, usize::MAX));
        assert_eq!([incoming.http().unwrap().status, incoming.http().unwrap().status], [Some(200), Some(500)]);
        assert_eq!(incoming.http(), Err(Broken::Closed));
    }

    #[test]
    fn what_is_no_reply_is_named() {
        for (text, broken) in [
            ("", Broken::Closed),
            ("HTTP/1.1 200 OK\r\nContent-Le", Broken::ClosedWithin),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", Broken::ClosedWithin),
            ("SSH-2.0-OpenSSH", Broken::NotHttp),
            ("HTTP/1.1 2x0 OK\r\n\r\n", Broken::NotHttp),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Broken::NotHttp),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", Broken::TooLong),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", Broken::TooLong),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Broken::NotHttp),
        ] {
            assert_eq!(http(text.as_bytes()), Err(broken), "{text:?}");
        }
        assert_eq!(http(&vec![b'x'; 10 << 20]), Err(Broken::NotHttp));
        let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(1 << 20)].concat();
        assert_eq!(http(&endless), Err(Broken::NotHttp));
    }

    #[test]
    fn a_reply_of_another_protocol_is_as_long_as_the_first_one() {
        let mut incoming = Incoming::new(Given(b"+PONG\r\n+PONG\r\n", 7));
        let first = incoming.bytes(1).unwrap();
        assert_eq!((first.bytes, first.status), (7, None));
        assert_eq!(incoming.bytes(7).unwrap().bytes, 7);
        assert_eq!(incoming.bytes(7), Err(Broken::Closed));
        let mut incoming = Incoming::new(Given(b"+PONG\r\n", 3));
        assert_eq!(incoming.bytes(9), Err(Broken::ClosedWithin));
        assert_eq!(Incoming::new(Given(b"+PONG\r\n", 3)).all().unwrap().bytes, 7);
        assert_eq!(Incoming::new(Given(b"", 3)).all(), Err(Broken::Closed));
    }
}
