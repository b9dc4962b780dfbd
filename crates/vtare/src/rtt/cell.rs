//! The figures of one peer.

use serde::Serialize;
use vtare_link::StallDetector;
use vtare_methods::rtt::{LossClasses, OneWay, Outage, Place, Report, UnsentCounts};
use vtare_probe::link::{Facts, LocalDrops};
use vtare_units::figures::Figures;

use super::aggregate::Closed;
use super::pacing::PacingFacts;
use super::stamp::StampFacts;
use crate::black_hole::Vanishing;
use crate::sentences::rtt as words;
use crate::table::time;

/// Time that something took from the sending thread while it only looked for replies.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct StallFigures {
    /// The least time without the CPU that counts as a gap, ns.
    threshold_ns: u64,
    /// Share of the run in which the thread only looked for replies, so that gaps could be seen.
    watched_fraction: Option<f64>,
    /// Gaps; null where nothing was watched.
    gaps: Option<u64>,
    /// Share of the watched time that was lost.
    lost_fraction: Option<f64>,
    /// The longest gap, ns.
    longest_ns: Option<u64>,
    /// Times the kernel took the CPU from the thread.
    involuntary_switches: u64,
}

impl StallFigures {
    /// The share of the time watched that was lost, and the longest gap in ns; `None` where nothing was watched.
    pub(super) fn lost(&self) -> Option<(f64, u64)> {
        self.lost_fraction.zip(self.longest_ns)
    }

    /// The figures of the stall detector beside a run of `elapsed_ns`.
    pub(super) fn of(stalls: &StallDetector, elapsed_ns: u64, involuntary_switches: u64) -> Self {
        let watched = stalls.watched_ns > 0;
        Self {
            threshold_ns: stalls.threshold_ns,
            watched_fraction: (elapsed_ns > 0).then(|| stalls.watched_ns as f64 / elapsed_ns as f64),
            gaps: watched.then_some(stalls.gaps),
            lost_fraction: stalls.lost_fraction(),
            longest_ns: watched.then_some(stalls.longest_ns),
            involuntary_switches,
        }
    }
}

/// The result of probing one peer. Times in ns.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct RttCell {
    /// Whether their size is why no packet was answered.
    #[serde(skip)]
    pub(super) vanishing: Option<Vanishing>,
    /// The far end, as it was given.
    pub(crate) peer: String,
    /// Its address.
    pub(crate) address: String,
    /// The session's name on the wire; null where there is none.
    pub(crate) session: Option<String>,
    /// CLOCK_MONOTONIC of this host where the samples' times are 0; null where nothing was due.
    pub(crate) origin_monotonic_ns: Option<u64>,
    /// Slots of the schedule.
    pub(crate) scheduled: u64,
    /// Packets that the kernel took.
    pub(crate) sent: u64,
    /// Packets answered in time.
    pub(crate) received: u64,
    /// Packets not answered in time: `sent` - `received`. Of these the far end refused `lost_by.responder`.
    pub(crate) lost: u64,
    /// `lost` / `sent`.
    pub(crate) lost_fraction: Option<f64>,
    /// Where they were lost.
    pub(crate) lost_by: LossClasses,
    /// Slots without a packet.
    pub(crate) unsent: UnsentCounts,
    /// Packets sent more than 100 us after their slot.
    pub(crate) sent_late: u64,
    /// Replies beyond the first of their packet.
    pub(crate) duplicate: u64,
    /// Replies after that of a later packet.
    pub(crate) reordered: u64,
    /// Replies to packets that were never sent.
    pub(crate) unknown: u64,
    /// Datagrams that were no replies of this session.
    pub(crate) foreign: u64,
    /// Packets a second as asked.
    pub(crate) intended_packet_per_s: Option<f64>,
    /// Packets a second as sent.
    pub(crate) achieved_packet_per_s: Option<f64>,
    /// From the actual send to the program's receipt.
    pub(crate) rtt_ns: Figures,
    /// Times in which this program sent nothing, or nothing came back.
    pub(crate) outages: Vec<Outage>,
    /// `rtt_ns` without the packets of outages; null where there were none.
    pub(crate) steady_rtt_ns: Option<Figures>,
    /// From the scheduled send to the program's receipt.
    pub(crate) rtt_scheduled_ns: Figures,
    /// Between the kernel's stamps of departure and arrival.
    pub(crate) rtt_kernel_ns: Figures,
    /// From arrival to departure at the far end.
    pub(crate) turnaround_ns: Figures,
    /// Size of the change of the delay there from one packet to the next.
    pub(crate) forward_variation_ns: Figures,
    /// The same of the delay back.
    pub(crate) reverse_variation_ns: Figures,
    /// Bounds of the delays there and back; null where the far end does not state its times.
    pub(crate) one_way: Option<OneWay>,
    /// What a STAMP reflector states beside its times; null for others, and without a reply.
    pub(crate) stamp: Option<StampFacts>,
    /// Actual minus scheduled send time.
    pub(crate) pacing_error_ns: Figures,
    /// Actual minus scheduled gap between packets sent one after another.
    pub(crate) gap_error_ns: Figures,
    /// Whether all quantiles are those of the samples; else long series come from histograms, to 1/64.
    pub(crate) exact: bool,
    /// Time lost beside the run, of the thread that serves all peers.
    pub(crate) canary: StallFigures,
    /// CPU time of that thread in a second of the run.
    pub(crate) cpu_fraction: Option<f64>,
    /// Datagrams dropped on this host.
    pub(crate) local_drops: LocalDrops,
    /// What held packets until they were due, and why that.
    pub(crate) pacing: Option<PacingFacts>,
    /// What the link got and did not get.
    pub(crate) link: Option<Facts>,
}

impl RttCell {
    /// Why there are no figures, for a peer that answered nothing.
    pub(super) fn silence(&self) -> String {
        match self.vanishing {
            Some(vanishing) => vanishing.sentence(&self.peer),
            None => words::silent_peer(&self.peer, self.sent),
        }
    }

    /// Packets that reached the far end and that it refused or could not answer: no loss on the way.
    pub(super) fn refused(&self) -> u64 {
        self.lost_by.responder.unwrap_or(0)
    }

    /// Packets without an answer in time that the far end did not refuse.
    pub(super) fn lost_on_the_way(&self) -> u64 {
        self.lost.saturating_sub(self.refused())
    }

    /// Whether the far end answered and no answer came: all were lost on the way back.
    pub(super) fn all_lost_on_the_way_back(&self) -> bool {
        self.sent > 0 && self.received == 0 && self.lost_by.reverse == Some(self.sent)
    }

    /// Packets of the times in which this program stalled; 0 where it never did.
    pub(super) fn packets_of_standstills(&self) -> u64 {
        self.outages.iter().filter(|outage| outage.place == Place::Here).map(|outage| outage.packets).sum()
    }

    /// Whether standstills explain all but 1 % of the slots without a packet.
    pub(super) fn only_stalled(&self) -> bool {
        let (stood, unsent) = (self.packets_of_standstills(), self.unsent.too_late + self.unsent.no_room);
        stood > 0 && unsent.saturating_sub(stood) * 100 <= self.scheduled
    }

    /// What people must know of the outages at a place.
    pub(super) fn outage_text(&self, place: Place) -> Option<String> {
        let found: Vec<&Outage> = self.outages.iter().filter(|outage| outage.place == place).collect();
        let longest = found.iter().max_by_key(|outage| outage.length_ns)?;
        let (length, began) = (time(Some(longest.length_ns as f64)), time(Some(longest.began_ns as f64)));
        let what = match (place, found.len()) {
            (Place::Here, 1) => words::stalled(&self.peer, length, began),
            (Place::Here, times) => words::stalled_often(&self.peer, length, began, times),
            (Place::Beyond, 1) => words::nothing_came_back(&self.peer, length, began),
            (Place::Beyond, times) => words::nothing_came_back_often(&self.peer, length, began, times),
        };
        let without = self.steady_rtt_ns.as_ref().and_then(|figures| figures.p99);
        Some(match without {
            Some(p99) => format!("{what} {}", words::p99_without_it(time(Some(p99)))),
            None => what,
        })
    }

    /// Fills in what was aggregated.
    pub(super) fn take(&mut self, closed: Closed) {
        let Report {
            scheduled, unsent, sent, sent_late, received, lost, lost_by, duplicate, reordered, unknown, ..
        } = closed.report;
        (self.scheduled, self.sent, self.received, self.lost) = (scheduled, sent, received, lost);
        self.lost_fraction = (sent > 0).then(|| lost as f64 / sent as f64);
        (self.lost_by, self.unsent, self.sent_late) = (lost_by, unsent, sent_late);
        (self.duplicate, self.reordered, self.unknown) = (duplicate, reordered, unknown);
        let report = closed.report;
        self.intended_packet_per_s = report.intended_packet_per_s;
        self.achieved_packet_per_s = achieved(&report);
        self.rtt_ns = report.rtt_ns;
        (self.outages, self.steady_rtt_ns) = (report.outages, report.steady_rtt_ns);
        self.rtt_scheduled_ns = report.rtt_scheduled_ns;
        self.rtt_kernel_ns = report.rtt_kernel_ns;
        self.turnaround_ns = report.turnaround_ns;
        self.forward_variation_ns = report.forward_variation_ns;
        self.reverse_variation_ns = report.reverse_variation_ns;
        self.one_way = report.one_way;
        self.pacing_error_ns = report.pacing_error_ns;
        self.gap_error_ns = closed.gap_error;
        if let Some(pacing) = &mut self.pacing {
            pacing.take(report.launches);
        }
        self.exact = report.exact;
    }
}

/// Packets a second over the time of the whole schedule: a sender that gave up its last slots was no faster for that.
fn achieved(report: &Report) -> Option<f64> {
    let gaps = report.sent.checked_sub(1).filter(|gaps| *gaps > 0)? as f64;
    let sending_s = gaps / report.achieved_packet_per_s?;
    let scheduled_s = report.intended_packet_per_s.map_or(0.0, |rate| (report.scheduled - 1) as f64 / rate);
    Some(gaps / sending_s.max(scheduled_s))
}
