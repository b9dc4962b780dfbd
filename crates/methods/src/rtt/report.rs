use serde::Serialize;
use vtare_units::Span;

use super::LocalDrops;
use super::launches::Launches;
use super::loss::{LossClasses, ResponderCounters};
use super::one_way::OneWay;
use super::outages::Outage;
use super::record::Record;
use super::run::Run;
use vtare_units::figures::Figures;

/// Slots that passed without a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnsentCounts {
    /// The sender was too far behind.
    pub too_late: u64,
    /// The kernel had no room.
    pub no_room: u64,
}

/// What a run came to. All figures are in ns; those of round trips are of packets answered in time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Slots of the schedule: `sent` and `unsent`.
    pub scheduled: u64,
    /// Slots without a packet.
    pub unsent: UnsentCounts,
    /// Packets that the kernel took: `received` + `lost`.
    pub sent: u64,
    /// Of those, sent more than `late_send_ns` after their slot.
    pub sent_late: u64,
    /// Packets answered in time, each once.
    pub received: u64,
    /// Packets not answered in time.
    pub lost: u64,
    /// Where they were lost.
    pub lost_by: LossClasses,
    /// Replies beyond the first of their packet.
    pub duplicate: u64,
    /// Replies (late ones too) that came after the reply to a later packet; they stay in all figures.
    pub reordered: u64,
    /// Replies to packets that were never sent, or so long ago that nothing is known of them.
    pub unknown: u64,
    /// Slots a second as scheduled; null below 2 slots.
    pub intended_packet_per_s: Option<f64>,
    /// Packets a second as sent, over the time of all slots, those without a packet too; null below 2 packets.
    pub achieved_packet_per_s: Option<f64>,
    /// What became of launch times; null where there were none.
    pub launches: Option<Launches>,
    /// Actual minus scheduled send time.
    pub pacing_error_ns: Figures,
    /// From the actual send to the program's receipt.
    pub rtt_ns: Figures,
    /// From the scheduled send to the program's receipt.
    pub rtt_scheduled_ns: Figures,
    /// Between the kernel's stamps of departure and arrival.
    pub rtt_kernel_ns: Figures,
    /// From arrival to departure at the responder.
    pub turnaround_ns: Figures,
    /// Size of the change of the delay there, from one packet to the next.
    pub forward_variation_ns: Figures,
    /// Size of the change of the delay back, from one packet to the next.
    pub reverse_variation_ns: Figures,
    /// Bounds of the delays there and back; `None` where no far end stated its times.
    pub one_way: Option<OneWay>,
    /// Times in which nothing was sent, or nothing came back, in order.
    pub outages: Vec<Outage>,
    /// `rtt_ns` without the packets of outages; null where there were none.
    pub steady_rtt_ns: Option<Figures>,
    /// Whether all quantiles are those of the samples; else those of long series come from histograms, to 1/64.
    pub exact: bool,
}

impl Run {
    /// Ends the run: gives the remaining records to `sink` and returns the report. Call it a timeout after the
    /// last packet, or when all are answered; `counters` are the responder's last ones, where there is one.
    #[must_use]
    pub fn finish(
        mut self,
        counters: Option<&ResponderCounters>,
        local: &LocalDrops,
        sink: &mut dyn FnMut(&Record),
    ) -> Report {
        self.settle_all(sink);
        let one_way = self.one_way();
        let (outages, steady_rtt_ns) = self.outages();
        Report { one_way, outages, steady_rtt_ns, ..Report::new(&self, counters, local) }
    }
}

impl Report {
    pub(super) fn new(run: &Run, counters: Option<&ResponderCounters>, local: &LocalDrops) -> Self {
        let tally = run.tally();
        let series = run.series();
        let variation = run.variation();
        let [rtt_ns, rtt_scheduled_ns, rtt_kernel_ns, turnaround_ns, pacing_error_ns] = series.map(|s| s.figures());
        let unsent = UnsentCounts { too_late: tally.too_late, no_room: tally.no_room };
        Self {
            scheduled: tally.sent + unsent.too_late + unsent.no_room,
            unsent,
            sent: tally.sent,
            sent_late: tally.sent_late,
            received: tally.received,
            lost: tally.sent - tally.received,
            lost_by: LossClasses::sort(tally.sent, tally.received, tally.late, counters, run.in_band(), local),
            duplicate: tally.duplicate,
            reordered: tally.reordered,
            unknown: tally.unknown,
            intended_packet_per_s: run.scheduled_span().and_then(rate),
            achieved_packet_per_s: run.sent_span().and_then(rate),
            launches: run.launches(),
            pacing_error_ns,
            rtt_ns,
            rtt_scheduled_ns,
            rtt_kernel_ns,
            turnaround_ns,
            forward_variation_ns: variation.forward.figures(),
            reverse_variation_ns: variation.reverse.figures(),
            one_way: None,
            outages: Vec::new(),
            steady_rtt_ns: None,
            exact: series.iter().all(|s| s.is_exact()) && variation.forward.is_exact() && variation.reverse.is_exact(),
        }
    }
}

/// Gaps a second: `n` packets have `n - 1`.
fn rate((n, span): (u64, Span)) -> Option<f64> {
    (n >= 2 && span > Span::ZERO).then(|| (n - 1) as f64 * 1e9 / span.as_nanos() as f64)
}
