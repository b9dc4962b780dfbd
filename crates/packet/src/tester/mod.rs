//! Generator and analyser for tests of forwarding devices (docs/throughput.md): frames of many flows leave one port on a schedule and are counted,
//! checked and timed at another port of the same machine, so with one clock.
//!
//! - [`Tester`]: opened for a size of frame and a spread of flows; [`Tester::trial`] offers a load and tells what came.
//! - [`Engine`]: who sends. [`Analyser`]: who counts; where programs cannot be loaded, both do without.
//!
//! A frame is counted with its check sequence (4 B, which the kernel does not see), as RFC 2544 does: one of 64 B is 60 B here.

mod analyser;
mod error;
pub mod frame;
mod generator;
mod heard;
mod options;
mod ring;
mod shared;
mod user;

use std::net::Ipv4Addr;

use vtare_sys::SysError;
use vtare_sys::net::frames::interface_index;
use vtare_sys::net::{interface, route};

use crate::schedule::Pace;
use analyser::Counting;
pub use error::TesterError;
pub use frame::{FCS_BYTE, LARGEST_BYTE, SMALLEST_BYTE};
use generator::Generator;
pub use heard::{FlowSeen, Heard};
pub use options::{Analyser, Engine, Flow, Offer, TesterOptions};
use shared::Shared;

/// A port of the machine.
#[derive(Clone, Debug)]
struct Port {
    index: u32,
    address: [u8; 6],
    kind: Option<String>,
}

impl Port {
    fn find(name: &str, frame_byte: u32) -> Result<Self, TesterError> {
        let name_of = || name.to_owned();
        let Some(index) = interface_index(name) else {
            let known = interface::all().unwrap_or_default().into_iter().map(|it| it.name).collect::<Vec<_>>();
            return Err(TesterError::NoPort { name: name_of(), known: known.join(", ") });
        };
        let link = route::link(index)?;
        let up = interface::all()?.into_iter().any(|it| it.index == index && it.up);
        if !up {
            return Err(TesterError::Down { name: name_of() });
        }
        let Some(address) = link.address.filter(|address| *address != [0; 6]) else {
            return Err(TesterError::NoEthernet { name: name_of() });
        };
        let wanted_byte = frame_byte - FCS_BYTE - frame::ETHERNET_BYTE;
        if wanted_byte > link.mtu_byte {
            return Err(TesterError::Mtu { name: name_of(), frame_byte, wanted_byte, mtu_byte: link.mtu_byte });
        }
        Ok(Self { index, address, kind: link.kind })
    }
}

/// Both ports, where they and the engine carry frames of this size.
fn ports(tx: &str, rx: &str, frame_byte: u32, engine: Engine) -> Result<(Port, Port), TesterError> {
    let most_byte = engine.most_frame_byte();
    if frame_byte < SMALLEST_BYTE || frame_byte > most_byte {
        let because = if (SMALLEST_BYTE..=LARGEST_BYTE).contains(&frame_byte) {
            " with this engine: use engine packet"
        } else {
            ""
        };
        return Err(TesterError::Size { found_byte: frame_byte, most_byte, because });
    }
    Ok((Port::find(tx, frame_byte)?, Port::find(rx, frame_byte)?))
}

/// Sees that both ports are there and up, and that they and the engine carry frames of this size: before hours are spent on smaller ones.
///
/// # Errors
/// [`TesterError`], with the way out.
pub fn check(tx: &str, rx: &str, frame_byte: u32, engine: Engine) -> Result<(), TesterError> {
    ports(tx, rx, frame_byte, engine).map(drop)
}

/// The hardware address of a port.
///
/// # Errors
/// [`TesterError`], where there is none.
pub fn hardware_address(port: &str) -> Result<[u8; 6], TesterError> {
    Port::find(port, SMALLEST_BYTE).map(|port| port.address)
}

/// Generator and analyser, ready.
#[derive(Debug)]
pub struct Tester {
    shared: Shared,
    generator: Generator,
    counting: Counting,
    /// Why the program does not count, where it was not told not to.
    fallback: Option<String>,
    options: TesterOptions,
    /// Of the last trial, so that what comes of it later is told apart.
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

    /// Ports, and where frames are counted, in words.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What it was opened for.
    #[must_use]
    pub const fn options(&self) -> &TesterOptions {
        &self.options
    }

    /// Offers a load and tells what came. `prepare` is called on the thread that sends (and spins) before it does.
    ///
    /// # Errors
    /// [`TesterError`]; where `prepare` fails, the inner error.
    pub fn trial<E: Send>(
        &mut self,
        offer: &Offer,
        prepare: impl FnOnce() -> Result<(), E> + Send,
        stop: &dyn Fn() -> bool,
    ) -> Result<Result<Heard, E>, TesterError> {
        if offer.frames > self.options.most_frames || offer.frames.checked_mul(offer.pace.span_ns).is_none() {
            return Err(TesterError::Frames { found: offer.frames, most: self.options.most_frames });
        }
        self.run = self.run.wrapping_add(2);
        self.shared.begin(offer, self.run, self.options.engine);
        let Self { generator, shared, counting, options, .. } = self;
        generator::run(generator, (shared, counting), options, offer, prepare, stop)
    }

    /// Sees whether each flow comes through, slowly, some times over, and more patiently each time: the first frames teach bridges the way,
    /// and a guest on a busy host may stand still for a second.
    ///
    /// # Errors
    /// [`TesterError::Unheard`] with the flows that do not.
    pub fn knock(&mut self, flows: &[usize], stop: &dyn Fn() -> bool) -> Result<(), TesterError> {
        const KNOCKS: usize = 10;
        let mut sent = vec![0; self.options.flows.len()];
        let mut came = vec![false; self.options.flows.len()];
        for knock in 0..KNOCKS {
            let frames = (self.options.slots.len() as u64).min(self.options.most_frames);
            let offer = Offer {
                pace: Pace { packets: 20_000, span_ns: 1_000_000_000 },
                frames,
                catch_up_ns: 1_000_000_000,
                linger_ns: 100_000_000 << (knock / 2),
                gap_ns: u64::MAX,
                batch: 1,
                tagged: None,
                most_ns: None,
            };
            let heard = self.trial(&offer, || Ok::<(), std::convert::Infallible>(()), stop)?;
            let Ok(heard) = heard;
            for (number, flow) in heard.flows.iter().enumerate() {
                sent[number] += flow.sent;
                came[number] |= flow.received > 0;
            }
            if heard.stopped || flows.iter().all(|flow| came[*flow]) {
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
        Err(TesterError::Unheard { tx: self.options.tx.clone(), rx: self.options.rx.clone(), to: to.join(", "), sent })
    }
}

/// The counters where the sender can reach them: in maps for a program, else in memory of this process.
fn memory(options: &TesterOptions, tx: &Port) -> Result<Shared, TesterError> {
    if options.engine == Engine::Xdp { Shared::maps(options, tx) } else { Shared::own(options, tx) }
}

/// The analyser asked for, or the best that can be had; and why it is not the program.
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

/// Frames a second that an engine sends where nothing paces it, in `span_ns`: to the port's own hardware address, so that a bridge behind it does
/// not pass them on.
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
        frames,
        catch_up_ns: u64::MAX / 2,
        linger_ns: 0,
        gap_ns: u64::MAX,
        batch: 16,
        tagged: None,
        most_ns: Some(span_ns),
    };
    let heard = tester.trial(&offer, prepare, &|| false)??;
    Ok(heard.sent() as f64 * 1e9 / heard.elapsed_ns.max(1) as f64)
}

#[cfg(test)]
mod tests;
