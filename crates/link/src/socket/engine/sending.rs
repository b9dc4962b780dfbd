//! Sending: one by one, or many in one call.

use std::io::{self, IoSlice};

use vtare_probe::link::{LinkError, Outgoing};
use vtare_sys::errno::{EAGAIN, EINTR, EINVAL, EIO, EMSGSIZE, ENOBUFS, ENOMEM, EPERM};
use vtare_sys::net::Message;
use vtare_sys::net::control::{SendControl, StampRequest};

use super::setup::refusal;
use super::{BATCH, Engine, Framing};
use crate::socket::echo;
use crate::socket::tx_keys::TxKeys;

/// What a UDP datagram can carry over IPv4: the bound of one large send.
const LARGEST_SEND: usize = 65_507;

/// What to do after a send of which the kernel took nothing.
enum After {
    Again,
    None,
}

/// What a refused large send is put down to.
#[derive(Debug, PartialEq, Eq)]
enum LargeSendRefusal {
    /// The keys of departure stamps: before Linux 6.13 the kernel knows none of ours. To be tried again without them.
    StampKeys,
    /// Large sends themselves: the interface cannot compute checksums (EIO), or the packets exceed the path's MTU
    /// (EINVAL).
    LargeSend,
    /// Neither: as with any other send.
    Other,
}

impl LargeSendRefusal {
    /// EINVAL has two causes. The stamp's key is ruled out first: that costs one more call, and large sends are not
    /// lost with it.
    fn of(errno: Option<i32>, own_stamp_key: bool) -> Self {
        match errno {
            Some(EINVAL) if own_stamp_key => Self::StampKeys,
            Some(EIO | EINVAL) => Self::LargeSend,
            _ => Self::Other,
        }
    }
}

impl Engine<'_> {
    /// Sends as many as the kernel takes and gives their number.
    pub(crate) fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<usize, LinkError> {
        let mut accepted = 0;
        while let Some(first) = datagrams.get(accepted) {
            let rest = &datagrams[accepted..];
            let even = rest.iter().take(BATCH).take_while(|next| next.payload.len() == first.payload.len()).count();
            let most = (LARGEST_SEND / first.payload.len().max(1)).min(even);
            // A large send has one launch time for all.
            let merged = self.facts.capabilities.gso && most > 1 && first.launch.is_none();
            let (tried, took) = match rest.len() {
                1 => (1, self.send_each::<1>(rest)?),
                _ if merged => (most, self.send_merged(&rest[..most])?),
                // Room is made for each call: for no more than it needs.
                2..=8 => (rest.len(), self.send_each::<8>(rest)?),
                _ => (rest.len().min(BATCH), self.send_each::<BATCH>(rest)?),
            };
            accepted += took;
            // Where the kernel turned out not to cut large sends, they go one by one from here on.
            let try_again = merged && !self.facts.capabilities.gso;
            if took < tried && !try_again {
                break;
            }
        }
        self.last_sent = self.clock.now();
        Ok(accepted)
    }

    fn stamp_request(&self, sequence: u64) -> Option<StampRequest> {
        let every = u64::from(self.facts.capabilities.tx_stamp_every);
        (every > 0 && sequence.is_multiple_of(every))
            .then(|| StampRequest { hardware: self.hardware, key: self.keys.key(sequence) })
    }

    /// One datagram, one message.
    fn send_each<const N: usize>(&mut self, datagrams: &[Outgoing<'_>]) -> Result<usize, LinkError> {
        let count = datagrams.len().min(N);
        let mut heads = [[0_u8; echo::HEADER_BYTE]; N];
        if let Framing::Echo(echo) = self.framing {
            for (head, datagram) in heads.iter_mut().zip(datagrams) {
                *head = echo.request(datagram.sequence, datagram.payload);
            }
        }
        let from = usize::from(self.framing == Framing::Udp);
        let parts: [[IoSlice<'_>; 2]; N] = std::array::from_fn(|at| {
            let payload = datagrams.get(at).map_or(&[][..], |datagram| datagram.payload);
            [IoSlice::new(&heads[at]), IoSlice::new(payload)]
        });
        let messages: [Message<'_>; N] = std::array::from_fn(|at| {
            let control = datagrams.get(at).map_or_else(SendControl::default, |datagram| SendControl {
                stamp: self.stamp_request(datagram.sequence),
                launch_ns: datagram.launch.and_then(|at| Some(self.launches.as_ref()?.kernel_time_ns(at))),
                ..SendControl::default()
            });
            Message { parts: &parts[at][from..], to: None, control }
        });
        let took = match self.outgoing.send(&self.socket, &messages[..count]) {
            Ok(took) => took,
            Err(error) => match self.refused(&error, datagrams)? {
                After::Again => return self.send_each::<N>(datagrams),
                After::None => 0,
            },
        };
        for datagram in &datagrams[..took] {
            if self.stamp_request(datagram.sequence).is_some() {
                self.keys.sent(datagram.sequence);
            }
        }
        Ok(took)
    }

    /// Many datagrams of equal size as one message that the kernel cuts. A stamp of its departure is the first one's.
    fn send_merged(&mut self, datagrams: &[Outgoing<'_>]) -> Result<usize, LinkError> {
        let parts: [IoSlice<'_>; BATCH] =
            std::array::from_fn(|at| IoSlice::new(datagrams.get(at).map_or(&[][..], |datagram| datagram.payload)));
        let wanted = datagrams.iter().any(|datagram| self.stamp_request(datagram.sequence).is_some());
        let first = datagrams[0].sequence;
        let stamp = wanted.then(|| StampRequest { hardware: self.hardware, key: self.keys.key(first) });
        let segment_byte = u16::try_from(datagrams[0].payload.len()).ok();
        let control = SendControl { segment_byte, stamp, ..SendControl::default() };
        let message = Message { parts: &parts[..datagrams.len()], to: None, control };
        match self.outgoing.send(&self.socket, &[message]) {
            Ok(_) => {
                if wanted {
                    self.keys.sent(first);
                }
                Ok(datagrams.len())
            }
            Err(error) => {
                let own_stamp_key = wanted && matches!(self.keys, TxKeys::Ours { .. });
                match LargeSendRefusal::of(error.raw_os_error(), own_stamp_key) {
                    LargeSendRefusal::StampKeys => {
                        self.keys = TxKeys::counted();
                        self.send_merged(datagrams)
                    }
                    LargeSendRefusal::LargeSend => {
                        self.facts.capabilities.gso = false;
                        self.facts.refusals.push(refusal("gso", format_args!("UDP_SEGMENT: {error}; sent one by one")));
                        Ok(0)
                    }
                    LargeSendRefusal::Other => match self.refused(&error, datagrams)? {
                        After::Again => self.send_merged(datagrams),
                        After::None => Ok(0),
                    },
                }
            }
        }
    }

    /// What follows from a send of which the kernel took nothing.
    #[cold]
    fn refused(&mut self, error: &io::Error, datagrams: &[Outgoing<'_>]) -> Result<After, LinkError> {
        let found_byte = datagrams.iter().map(|datagram| datagram.payload.len()).max().unwrap_or(0);
        match error.raw_os_error() {
            Some(EAGAIN | ENOBUFS | ENOMEM) => Ok(After::None),
            // A packet filter on this host drops it, and reports that.
            Some(EPERM) => {
                if !self.facts.refusals.iter().any(|known| known.wanted == "send") {
                    self.facts
                        .refusals
                        .push(refusal("send", format_args!("{error}: a packet filter of this host drops probes")));
                }
                Ok(After::None)
            }
            Some(EINTR) => Ok(After::Again),
            Some(EINVAL) if matches!(self.keys, TxKeys::Ours { .. }) && self.facts.capabilities.tx_stamp_every > 0 => {
                // Before Linux 6.13 the kernel knows no keys of ours: it counts.
                self.keys = TxKeys::counted();
                Ok(After::Again)
            }
            Some(EMSGSIZE) => {
                let mtu = self.socket.mtu().ok().and_then(|mtu| usize::try_from(mtu).ok());
                let most_byte = mtu.map_or(0, |mtu| mtu.saturating_sub(self.facts.ip_header_byte));
                Err(LinkError::TooLarge { found_byte, most_byte })
            }
            _ => Err(self.dead(error, "send")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_send_refused_for_its_stamp_key_is_tried_again_without_the_key_before_large_sends_are_given_up() {
        assert_eq!(LargeSendRefusal::of(Some(EINVAL), true), LargeSendRefusal::StampKeys);
        assert_eq!(LargeSendRefusal::of(Some(EINVAL), false), LargeSendRefusal::LargeSend);
    }

    #[test]
    fn an_interface_without_checksums_takes_no_large_sends_whatever_is_stamped() {
        assert_eq!(LargeSendRefusal::of(Some(EIO), true), LargeSendRefusal::LargeSend);
        assert_eq!(LargeSendRefusal::of(Some(EAGAIN), true), LargeSendRefusal::Other);
    }
}
