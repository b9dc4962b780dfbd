use std::net::Ipv4Addr;

use vtare_sys::SysError;
use vtare_units::Pace;

use crate::analyser::Counting;
use crate::error::TesterError;
use crate::frame;
use crate::generator::{self, Generator};
use crate::options::{Analyser, Engine, Flow, Offer, TesterOptions};
use crate::port::{Port, hardware_address, ports};
use crate::shared::{self, Shared};
use crate::trial_result::TrialResult;

/// Generator and analyser, ready.
#[derive(Debug)]
pub struct Tester {
    shared: Shared,
    generator: Generator,
    counting: Counting,
    /// Why the program does not count, where no other analyser was asked for.
    fallback: Option<String>,
    options: TesterOptions,
    /// Of the last trial, so that what comes of it later is distinguished.
    run: u32,
    place: String,
}

impl Tester {
    /// Checks ports and sizes, makes the analyser ready, then the sender.
    ///
    /// # Errors
    /// [`TesterError`], each with the way out.
    pub fn open(options: TesterOptions) -> Result<Self, TesterError> {
        Self::ready(options, true)
    }

    fn ready(options: TesterOptions, counted: bool) -> Result<Self, TesterError> {
        let (tx, rx) = ports(&options.tx, &options.rx, options.frame_byte, options.engine)?;
        let (shared, counting, fallback) =
            if counted { count(&options, &tx, &rx)? } else { (memory(&options, &tx)?, Counting::Nobody, None) };
        let generator = Generator::open(&options, &tx, &shared)?;
        let of = |name: &str, port: &Port| format!("{name} ({})", port.kind.as_deref().unwrap_or("hardware"));
        let place = format!("{} to {}, {}", of(&options.tx, &tx), of(&options.rx, &rx), counting.place());
        // Not 0: the tag of an empty frame.
        let run = (vtare_sys::clocks::now::<vtare_units::Monotonic>().as_nanos() as u32) | 1;
        Ok(Self { shared, generator, counting, fallback, options, run, place })
    }

    /// Who counts.
    #[must_use]
    pub const fn analyser(&self) -> Option<Analyser> {
        self.counting.kind()
    }

    /// Why the program does not count, where it should have.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Ports, and where frames are counted, as text.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What it was opened for.
    #[must_use]
    pub const fn options(&self) -> &TesterOptions {
        &self.options
    }

    /// Offers a load and reports what arrived. `prepare` is called on the thread that sends (and spins) before it does.
    ///
    /// # Errors
    /// [`TesterError`]; where `prepare` fails, the inner error.
    pub fn trial<E: Send>(
        &mut self,
        offer: &Offer,
        prepare: impl FnOnce() -> Result<(), E> + Send,
        stop: &dyn Fn() -> bool,
    ) -> Result<Result<TrialResult, E>, TesterError> {
        if offer.frames > self.options.most_frames || offer.frames.checked_mul(offer.pace.span_ns).is_none() {
            return Err(TesterError::Frames { found: offer.frames, most: self.options.most_frames });
        }
        self.run = self.run.wrapping_add(2);
        self.shared.begin(offer, self.run, self.options.engine);
        let Self { generator, shared, counting, options, .. } = self;
        generator::run(generator, (shared, counting), options, offer, prepare, stop)
    }

    /// Sees whether each flow comes through, slowly, some times over, and more patiently each time: the first frames
    /// teach bridges the way, and a guest on a busy host may stall for a second.
    ///
    /// # Errors
    /// [`TesterError::Unreachable`] with the flows that do not.
    pub fn check_reachability(&mut self, flows: &[usize], stop: &dyn Fn() -> bool) -> Result<(), TesterError> {
        const REACHABILITY_TRIES: usize = 10;
        let mut sent = vec![0; self.options.flows.len()];
        let mut came = vec![false; self.options.flows.len()];
        for attempt in 0..REACHABILITY_TRIES {
            let frames = (self.options.slots.len() as u64).min(self.options.most_frames);
            let offer = Offer {
                pace: Pace { packets: 20_000, span_ns: 1_000_000_000 },
                step: None,
                frames,
                catch_up_ns: 1_000_000_000,
                linger_ns: 100_000_000 << (attempt / 2),
                gap_ns: u64::MAX,
                batch: 1,
                tagged: None,
                most_ns: None,
            };
            let result = self.trial(&offer, || Ok::<(), std::convert::Infallible>(()), stop)?;
            let Ok(result) = result;
            for (number, flow) in result.flows.iter().enumerate() {
                sent[number] += flow.sent;
                came[number] |= flow.received > 0;
            }
            if result.stopped || flows.iter().all(|flow| came[*flow]) {
                return Ok(());
            }
        }
        let silent: Vec<usize> = flows.iter().copied().filter(|flow| !came[*flow]).collect();
        let words = |flow: &usize| {
            let Flow { to, address } = self.options.flows[*flow];
            format!("flow {} ({}, {address})", flow + 1, frame::hardware_words(to))
        };
        let mut to: Vec<String> = silent.iter().take(3).map(words).collect();
        if silent.len() > to.len() {
            to.push(format!("{} more", silent.len() - to.len()));
        }
        let sent = silent.iter().map(|flow| sent[*flow]).min().unwrap_or(0);
        Err(TesterError::Unreachable {
            tx: self.options.tx.clone(),
            rx: self.options.rx.clone(),
            to: to.join(", "),
            sent,
        })
    }
}

/// The counters where the sender can reach them: in maps for a program, else in memory of this process.
fn memory(options: &TesterOptions, tx: &Port) -> Result<Shared, TesterError> {
    if options.engine == Engine::Xdp { Shared::maps(options, tx) } else { Shared::own(options, tx) }
}

/// The analyser asked for, or the best that is available; and why it is not the program.
fn count(options: &TesterOptions, tx: &Port, rx: &Port) -> Result<(Shared, Counting, Option<String>), TesterError> {
    let program = || {
        let shared = Shared::maps(options, tx)?;
        let counting = Counting::program(&shared, rx)?;
        Ok((shared, counting, None))
    };
    let ring = |why| Ok((memory(options, tx)?, Counting::ring(options, rx)?, why));
    match options.analyser {
        Some(Analyser::Xdp) => program(),
        Some(Analyser::Packet) => ring(None),
        None => program().or_else(|error: TesterError| match error {
            TesterError::Program(_) => ring(Some(error.to_string())),
            other => Err(other),
        }),
    }
}

/// Frames a second that an engine sends where nothing paces it, in `span_ns`: to the port's own hardware address, so
/// that a bridge behind it does not pass them on.
///
/// # Errors
/// [`TesterError`], where the engine does not work here.
pub fn self_test(
    tx: &str,
    source: Ipv4Addr,
    frame_byte: u32,
    engine: Engine,
    span_ns: u64,
    prepare: impl FnOnce() -> Result<(), SysError> + Send,
) -> Result<f64, TesterError> {
    let flow = Flow { to: hardware_address(tx)?, address: source };
    // Faster than any engine, and as many as would last.
    let pace = Pace { packets: 50_000_000, span_ns: 1_000_000_000 };
    let frames = (span_ns / 20).clamp(1, shared::MOST_FRAMES);
    let options = TesterOptions {
        tx: tx.to_owned(),
        rx: tx.to_owned(),
        source,
        flows: vec![flow],
        slots: vec![0],
        frame_byte,
        most_frames: frames,
        engine,
        analyser: None,
    };
    let mut tester = Tester::ready(options, false)?;
    let offer = Offer {
        pace,
        step: None,
        frames,
        catch_up_ns: u64::MAX / 2,
        linger_ns: 0,
        gap_ns: u64::MAX,
        batch: 16,
        tagged: None,
        most_ns: Some(span_ns),
    };
    let result = tester.trial(&offer, prepare, &|| false)??;
    Ok(result.sent() as f64 * 1e9 / result.elapsed_ns.max(1) as f64)
}
