//! A log that cannot be written must neither end nor delay the responder: strangers make it write lines.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::daemon::{Daemon, survived};
use crate::common::{Place, VTARE, until};

const LOCAL: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// The last line on stdout: how many lines of the log were dropped.
fn dropped(lines: &[serde_json::Value]) -> u64 {
    let last = lines.last().expect("a last line comes with --json");
    assert_eq!(last["schema"], "vtare.serve_end/1", "{last}");
    last["log_lines_dropped"].as_u64().unwrap_or_else(|| panic!("no count in {last}"))
}

/// Strangers make it log lines that nobody takes: a session beside them goes on, and it ends when asked to.
fn drops_lines_and_serves(mut daemon: Daemon, attack: &str) {
    daemon.pester(20);
    // A control connection is opened and closed, each of which is worth a line.
    let lost = daemon.probes_lost();
    assert!(lost < 20, "all probes were lost");
    assert!(daemon.is_alive());
    let (status, lines) = daemon.end();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(dropped(&lines) > 0, "{lines:?}");
    survived(attack, format!("probes lost {lost} of 20"));
}

#[test]
fn attack_strangers_make_it_log_while_the_reader_of_the_log_has_gone() {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    let daemon = Daemon::start(&LOCAL, writer);
    drop(reader);
    drops_lines_and_serves(daemon, "log_reader_gone");
}

#[test]
fn attack_strangers_make_it_log_while_the_disk_is_full() {
    // Each write fails as on a full disk.
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let daemon = Daemon::start(&LOCAL, full);
    drops_lines_and_serves(daemon, "log_disk_full");
}

#[test]
fn attack_strangers_make_it_log_while_nobody_reads_a_full_pipe() {
    let (_reader, mut writer) = std::io::pipe().expect("a pipe can be made");
    let flags = fcntl_getfl(&writer).expect("it is open");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("it is open");
    let kind = loop {
        if let Err(error) = writer.write(&[b'.'; 1]) {
            break error.kind();
        }
    };
    assert_eq!(kind, ErrorKind::WouldBlock);
    fcntl_setfl(&writer, flags).expect("it is open");

    let daemon = Daemon::start(&LOCAL, writer);
    drops_lines_and_serves(daemon, "log_reader_stalled");
}

/// A file system of 16 KiB; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16k", "vtare-small"]).arg(at);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                eprintln!("skipped: no mount here: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                eprintln!("skipped: no mount here: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn attack_a_disk_that_was_full_gets_the_count_of_dropped_lines_once_it_has_room() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(place.path()) else { return };
    let (log, filler) = (disk.0.join("log"), disk.0.join("filler"));
    let stderr = File::options().create(true).append(true).open(&log).expect("the disk is writable");
    let mut rest = File::create(&filler).expect("the disk is writable");
    while rest.write(&[0; 512]).is_ok() {}
    let mut daemon = Daemon::start(&LOCAL, stderr);
    daemon.pester(20);
    let lost = daemon.probes_lost();
    assert!(daemon.is_alive());
    std::fs::remove_file(&filler).expect("it is there");
    drop(rest);
    let read = || std::fs::read_to_string(&log).expect("the log is text");
    until("the log reports the lines that were dropped", || {
        daemon.pester(1);
        read().contains("log lines were dropped")
    });
    let (status, lines) = daemon.end();
    assert_eq!(status.code(), Some(0), "{status}");
    let text = read();
    let line = text.lines().find(|line| line.contains("log lines were dropped")).expect("seen above");
    let count: u64 = line.rsplit('=').next().and_then(|count| count.trim().parse().ok()).expect("it has a count");
    assert_eq!(dropped(&lines), count, "{text}");
    assert!(text.contains("ended:"), "{text}");
    survived("log_disk_full_and_freed", format!("probes lost {lost} of 20"));
}

#[test]
fn attack_strangers_make_it_log_into_a_file_at_its_size_limit() {
    let place = Place::new();
    let log = place.with("log", "");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$0\" serve --json --listen 127.0.0.1:0 2>>\"$1\"", VTARE]).arg(&log);
    let mut daemon = Daemon::of(command.env_remove("VTARE_KEY"));
    daemon.pester(20);
    let lost = daemon.probes_lost();
    assert!(daemon.is_alive());
    let (status, lines) = daemon.end();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(dropped(&lines) > 0, "{lines:?}");
    survived("log_file_size_limit", format!("probes lost {lost} of 20"));
}
