//! The responder as a process of its own, so that its memory is its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use vtare_control::PresharedKey;

pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) key: PresharedKey,
    pub(crate) descriptor_limit: usize,
    log: JoinHandle<String>,
    key_file: PathBuf,
}

#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now_kb: u64,
    pub(crate) peak_kb: u64,
}

impl Daemon {
    pub(crate) fn start(vtare: &str) -> Result<Self, String> {
        let key_file = std::env::temp_dir().join(format!("vtare-bench-serve-{}.key", std::process::id()));
        let key = PresharedKey::generate().map_err(|error| error.to_string())?;
        key.write(&key_file).map_err(|error| error.to_string())?;
        let mut child = Command::new(vtare)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--key-file"])
            .arg(&key_file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {vtare}: {error}; give it with --vtare FILE"))?;
        let log = collect(child.stderr.take());
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let ready: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("{vtare} serve did not get ready: {error}: {line}"))?;
        let address =
            ready["listen"].as_str().and_then(|text| text.parse().ok()).ok_or("no address in the ready line")?;
        let descriptor_limit = ready["confinement"]["descriptors"].as_u64().ok_or("no bound of descriptors")? as usize;
        Ok(Self { child, address, key, descriptor_limit, log, key_file })
    }

    pub(crate) fn memory(&self) -> Result<Memory, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok()).ok_or(format!("no {name}"))
        };
        Ok(Memory { now_kb: field("VmRSS:")?, peak_kb: field("VmHWM:")? })
    }

    /// The most descriptors that the responder was seen with until `stop`.
    pub(crate) fn watch_descriptors(&self, stop: &AtomicBool) -> usize {
        let mut most = 0;
        while !stop.load(Ordering::Relaxed) {
            most = most.max(std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count));
            if crate::pause(vtare_units::Span::from_millis(50)).is_err() {
                break;
            }
        }
        most
    }

    /// Ends the responder and gives what it logged.
    pub(crate) fn end(mut self) -> Result<String, String> {
        let outcome = Command::new("kill").arg(self.child.id().to_string()).status();
        outcome.map_err(|error| format!("kill: {error}"))?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let _ = std::fs::remove_file(&self.key_file);
        let log = self.log.join().map_err(|_| "the log's thread panicked")?;
        if status.success() { Ok(log) } else { Err(format!("vtare serve ended with {status}: {log}")) }
    }
}

fn collect(stderr: Option<ChildStderr>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut log = String::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_string(&mut log);
        }
        log
    })
}

/// The number before "dropped by the kernel" in the responder's last line.
pub(crate) fn dropped_by_kernel(log: &str) -> Option<u64> {
    let before = log.lines().last()?.split(" dropped by the kernel").next()?;
    before.rsplit(' ').next()?.parse().ok()
}
