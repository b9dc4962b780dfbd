//! The loop of a sender that waits for each reply: flood, as `ping -f`. Its rate is the path's, not the schedule's, so
//! its losses and its distribution show less than those of [`crate::open_loop`]: a slow reply also holds back the
//! probes that would have met the same delay.

use vtare_units::{Span, Timestamp};

use crate::link::{LinkError, Outgoing, ProbeLink};
use crate::open_loop::{Ended, Event, Observer};
use crate::schedule::Slot;

/// How the loop behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets in all; `None`: until the duration is over.
    pub packets: Option<u64>,
    /// No packet is sent later than this after the first, ns.
    pub duration_ns: u64,
    /// Bytes of each datagram.
    pub size_byte: u16,
    /// A packet that is not answered within this is given up, and the next one is sent, ns. `ping -f` waits 10 ms.
    pub patience_ns: u64,
    /// Time between two [`Event::Turn`]s at most, ns.
    pub turn_ns: u64,
    /// After the last packet, late replies are awaited for this long, ns.
    pub linger_ns: u64,
}

/// Sends a packet, waits for any reply, sends the next.
///
/// Each packet is due when it is sent: the schedule follows the path.
///
/// # Errors
/// Where the link cannot go on; everything given to the observer until then holds.
pub fn run<L: ProbeLink + ?Sized>(
    link: &mut L,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Ended, LinkError> {
    let started = link.now();
    let (mut turned, mut broken) = (started, false);
    let mut datagram = vec![0; options.size_byte.into()];
    let mut sequence = 0;
    while options.packets.is_none_or(|most| sequence < most) {
        let now = link.now();
        if now - started > Span::from_unsigned_nanos(options.duration_ns) {
            break;
        }
        if now - turned >= Span::from_unsigned_nanos(options.turn_ns) {
            turned = now;
            link.departures(&mut |departure| broken |= observer.observe(Event::Departed(departure)).is_break())?;
            broken |= observer.observe(Event::Turn(now)).is_break();
        }
        let slot = Slot { sequence, due: now - started, size_byte: options.size_byte, group: 0 };
        observer.fill(&slot, now, &mut datagram);
        let burst = link.send(&[Outgoing { sequence, payload: &datagram, launch: None }])?;
        sequence += 1;
        let taken = burst.accepted > 0;
        let scheduled = if taken { burst.before } else { now };
        let event = if taken {
            Event::Sent { slot, scheduled, burst, launch: None }
        } else {
            Event::NoRoom { slot, scheduled }
        };
        broken |= observer.observe(event).is_break();
        let give_up = burst.after + Span::from_unsigned_nanos(options.patience_ns);
        let mut answered = false;
        while !answered && !broken && link.now() < give_up {
            link.receive(Timestamp::ZERO, &mut |incoming| {
                answered = true;
                broken |= observer.observe(Event::Arrived(incoming)).is_break();
            })?;
        }
        if broken {
            break;
        }
    }
    let end = link.now() + Span::from_unsigned_nanos(options.linger_ns);
    while !broken && link.now() < end {
        let slice = end.min(link.now() + Span::from_unsigned_nanos(options.turn_ns.max(1)));
        link.receive(slice, &mut |incoming| broken |= observer.observe(Event::Arrived(incoming)).is_break())?;
        link.departures(&mut |departure| broken |= observer.observe(Event::Departed(departure)).is_break())?;
        broken |= observer.observe(Event::Turn(link.now())).is_break();
    }
    link.departures(&mut |departure| broken |= observer.observe(Event::Departed(departure)).is_break())?;
    Ok(Ended { started, ended: link.now(), broken_off: broken })
}
