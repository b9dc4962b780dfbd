//! The replies of one batch, and how they leave: runs of equal ones to one peer as one large send.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};

use vtare_sys::net::control::SendControl;
use vtare_sys::net::{Message, SendBatch, Socket};

/// Replies longer than this leave one by one: a large send needs packets that fit every link of the path, and 1280 B is
/// what IPv6 asks of each.
const LONGEST_IN_RUN_BYTE: usize = 1280 - vtare_wire::IPV6_UDP_BYTE;

/// Bytes of a large send: what fits in one UDP datagram before it is cut up.
const LARGEST_RUN_BYTE: usize = 65_000;

/// A reply that is to be sent: where its bytes are, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reply {
    start: usize,
    length: usize,
    to: SocketAddr,
    /// The address of this host that was asked; `None` leaves the choice to the kernel.
    source: Option<IpAddr>,
    /// DSCP and ECN; `None` leaves them to the kernel.
    class: Option<u8>,
}

/// Replies of one batch, one behind the other in memory.
#[derive(Debug)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    list: Vec<Reply>,
    send: SendBatch,
    segments: bool,
}

impl Replies {
    /// Room for `most` replies. `segments`: the kernel cuts large sends into datagrams (UDP_SEGMENT).
    pub(super) fn new(most: usize, segments: bool) -> Self {
        let bytes = Vec::with_capacity(most * vtare_wire::LARGEST_BYTE);
        Self { bytes, list: Vec::with_capacity(most), send: SendBatch::new(most), segments }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    pub(super) fn push(&mut self, to: SocketAddr, source: Option<IpAddr>, class: Option<u8>, reply: &[u8]) {
        self.list.push(Reply { start: self.bytes.len(), length: reply.len(), to, source, class });
        self.bytes.extend_from_slice(reply);
    }

    /// Sends them all, runs of equal ones `together` or each by itself, and gives how many the kernel took; the others
    /// go to `unsent`. Where the kernel has no room for one it is not tried again: a late reply would carry a wrong
    /// time.
    pub(super) fn send(&mut self, socket: &Socket, together: bool, mut unsent: impl FnMut(&[u8])) -> u64 {
        let (mut next, mut taken, mut segments) = (0, 0, self.segments && together);
        while next < self.list.len() {
            match send_runs(&mut self.send, socket, &self.bytes, &self.list[next..], segments) {
                Ok(sent) => {
                    next += sent;
                    taken += sent as u64;
                }
                // Perhaps it was the large send that the kernel or the path would not take: one by one, then.
                Err(error) if segments => {
                    segments = false;
                    self.segments &= matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory);
                }
                Err(_) => {
                    let Reply { start, length, .. } = self.list[next];
                    unsent(&self.bytes[start..start + length]);
                    next += 1;
                }
            }
        }
        taken
    }
}

/// How many replies from the first can leave as one large send: of one length, to one peer, one behind the other.
fn run(list: &[Reply]) -> usize {
    let Some(first) = list.first().filter(|first| (1..=LONGEST_IN_RUN_BYTE).contains(&first.length)) else { return 1 };
    let alike = |reply: &&Reply| Reply { start: first.start, ..**reply } == *first;
    list.iter().take(LARGEST_RUN_BYTE / first.length).take_while(alike).count()
}

/// One call; gives how many replies from the first the kernel took.
fn send_runs(send: &mut SendBatch, socket: &Socket, bytes: &[u8], list: &[Reply], segments: bool) -> io::Result<usize> {
    // Room is made for each call: for no more than it needs.
    match list.len() {
        1 => call::<1>(send, socket, bytes, list, segments),
        2..=8 => call::<8>(send, socket, bytes, list, segments),
        _ => call::<{ crate::probe_socket::BATCH }>(send, socket, bytes, list, segments),
    }
}

fn call<const N: usize>(
    send: &mut SendBatch,
    socket: &Socket,
    bytes: &[u8],
    list: &[Reply],
    segments: bool,
) -> io::Result<usize> {
    let mut parts = [IoSlice::new(&[]); N];
    let mut counts = [0; N];
    let (mut at, mut runs) = (0, 0);
    while at < list.len() && runs < N {
        let count = if segments { run(&list[at..]) } else { 1 };
        let start = list[at].start;
        parts[runs] = IoSlice::new(&bytes[start..start + count * list[at].length]);
        counts[runs] = count;
        at += count;
        runs += 1;
    }
    let empty = Message { parts: &[], to: None, control: SendControl::default() };
    let mut messages = [empty; N];
    let mut at = 0;
    for (index, message) in messages[..runs].iter_mut().enumerate() {
        let Reply { length, to, source, class, .. } = list[at];
        let segment_byte = u16::try_from(length).ok().filter(|_| counts[index] > 1);
        let control = SendControl { segment_byte, source, class, ..SendControl::default() };
        *message = Message { parts: &parts[index..=index], to: Some(to), control };
        at += counts[index];
    }
    send.send(socket, &messages[..runs]).map(|sent| counts[..sent].iter().sum())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn reply(length: usize, port: u16) -> Reply {
        Reply { start: 0, length, to: SocketAddr::from(([127, 0, 0, 1], port)), source: None, class: None }
    }

    #[test]
    fn a_run_is_of_one_length_to_one_peer_and_fits_one_large_send() {
        assert_eq!(run(&[reply(64, 1), reply(64, 1), reply(65, 1)]), 2);
        assert_eq!(run(&[reply(64, 1), reply(64, 2)]), 1);
        assert_eq!(run(&[reply(9_000, 1); 5]), 1, "longer than what every path carries");
        assert_eq!(run(&[reply(1_232, 1); 64]), 52, "64 would not fit one datagram");
        assert_eq!(run(&[]), 1);
    }

    #[test]
    fn replies_arrive_whole_in_order_and_each_at_its_peer() {
        let peers: Vec<UdpSocket> = (0..2).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
        let address = |peer: &UdpSocket| peer.local_addr().expect("it is bound");
        let socket = Socket::open(vtare_sys::net::Layer::Udp, address(&peers[0])).expect("a socket opens");
        for segments in [true, false] {
            let mut replies = Replies::new(64, segments);
            // (peer, length, filling): runs of several lengths, broken by another peer and by a long one.
            let plan =
                [(0, 60, 1), (0, 60, 2), (1, 60, 3), (0, 61, 4), (0, 61, 5), (1, 4_000, 6), (1, 60, 7), (1, 60, 8)];
            for (peer, length, filling) in plan {
                replies.push(address(&peers[peer]), None, None, &vec![filling; length]);
            }
            let taken = replies.send(&socket, true, |_| panic!("loopback takes all"));
            assert_eq!(taken, plan.len() as u64);
            for (peer, length, filling) in plan {
                let mut buffer = vec![0; 5_000];
                let got = peers[peer].recv(&mut buffer).expect("it comes");
                assert_eq!((got, buffer[0], buffer[length - 1]), (length, filling, filling));
            }
        }
    }
}
