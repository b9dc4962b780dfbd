//! Who sends, and the run of a trial: one thread sends and spins, the calling one waits for what comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use vtare_sys::bpf::{Interrupt, LiveRun, Program};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span};

use crate::analyser::Counting;
use crate::error::TesterError;
use crate::frame;
use crate::options::{Engine, Offer, TesterOptions};
use crate::port::Port;
use crate::shared::{SLICE_NS, Shared};
use crate::trial_result::TrialResult;
use crate::user::UserSender;
use vtare_bpf::layout::throughput::setup as word;

/// How often the calling thread looks whether it is over.
const LOOK_EVERY: Span = Span::from_millis(2);

/// The sender, ready.
#[derive(Debug)]
pub(crate) enum Generator {
    /// The program, and a frame as it is to be called with.
    Live(Program, Vec<u8>),
    /// A socket.
    User(Box<UserSender>),
}

impl Generator {
    pub(crate) fn open(options: &TesterOptions, tx: &Port, shared: &Shared) -> Result<Self, TesterError> {
        match options.engine {
            Engine::Xdp => Ok(Self::Live(shared.load("generate")?, vec![0; frame::bytes(options.frame_byte)])),
            Engine::AfXdp | Engine::Packet => UserSender::open(options, tx).map(|sender| Self::User(Box::new(sender))),
        }
    }

    /// Sends until all frames' time has passed; gives the frames that the port refused.
    fn send(&mut self, shared: &Shared, options: &TesterOptions, offer: &Offer) -> Result<u64, TesterError> {
        match self {
            Self::Live(program, frame) => live(program, frame, shared, offer).map(|()| 0),
            Self::User(sender) => sender.send(shared, options, offer),
        }
    }
}

/// In the kernel until all frames' time has passed.
fn live(program: &Program, frame: &[u8], shared: &Shared, offer: &Offer) -> Result<(), TesterError> {
    let ends = shared.get(word::START_NS) + offer.due_ns(offer.frames);
    loop {
        let next = shared.get(word::NEXT);
        if next >= offer.frames || shared.get(word::STOP) != 0 {
            return Ok(());
        }
        // A call for each frame, and one for each slice that is waited for; those that are left over end at once.
        let wait = ends.saturating_sub(clocks::now::<Monotonic>().as_nanos());
        let calls = offer.frames - next + wait / SLICE_NS + u64::from(offer.batch);
        // Not all in one call: a wish to stop is seen between two.
        let repeat = u32::try_from(calls).unwrap_or(u32::MAX);
        match program.run_live(frame, LiveRun { repeat, batch: offer.batch.max(1) }) {
            Err(error) if !error.is_interrupted() => return Err(error.into()),
            _ => {}
        }
    }
}

/// So long, beyond the time for frames under way, the kernel may take to hand over what has come, ns.
const HANDED_OVER_NS: u64 = 1_000_000_000;

/// Sends on a thread of its own and waits for what comes.
pub(crate) fn run<E: Send>(
    generator: &mut Generator,
    (shared, counting): (&Shared, &mut Counting),
    options: &TesterOptions,
    offer: &Offer,
    prepare: impl FnOnce() -> Result<(), E> + Send,
    stop: &dyn Fn() -> bool,
) -> Result<Result<TrialResult, E>, TesterError> {
    // Of what came since the trial before.
    counting.missed()?;
    let over = AtomicBool::new(false);
    let (interrupt_to, interrupt) = mpsc::channel();
    let (outcome, watched, stopped) = std::thread::scope(|scope| {
        let over = &over;
        let sending = scope.spawn(move || {
            let result = prepare().map(|()| {
                let _ = interrupt_to.send(Interrupt::of_this_thread());
                generator.send(shared, options, offer)
            });
            over.store(true, Ordering::Release);
            result
        });
        let (mut stopped, mut sender): (bool, Option<Interrupt>) = (false, None);
        let ends = offer.most_ns.map(|most| shared.get(word::START_NS) + most);
        let mut quiet: Option<(u64, u64)> = None;
        let mut watched = Ok(());
        loop {
            let done = over.load(Ordering::Acquire);
            let now = clocks::now::<Monotonic>();
            let wished = stop();
            if !stopped && (wished || ends.is_some_and(|ends| now.as_nanos() >= ends)) {
                stopped = wished;
                shared.word(word::STOP).store(1, Ordering::Release);
            }
            if shared.get(word::STOP) != 0 && !done {
                sender = sender.or_else(|| interrupt.try_recv().ok());
                // Again each time: one that comes between two calls is lost.
                sender.iter().for_each(|sender| sender.send());
            }
            if done {
                let received = shared.get(word::RECEIVED);
                let all = received + shared.get(word::SKIPPED) >= offer.frames;
                let (count, since) = *quiet.get_or_insert((received, now.as_nanos()));
                if count != received {
                    quiet = Some((received, now.as_nanos()));
                } else if all
                    || stopped
                    || watched.is_err()
                    || now.as_nanos() - since >= offer.linger_ns + HANDED_OVER_NS
                {
                    break;
                } else if now.as_nanos() - since >= offer.linger_ns {
                    // What has come and is not handed over is not lost.
                    match counting.holds_some() {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => watched = Err(error),
                    }
                }
            }
            watched = watched.and_then(|()| counting.look(shared, LOOK_EVERY));
            if watched.is_err() {
                shared.word(word::STOP).store(1, Ordering::Release);
            }
        }
        (sending.join(), watched, stopped)
    });
    match outcome {
        Ok(Ok(refused)) => {
            let (refused, missed) = (refused?, watched.and_then(|()| counting.missed())?);
            Ok(Ok(shared.result(offer, refused, missed, stopped)))
        }
        Ok(Err(error)) => Ok(Err(error)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
