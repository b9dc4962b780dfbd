//! What whoever breaks into the responder finds there.

use std::process::Command;

use crate::common::{Place, VTARE};
use crate::daemon::{Daemon, survived};

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
