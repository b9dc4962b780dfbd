//! What a hostile lab can send: bytes on the control channel of `vtare agent`, and run files of `vtare measure`.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::daemon::survived;
use crate::common::{Outcome, Place, VTARE, until};
use crate::fuzz::agent::frame::{self, Decoder, Frame, Kind, MAX_PAYLOAD_BYTE};

/// Memory that frames may take, kB: some that are not whole, and pieces of what is written.
const MEMORY_KB: u64 = 4_000;

/// `vtare agent` on pipes; killed when dropped.
struct Agent {
    process: Child,
    decoder: Decoder,
    frames: Vec<Frame>,
}

impl Agent {
    fn below(directory: &Path) -> Self {
        let mut command = Command::new(VTARE);
        command.arg("agent").arg("--directory").arg(directory);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut agent =
            Self { process: pipes.spawn().expect("it starts"), decoder: Decoder::default(), frames: vec![] };
        agent.heard(Kind::Hello, 0);
        agent
    }

    fn send(&mut self, bytes: &[u8]) {
        self.process.stdin.as_mut().expect("it is piped").write_all(bytes).expect("the agent reads");
    }

    fn ask(&mut self, kind: Kind, job: u32, payload: &str) {
        self.send(&Frame::encode(kind, job, payload.as_bytes()));
    }

    /// The next frame of this kind and job.
    fn heard(&mut self, kind: Kind, job: u32) -> String {
        loop {
            if let Some(at) = self.frames.iter().position(|frame| (frame.kind, frame.job) == (kind, job)) {
                return String::from_utf8_lossy(&self.frames.remove(at).payload).into_owned();
            }
            let mut bytes = [0; 4_096];
            let byte = self.process.stdout.as_mut().expect("it is piped").read(&mut bytes).expect("it is readable");
            assert!(byte > 0, "the agent has ended");
            self.frames.extend(self.decoder.take(&bytes[..byte]));
        }
    }

    /// Whether it still answers, and its memory at most, kB.
    fn still_answers(&mut self) -> u64 {
        self.ask(Kind::Facts, 4_000_000, "");
        assert!(self.heard(Kind::Answer, 4_000_000).starts_with('{'));
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("every kernel has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Closes the channel and gives what came of the agent.
    fn closed(mut self) -> Outcome {
        drop(self.process.stdin.take());
        Outcome::ended(&mut self.process)
    }
}

impl Outcome {
    /// A process that ends by itself within a minute.
    pub(super) fn ended(process: &mut Child) -> Self {
        until("it has ended", || process.try_wait().expect("it is a child of this process").is_some());
        let code = process.wait().expect("it has ended").code().expect("it was not killed");
        let mut text = [Vec::new(), Vec::new()];
        process.stdout.as_mut().expect("it is piped").read_to_end(&mut text[0]).expect("it is readable");
        process.stderr.as_mut().expect("it is piped").read_to_end(&mut text[1]).expect("it is readable");
        let [stdout, stderr] = text.map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(!stderr.contains("panicked"), "{stderr}");
        Self { code, stdout, stderr }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[test]
fn attack_channel_that_ends_within_a_frame_or_has_none() {
    let place = Place::new();
    let whole = Frame::encode(Kind::Put, 1, json!({"path": place.file("x")}).to_string().as_bytes());
    for cut in [5, 16, 17, 20, whole.len() - 1] {
        let mut agent = Agent::below(place.path());
        agent.send(&whole[..cut]);
        agent.closed().refused(3, &["the control channel ended within a frame", &format!("which {cut} B came")]);
    }
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100_000], b"vtG2vtG2vtG2vtG2vtG2vtG2"] {
        let mut agent = Agent::below(place.path());
        agent.send(garbage);
        let byte = format!("carries {} B, none of them a frame", garbage.len());
        agent.closed().refused(2, &["the control channel", &byte, "docs/internals/guests.md"]);
    }
    let silent = Agent::below(place.path()).closed();
    assert_eq!((silent.code, silent.stderr.as_str()), (0, ""), "a channel that is closed is no attack");
    survived("agent_cut_channel", "channels 8");
}

#[test]
fn attack_frames_that_are_too_long_in_the_wrong_order_or_without_end() {
    let place = Place::new();
    let mut agent = Agent::below(place.path());
    let before = agent.still_answers();
    // A head whose length is beyond what a frame holds: the check fits, and it is passed over.
    let mut long = Frame::encode(Kind::Data, 1, &vec![0; MAX_PAYLOAD_BYTE]);
    long[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    let check = frame::check_on(0, &long[..13]).to_le_bytes();
    long[13..17].copy_from_slice(&check);
    agent.send(&long);
    // A file that ends before it begins, one that begins twice, pieces of none, an end that is too short.
    agent.ask(Kind::Whole, 2, r#"{"byte": 0}"#);
    assert!(agent.heard(Kind::Failed, 2).contains("no file is on its way"));
    agent.ask(Kind::Data, 3, "piece of no file");
    for job in [4, 4] {
        agent.ask(Kind::Put, job, &json!({"path": place.file("twice")}).to_string());
    }
    agent.ask(Kind::Data, 4, "x");
    agent.ask(Kind::Whole, 4, r#"{"byte": 2}"#);
    assert!(agent.heard(Kind::Failed, 4).contains("1 B came instead of 2 B"));
    agent.ask(Kind::Signal, 5, r#"{"signal": "term"}"#);
    assert!(agent.heard(Kind::Failed, 5).contains("does not run"));
    for kind in [Kind::Hello, Kind::Answer, Kind::Exited, Kind::Stdout] {
        agent.ask(kind, 6, "{}");
        assert!(agent.heard(Kind::Failed, 6).contains("for the agent to send"));
    }
    // Files without an end, more than are taken at a time.
    for job in 10..40 {
        agent.ask(Kind::Put, job, &json!({"path": place.file(&format!("file-{job}"))}).to_string());
    }
    assert!(agent.heard(Kind::Failed, 39).contains("which is the most"));
    let piece = vec![b'x'; MAX_PAYLOAD_BYTE];
    for _ in 0..1_100 {
        agent.send(&Frame::encode(Kind::Data, 10, &piece));
    }
    assert!(agent.heard(Kind::Failed, 10).contains("which is the most taken"));
    // Heads of frames without end, each in the payload of the one before.
    let heads = Frame::encode(Kind::Data, 7, &vec![0; MAX_PAYLOAD_BYTE])[..17].repeat(1_000);
    agent.send(&heads);
    agent.send(&vec![0; MAX_PAYLOAD_BYTE + 100]);
    let grown = agent.still_answers() - before;
    assert!(grown < MEMORY_KB, "{grown} kB");
    drop(agent.closed());
    assert_eq!(place.files(), Vec::<String>::new(), "nothing half written stays");
    survived("agent_frames", format!("memory +{grown} kB"));
}

pub(super) fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("the place is writable");
}

#[test]
fn attack_pipes_in_place_of_files_do_not_hold_the_agent_up() {
    let place = Place::new();
    let mut agent = Agent::below(place.path());
    pipe(&place.file("out"));
    agent.ask(Kind::Get, 1, &json!({"path": place.file("out")}).to_string());
    assert!(agent.heard(Kind::Failed, 1).contains("no regular file"));
    // Where the agent writes a file that is on its way.
    pipe(&place.file(&format!(".in.{}.partial", agent.process.id())));
    agent.ask(Kind::Put, 2, &json!({"path": place.file("in")}).to_string());
    assert!(agent.heard(Kind::Failed, 2).contains("in"));
    agent.still_answers();
    survived("agent_pipes", "requests that hung 0 of 2");
}

#[test]
fn attack_run_files_that_are_cut_too_long_or_none() {
    let place = Place::new();
    let run = json!({
        "schema": "vtare.run/1", "run_id": "0123456789abcdef", "instrument": "sleep", "seed": 1,
        "parameters": {"samples": 3, "target_ns": [1000], "method": ["spin"]},
    });
    let text = run.to_string();
    let deep = format!("{{\"parameters\": {}", "[".repeat(500_000));
    let twice = format!("{text}{text}");
    let cases: [(&str, &[u8]); 7] = [
        ("empty", b""),
        ("cut", &text.as_bytes()[..text.len() / 2]),
        ("twice", twice.as_bytes()),
        ("deep", deep.as_bytes()),
        ("garbage", &[0xff, 0xfe, 0, 1, 2, 3]),
        ("zeros", &[0; 5_000]),
        ("long", &[b' '; 3 << 20]),
    ];
    for (name, bytes) in cases {
        let path = place.file(name);
        std::fs::write(&path, bytes).expect("the place is writable");
        measured(&path).refused(2, &[name]);
    }
    for device in ["/dev/zero", "/dev/urandom", "/dev/null", "/", "/proc/self/mem"] {
        measured(Path::new(device)).refused(2, &[device]);
    }
    survived("run_files", "files 12");
}

/// `vtare measure` of this file, which must end by itself.
fn measured(path: &Path) -> Outcome {
    let mut command = Command::new("sh");
    // No more memory than the program itself and some files take.
    command.args(["-c", "ulimit -v 400000; exec \"$0\" measure \"$1\"", VTARE]).arg(path);
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = piped.spawn().expect("there is a shell");
    Outcome::ended(&mut process)
}
