//! What the journal calls things: one word for each kind of refusal, and one line for a session.

use vtare_control::Hangup;
use vtare_wire::SessionId;
use vtare_wire::session::{Counters, FlowCause, Reason, Refusal};

/// One line about a session that is over.
pub(super) fn account(session: SessionId, counters: &Counters) -> String {
    let refused = counters.duplicate
        + counters.too_old
        + counters.over_rate
        + counters.over_limit
        + counters.oversized
        + counters.forged;
    if counters.accepted + refused + counters.unsent == 0 {
        return format!("session {session}: no datagrams (its data came by TCP, or nothing did)");
    }
    format!(
        "session {session}: {} probes accepted, {} answered, {} not sent, {refused} refused",
        counters.accepted, counters.replied, counters.unsent
    )
}

/// One word for each refusal, so that each kind has its own line.
pub(super) const fn kind_of_refusal(refusal: &Refusal) -> &'static str {
    match refusal.reason {
        Reason::Version { .. } => "control_version",
        Reason::OutOfTurn => "out_of_turn",
        Reason::UnknownSession => "no_session",
        Reason::Rate { .. } => "rate_refused",
        Reason::Burst { .. } => "burst_refused",
        Reason::Duration { .. } => "duration_refused",
        Reason::Packets { .. } => "packets_refused",
        Reason::Size { .. } => "size_refused",
        Reason::PeerSessions | Reason::Sessions | Reason::Arrivals => "sessions_refused",
        Reason::FlowPurpose | Reason::Streams { .. } | Reason::FlowByte { .. } | Reason::Bins { .. } => {
            "streams_refused"
        }
        Reason::Purpose | Reason::Unproven | Reason::Reversing | Reason::Reverse { .. } => "train_refused",
    }
}

pub(super) const fn kind_of_hangup(hangup: Hangup) -> &'static str {
    match hangup {
        Hangup::OtherProtocol => "stranger",
        Hangup::Version { .. } => "connection_version",
        Hangup::NeedsKey => "no_key",
        Hangup::HasNoKey => "needless_key",
        Hangup::WrongKey => "wrong_key",
        Hangup::Replayed => "replayed_handshake",
        Hangup::TooLong { .. } => "too_long",
        Hangup::Seal => "broken_seal",
        Hangup::Message => "no_message",
        Hangup::Cipher => "cipher",
        Hangup::SlowHandshake => "slow",
        Hangup::Idle => "idle",
        Hangup::TooManyMessages => "chatty",
        Hangup::Refused => "refused",
        Hangup::TooManyConnections => "connections",
        Hangup::Stream(cause) => kind_of_flow(cause),
    }
}

pub(super) const fn kind_of_flow(cause: FlowCause) -> &'static str {
    match cause {
        FlowCause::UnknownSession => "stream_unknown_session",
        FlowCause::WrongTag => "stream_wrong_tag",
        FlowCause::WrongAddress => "stream_wrong_address",
        FlowCause::Purpose | FlowCause::Beyond => "stream_not_granted",
        FlowCause::Again => "stream_again",
        FlowCause::Hasty => "stream_hasty",
        FlowCause::OverByte => "stream_over_byte",
        FlowCause::OverTime => "stream_over_time",
        FlowCause::Silent => "stream_silent",
        FlowCause::Ended => "stream_session_ended",
        FlowCause::Broken => "stream_broken",
    }
}
