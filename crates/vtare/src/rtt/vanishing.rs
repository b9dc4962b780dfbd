//! Whether the size of the packets is why none of them was answered.

use vtare_probe::link::{LinkError, Outgoing, ProbeLink};
use vtare_units::{Monotonic, Span, Timestamp};

use super::codec::Codec;
use crate::black_hole::{Vanishing, largest_arriving};

/// Probes that are sent for this at most; the session allows as many more.
pub(super) const PROBES: u64 = 64;
/// The time for them.
pub(super) const LONGEST_NS: u64 = 4_000_000_000;
/// A small packet, bytes.
const SMALL_BYTE: u32 = 64;
/// Packets of one size: one alone may be lost.
const OF_A_SIZE: u64 = 2;
/// How long an answer to the first small packet is waited for; to all others, some round trips.
const FIRST_WAIT: Span = Span::from_secs(1);
const SHORTEST_WAIT: Span = Span::from_millis(50);

/// Sends small packets where packets of `asked_byte` got no answer. `least_byte` is the smallest that the codec can
/// write, `next` the number of the next packet. `None` where small ones are not answered either.
pub(super) fn sound(
    link: &mut impl ProbeLink,
    codec: &Codec,
    (asked_byte, least_byte): (u32, u32),
    next: u64,
) -> Option<Vanishing> {
    let small_byte = least_byte.max(SMALL_BYTE);
    if asked_byte <= small_byte {
        return None;
    }
    let end = link.now() + Span::from_unsigned_nanos(LONGEST_NS);
    let mut sounding = Sounding { link, codec, next, wait: FIRST_WAIT, end };
    let found = sounding.arrives(small_byte).and_then(|arrives| {
        arrives.then(|| largest_arriving(small_byte, asked_byte, |size| sounding.arrives(size))).transpose()
    });
    // A link that fails now has nothing to add.
    let arriving_byte = found.ok().flatten()?;
    Some(Vanishing { asked_byte, small_byte, arriving_byte })
}

struct Sounding<'a, L> {
    link: &'a mut L,
    codec: &'a Codec,
    next: u64,
    wait: Span,
    /// Nothing is sent behind it: the session is over.
    end: Timestamp<Monotonic>,
}

impl<L: ProbeLink> Sounding<'_, L> {
    /// Whether one of some packets of this size is answered.
    fn arrives(&mut self, size_byte: u32) -> Result<bool, LinkError> {
        for _ in 0..OF_A_SIZE {
            let (began, sequence) = (self.link.now(), self.next);
            if began + self.wait > self.end {
                return Ok(false);
            }
            self.next += 1;
            let mut payload = vec![0; size_byte as usize];
            if self.codec.fill(sequence, began, &mut payload).is_err() {
                return Ok(false);
            }
            self.link.send(&[Outgoing { sequence, payload: &payload, launch: None }])?;
            let mut answered = None;
            while answered.is_none() && self.link.now() < began + self.wait {
                let codec = self.codec;
                self.link.receive(began + self.wait, &mut |incoming| {
                    let is_reply = codec.read(incoming.payload, sequence).is_ok_and(|(number, _)| number == sequence);
                    answered = answered.or(is_reply.then_some(incoming.arrived));
                })?;
            }
            if let Some(arrived) = answered {
                self.wait = self.wait.min((arrived - began) * 4 + SHORTEST_WAIT);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
