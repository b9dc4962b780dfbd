//! The figures of one capture.

use serde::Serialize;
use vtare_capture::Tally;
use vtare_units::figures::Figures;

use crate::note::Note;
use crate::sentences::capture as words;

/// Flows that people are shown; all are in the document.
pub(super) const MOST_SHOWN: usize = 20;
/// Protocols that people are shown.
const MOST_NAMED: usize = 6;

/// Probes of one kind that went one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct KindCount {
    /// As in the samples.
    pub(crate) kind: &'static str,
    /// `rx` or `tx`; null where the file has no record of it.
    pub(crate) direction: Option<&'static str>,
    /// How many.
    pub(crate) packets: u64,
    /// Their IP packets together, in bytes.
    pub(crate) ip_byte: u64,
}

/// Probes of one session between two ends.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct FlowCell {
    /// `full`, `short`, `icmp` or `stamp`.
    pub(crate) form: &'static str,
    /// What the packets carry of their session, in hexadecimal.
    pub(crate) session: String,
    /// Who asks.
    pub(crate) source: String,
    /// Who is asked.
    pub(crate) destination: String,
    /// Requests seen.
    pub(crate) requests: u64,
    /// Replies seen.
    pub(crate) replies: u64,
    /// Probes seen that want no reply.
    pub(crate) one_way: u64,
    /// Requests, or probes that want no reply, a second, from the first to the last of them.
    pub(crate) packet_per_s: Option<f64>,
    /// From a request to its reply, both at this capture point.
    pub(crate) rtt_ns: Figures,
    /// Replies with an earlier stamp than their requests: the clock stepped back. They are in no figure.
    pub(crate) negative: u64,
}

/// Frames of a file that a capture passed over, or that came in a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct NamedFrames {
    /// The protocol, or the tunnel.
    pub(crate) name: String,
    /// How many.
    pub(crate) frames: u64,
}

/// What the writer of a capture file recorded of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct FileFacts {
    /// `pcap` or `pcapng`.
    pub(crate) format: Option<&'static str>,
    /// Frames in it.
    pub(crate) frames: u64,
    /// Probes without a stamp; they are in no sample.
    pub(crate) unstamped: u64,
    /// Frames of each tunnel that was looked into; of tunnels within each other the outermost counts.
    pub(crate) tunnels: Vec<NamedFrames>,
    /// Frames that can be no probes, by protocol, the most frequent first.
    pub(crate) passed_over: Vec<NamedFrames>,
    /// Packets that the interface dropped, and that the writer's system dropped, by its own counters.
    pub(crate) dropped_by_interface: Option<u64>,
    /// See above.
    pub(crate) dropped_by_system: Option<u64>,
    /// Where the file ends within a packet, bytes from its start.
    pub(crate) cut_at_byte: Option<u64>,
}

/// The result of one capture.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct CaptureCell {
    /// The interface, or the file.
    pub(crate) source: String,
    /// `tc`, `packet` or `file`.
    pub(crate) hook: &'static str,
    /// Why that one.
    pub(crate) chosen_because: String,
    /// The clock of `captured_ns`: `monotonic`, or `realtime` for files.
    pub(crate) stamp_clock: &'static str,
    /// How far a stamp may be off by its conversion to that clock; null where none was converted.
    pub(crate) stamp_error_ns: Option<u64>,
    /// How long the hook was in place; null for files.
    pub(crate) captured_s: Option<f64>,
    /// Probes captured.
    pub(crate) packets: u64,
    /// By kind and direction.
    pub(crate) kinds: Vec<KindCount>,
    /// Probes that were seen and lost for want of room; null where nobody counted.
    pub(crate) lost: Option<u64>,
    /// Packets whose headers could not be read whole.
    pub(crate) cut: u64,
    /// Later fragments of packets.
    pub(crate) fragments: u64,
    /// Large packets that held several probes (GSO, GRO): each probe counts, all with the stamp of the large one.
    pub(crate) merged: u64,
    /// Large packets that held an unknown number of probes.
    pub(crate) unsplit: u64,
    /// Probes in large packets that were not captured far enough to be read.
    pub(crate) unread: u64,
    /// Packets at the captured ports that are no probes.
    pub(crate) foreign: u64,
    /// Of a file: its own records.
    pub(crate) file: Option<FileFacts>,
    /// From a request to its reply at this capture point, all flows together.
    pub(crate) rtt_ns: Figures,
    /// As in the flows, all together.
    pub(crate) negative: u64,
    /// Whether all quantiles are those of the samples; else long series come from histograms, to 1/64.
    pub(crate) exact: bool,
    /// Each session between two ends, those with most packets first.
    pub(crate) flows: Vec<FlowCell>,
    /// Probes of further flows; they are in the samples and in `kinds` only.
    pub(crate) beyond_flows: u64,
}

impl CaptureCell {
    /// What people must know of round trips that end before they begin.
    pub(super) fn negative_note(&self) -> Option<Note> {
        let replies: u64 = self.flows.iter().map(|flow| flow.replies).sum();
        let text = match self.negative {
            0 => return None,
            1 => words::one_negative(replies),
            many => words::negative(many, replies),
        };
        Some(Note::new("negative_round_trips", text))
    }

    /// Takes in what was counted beside the probes.
    pub(super) fn count(&mut self, tally: Tally) {
        self.lost = Some(tally.lost);
        (self.cut, self.fragments, self.foreign) = (tally.cut, tally.fragments, tally.foreign);
        (self.merged, self.unsplit, self.unread) = (tally.merged, tally.unsplit, tally.unread);
    }

    /// Frames of a file that came in tunnels, and those that can be no probes, a line each for people.
    pub(super) fn other_frames(&self) -> Vec<String> {
        let Some(facts) = &self.file else { return Vec::new() };
        let some = |frames: &[NamedFrames]| (!frames.is_empty()).then(|| named(frames));
        let tunnels = some(&facts.tunnels).map(words::tunnels);
        tunnels.into_iter().chain(some(&facts.passed_over).map(words::passed_over)).collect()
    }

    /// What people see below the table.
    pub(super) fn details(&self) -> String {
        let mut text = String::new();
        if let Some(more @ 1..) = self.flows.len().checked_sub(MOST_SHOWN) {
            text.push_str(&format!("and {more} flows with fewer packets\n"));
        }
        if self.packets == 0 {
            text.push_str("no probes were seen\n");
        } else {
            let kinds: Vec<String> = self
                .kinds
                .iter()
                .map(|count| match count.direction {
                    Some(direction) => format!("{} {} {direction}", count.packets, count.kind),
                    None => format!("{} {}", count.packets, count.kind),
                })
                .collect();
            text.push_str(&format!("\n{} probes: {}\n", self.packets, kinds.join(", ")));
        }
        let found: Vec<String> = [
            (self.cut, "cut before the end of their headers"),
            (self.fragments, "later fragments"),
            (self.merged, "large packets of several probes"),
            (self.unsplit, "large packets that could not be split"),
            (self.unread, "probes in large packets not captured"),
            (self.foreign, "at these ports and no probes"),
            (self.beyond_flows, "of flows beyond those counted"),
        ]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
        let lost = self.lost.map_or_else(|| "not counted".to_owned(), |lost| lost.to_string());
        text.push_str(&format!("lost for want of room: {lost}"));
        text.push_str(&found.iter().map(|part| format!(", {part}")).collect::<String>());
        text.push_str(&format!(
            "\nhook {}: {}; stamps on CLOCK_{}",
            self.hook,
            self.chosen_because,
            self.stamp_clock.to_uppercase()
        ));
        text.push_str(&self.stamp_error_ns.map_or_else(String::new, |error| format!(", right to {error} ns")));
        for line in self.other_frames() {
            text.push_str(&format!("\n{}", line.trim_end_matches('.')));
        }
        text.push('\n');
        text
    }
}

/// Frames by name, the rarer ones together.
fn named(frames: &[NamedFrames]) -> String {
    let shown = frames.iter().take(MOST_NAMED).map(|one| format!("{} {}", one.frames, one.name));
    let rest: u64 = frames.iter().skip(MOST_NAMED).map(|one| one.frames).sum();
    shown.chain((rest > 0).then(|| format!("{rest} of others"))).collect::<Vec<_>>().join(", ")
}
