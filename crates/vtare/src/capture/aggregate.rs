//! Aggregates a capture: rows, counts by kind, flows, and round trips at this point. Its memory does not grow
//! with the packets.

use std::collections::HashMap;

use vtare_capture::probe::{End, Probe, Role, Shape};
use vtare_methods::rtt::Series;

use super::cell::{CaptureCell, FlowCell, KindCount};
use crate::samples::{Samples, SamplesError};

/// Flows that are counted apart. What is beyond is counted together.
const MOST_FLOWS: usize = 4_096;
/// Requests that wait for their replies: twice as many at most, of which the older half is given up.
const MOST_WAITING: usize = 1 << 18;
/// Round trips of all flows, up to which quantiles are exact, and of one flow.
const EXACT: usize = 1 << 20;
const EXACT_OF_FLOW: usize = 1 << 16;

/// One probe.
pub(super) struct ProbeRow<'a> {
    captured_ns: i64,
    probe: &'a Probe,
    source: &'a str,
    destination: &'a str,
}

columns!(row: ProbeRow<'_> {
    int64 "captured_ns" = row.captured_ns,
        "when the hook saw it, on this host's CLOCK_MONOTONIC; out of a file: CLOCK_REALTIME of its writer's host";
    optional_string "direction" = row.probe.direction.map(|direction| direction.as_str()),
        "rx or tx as the interface sees it; null where the file does not record it";
    string "kind" = row.probe.shape.kind(row.probe.role),
        "request, reply, one_way, echo_request, echo_reply, stamp_request or stamp_reply";
    optional_int64 "session" = Some(row.probe.session.cast_signed()),
        "the packet's session as it carries it: the session's 64 bits (form full), its handle (short), the identifier \
        (icmp, stamp)";
    string "form" = row.probe.shape.as_str(), "full, short, icmp or stamp";
    int64 "sequence" = row.probe.sequence.cast_signed(),
        "the packet's number as carried: 64 bits (form full), the lower 32 (short, stamp) or 16 (icmp)";
    int64 "size_byte" = row.probe.ip_byte.into(), "length of its IP packet";
    string "source" = row.source, "where it came from: ADDRESS:PORT, or ADDRESS for icmp";
    string "destination" = row.destination, "where it goes, likewise";
});

/// What makes a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FlowKey {
    shape: Shape,
    session: u64,
    asks: End,
    asked: End,
}

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    /// The ends as text: one end's text serves all its packets.
    asks: String,
    asked: String,
    requests: u64,
    replies: u64,
    one_way: u64,
    /// First and last probe towards the far end.
    asked_between: Option<(i64, i64)>,
    rtt: Series,
    negative: u64,
}

/// Aggregates the probes of a capture.
#[derive(Debug)]
pub(super) struct Aggregate {
    numbers: HashMap<FlowKey, u32>,
    flows: Vec<Flow>,
    beyond: u64,
    kinds: Vec<KindCount>,
    waiting: [HashMap<(u32, u64), i64>; 2],
    rtt: Series,
    packets: u64,
    most: u64,
}

impl Aggregate {
    /// An empty aggregate that takes `most` probes.
    pub(super) fn new(most: Option<u64>) -> Self {
        Self {
            numbers: HashMap::new(),
            flows: Vec::new(),
            beyond: 0,
            kinds: Vec::new(),
            waiting: [HashMap::new(), HashMap::new()],
            rtt: Series::new(EXACT),
            packets: 0,
            most: most.unwrap_or(u64::MAX),
        }
    }

    /// Probes so far.
    pub(super) const fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether as many were taken as were asked for.
    pub(super) const fn is_full(&self) -> bool {
        self.packets >= self.most
    }

    /// Takes a probe, unless there were enough.
    ///
    /// # Errors
    /// Where a row could not be written.
    pub(super) fn take(&mut self, captured_ns: i64, probe: &Probe, samples: &mut Samples) -> Result<(), SamplesError> {
        if self.is_full() {
            return Ok(());
        }
        self.packets += 1;
        self.count(probe);
        let flow = self.flow(probe);
        if let Some(number) = flow {
            self.account(number, captured_ns, probe);
        } else {
            self.beyond += 1;
        }
        if !samples.kept() {
            return Ok(());
        }
        let texts;
        let (asks, asked) = match flow.map(|number| &self.flows[number as usize]) {
            Some(flow) => (flow.asks.as_str(), flow.asked.as_str()),
            None => {
                let (asks, asked) = ends(probe);
                texts = (asks.to_string(), asked.to_string());
                (texts.0.as_str(), texts.1.as_str())
            }
        };
        let (source, destination) = if probe.role == Role::Reply { (asked, asks) } else { (asks, asked) };
        samples.row(&ProbeRow { captured_ns, probe, source, destination })
    }

    fn count(&mut self, probe: &Probe) {
        let (kind, direction) = (probe.shape.kind(probe.role), probe.direction.map(|direction| direction.as_str()));
        let known = self.kinds.iter().position(|count| count.kind == kind && count.direction == direction);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(KindCount { kind, direction, packets: 0, ip_byte: 0 });
            self.kinds.len() - 1
        });
        self.kinds[at].packets += 1;
        self.kinds[at].ip_byte += u64::from(probe.ip_byte);
    }

    fn flow(&mut self, probe: &Probe) -> Option<u32> {
        let (asks, asked) = ends(probe);
        let key = FlowKey { shape: probe.shape, session: probe.session, asks, asked };
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        if self.flows.len() >= MOST_FLOWS {
            return None;
        }
        let number = self.flows.len() as u32;
        self.numbers.insert(key, number);
        self.flows.push(Flow {
            key,
            asks: asks.to_string(),
            asked: asked.to_string(),
            requests: 0,
            replies: 0,
            one_way: 0,
            asked_between: None,
            rtt: Series::new(EXACT_OF_FLOW),
            negative: 0,
        });
        Some(number)
    }

    fn account(&mut self, number: u32, captured_ns: i64, probe: &Probe) {
        let flow = &mut self.flows[number as usize];
        if probe.role != Role::Reply {
            let first = flow.asked_between.map_or(captured_ns, |(first, _)| first);
            flow.asked_between = Some((first, captured_ns));
        }
        let name = (number, probe.sequence);
        match probe.role {
            Role::OneWay => flow.one_way += 1,
            Role::Request => {
                flow.requests += 1;
                let [young, old] = &mut self.waiting;
                if young.len() >= MOST_WAITING {
                    std::mem::swap(young, old);
                    young.clear();
                }
                // Seen twice, as on loopback: the first counts.
                if !old.contains_key(&name) {
                    young.entry(name).or_insert(captured_ns);
                }
            }
            Role::Reply => {
                flow.replies += 1;
                let [young, old] = &mut self.waiting;
                match young.remove(&name).or_else(|| old.remove(&name)) {
                    // The clock of the stamps stepped back: this is no time.
                    Some(asked_ns) if captured_ns < asked_ns => flow.negative += 1,
                    Some(asked_ns) => {
                        flow.rtt.add(captured_ns - asked_ns);
                        self.rtt.add(captured_ns - asked_ns);
                    }
                    None => {}
                }
            }
        }
    }

    /// The figures.
    pub(super) fn close(mut self, cell: &mut CaptureCell) {
        self.kinds.sort_by_key(|count| (count.kind, count.direction));
        self.flows.sort_by_key(|flow| std::cmp::Reverse(flow.requests + flow.replies + flow.one_way));
        cell.packets = self.packets;
        cell.kinds = self.kinds;
        cell.rtt_ns = self.rtt.figures();
        cell.negative = self.flows.iter().map(|flow| flow.negative).sum();
        cell.exact = self.rtt.is_exact() && self.flows.iter().all(|flow| flow.rtt.is_exact());
        cell.flows = self.flows.iter().map(Flow::cell).collect();
        cell.beyond_flows = self.beyond;
    }
}

/// Who asks and who is asked.
fn ends(probe: &Probe) -> (End, End) {
    if probe.role == Role::Reply { (probe.destination, probe.source) } else { (probe.source, probe.destination) }
}

impl Flow {
    fn cell(&self) -> FlowCell {
        let width = if self.key.shape == Shape::Full { 16 } else { 4 };
        let gaps = (self.requests + self.one_way).saturating_sub(1);
        let between = self.asked_between.map(|(first, last)| (last - first) as f64 / 1e9);
        FlowCell {
            form: self.key.shape.as_str(),
            session: format!("{:0width$x}", self.key.session),
            source: self.asks.clone(),
            destination: self.asked.clone(),
            requests: self.requests,
            replies: self.replies,
            one_way: self.one_way,
            packet_per_s: between.filter(|seconds| gaps > 0 && *seconds > 0.0).map(|seconds| gaps as f64 / seconds),
            rtt_ns: self.rtt.figures(),
            negative: self.negative,
        }
    }
}

#[cfg(test)]
#[path = "aggregate_tests.rs"]
mod tests;
