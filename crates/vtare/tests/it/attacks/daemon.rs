//! `vtare serve` with its standard streams in the hands of a test.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::common::{VTARE, until, vtare_line};

/// A responder; killed when dropped.
pub(crate) struct Daemon {
    process: Child,
    out: BufReader<ChildStdout>,
    /// Its first line on stdout.
    pub(crate) ready: Value,
}

impl Daemon {
    /// Starts `vtare serve --json` with a log that goes to `log`, without a key on a port of the kernel's choice where
    /// `arguments` name none.
    pub(crate) fn start(arguments: &[&str], log: impl Into<Stdio>) -> Self {
        let mut command = Command::new(VTARE);
        command.args(["serve", "--json"]).args(arguments).env_remove("VTARE_KEY").stderr(log);
        Self::of(&mut command)
    }

    /// Starts `command`, which must be `vtare serve --json`.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the responder starts");
        let mut out = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("stdout is readable");
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: '{line}'"));
        Self { process, out, ready }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        self.ready["listen"].as_str().expect("the ready line has the address")
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its own memory, without the pages of its program, kB.
    pub(crate) fn memory_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("every kernel has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.try_wait().expect("it is a child of this process").is_none()
    }

    /// Sends this number of datagrams of one byte, which belong to no session.
    pub(crate) fn pester(&self, datagrams: usize) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        for _ in 0..datagrams {
            socket.send_to(b"x", self.address()).expect("loopback takes it");
        }
    }

    /// Opens a session as a client does, and gives the number of its probes that were lost of 20.
    pub(crate) fn probes_lost(&self) -> u64 {
        let outcome = vtare_line(&format!("rtt {} --count 20 --rate 200 --json", self.address()));
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        outcome.json()["cells"][0]["lost"].as_u64().expect("losses are counted")
    }

    /// Ends it as systemd does, and gives the exit status and what came on stdout after the ready line.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<Value>) {
        assert!(Command::new("kill").arg(self.id().to_string()).status().expect("kill is there").success());
        until("the responder has ended after SIGTERM", || !self.is_alive());
        let status = self.process.wait().expect("it is a child of this process");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("it is text");
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: '{line}'"));
        (status, rest.lines().map(parse).collect())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Prints the line of one attack for `make test-attacks`.
pub(crate) fn survived(name: &str, figures: impl Display) {
    println!("ATTACK {name}: survived, {figures}");
}
