//! What a probe carries, and what its reply reports of the far end.

use vtare_methods::rtt::FarEnd;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::stamp::tlv::Request;
use vtare_wire::stamp::{ErrorEstimate, SenderPacket, StampKey, Time, TimeFormat, packet_byte};
use vtare_wire::{SessionId, SessionKey, WireError, full, short};

use super::stamp;

/// How the probes of one peer are written and their replies read.
#[derive(Clone, Debug)]
pub(super) enum Codec {
    /// vtare's full form.
    Full {
        /// The session.
        session: SessionId,
        /// Its key.
        key: SessionKey,
        /// The far end sends the request back as it came (ICMP).
        echoed: bool,
    },
    /// vtare's short form.
    Short {
        /// The session.
        session: SessionId,
        /// Its number at the responder.
        handle: u16,
        /// Its key.
        key: SessionKey,
        /// The far end sends the request back as it came (ICMP).
        echoed: bool,
    },
    /// STAMP.
    Stamp {
        /// Its session identifier.
        session: u16,
        /// Wall time minus the monotonic clock, ns.
        wall_ahead_ns: u64,
        /// How well wall time is known, ns.
        error_ns: u64,
        /// Whether that is against UTC.
        synchronized: bool,
        /// The key of the authenticated mode.
        key: Option<StampKey>,
        /// What is asked beside the times.
        requests: Vec<Request>,
    },
}

impl Codec {
    /// Writes probe `sequence` into `datagram`, sent at `now`.
    ///
    /// # Errors
    /// Where the datagram is too small: the parameters' check has seen to that.
    pub(super) fn fill(&self, sequence: u64, now: Timestamp<Monotonic>, datagram: &mut [u8]) -> Result<(), WireError> {
        match *self {
            Self::Full { session, ref key, .. } => {
                full::Probe { session, sequence, sent: now, wants_reply: true }.encode(key, datagram)
            }
            Self::Short { session, handle, ref key, .. } => {
                let context = short::Context { session, handle, key };
                short::Probe::new(sequence, now, true).encode(&context, datagram)
            }
            Self::Stamp { session, wall_ahead_ns, error_ns, synchronized, ref key, ref requests } => {
                let key = key.as_ref();
                let sent = Time::from_unix_ns(now.as_nanos().wrapping_add(wall_ahead_ns), TimeFormat::Ntp);
                let error = ErrorEstimate::of_ns(error_ns, synchronized);
                let number = sequence as u32;
                SenderPacket { sequence: number, sent, error, session }.encode(key, datagram)?;
                Request::write(requests, key, &mut datagram[packet_byte(key)..], number, number.wrapping_add(1));
                Ok(())
            }
        }
    }

    /// Reads a reply: the number of its probe, and what it reports of the far end. `newest` is the highest number sent.
    ///
    /// # Errors
    /// For anything that is no reply of this session.
    pub(super) fn read(&self, payload: &[u8], newest: u64) -> Result<(u64, FarEnd), WireError> {
        match *self {
            Self::Full { session, ref key, echoed } => {
                let datagram = full::Unverified::parse(payload)?;
                if datagram.session() != session {
                    return Err(WireError::Tag);
                }
                if echoed {
                    return Ok((datagram.probe(key)?.sequence, FarEnd::default()));
                }
                let reply = datagram.reply(key)?;
                let turn = reply.turnaround;
                Ok((reply.probe.sequence, FarEnd::stamped(turn.received, turn.replied, Some(turn.accepted))))
            }
            Self::Short { session, handle, ref key, echoed } => {
                let context = short::Context { session, handle, key };
                let datagram = short::Unverified::parse(payload)?;
                if echoed {
                    return Ok((datagram.probe(&context, newest)?.sequence, FarEnd::default()));
                }
                let reply = datagram.reply(&context, newest)?;
                Ok((reply.sequence, FarEnd { turnaround: reply.turnaround, ..FarEnd::default() }))
            }
            Self::Stamp { session, ref key, ref requests, .. } => {
                let packet = stamp::read(key.as_ref(), payload, session)?;
                let sequence = short::whole_sequence(packet.sender.sequence, newest);
                let times = (packet.reflection.received.unix_ns(), packet.reflection.replied.unix_ns());
                let far_end = match times {
                    (Some(received), Some(replied)) => {
                        let counted = requests.contains(&Request::Direct);
                        let accepted = counted.then(|| stamp::accepted(key.as_ref(), payload)).flatten();
                        let error = packet.reflection.error;
                        let utc_error = error.synchronized.then(|| Span::from_unsigned_nanos(error.as_ns()));
                        let (received, replied) = (Timestamp::from_nanos(received), Timestamp::from_nanos(replied));
                        FarEnd { utc_error, ..FarEnd::stamped(received, replied, accepted) }
                    }
                    _ => FarEnd::default(),
                };
                Ok((sequence, far_end))
            }
        }
    }

    /// The key of a STAMP session, if it has one; `None` for others.
    pub(super) const fn stamp_key(&self) -> Option<Option<&StampKey>> {
        match self {
            Self::Stamp { key, .. } => Some(key.as_ref()),
            _ => None,
        }
    }

    /// What a packet itself carries of its session, as captures read it: the full form its 64 bits, the short form the
    /// handle, STAMP its identifier.
    pub(super) fn carried(&self) -> i64 {
        match *self {
            Self::Full { session, .. } => session.0.cast_signed(),
            Self::Short { handle, .. } => handle.into(),
            Self::Stamp { session, .. } => session.into(),
        }
    }

    /// The session's name, for joining with captures; `None` where it has none.
    pub(super) fn session(&self) -> Option<String> {
        match self {
            Self::Full { session, .. } | Self::Short { session, .. } => Some(session.to_string()),
            Self::Stamp { session, .. } => Some(format!("{session:04x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use vtare_wire::stamp::{Reflection, reflect};

    use super::*;

    static KEY: SessionKey = SessionKey::new([7; 16]);
    const NOW: Timestamp<Monotonic> = Timestamp::from_nanos(5_000_000_000);

    #[test]
    fn an_echoed_probe_is_its_own_reply_and_states_nothing_of_the_far_end() {
        let session = SessionId(9);
        for codec in [
            Codec::Full { session, key: KEY.clone(), echoed: true },
            Codec::Short { session, handle: 3, key: KEY.clone(), echoed: true },
        ] {
            let mut datagram = [0; 64];
            codec.fill(1 << 33, NOW, &mut datagram).expect("room");
            assert_eq!(codec.read(&datagram, 1 << 33), Ok((1 << 33, FarEnd::default())));
            datagram[8] ^= 1;
            assert_eq!(codec.read(&datagram, 1 << 33), Err(WireError::Tag));
        }
    }

    #[test]
    fn another_session_is_no_reply() {
        let mut datagram = [0; 64];
        let other = Codec::Full { session: SessionId(8), key: KEY.clone(), echoed: true };
        other.fill(0, NOW, &mut datagram).expect("room");
        let codec = Codec::Full { session: SessionId(9), key: KEY.clone(), echoed: true };
        assert_eq!(codec.read(&datagram, 0), Err(WireError::Tag));
    }

    #[test]
    fn a_stamp_reflection_gives_both_times_of_the_far_end() {
        let codec = Codec::Stamp {
            session: 77,
            wall_ahead_ns: 1_700_000_000_000_000_000,
            error_ns: 100,
            synchronized: true,
            key: None,
            requests: Vec::new(),
        };
        let mut datagram = [0; 64];
        codec.fill((1 << 32) + 5, NOW, &mut datagram).expect("room");
        let at = |ns: u64| Time::from_unix_ns(1_700_000_005_000_000_000 + ns, TimeFormat::Ntp);
        let reflection = Reflection {
            sequence: 5,
            replied: at(9_000),
            error: ErrorEstimate::of_ns(1_000, true),
            received: at(4_000),
            sender_ttl: 64,
        };
        let reply = reflect(None, &mut datagram, &reflection).expect("a sender's packet");
        let (sequence, far_end) = codec.read(reply, (1 << 32) + 6).expect("a reply");
        assert_eq!(sequence, (1 << 32) + 5);
        assert_eq!(far_end.turnaround, Some(Span::from_nanos(5_000)));
        // Rounded up to what the estimate can hold.
        assert!((1_000..1_010).contains(&far_end.utc_error.expect("synchronized").as_nanos()));
    }
}
