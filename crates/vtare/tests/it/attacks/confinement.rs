//! What whoever breaks into the responder finds there.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::daemon::{Daemon, survived};
use crate::common::wire::new_key;
use crate::common::{Place, VTARE, vtare_line};

#[test]
fn attack_descriptors_that_the_starter_left_open_are_not_open_in_the_responder() {
    let place = Place::new();
    let secret = place.with("secret", "of the starter");
    let mut command = Command::new("sh");
    // One from the start of the numbers, and one far behind them.
    let script = "exec 5<\"$1\" 9<\"$1\"; exec \"$0\" serve --json --listen 127.0.0.1:0 2>/dev/null";
    command.args(["-c", script, VTARE]).arg(&secret).env_remove("VTARE_KEY");
    let daemon = Daemon::of(&mut command);
    let directory = format!("/proc/{}/fd", daemon.id());
    let Ok(entries) = std::fs::read_dir(&directory) else {
        eprintln!("skipped: only root may list {directory}");
        return;
    };
    let open: Vec<_> = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    assert!(open.len() > 3, "{open:?}");
    assert!(!open.iter().any(|link| link.ends_with("secret")), "{open:?}");
    survived("inherited_descriptors", "0 of 2 are open");
}

/// How often these bytes are in the memory of a process; `None`, with the reason on stderr, where this user may not
/// read it.
fn copies(process: u32, wanted: &[u8]) -> Option<usize> {
    let (maps, memory) = (format!("/proc/{process}/maps"), format!("/proc/{process}/mem"));
    let (Ok(maps), Ok(mut memory)) = (std::fs::read_to_string(maps), File::open(memory)) else {
        eprintln!("skipped: only root may read the memory of a process that gave up its dumps");
        return None;
    };
    let mut count = 0;
    for line in maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw"))) {
        let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("maps have ranges");
        let number = |text| u64::from_str_radix(text, 16).expect("addresses are hexadecimal");
        let (from, to) = (number(from), number(to));
        memory.seek(SeekFrom::Start(from)).expect("it has this address");
        let mut bytes = vec![0; (to - from) as usize];
        // Some pages, as those of the kernel's clock, cannot be read.
        if memory.read_exact(&mut bytes).is_ok() {
            count += bytes.windows(wanted.len()).filter(|window| *window == wanted).count();
        }
    }
    Some(count)
}

#[test]
fn attack_memory_of_the_responder_holds_each_key_once_and_locked() {
    let place = Place::new();
    let files = ["old", "new"].map(|name| place.file(name));
    files.iter().for_each(|file| new_key(file));
    let [old, new] = files.each_ref().map(|file| file.to_str().expect("plain"));
    let daemon = Daemon::start(&["--listen", "127.0.0.1:0", "--key-file", old, "--key-file", new], Stdio::null());
    assert_eq!(daemon.ready["keys"], 2);
    for _ in 0..5 {
        for file in [old, new] {
            let line = format!("rtt {} --key-file {file} --count 1 --json", daemon.address());
            assert_eq!(vtare_line(&line).code, 0, "both keys let clients in");
        }
    }
    let mut found = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("it was written");
        let digits = text.trim();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        let bytes: Vec<u8> = (0..32).map(|index| byte(2 * index)).collect();
        let Some(of_bytes) = copies(daemon.id(), &bytes) else { return };
        found.push((of_bytes, copies(daemon.id(), digits.as_bytes()).expect("it was read before")));
    }
    assert_eq!(found, [(1, 0), (1, 0)], "copies of the key and of its digits");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).expect("it runs");
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("every kernel has it");
    assert_ne!(locked.split_whitespace().next(), Some("0"), "{locked}");
    survived("key_copies", "copies of each key 1, of its digits 0");
}

#[test]
fn attack_a_key_file_that_others_can_read_or_that_is_none_is_refused() {
    let place = Place::new();
    let file = place.file("key");
    new_key(&file);
    let path = file.to_str().expect("plain");
    for mode in [0o644, 0o640, 0o606] {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
        for line in [format!("serve --key-file {path}"), format!("rtt 127.0.0.1 --key-file {path}")] {
            vtare_line(&line).refused(2, &[&format!("{mode:04o}"), &format!("chmod 600 {path}")]);
        }
    }
    let fifo = place.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    let fifo = fifo.to_str().expect("plain");
    vtare_line(&format!("serve --key-file {fifo}")).refused(2, &["a FIFO", "not a regular file", "VTARE_KEY"]);
    vtare_line("serve --key-file /dev/zero").refused(2, &["a device"]);
    vtare_line("serve --key-file /tmp").refused(2, &["a directory"]);
    let three = format!("serve --key-file {path} --key-file {path} --key-file {path}");
    vtare_line(&three).refused(2, &["names 3 keys", "use 2 or fewer"]);
    survived("exposed_key_files", "7 of 7 refused");
}
