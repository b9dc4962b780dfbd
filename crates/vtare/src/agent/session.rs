//! One talk over the channel: frames in, answers out, until the other end closes it or asks for the end.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vtare_sys::facts::MachineFacts;

use super::files::{self, Incoming, Reach};
use super::frame::{BrokenEnd, Decoder, Frame, Kind};
use super::job::Jobs;
use super::messages::{self, Hello};
use super::port::{Output, Port};
use crate::failure::Failure;

/// Files on their way in at the same time at most.
const MOST_INCOMING: usize = 16;
/// Bytes of a file in one frame.
const PIECE_BYTE: usize = 32 << 10;

/// Serves the channel. All that was started is dead when it returns.
///
/// # Errors
/// Where the line fails.
pub(crate) fn serve(mut port: Port, reach: Reach, hello: &Hello) -> Result<(), Failure> {
    port.wait_open();
    let mut session = Session { jobs: Jobs::default(), incoming: HashMap::new(), reach, output: port.output.clone() };
    end_on_signals(session.jobs.clone())?;
    session.output.send_json(Kind::Hello, 0, hello);
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; PIECE_BYTE];
    let ended = loop {
        let got = match port.read(&mut bytes) {
            Ok(0) => break decoder.finish().map_err(broken),
            Ok(got) => got,
            Err(error) => {
                break Err(Failure::Machine(format!("the control channel failed: {error}")));
            }
        };
        if decoder.take(&bytes[..got]).into_iter().any(|frame| session.handle(frame) == Then::End) {
            break Ok(());
        }
    };
    session.jobs.kill_all();
    ended
}

fn broken(end: BrokenEnd) -> Failure {
    match end {
        BrokenEnd::NoFrame { byte } => Failure::Input(format!(
            "the control channel carries {byte} B, none of them a frame: the lab starts `vtare agent` and speaks with \
             it (docs/internals/guests.md)"
        )),
        BrokenEnd::Cut { byte } => Failure::Machine(format!(
            "the control channel ended within a frame, of which {byte} B came: see why the lab or its line ended"
        )),
    }
}

/// A signal ends the agent and all that it has started.
fn end_on_signals(jobs: Jobs) -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let cannot = |error| Failure::Machine(format!("cannot listen for signals: {error}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(cannot)?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            jobs.kill_all();
            std::process::exit(130);
        }
    });
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

struct Session {
    jobs: Jobs,
    incoming: HashMap<u32, Incoming>,
    reach: Reach,
    output: Output,
}

impl Session {
    fn handle(&mut self, frame: Frame) -> Then {
        let job = frame.job;
        let done = match frame.kind {
            Kind::Start => {
                return self
                    .answer(job, |session| session.jobs.start(job, &read(&frame)?, &session.reach, &session.output));
            }
            Kind::Signal => read(&frame).and_then(|messages::Signal { signal }| self.jobs.signal(job, signal)),
            Kind::Put => return self.begin(&frame),
            Kind::Data => return self.piece(job, &frame.payload),
            Kind::Whole => self.whole(&frame),
            Kind::Get => return self.answer(job, |session| session.send(&frame)),
            Kind::Facts => return self.reply(job, Ok(MachineFacts::read())),
            Kind::End => {
                self.output.send_json(Kind::Answer, job, &serde_json::json!({}));
                return Then::End;
            }
            Kind::Hello | Kind::Answer | Kind::Failed | Kind::Stdout | Kind::Stderr | Kind::Exited => {
                Err(format!("{:?} is for the agent to send", frame.kind))
            }
        };
        self.reply(job, done.map(|()| serde_json::json!({})))
    }

    fn reply(&self, job: u32, answer: Result<impl Serialize, String>) -> Then {
        match answer {
            Ok(document) => self.output.send_json(Kind::Answer, job, &document),
            Err(why) => self.output.fail(job, &why),
        }
        Then::GoOn
    }

    /// As [`Session::reply`] where only a failure is worth a frame.
    fn answer(&mut self, job: u32, work: impl FnOnce(&mut Self) -> Result<(), String>) -> Then {
        if let Err(why) = work(self) {
            self.output.fail(job, &why);
        }
        Then::GoOn
    }

    fn begin(&mut self, frame: &Frame) -> Then {
        self.answer(frame.job, |session| {
            let messages::Path { path } = read(frame)?;
            if session.incoming.len() >= MOST_INCOMING {
                return Err(format!("{MOST_INCOMING} files are on their way already, which is the most"));
            }
            let file = Incoming::begin(&path, &session.reach)?;
            session.incoming.insert(frame.job, file);
            Ok(())
        })
    }

    /// A piece of a file that was refused, or failed before, is dropped: the error has been reported already.
    fn piece(&mut self, job: u32, piece: &[u8]) -> Then {
        let Some(file) = self.incoming.get_mut(&job) else { return Then::GoOn };
        let taken = file.take(piece);
        self.answer(job, |session| {
            if taken.is_err() {
                session.incoming.remove(&job);
            }
            taken
        })
    }

    fn whole(&mut self, frame: &Frame) -> Result<(), String> {
        let file = self.incoming.remove(&frame.job);
        let messages::Whole { byte } = read(frame)?;
        file.ok_or_else(|| format!("job {}: no file is on its way", frame.job))?.keep(byte)
    }

    fn send(&self, frame: &Frame) -> Result<(), String> {
        let messages::Path { path } = read(frame)?;
        let mut file = files::outgoing(&path, &self.reach)?;
        let (mut bytes, mut byte) = (vec![0; PIECE_BYTE], 0);
        loop {
            match file.read(&mut bytes).map_err(|error| format!("{}: {error}", Path::display(&path)))? {
                0 => break,
                got => {
                    byte += got as u64;
                    self.output.send(Kind::Data, frame.job, &bytes[..got]);
                }
            }
        }
        self.output.send_json(Kind::Whole, frame.job, &messages::Whole { byte });
        Ok(())
    }
}

fn read<T: DeserializeOwned>(frame: &Frame) -> Result<T, String> {
    serde_json::from_slice(&frame.payload).map_err(|error| format!("{:?}: {error}", frame.kind))
}
