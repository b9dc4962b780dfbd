//! The library as the dynamic linker loads it, under programs that every system has. The conformance suite is in
//! tests/preload.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The library, built for these tests: for integration tests cargo itself builds only libraries that they could link,
/// which nothing may do with this one.
fn library() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let own = std::env::current_exe().expect("this test is a file");
        let profile = own.ancestors().nth(2).expect("tests stand in PROFILE/deps");
        // As `make programs` does: with `vtare` the shared crates have the program's features, and are not compiled
        // again.
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--lib", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
            .args(["--package", "vtare-capi", "--package", "vtare-preload", "--package", "vtare"])
            .arg("--target-dir")
            .arg(profile.parent().expect("a profile stands in the target directory"))
            .status();
        assert!(built.is_ok_and(|status| status.success()), "cargo builds the library");
        profile.with_file_name("debug").join("libvtare_preload.so")
    });
    &BUILT
}

fn under(settings: Option<&str>, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("LD_PRELOAD", library()).env_remove("VTARE_EXEC");
    if let Some(settings) = settings {
        command.env("VTARE_EXEC", settings);
    }
    command.output().expect("every system has a shell")
}

#[test]
fn programs_run_and_sleep_under_every_setting() {
    for clock in ["auto", "ordered", "unordered", "os"] {
        for sleep in ["adaptive", "two_phase", "spin", "os"] {
            let settings = format!("clock={clock},sleep={sleep}");
            let output = under(Some(&settings), "sleep 0.002; date >/dev/null; exit 7");
            assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(7), [].as_slice()), "{settings}");
        }
    }
}

#[test]
fn a_library_preloaded_by_hand_sets_the_slack_and_one_shown_what_to_do_leaves_it_alone() {
    let slack = |settings| {
        let output = under(settings, "cat /proc/self/timerslack_ns");
        String::from_utf8(output.stdout).expect("a number").trim().to_owned()
    };
    assert_eq!(slack(None), "1");
    let plain = Command::new("cat").arg("/proc/self/timerslack_ns").output().expect("cat runs");
    assert_eq!(slack(Some("sleep=os")), String::from_utf8(plain.stdout).expect("a number").trim());
}

#[test]
fn a_report_that_is_none_is_not_written_to() {
    let file = std::env::temp_dir().join(format!("vtare-no-report-{}", std::process::id()));
    std::fs::write(&file, "not a report").expect("the temporary directory is writable");
    let output = under(Some(&format!("report={}", file.display())), "sleep 0.001");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), [].as_slice()));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "not a report");
    std::fs::remove_file(file).expect("it is ours");
}

#[test]
fn unknown_settings_are_named_and_the_program_runs_on() {
    let output = under(Some("sleep=nap"), "exit 3");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert!(message.contains("VTARE_EXEC: `nap` is unknown: use one of adaptive, two_phase, spin, os"), "{message}");
}
