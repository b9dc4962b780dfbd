use serde::{Deserialize, Serialize};
use vtare_traffic::LocalDrops;

/// What the responder counted in a session: final, read after the last reply had time to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponderCounters {
    /// Distinct requests accepted.
    pub accepted: u64,
    /// Requests that arrived and were not accepted (rate, number, time, age): no duplicates, no forgeries.
    pub refused: u64,
    /// Accepted requests whose reply the responder could not send.
    pub unsent: u64,
    /// Datagrams that found the responder's receive buffer full during the session, of all its clients: an upper bound
    /// for one of them. `None` where it does not report them, which is not 0.
    #[serde(default)]
    pub receive_buffer: Option<u64>,
}

/// How far the losses could be attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// By the responder's final counters: exact.
    Counters,
    /// By the count that each reply carries: exact up to the newest reply where nothing was reordered; what was lost
    /// behind it is unattributed.
    InBand,
    /// The far end counts nothing.
    None,
}

/// Every lost packet, in exactly one class. A class that nobody could count is `None`, which is not 0; packets that
/// would have belonged to it stand in `unattributed` or in the wider class around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LossClasses {
    /// How far the losses could be attributed; null where nothing was sent.
    pub attribution: Option<Attribution>,
    /// The reply came after the timeout.
    pub late: u64,
    /// The request was dropped on this host; without local counters such packets stand in `forward`.
    pub local_tx: Option<u64>,
    /// The request was lost on the way; where the responder does not count its full buffer, also there.
    pub forward: Option<u64>,
    /// The request arrived and found the responder's receive buffer full: the responder was overloaded, not the path.
    /// Where several clients probe one responder, an upper bound.
    pub responder_rx: Option<u64>,
    /// The responder got the request and gave no reply: above the granted rate, or no room to send.
    pub responder: Option<u64>,
    /// The reply was lost on the way back.
    pub reverse: Option<u64>,
    /// The reply was dropped on this host; without local counters such packets stand in `reverse`.
    pub local_rx: Option<u64>,
    /// Lost at an unknown place.
    pub unattributed: u64,
}

/// How many requests a far end had accepted by the time of the newest reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InBand {
    /// Of the requests sent, up to and including the newest that was answered.
    pub(super) sent: u64,
    /// Of those, accepted at the far end.
    pub(super) accepted: u64,
}

impl LossClasses {
    /// Sorts `sent - answered_in_time` lost packets, `late` of which were answered late.
    pub(super) fn sort(
        sent: u64,
        received: u64,
        late: u64,
        counters: Option<&ResponderCounters>,
        in_band: Option<InBand>,
        local: &LocalDrops,
    ) -> Self {
        let answered = received + late;
        let (attribution, known_sent, accepted, refused, unsent) = match (counters, in_band) {
            (Some(counters), _) => (Attribution::Counters, sent, counters.accepted, counters.refused, counters.unsent),
            (None, Some(in_band)) => (Attribution::InBand, in_band.sent, in_band.accepted, 0, 0),
            (None, None) => return Self::unsorted(sent, received, late, local),
        };
        // Each class takes at most what the classes before it have left: counters of a host that restarted, or of
        // another session, must not make more losses than there were.
        let mut left = known_sent.saturating_sub(answered);
        let mut take = |count: u64| {
            let taken = count.min(left);
            left -= taken;
            taken
        };
        let forward_all = take(known_sent.saturating_sub(accepted + refused));
        let responder = take(refused + unsent);
        let reverse_all = take(u64::MAX);
        let (local_tx, forward) = split(forward_all, local.before_the_wire());
        let (responder_rx, forward) = split(forward, counters.and_then(|counters| counters.receive_buffer));
        let (local_rx, reverse) = split(reverse_all, local.receive_buffer);
        let counted = forward_all + responder + reverse_all;
        Self {
            attribution: Some(attribution),
            late,
            local_tx,
            forward: Some(forward),
            responder_rx,
            responder: (attribution == Attribution::Counters).then_some(responder),
            reverse: Some(reverse),
            local_rx,
            unattributed: (sent - answered) - counted,
        }
    }

    fn unsorted(sent: u64, received: u64, late: u64, local: &LocalDrops) -> Self {
        let (local_tx, left) = split(sent - received - late, local.before_the_wire());
        let (local_rx, unattributed) = split(left, local.receive_buffer);
        Self {
            attribution: Some(Attribution::None),
            late,
            local_tx,
            forward: None,
            responder_rx: None,
            responder: None,
            reverse: None,
            local_rx,
            unattributed,
        }
    }

    /// All lost packets.
    #[must_use]
    pub fn total(&self) -> u64 {
        let counted = [self.local_tx, self.forward, self.responder_rx, self.responder, self.reverse, self.local_rx];
        self.late + counted.into_iter().flatten().sum::<u64>() + self.unattributed
    }
}

/// The part of `lost` that this host counted, and the rest.
fn split(lost: u64, local: Option<u64>) -> (Option<u64>, u64) {
    let local = local.map(|dropped| dropped.min(lost));
    (local, lost - local.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counters_show_each_class_apart() {
        // 1000 sent: 3 dropped here, 5 on the way there, 2 at the responder's full buffer, 5 refused, 2 replies unsent,
        // 11 lost on the way back, 4 dropped here, 6 late.
        let counters = ResponderCounters { accepted: 985, refused: 5, unsent: 2, receive_buffer: Some(2) };
        let local = LocalDrops { interface_tx: Some(3), receive_buffer: Some(4), ..LocalDrops::default() };
        let received = 985 - 2 - 11 - 4 - 6;
        let classes = LossClasses::sort(1_000, received, 6, Some(&counters), None, &local);
        let want = LossClasses {
            attribution: Some(Attribution::Counters),
            late: 6,
            local_tx: Some(3),
            forward: Some(5),
            responder_rx: Some(2),
            responder: Some(7),
            reverse: Some(11),
            local_rx: Some(4),
            unattributed: 0,
        };
        assert_eq!(classes, want);
        assert_eq!(classes.total(), 1_000 - received);
    }

    #[test]
    fn what_nobody_counts_is_none_and_not_zero() {
        let classes = LossClasses::sort(10, 7, 1, None, None, &LocalDrops::default());
        assert_eq!((classes.forward, classes.reverse, classes.local_rx, classes.unattributed), (None, None, None, 2));
    }

    #[test]
    fn drops_at_the_responder_are_at_most_what_was_lost_there_and_unknown_where_nobody_counts() {
        let sort = |receive_buffer| {
            let counters = ResponderCounters { accepted: 90, refused: 0, unsent: 0, receive_buffer };
            let classes = LossClasses::sort(100, 90, 0, Some(&counters), None, &LocalDrops::default());
            (classes.forward, classes.responder_rx)
        };
        assert_eq!(sort(Some(4)), (Some(6), Some(4)));
        assert_eq!(sort(Some(400)), (Some(0), Some(10)), "other clients' drops count there too");
        assert_eq!(sort(None), (Some(10), None));
    }

    #[test]
    fn losses_behind_the_newest_reply_are_unattributed_in_band() {
        let in_band = InBand { sent: 90, accepted: 85 };
        let classes = LossClasses::sort(100, 80, 0, None, Some(in_band), &LocalDrops::default());
        assert_eq!((classes.forward, classes.reverse, classes.unattributed), (Some(5), Some(5), 10));
        assert_eq!(classes.responder, None);
    }

    proptest! {
        #[test]
        fn every_lost_packet_stands_in_one_class_whatever_the_counters_state(
            received in 0_u64..1_000, late in 0_u64..100, more in 0_u64..1_000,
            counters in proptest::option::of((0_u64..3_000, 0_u64..100, 0_u64..100)),
            receive_buffer in proptest::option::of(0_u64..50),
            in_band in proptest::option::of((0_u64..3_000, 0_u64..3_000)),
            tx in proptest::option::of(0_u64..50), rx in proptest::option::of(0_u64..50),
        ) {
            let sent = received + late + more;
            let counters = counters.map(|(accepted, refused, unsent)| ResponderCounters {
                accepted, refused, unsent, receive_buffer,
            });
            let in_band = in_band.map(|(behind, accepted)| InBand { sent: sent - behind.min(more), accepted });
            let local = LocalDrops { interface_tx: tx, receive_buffer: rx, ..LocalDrops::default() };
            let classes = LossClasses::sort(sent, received, late, counters.as_ref(), in_band, &local);
            prop_assert_eq!(classes.total(), sent - received);
        }
    }
}
