//! The command line as people meet it: help, errors, exit codes.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Outcome, Place, VTARE, golden, vtare, vtare_line};

#[test]
fn the_help_is_as_agreed() {
    for (line, file) in [
        ("--help", "help"),
        ("help", "help"),
        ("help --all", "help_all"),
        ("timer --help", "help_timer"),
        ("sleep --help", "help_sleep"),
        ("counter --help", "help_counter"),
        ("noise --help", "help_noise"),
        ("load --help", "help_load"),
        ("link --help", "help_link"),
        ("exec --help", "help_exec"),
        ("measure --help", "help_measure"),
        ("schema --help", "help_schema"),
        ("serve --help", "help_serve"),
        ("clock --help", "help_clock"),
        ("throughput --help", "help_throughput"),
        ("agent --help", "help_agent"),
    ] {
        let outcome = vtare_line(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        golden(&format!("tests/golden/{file}.txt"), &outcome.stdout);
    }
}

#[test]
fn wrong_usage_exits_with_2_and_names_what_is_wanted() {
    vtare_line("").refused(2, &["Usage: vtare COMMAND [OPTIONS]", "Start with: vtare check"]);
    vtare_line("tymer").refused(2, &["unknown command 'tymer'. Did you mean 'timer'?"]);
    vtare_line("help tymer").refused(2, &["unknown command 'tymer'. Did you mean 'timer'?"]);
    vtare_line("help --all sleep").refused(2, &["cannot be used with"]);
    vtare_line("timer --source rdtscx").refused(2, &["rdtscx", "is not one of rdtsc"]);
    vtare_line("timer --samples many").refused(2, &["'many'", "--samples", "not a whole number"]);
    vtare_line("timer --seconds 0").refused(2, &["'0' is not a number above 0"]);
    vtare_line("throughput --tx lo --rx lo").refused(2, &["--flow"]);
    let guest = "--flow 02:00:00:00:00:01";
    vtare_line(&format!("throughput --tx lo --rx lo {guest} --loaded 2")).refused(2, &["loaded is 2: use 1 to 1"]);
    vtare_line(&format!("throughput --tx lo --rx lo {guest} {guest} --loaded 1 --slight 50%"))
        .refused(2, &["slight share is 0.5: use less than 0.5000"]);
    vtare_line(&format!("throughput --tx lo --rx lo {guest} --frame 40"))
        .refused(2, &["frame_byte (--frame) is 40: use a whole number from 64 to 9018"]);
    vtare_line("sleep --method nap").refused(2, &["'nap' is not one of usleep"]);
    vtare_line("sleep --method usleap").refused(2, &["'usleap' is not one of usleep", "Did you mean 'usleep'?"]);
    vtare_line("sleep --traget 1ms").refused(2, &["'--traget'", "'--target'"]);
    vtare_line("sleep --target 1x").refused(2, &["'1x' is not a time. Write it as 500ns"]);
    vtare_line("sleep --target 1ms,1000us").refused(2, &["target_ns has 1000000 twice"]);
    vtare_line("sleep --fifo 100").refused(2, &["fifo is 100: use a whole number from 1 to 99"]);
    vtare_line("sleep --tolerance 5q").refused(2, &["'5q' is not a time"]);
    vtare_line("counter --unit-ms 0.001").refused(2, &["unit_ms is 0.001: use a number from 0.05 to 1000"]);
    vtare_line("counter --seconds 0.5").refused(2, &["--seconds is 0.5: use 102.300 or more"]);
    vtare_line("counter --seconds 9 --unit-ms 1").refused(2, &["cannot be used with"]);
    vtare_line("load net --to nohost:5001 --rate 1M")
        .refused(2, &["'nohost:5001': no address in digits", "10.0.0.2:8462"]);
    vtare_line("load net --to 127.0.0.1:9 --rate 0").refused(2, &["'0' is not a rate in bit/s above 0"]);
    vtare_line("avb 127.0.0.1 --max-bytes -5").refused(2, &["'-5' is not a number of bytes above 0"]);
    vtare_line("avb 127.0.0.1 --key-file /nonexistent").refused(2, &["/nonexistent", "vtare serve --new-key FILE"]);
    vtare_line("load net --sink 192.0.2.1:5001 --seconds 1").refused(3, &["name an address of this machine"]);
    vtare_line("exec --clock tsc true").refused(2, &["'tsc'", "auto, ordered, unordered, os"]);
    vtare_line("exec --sleep nap true").refused(2, &["'nap'", "adaptive, two_phase, spin, os"]);
    vtare_line("exec --slack-ns -1 true").refused(2, &["-1"]);
    vtare_line("exec --report r.json -- true").refused(127, &["r.json is in no directory", "--report=FILE"]);
    vtare_line("exec").refused(2, &["<PROGRAM>"]);
}

#[test]
fn a_cpu_that_is_not_allowed_is_refused_with_those_that_are() {
    for instrument in ["timer", "sleep", "counter"] {
        vtare_line(&format!("{instrument} --cpu 4000"))
            .refused(2, &["cpu is 4000: use one that this process may use: "]);
    }
}

#[test]
fn a_limit_with_an_unknown_figure_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let out = place.file("s.parquet");
    let outcome = vtare(["sleep", "--fail-if", "mis_p99_ns > 5", "--out", out.to_str().expect("plain")]);
    outcome.refused(2, &["there is no figure 'mis_p99_ns'. Nearest: miss_p99_ns, "]);
    assert!(place.files().is_empty());
    vtare(["sleep", "--fail-if", "miss_p99_ns"])
        .refused(2, &["no operator in 'miss_p99_ns'. Write FIGURE OPERATOR NUMBER"]);
}

#[test]
fn limits_decide_the_exit_code() {
    let run = |limit: &str| vtare(["timer", "--source", "clock_monotonic", "--samples", "400", "--fail-if", limit]);
    assert_eq!(run("cost_n < 400").code, 0);
    run("cost_n == 400").refused(1, &["limit 'cost_n == 400' crossed: source clock_monotonic: cost_n is 400"]);
    run("cost_p999_ns > 1e9").refused(1, &["undecided", "source clock_monotonic: cost_p999_ns needs 2995 readings"]);
}

#[test]
fn the_lab_is_started_with_its_arguments_or_named_where_it_is_missing() {
    let place = Place::new();
    let start = |path: &str| {
        let mut command = Command::new(VTARE);
        command.args(["run", "plan.toml", "--help", "-x"]).env("PATH", path);
        Outcome::of(command.output().expect("the binary starts"))
    };
    let path = place.path().to_str().expect("plain");
    start(path).refused(3, &["vtare-lab", "make install"]);
    let lab = place.with("vtare-lab", "#!/bin/sh\necho \"$@\"\nexit 7\n");
    std::fs::set_permissions(&lab, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let outcome = start(path);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (7, "run plan.toml --help -x\n"), "{}", outcome.stderr);
}

#[test]
fn nothing_but_the_table_is_printed_into_a_pipe() {
    let outcome = vtare_line("timer --source clock_monotonic --samples 1000 --cpu 0 --seed 5 -v");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(outcome.stdout.starts_with("vtare timer, clock "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("pinned to CPU 0") && !outcome.stdout.contains('\u{1b}'), "{}", outcome.stdout);
}

#[test]
fn help_shows_the_options_of_a_command_as_the_command_does_and_plumbing_still_works() {
    for command in ["sleep", "measure", "link-counter", "schema"] {
        let (asked, own) = (vtare_line(&format!("help {command}")), vtare_line(&format!("{command} --help")));
        assert_eq!((asked.code, &asked.stdout), (0, &own.stdout));
        assert!(own.stdout.contains("Usage: vtare"), "{}", own.stdout);
    }
    let place = Place::new();
    let lab = place.with("vtare-lab", "#!/bin/sh\necho \"$@\"\n");
    std::fs::set_permissions(&lab, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = Command::new(VTARE);
    let outcome = Outcome::of(command.args(["help", "ab"]).env("PATH", place.path()).output().expect("it starts"));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ab --help\n"), "{}", outcome.stderr);
    let mut command = Command::new(VTARE);
    let card = command.args(["check", "--write", "a b.json", "-q"]).env("PATH", place.path()).output();
    let outcome = Outcome::of(card.expect("it starts"));
    assert_eq!(outcome.stdout, "weigh --write card=a b.json --max-time 5min --quiet\n", "{}", outcome.stderr);
}

#[test]
fn each_command_that_help_shows_has_a_man_page_and_each_shell_a_script() {
    let place = Place::new();
    let (man, shells) = (place.file("man/man1"), place.file("shells"));
    let generate = |what: &str, directory: &std::path::Path| {
        let outcome = vtare(["generate".as_ref(), what.as_ref(), directory.as_os_str()]);
        assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "", ""));
    };
    generate("man", &man);
    generate("completions", &shells);
    let read = |path: std::path::PathBuf| std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{path:?}"));
    let scripts = ["vtare.bash", "_vtare", "vtare.fish"].map(|name| read(shells.join(name)));
    let help = vtare_line("help --all").stdout;
    let listed = help.lines().filter(|line| line.starts_with("  "));
    let commands: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"check") && commands.contains(&"papers"), "{help}");
    for command in &commands {
        let page = read(man.join(format!("vtare-{command}.1")));
        let about = help
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{command} ")))
            .expect("it is listed")
            .trim();
        assert!(
            page.contains(&about.replace('-', "\\-").replace('\'', "\\*(Aq")) && page.contains(".SH EXIT STATUS"),
            "{page}"
        );
    }
    assert!(read(man.join("vtare-sleep.1")).contains("\\-\\-tolerance"));
    assert!(read(man.join("vtare.1")).contains("vtare\\-sleep(1)"));
    assert!(!man.join("vtare-generate.1").exists());
    assert!(scripts.iter().all(|script| script.contains("VTARE_COMPLETE")));
    for (shell, script) in ["bash", "zsh", "fish"].iter().zip(&scripts) {
        assert_eq!(&vtare_line(&format!("completions {shell}")).stdout, script);
    }
    let file = place.with("file", "");
    vtare(["generate".as_ref(), "man".as_ref(), file.as_os_str()]).refused(2, &["cannot write", "writable"]);
}

/// The binary beside a lab that prints a tree, and otherwise what it was called with.
fn beside_a_lab(place: &Place) -> impl Fn(&str) -> Outcome {
    let tree = r#"{"schema": "vtare.commands/1", "words": {"plan": ["weekly"]}, "commands": [{"name": "report",
        "about": "Write it", "details": "Twice.", "hidden": false, "examples": [["report store", "write it"]],
        "commands": [{"name": "fast", "about": "Now", "details": "", "hidden": false, "examples": [],
            "commands": [], "parameters": []}],
        "parameters": [{"name": "form", "options": ["--format", "-f"], "value": "FORM", "kind": "choice",
            "choices": ["html", "md"], "help": "Its form.", "default": "html", "required": false, "repeatable": true,
            "hidden": false}]}]}"#;
    let lab = format!("#!/bin/sh\n[ \"$1\" != --commands ] && echo \"$@\" && exit\ncat <<'END'\n{tree}\nEND\n");
    let (program, lab) = (place.with("vtare", ""), place.with("vtare-lab", &lab));
    std::fs::copy(VTARE, &program).expect("the place is writable");
    std::fs::set_permissions(lab, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    move |line| {
        let mut command = Command::new(&program);
        Outcome::of(command.args(line.split_whitespace()).output().expect("it starts"))
    }
}

#[test]
fn options_and_subcommands_of_the_lab_have_man_pages_and_are_completed() {
    let place = Place::new();
    let run = beside_a_lab(&place);
    let man = place.file("man");
    assert_eq!(run(&format!("generate man {}", man.display())).code, 0);
    let page = std::fs::read_to_string(man.join("vtare-report.1")).expect("it was written");
    for wanted in
        ["\\-\\-format", "Its form. [default: html]", "Twice.", "vtare report store", "vtare\\-report\\-fast(1)"]
    {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    assert!(man.join("vtare-report-fast.1").exists() && man.join("vtare-status.1").exists());
    let asked = |words: &[&str]| {
        let mut command = Command::new(place.file("vtare"));
        let output = command.env("VTARE_COMPLETE", "fish").arg("--").args(words).output().expect("it starts");
        Outcome::of(output).stdout
    };
    assert!(asked(&["vtare", "report", "--for"]).starts_with("--format\tIts form. [default: html]"));
    assert_eq!(asked(&["vtare", "report", "fa"]), "fast\tNow\n");
    assert_eq!(asked(&["vtare", "report", "--format", "h"]), "html\n");
    assert_eq!(asked(&["vtare", "status", "--"]).lines().count(), 2);
}

#[test]
fn a_command_of_the_lab_gets_its_words_as_they_were_typed() {
    let place = Place::new();
    let run = beside_a_lab(&place);
    assert_eq!(run("ab -- a -- b --help -h").stdout, "ab -- a -- b --help -h\n");
    assert_eq!(run("-q run x --json").stdout, "run --quiet x --json\n");
    assert_eq!(run("help run").stdout, "run --help\n");
    assert_eq!(run("plot store").stdout, "plot store\n");
    run("statsu x").refused(2, &["unknown command 'statsu'. Did you mean 'status'?"]);
}

#[test]
fn old_names_keep_working_and_say_what_replaced_them() {
    let outcome = vtare_line("torture clock --seconds 0.1 --json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, "`vtare torture` is now `vtare timer --all-cpus`\n"));
    assert_eq!(vtare_line("-q torture clock --seconds 0.1").stderr, "");
    let new = vtare_line("timer --all-cpus --seconds 0.1 --json");
    assert_eq!((new.code, new.stderr.as_str()), (0, ""));
    let keys = |text: &str| match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(document)) => document.keys().cloned().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(keys(&outcome.stdout), keys(&new.stdout));
    vtare_line("timer --path line").refused(2, &["--all-cpus"]);
    for option in ["--cpu 0", "--samples 10", "--out x.parquet", "--fail-if a>1"] {
        vtare_line(&format!("timer --all-cpus {option}")).refused(2, &["cannot be used with"]);
    }
}

#[test]
fn arguments_are_read_before_rights_are_asked_for() {
    let as_user = |line: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]);
        let output = command.arg(crate::common::VTARE).args(line.split(' ')).output().ok()?;
        (!output.stderr.starts_with(b"setpriv:")).then(|| Outcome::of(output))
    };
    for (line, named) in [
        ("link lo nothere0", "no interface nothere0"),
        ("capture nothere0", "no interface 'nothere0'"),
        ("serve --xdp nothere0", "no interface 'nothere0'"),
        ("load io --dir /nothere0", "/nothere0 is no directory"),
        ("sleep --fifo 200", "fifo is 200"),
        ("noise --cpu 9999", "cpu is 9999"),
        ("rtt nothere0.invalid --icmp", "'nothere0.invalid'"),
    ] {
        let Some(outcome) = as_user(line) else {
            eprintln!("skipped: setpriv cannot make this an ordinary user here");
            return;
        };
        outcome.refused(2, &[named]);
    }
    let echo = as_user("rtt 127.0.0.1 --icmp --count 1 -q").expect("it worked above");
    if echo.code != 0 {
        echo.refused(3, &["sudo sysctl -w net.ipv4.ping_group_range=\"65534 65534\""]);
    }
}
