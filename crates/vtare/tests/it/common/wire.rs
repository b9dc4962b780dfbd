//! Real paths for tests of the binary: a responder process, and two network namespaces joined by a veth pair.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::common::{Outcome, VTARE, vtare_line};

/// `vtare serve`, ended when dropped.
pub(crate) struct Responder {
    process: Child,
    /// Where it listens.
    pub(crate) address: String,
    /// Where it reflects STAMP packets.
    pub(crate) stamp: Option<String>,
}

impl Responder {
    /// Sends it a signal, by name.
    #[allow(dead_code, reason = "each test file uses its part")]
    pub(crate) fn signal(&self, name: &str) {
        let words = [format!("-{name}"), self.process.id().to_string()];
        assert!(Command::new("kill").args(words).status().expect("kill is there").success(), "it still runs");
    }

    /// A responder for this host only, without a key, on a port of the kernel's choice.
    pub(crate) fn on_loopback() -> Self {
        Self::start(Command::new(VTARE).args(["serve", "--listen", "127.0.0.1:0", "--json"]))
    }

    /// Starts `command`, which must be `vtare serve --json`, and waits until it is ready.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the responder starts");
        let mut line = String::new();
        let out = process.stdout.as_mut().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it reports that it is ready");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in: {line}"));
        let address = ready["listen"].as_str().expect("it reports its address").to_owned();
        let stamp = ready["stamp"].as_str().map(str::to_owned);
        Self { process, address, stamp }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Two network namespaces joined by a veth pair: 10.111.0.1 here, 10.111.0.2 to 10.111.0.4 there. Removed when dropped.
pub(crate) struct Wire {
    here: String,
    there: String,
}

impl Wire {
    /// Makes them; `None`, with the reason on stderr, where this user or machine cannot.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("vtare-test{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let wire = Self { here: format!("{name}-a"), there: format!("{name}-b") };
        let made = run(&["ip", "netns", "add", &wire.here]).and_then(|()| {
            run(&["ip", "netns", "add", &wire.there])?;
            run(&[
                "ip",
                "link",
                "add",
                "va",
                "netns",
                &wire.here,
                "type",
                "veth",
                "peer",
                "name",
                "vb",
                "netns",
                &wire.there,
            ])?;
            run(&["ip", "-n", &wire.here, "addr", "add", "10.111.0.1/24", "dev", "va"])?;
            for last in ["2", "3", "4"] {
                run(&["ip", "-n", &wire.there, "addr", "add", &format!("10.111.0.{last}/24"), "dev", "vb"])?;
            }
            for (namespace, device) in [(&wire.here, "va"), (&wire.there, "vb")] {
                run(&["ip", "-n", namespace, "link", "set", "lo", "up"])?;
                run(&["ip", "-n", namespace, "link", "set", device, "up"])?;
            }
            Ok(())
        });
        match made {
            Ok(()) => Some(wire),
            Err(reason) => {
                eprintln!("skipped: no network namespaces here: {reason}");
                None
            }
        }
    }

    /// The names of the two namespaces.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.here, &self.there)
    }

    /// Runs a program on this side; `None`, with the reason on stderr, where it fails.
    pub(crate) fn here(&self, command: &str) -> Option<String> {
        self.inside(&self.here, command)
    }

    /// As [`Wire::here`], on the other side.
    pub(crate) fn there(&self, command: &str) -> Option<String> {
        self.inside(&self.there, command)
    }

    fn inside(&self, namespace: &str, command: &str) -> Option<String> {
        let output = Command::new("ip").args(["netns", "exec", namespace, "sh", "-c", command]).output().ok()?;
        if output.status.success() {
            return Some(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        eprintln!("skipped: '{command}': {}", String::from_utf8_lossy(&output.stderr));
        None
    }

    /// Runs `vtare` on this side.
    pub(crate) fn vtare(&self, line: &str) -> Outcome {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.here, VTARE]).args(line.split_whitespace());
        Outcome::of(command.output().expect("ip was there before"))
    }

    /// As [`Wire::vtare`], with no rights but those over the network: it may not load programs. `None`, with the
    /// reason, where that is not possible.
    pub(crate) fn vtare_without_programs(&self, line: &str) -> Option<Outcome> {
        let least = ["setpriv", "--bounding-set", "-all,+net_raw,+net_admin,+sys_nice"];
        let mut trial = Command::new("ip");
        if !trial
            .args(["netns", "exec", &self.here])
            .args(least)
            .arg("true")
            .output()
            .is_ok_and(|it| it.status.success())
        {
            eprintln!("skipped: no setpriv here that drops rights");
            return None;
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.here]).args(least).arg(VTARE).args(line.split_whitespace());
        Some(Outcome::of(command.output().expect("ip was there before")))
    }

    /// A responder on the other side at `listen`, with the key in `key`.
    pub(crate) fn responder(&self, key: &Path, listen: &str) -> Responder {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.there, VTARE, "serve", "--json", "--listen", listen, "--key-file"]);
        Responder::start(command.arg(key))
    }

    /// As [`Wire::responder`] on all addresses, with the kernel program at its interface; `None`, with the reason,
    /// where the kernel refuses it.
    pub(crate) fn responder_in_kernel(&self, key: &Path) -> Option<Responder> {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.there,
            VTARE,
            "serve",
            "--listen",
            "0.0.0.0:8462",
            "--xdp",
            "vb",
            "--key-file",
        ]);
        let mut trial = command.arg(key).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(trial.stdout.as_mut()?).read_line(&mut line).ok()?;
        if let Ok(ready) = serde_json::from_str::<Value>(&line) {
            assert_eq!(ready["xdp"]["interface"], "vb");
            return Some(Responder { process: trial, address: "10.111.0.2:8462".to_owned(), stamp: None });
        }
        let outcome = trial.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert!(errors.contains("not permitted") || errors.contains("not supported"), "{errors}");
        eprintln!("skipped: {errors}");
        None
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for namespace in [&self.here, &self.there] {
            let _gone = Command::new("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let Output { status, stderr, .. } =
        Command::new(words[0]).args(&words[1..]).output().map_err(|error| format!("{}: {error}", words[0]))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&stderr).trim()))
    }
}

/// A new key in `path`.
pub(crate) fn new_key(path: &Path) {
    let outcome = vtare_line(&format!("serve --new-key {}", path.display()));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}
