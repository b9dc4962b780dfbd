//! The method `tcp`: connections of the kernel's TCP, kept full, and what the far end counted. It sends no trains, so
//! it has a runner of its own; what it gives are estimates like those of all other methods.

use std::net::SocketAddr;

use vtare_control::client::{self, ControlError};
use vtare_control::streams::{Quota, StreamError, Streams};
use vtare_control::{OpenedSession, PresharedKey};
use vtare_methods::avb::{SYSTEM, Spent, Stopped, TcpSeen, TcpSettings, tcp_estimate};
use vtare_sys::clocks;
use vtare_sys::net::tcp::TcpInfo;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::DEFAULT_PORT;
use vtare_wire::session::{ClientError, FlowPlan, Open, Purpose, WireForm};

use super::cell::AvbCell;
use super::parameters::Parameters;
use super::repeat::{LOOK_EVERY, Made, repeat};
use super::run::TimedEstimate;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{Note, Outcome, Session};
use crate::peers::{self, PATIENCE, PROGRAM, Sign, control_failure};
use crate::rtt::conditions;

/// What is under way when the sending ends may arrive for this time; how often the far end is asked.
const DRAIN: Span = Span::from_secs(3);
const ASK_EVERY: Span = Span::from_millis(60);
/// A session lasts this time beyond the sending.
const SPARE_NS: u64 = 10_000_000_000;
/// Bins of the far end: this number at most, none shorter than this.
const BINS: u64 = 1_000;
const LEAST_BIN_NS: u64 = 10_000_000;
/// What is asked for where no bytes are named: this rate all the time, at most what a far end grants by itself.
const MOST_BYTE_PER_S: f64 = 12.5e9;
const MOST_BYTE: u64 = 1_000_000_000_000;
/// Of the bytes that may be sent, this share is kept for segments that the kernel sends again after the last write (a
/// tail-loss probe of a machine that stalled repeats up to a whole offloaded segment), and at least
/// [`RESERVE_BYTE`] where that share is less.
const RESERVE_SHARE: f64 = 0.01;
const RESERVE_BYTE: f64 = 131_072.0;
/// TCP without options, and its time stamps.
const TCP_HEADER_BYTE: u32 = 20;
const TIMESTAMPS_BYTE: u32 = 12;

/// What does not belong to one test.
struct Test<'p> {
    parameters: &'p Parameters,
    settings: TcpSettings,
    address: SocketAddr,
    key: Option<PresharedKey>,
    context: &'p Context,
}

/// The result of one test.
struct Tested {
    made: Made,
    congestion: String,
    packet_byte: u32,
}

/// Runs the method.
///
/// # Errors
/// [`Failure::Input`] for what cannot be asked of it or what the far end does not grant; [`Failure::Peer`] where it
/// does not answer.
pub(super) fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<AvbCell>, Failure> {
    let mut notes = conditions::take(parameters.cpu, parameters.fifo, false)?;
    let _held = conditions::hold_latency(parameters.dma_latency_ns, &mut notes);
    notes.extend(parameters.of_no_effect_on_tcp().map(|text| Note::new("no_effect", text)));
    let test = Test {
        parameters,
        settings: parameters.tcp_settings()?,
        address: peers::reach(&parameters.peer, DEFAULT_PORT, Sign::Connection)?,
        key: peers::key(parameters.key_file.as_deref())?,
        context: session.context,
    };
    let cell = AvbCell {
        peer: parameters.peer.clone(),
        address: test.address.to_string(),
        method: parameters.method.clone(),
        direction: "forward",
        ..AvbCell::default()
    };
    repeat(parameters, session, cell, notes, &mut |cell| {
        let tested = test.run()?;
        cell.packet_byte = Some(tested.packet_byte);
        cell.congestion = Some(tested.congestion);
        Ok(tested.made)
    })
}

/// What the watching thread saw while the others sent.
#[derive(Default)]
struct Watched {
    sent: Span,
    queued_us: Option<u32>,
    stopped: bool,
    in_time: bool,
}

impl Test<'_> {
    /// Time of sending.
    fn lasts(&self) -> Span {
        let planned = Span::from_nanos((self.settings.seconds * 1e9) as i64);
        let most = self.parameters.most_ns.map(Span::from_unsigned_nanos);
        most.map_or(planned, |most| most.min(planned))
    }

    fn request(&self) -> Open {
        request(self.lasts(), self.settings.streams, self.parameters.most_byte)
    }

    /// One test.
    fn run(&self) -> Result<Tested, Failure> {
        let began = clocks::now::<Monotonic>();
        let refused = |error: &ControlError| match error {
            ControlError::Session(ClientError::TooOld { .. }) => Failure::Input(error.to_string()),
            _ => control_failure(error),
        };
        let mut far = client::open(self.address, self.key.as_ref(), &self.request(), PROGRAM, PATIENCE)
            .map_err(|error| refused(&error))?;
        let congestion = Some(self.settings.congestion.as_str()).filter(|name| *name != SYSTEM);
        let streams =
            Streams::open(self.address, far.grant(), congestion, PATIENCE).map_err(|error| stream_failure(&error))?;
        let first = infos(&streams)?;
        let header_byte = header_byte(self.address, &first);
        let segment_byte = first.iter().map(|info| info.segment_byte).min().unwrap_or(0).max(1);
        let byte = far.grant().open.flows.map_or(0, |plan| plan.byte);
        // Bytes are counted with headers, as for every method.
        let share = f64::from(header_byte) / f64::from(segment_byte);
        let payload = match self.parameters.most_byte {
            Some(_) => payload_byte(byte, share),
            None => byte,
        };
        let quota = Quota::new(payload);
        let sending_from = clocks::now::<Monotonic>();
        let mut watched = Watched::default();
        let broke = streams
            .send(&quota, |done| watched = self.watch(&streams, &quota, share, sending_from, done))
            .err()
            .map(|error| error.to_string());
        streams.finish();
        let (bins, report, lost) = match collect(&mut far) {
            Ok((bins, report)) => (bins, Some(report), broke),
            Err(error) => (Vec::new(), None, broke.or(Some(error.to_string()))),
        };
        let accounts = infos(&streams)?;
        // The first segments are smaller where the far end's window opens only by and by.
        let segment_byte = accounts.iter().map(|info| info.segment_byte).max().unwrap_or(0).max(segment_byte);
        let congestion = streams.congestion().to_owned();
        streams.abandon();
        // The account of datagrams, of which there are none.
        let _ = far.close();

        let arrived = report.as_ref().map_or(0, |report| report.byte);
        let emptied = report.as_ref().is_some_and(|report| report.open == 0 && report.byte == quota.taken());
        let account = Account::of(&accounts, quota.taken(), header_byte, segment_byte);
        let ran_out = !watched.in_time && !watched.stopped && lost.is_none();
        let stopped = if watched.stopped || lost.is_some() {
            Stopped::Running
        } else if ran_out {
            Stopped::ByteBudget
        } else if self.lasts().as_secs_f64() < self.settings.seconds {
            Stopped::TimeBudget
        } else {
            Stopped::Converged
        };
        let spent = Spent {
            began: Some(began),
            now: Some(clocks::now()),
            probe_byte: account.ip_byte,
            packets: account.segments,
            trains: 0,
        };
        let plan_bin_ns = self.request().flows.map_or(LEAST_BIN_NS, |plan| plan.bin_ns);
        let seen = TcpSeen {
            bins,
            bin_s: plan_bin_ns as f64 / 1e9,
            elapsed_s: report.as_ref().and_then(|report| report.elapsed_ns).map(|ns| ns as f64 / 1e9),
            sent_s: watched.sent.as_secs_f64(),
            began_s: (sending_from - began).as_secs_f64(),
            header_share: account.header_share,
            drained: ran_out && emptied,
        };
        let settings = TcpSettings { seconds: self.lasts().as_secs_f64(), ..self.settings.clone() };
        let mut estimate = tcp_estimate(&settings, &seen, &spent, stopped);
        estimate.queued_ns = watched.queued_us.map(|us| f64::from(us) * 1e3);
        estimate.notes.extend(self.notes(&congestion, &account, header_byte, segment_byte));
        if !emptied && lost.is_none() {
            estimate.notes.push(format!(
                "{} B of payload had not arrived {} s after the sending: they were thrown away",
                quota.taken().saturating_sub(arrived),
                DRAIN.as_secs_f64()
            ));
        }
        let timed = TimedEstimate { began, estimate, extra_byte: 0 };
        let made = Made { timed, stopped: watched.stopped, lost };
        Ok(Tested { made, congestion, packet_byte: segment_byte + header_byte })
    }

    /// Looks on while others send; the sending ends when it returns.
    fn watch(
        &self,
        streams: &Streams,
        quota: &Quota,
        header_share: f64,
        from: Timestamp<Monotonic>,
        done: &dyn Fn() -> bool,
    ) -> Watched {
        let ends = from + self.lasts();
        let mut watched = Watched::default();
        let mut resent = 0;
        loop {
            // What cannot be read now is read at the end or missing.
            let accounts = streams.infos().unwrap_or_default();
            let queued = accounts.iter().filter_map(|info| info.rtt_us.checked_sub(info.least_rtt_us?)).max();
            watched.queued_us = watched.queued_us.max(queued);
            if self.parameters.most_byte.is_some() {
                let all: u64 = accounts.iter().filter_map(|info| info.resent_byte).sum();
                quota.spend(((all.saturating_sub(resent)) as f64 * (1.0 + header_share)) as u64);
                resent = resent.max(all);
            }
            let now = clocks::now::<Monotonic>();
            watched.sent = now - from;
            watched.stopped = self.context.stop_requested();
            watched.in_time = now >= ends;
            if watched.stopped || watched.in_time || quota.is_over() || done() {
                return watched;
            }
            // A sleep that is cut short only looks earlier.
            let _ = clocks::sleep_until((now + LOOK_EVERY).min(ends));
        }
    }

    fn notes(&self, congestion: &str, account: &Account, header_byte: u32, segment_byte: u32) -> Vec<String> {
        let chosen = if self.settings.congestion == SYSTEM { "the kernel's own choice" } else { "as asked for" };
        let mut notes = vec![
            "tcp fills the path and takes from other traffic what it can get: a throughput, not what was free"
                .to_owned(),
            format!(
                "congestion control {congestion}, {chosen}; segments of {segment_byte} B with {header_byte} B of IP \
                 and TCP headers, counted at the far end and brought to the IP layer by the kernel's count of segments"
            ),
        ];
        if account.estimated {
            notes.push("this kernel does not count segments: headers are reckoned from the segment size".to_owned());
        }
        notes.push(format!("{} of {} segments sent again", account.resent, account.segments));
        for (share, whose) in [
            (account.receiver_share, "the far end's receive window (its tcp_rmem, or its processor)"),
            (account.buffer_share, "the send buffer here (tcp_wmem)"),
        ] {
            if let Some(share) = share.filter(|share| *share >= 0.05) {
                notes.push(format!("{:.0} % of the time held back by {whose}: the path may carry more", share * 100.0));
            }
        }
        notes
    }
}

/// A session for `streams` connections that send for this time. Without a bound on bytes, as many as a far end grants
/// by itself.
pub(crate) fn request(lasts: Span, streams: u8, most_byte: Option<u64>) -> Open {
    let duration_ns = lasts.as_nanos_unsigned() + SPARE_NS;
    let free = (lasts.as_secs_f64() * MOST_BYTE_PER_S).min(MOST_BYTE as f64) as u64;
    let plan = FlowPlan {
        streams,
        byte: most_byte.unwrap_or(free),
        // Whole milliseconds, so that ends of bins are times that people name.
        bin_ns: (duration_ns.div_ceil(BINS).next_multiple_of(1_000_000)).max(LEAST_BIN_NS),
    };
    Open {
        purpose: Purpose::Tcp,
        form: WireForm::Full,
        // No datagram belongs to it.
        rate_packet_per_s: 0,
        burst_packet: 1,
        duration_ns,
        packets: 0,
        size_byte: WireForm::Full.header_byte() as u16,
        flows: Some(plan),
        ecn: false,
    }
}

/// What the kernel reports of the sending, all connections together.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Account {
    segments: u64,
    resent: u64,
    /// Bytes of IP packets, those sent again among them.
    pub(crate) ip_byte: u64,
    header_share: f64,
    /// Without the kernel's count of segments.
    estimated: bool,
    receiver_share: Option<f64>,
    buffer_share: Option<f64>,
}

impl Account {
    pub(crate) fn of(accounts: &[TcpInfo], taken: u64, header_byte: u32, segment_byte: u32) -> Self {
        let sum = |get: &dyn Fn(&TcpInfo) -> Option<u64>| accounts.iter().map(get).sum::<Option<u64>>();
        let counted = sum(&|info| info.data_segments.map(u64::from)).zip(sum(&|info| info.sent_byte));
        let (segments, sent_byte) = counted.unwrap_or((taken.div_ceil(segment_byte.into()), taken));
        let header = segments * u64::from(header_byte);
        let busy = sum(&|info| info.busy_us).filter(|busy| *busy > 0);
        let share = |part: Option<u64>| part.zip(busy).map(|(part, busy)| part as f64 / busy as f64);
        Self {
            segments,
            resent: accounts.iter().map(|info| u64::from(info.resent)).sum(),
            ip_byte: sent_byte + header,
            header_share: if sent_byte > 0 { header as f64 / sent_byte as f64 } else { 0.0 },
            estimated: counted.is_none(),
            receiver_share: share(sum(&|info| info.receiver_limited_us)),
            buffer_share: share(sum(&|info| info.buffer_limited_us)),
        }
    }
}

/// Payload that may be written of a budget at the IP layer: without headers and without what is kept for sending again.
fn payload_byte(budget_byte: u64, header_share: f64) -> u64 {
    let budget = budget_byte as f64;
    let reserve = (budget * RESERVE_SHARE).max(RESERVE_BYTE.min(budget * 0.25));
    ((budget - reserve) / (1.0 + header_share)) as u64
}

/// Bytes of IP and TCP headers of a segment.
pub(crate) fn header_byte(address: SocketAddr, accounts: &[TcpInfo]) -> u32 {
    let ip = if address.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    let options = if accounts.iter().any(|info| info.timestamps) { TIMESTAMPS_BYTE } else { 0 };
    ip + TCP_HEADER_BYTE + options
}

pub(crate) fn infos(streams: &Streams) -> Result<Vec<TcpInfo>, Failure> {
    streams.infos().map_err(|error| Failure::Machine(error.to_string()))
}

/// Waits until all has arrived, as long as that may take, and fetches the account.
pub(crate) fn collect(far: &mut OpenedSession) -> Result<(Vec<u64>, vtare_wire::session::FlowReport), ControlError> {
    let until = clocks::now::<Monotonic>() + DRAIN;
    while far.flows(u32::MAX)?.open > 0 && clocks::now::<Monotonic>() < until {
        let _ = clocks::sleep_until(clocks::now::<Monotonic>() + ASK_EVERY);
    }
    let mut bins = Vec::new();
    loop {
        let mut report = far.flows(bins.len() as u32)?;
        bins.append(&mut report.bins);
        if report.left == 0 {
            return Ok((bins, report));
        }
    }
}

pub(crate) fn stream_failure(error: &StreamError) -> Failure {
    match error {
        StreamError::Congestion { .. } => Failure::Input(format!("set: {error}")),
        StreamError::Io { .. } | StreamError::Refused { .. } => Failure::Peer(error.to_string()),
        StreamError::System(_) => Failure::Machine(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_of_all_connections_make_one_account() {
        let one = TcpInfo {
            data_segments: Some(100),
            sent_byte: Some(144_800),
            resent: 3,
            busy_us: Some(1_000),
            receiver_limited_us: Some(250),
            ..TcpInfo::default()
        };
        let found = Account::of(&[one, one], 280_000, 52, 1_448);
        assert_eq!((found.segments, found.resent, found.ip_byte), (200, 6, 289_600 + 200 * 52));
        assert!((found.header_share - 52.0 / 1_448.0).abs() < 1e-12 && !found.estimated);
        assert_eq!((found.receiver_share, found.buffer_share), (Some(0.25), None));
    }

    #[test]
    fn a_budget_keeps_room_for_headers_and_for_sending_again() {
        let share = 52.0 / 1_448.0;
        for budget in [1_000_u64, 100_000, 1_000_000, 20_000_000, 1_000_000_000] {
            let written = payload_byte(budget, share) as f64 * (1.0 + share);
            let kept = budget as f64 - written;
            assert!(
                kept >= (budget as f64 * 0.01) && kept >= 131_072_f64.min(budget as f64 * 0.25) - 2.0,
                "{budget}: {kept}"
            );
            assert!(written >= budget as f64 * 0.74, "{budget}: {written}");
        }
    }

    #[test]
    fn where_one_count_is_missing_headers_are_reckoned_and_that_is_noted() {
        let some = TcpInfo { data_segments: Some(100), sent_byte: Some(144_800), ..TcpInfo::default() };
        let found = Account::of(&[some, TcpInfo::default()], 14_481, 52, 1_448);
        assert_eq!((found.segments, found.estimated), (11, true));
    }
}
