//! What a STAMP reflector states beside its times: RFC 8972.

use serde::{Deserialize, Serialize};
use vtare_clock::Clock;
use vtare_methods::rtt::UtcHere;
use vtare_wire::WireError;
use vtare_wire::stamp::tlv::{Answer, Request, Tlv, is_authentic};
use vtare_wire::stamp::{ReflectorPacket, StampKey, packet_byte};

/// An extension that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Extension {
    /// The addresses and ports that the reflector sees: others than here behind a translator of addresses.
    Location,
    /// Where its times come from.
    Timestamps,
    /// The class of service that packets arrive with; the reply shall have that of --dscp.
    Class,
    /// Its counters: losses on the way there and back apart.
    Direct,
    /// When the reply before left.
    FollowUp,
}

impl Extension {
    /// As it is asked for; `dscp` for the reply.
    pub(super) const fn request(self, dscp: u8) -> Request {
        match self {
            Self::Location => Request::Location,
            Self::Timestamps => Request::Timestamps,
            Self::Class => Request::ClassOfService { dscp },
            Self::Direct => Request::Direct,
            Self::FollowUp => Request::FollowUp,
        }
    }
}

/// What the last reply of a STAMP reflector states.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct StampFacts {
    /// Packets carry a code over their bytes, by a shared key.
    pub(crate) authenticated: bool,
    /// The reflector states that its clock is held at UTC.
    pub(crate) synchronized: bool,
    /// The error that it states of its clock.
    pub(crate) clock_error_ns: u64,
    /// TTL or hop limit that the packet arrived with there; 255 also where the reflector does not know it.
    pub(crate) sender_ttl: u8,
    /// It numbers its replies by itself (stateful); null where numbers do not show it.
    pub(crate) stateful: Option<bool>,
    /// Asked for, and not answered.
    pub(crate) unanswered: Vec<Extension>,
    /// Address and port of this end as it sees them.
    pub(crate) seen_as: Option<String>,
    /// Address and port at which it was reached, as it states them.
    pub(crate) reached_at: Option<String>,
    /// Where its times come from: ntp, ptp, ssu, satellite, free_running, or a number of RFC 8972, table 7.
    pub(crate) time_source: Option<String>,
    /// DSCP that packets arrive with there.
    pub(crate) dscp: Option<u8>,
    /// They arrive with a mark of congestion (ECN 3).
    pub(crate) congestion_marked: Option<bool>,
    /// Its replies have the DSCP that is asked for.
    pub(crate) dscp_kept: Option<bool>,
    /// From the time in the reply before to its real departure there.
    pub(crate) departure_after_ns: Option<i64>,
}

/// The reply to a request of `session`, checked.
///
/// # Errors
/// For anything that is none.
pub(super) fn read(key: Option<&StampKey>, payload: &[u8], session: u16) -> Result<ReflectorPacket, WireError> {
    let packet = ReflectorPacket::decode(key, payload)?;
    // Reflectors older than RFC 8972 send zeros where the identifier is.
    if packet.sender.session != session && packet.sender.session != 0 {
        return Err(WireError::Tag);
    }
    Ok(packet)
}

/// Packets that the reflector has received so far, where it states that.
pub(super) fn accepted(key: Option<&StampKey>, payload: &[u8]) -> Option<u64> {
    answers(key, payload).find_map(|answer| match answer {
        Answer::Direct { received, .. } => Some(received.into()),
        _ => None,
    })
}

fn answers<'p>(key: Option<&StampKey>, payload: &'p [u8]) -> impl Iterator<Item = Answer> + 'p {
    Tlv::all(payload.get(packet_byte(key)..).unwrap_or_default()).filter_map(|tlv| tlv.answer())
}

impl StampFacts {
    /// The facts of the last two replies, oldest first; `None` without any.
    pub(super) fn of(key: Option<&StampKey>, wanted: &[Extension], replies: [&[u8]; 2]) -> Option<Self> {
        let [before, last] = replies;
        let packet = ReflectorPacket::decode(key, last).ok()?;
        let (reflection, format) = (packet.reflection, packet.reflection.replied.format);
        let mut facts = Self {
            authenticated: key.is_some(),
            synchronized: reflection.error.synchronized,
            clock_error_ns: reflection.error.as_ns(),
            sender_ttl: reflection.sender_ttl,
            stateful: (reflection.sequence != packet.sender.sequence).then_some(true),
            ..Self::default()
        };
        let tail = last.get(packet_byte(key)..).unwrap_or_default();
        let authentic = is_authentic(key, tail, reflection.sequence);
        let mut answered = Vec::new();
        for answer in answers(key, last).filter(|_| authentic) {
            match answer {
                Answer::Location { destination, source } => {
                    answered.push(Extension::Location);
                    let text = |(address, port): (Option<std::net::IpAddr>, u16)| {
                        address.map_or_else(
                            || format!("port {port}"),
                            |address| std::net::SocketAddr::new(address, port).to_string(),
                        )
                    };
                    (facts.reached_at, facts.seen_as) = (Some(text(destination)), Some(text(source)));
                }
                Answer::Timestamps { received: (source, _), .. } => {
                    answered.push(Extension::Timestamps);
                    facts.time_source = Some(match source {
                        1 => "ntp".to_owned(),
                        2 => "ptp".to_owned(),
                        3 => "ssu".to_owned(),
                        4 => "satellite".to_owned(),
                        5 => "free_running".to_owned(),
                        other => other.to_string(),
                    });
                }
                Answer::ClassOfService { dscp, ecn, kept } => {
                    answered.push(Extension::Class);
                    facts.dscp = Some(dscp);
                    (facts.congestion_marked, facts.dscp_kept) = (Some(ecn == 3), Some(kept));
                }
                Answer::Direct { .. } => answered.push(Extension::Direct),
                Answer::FollowUp { .. } => {
                    answered.push(Extension::FollowUp);
                    facts.stateful = Some(true);
                    facts.departure_after_ns = answer.follow_up(format).and_then(|(sequence, left)| {
                        let before = ReflectorPacket::decode(key, before).ok()?.reflection;
                        let (left, stated) = (left.unix_ns()?, before.replied.unix_ns()?);
                        (before.sequence == sequence).then(|| left.wrapping_sub(stated).cast_signed())
                    });
                }
            }
        }
        facts.unanswered = wanted.iter().copied().filter(|extension| !answered.contains(extension)).collect();
        Some(facts)
    }

    /// One line for the screen.
    pub(super) fn line(&self) -> String {
        let mode = if self.authenticated { "authenticated" } else { "unauthenticated" };
        let clock = if self.synchronized { "held at UTC" } else { "not held at UTC" };
        let error = crate::table::time(Some(self.clock_error_ns as f64));
        let mut text = format!("STAMP, {mode}: the reflector's clock is {clock}, error stated {error}");
        if let Some(seen) = &self.seen_as {
            text.push_str(&format!("; it sees this end as {seen}"));
        }
        if let Some(dscp) = self.dscp {
            text.push_str(&format!("; packets arrive with DSCP {dscp}"));
        }
        if self.congestion_marked == Some(true) {
            text.push_str(" and a mark of congestion");
        }
        if self.dscp_kept == Some(false) {
            text.push_str("; it does not give replies the DSCP asked for");
        }
        if !self.unanswered.is_empty() {
            let names: Vec<String> = self
                .unanswered
                .iter()
                .map(|extension| serde_json::to_value(extension).unwrap_or_default().as_str().unwrap_or("").to_owned())
                .collect();
            text.push_str(&format!("; it does not answer: {}", names.join(", ")));
        }
        text.push('\n');
        text
    }
}

/// This host's clock against UTC; `None` where nothing bounds it.
pub(super) fn utc_here(clock: &Clock) -> Option<UtcHere> {
    let before = clock.now_ordered();
    let interval = clock.now_utc_interval();
    let after = clock.now_ordered();
    if !interval.is_bounded() {
        return None;
    }
    let (earliest, latest) = (interval.earliest.as_nanos(), interval.latest.as_nanos());
    let (half, width) = ((latest - earliest) / 2, (after - before).as_nanos_unsigned());
    let ahead_ns = (earliest + half).cast_signed() - (before.as_nanos() + width / 2).cast_signed();
    Some(UtcHere { ahead_ns, error_ns: half + width + 1 })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use vtare_wire::stamp::tlv::{Answers, Source, answer};
    use vtare_wire::stamp::{ErrorEstimate, Reflection, SenderPacket, Time, TimeFormat, reflect};

    use super::*;

    const ALL: [Extension; 5] =
        [Extension::Location, Extension::Timestamps, Extension::Class, Extension::Direct, Extension::FollowUp];

    fn at(ns: u64) -> Time {
        Time::from_unix_ns(1_700_000_000_000_000_000 + ns, TimeFormat::Ntp)
    }

    /// A reply that was stamped `ns` after the epoch of this test.
    fn reply(key: Option<&StampKey>, number: u32, ns: u64, before: Option<(u32, Time)>) -> Vec<u8> {
        let requests: Vec<Request> = ALL.iter().map(|extension| extension.request(46)).collect();
        let mut datagram = vec![0; packet_byte(key) + Request::bytes(&requests, key)];
        let (sequence, error) = (2 * number, ErrorEstimate::of_ns(1_000, true));
        SenderPacket { sequence, sent: at(0), error, session: 7 }.encode(key, &mut datagram).expect("room");
        let tail = &mut datagram[packet_byte(key)..];
        Request::write(&requests, key, tail, sequence, 2 * number + 1);
        let answers = Answers {
            local: (None, 862),
            peer: (IpAddr::from([192, 0, 2, 7]), 40_000),
            class: Some(0b00_0011),
            any_class: false,
            source: Source::Ntp,
            counters: Some((number + 1, number + 1)),
            before,
        };
        answer(key, tail, sequence, number, &answers);
        let reflection = Reflection { sequence: number, replied: at(ns), error, received: at(ns), sender_ttl: 61 };
        reflect(key, &mut datagram, &reflection).expect("a sender's packet").to_vec()
    }

    #[test]
    fn the_last_reply_gives_what_the_reflector_states() {
        for key in [None, Some(&StampKey::new([3; 32]))] {
            let replies = [reply(key, 4, 1_000, None), reply(key, 5, 9_000, Some((4, at(1_700))))];
            let facts = StampFacts::of(key, &ALL, [&replies[0], &replies[1]]).expect("a reply");
            assert_eq!(accepted(key, &replies[1]), Some(6));
            assert_eq!((facts.authenticated, facts.synchronized, facts.sender_ttl), (key.is_some(), true, 61));
            assert_eq!((facts.stateful, facts.unanswered.len()), (Some(true), 0));
            assert_eq!(facts.seen_as.as_deref(), Some("192.0.2.7:40000"));
            assert_eq!(facts.reached_at.as_deref(), Some("port 862"));
            assert_eq!((facts.time_source.as_deref(), facts.dscp), (Some("ntp"), Some(0)));
            assert_eq!((facts.congestion_marked, facts.dscp_kept), (Some(true), Some(false)));
            assert_eq!(facts.departure_after_ns, Some(700));
            let line = facts.line();
            assert!(line.contains("sees this end as 192.0.2.7:40000; packets arrive with DSCP 0 and a mark"), "{line}");
        }
    }

    #[test]
    fn what_a_reflector_does_not_know_is_named() {
        let mut datagram = vec![0; 60];
        let sender = SenderPacket { sequence: 9, sent: at(0), error: ErrorEstimate::of_ns(1, false), session: 7 };
        sender.encode(None, &mut datagram).expect("room");
        Request::write(&[Request::Direct], None, &mut datagram[44..], 9, 1);
        let reflection =
            Reflection { sequence: 9, replied: at(1), error: sender.error, received: at(1), sender_ttl: 255 };
        let reply = reflect(None, &mut datagram, &reflection).expect("a sender's packet");
        let facts = StampFacts::of(None, &[Extension::Direct], [&[], reply]).expect("a reply");
        assert_eq!((facts.stateful, accepted(None, reply)), (None, None));
        assert!(facts.line().ends_with("; it does not answer: direct\n"), "{}", facts.line());
        assert_eq!(StampFacts::of(None, &[], [&[], &[]]), None);
    }
}
