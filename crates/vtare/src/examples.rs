//! Two examples of each command, shown below its help.

use clap::Command;

/// A command with two examples of it: what follows `vtare`, and what it does.
type Examples = (&'static str, [(&'static str, &'static str); 2]);

/// In the order of the help. The commands of the lab have theirs in the lab.
const EXAMPLES: [Examples; 26] = [
    (
        "check",
        [
            ("check", "the verdict, its cause and what to change"),
            ("check --fail-if 'status worse than usable'", "exit code 1 on a machine that is too noisy"),
        ],
    ),
    (
        "timer",
        [
            ("timer --cpu 0", "every source of this CPU, on one CPU"),
            ("timer --all-cpus --seconds 60", "does the clock step back between CPUs? Exit code 1 where it does"),
        ],
    ),
    (
        "sleep",
        [
            ("sleep --target 1ms --method usleep,adaptive", "how late a sleep of 1 ms wakes, by two methods"),
            ("sleep --target 100us --fail-if 'p99 > 50us'", "exit code 1 where p99 exceeds 50 us"),
        ],
    ),
    (
        "counter",
        [
            ("counter --seconds 60 --max-exponent 4", "five arguments in about a minute"),
            ("counter --language java --unit-ms 1 --cpu 1", "the same work in Java, on one CPU"),
        ],
    ),
    (
        "noise",
        [
            ("noise", "10 s on each CPU"),
            ("noise --cpu 1 --seconds 60 --threshold 1us", "one CPU for longer, and shorter gaps"),
        ],
    ),
    (
        "rtt",
        [
            ("rtt 10.0.0.2 --key-file key --cpu 0 --seconds 5", "to `vtare serve` there, 1,000 packets a second"),
            ("rtt 192.0.2.1 --icmp --rate 10 --blocking", "as ping does, to any host"),
        ],
    ),
    (
        "avb",
        [
            ("avb 10.0.0.2 --key-file key --count 5", "five estimates, with the interval of their median"),
            ("avb 10.0.0.2 --key-file key --method pathload", "by a published method"),
        ],
    ),
    (
        "path",
        [
            ("path 10.0.0.2 --key-file key", "both directions, in at most 5 s"),
            ("path 10.0.0.2 --key-file key --fail-if 'rtt_at_110 > 100ms'", "exit code 1 above 100 ms under load"),
        ],
    ),
    (
        "rpm",
        [
            ("rpm 10.0.0.2:4043", "down and up, to `vtare serve --rpm 0.0.0.0:4043` there"),
            ("rpm nq.example --max-time 60s --fail-if 'rpm < 1000'", "exit code 1 below 1,000 round trips a minute"),
        ],
    ),
    (
        "throughput",
        [
            ("throughput --tx p0 --rx p1 --flow 02:00:00:00:00:01/198.19.0.1 --frame 64,1518", "one guest, two sizes"),
            (
                "throughput --tx p0 --rx p1 --flow 02:00:00:00:00:01 --flow 02:00:00:00:00:02 --loaded 1,2 --cpu 0",
                "two guests, one and both of them loaded",
            ),
        ],
    ),
    (
        "capture",
        [
            ("capture veth3 --out s.parquet", "every probe that passes there, until Ctrl-C"),
            ("capture --read old.pcap --icmp", "round trips in a file of tcpdump"),
        ],
    ),
    (
        "load",
        [
            ("load cpu --threads 8 --seconds 60", "eight busy threads for a minute"),
            ("load net --to 10.0.0.2:5001 --rate 150M --arrivals poisson", "cross traffic; there: load net --sink"),
        ],
    ),
    (
        "link",
        [
            ("link va vb --rate 1G --delay 20ms --loss 1%", "a wide-area link between two interfaces"),
            ("link va vb --rate-steps 2G:10s,7G:10s --log truth.parquet", "a capacity that changes, and its log"),
        ],
    ),
    (
        "serve",
        [
            ("serve", "make a key and show the line to type on the other machine"),
            ("serve --key-file key --cpu 1 --spin", "answer without wake-ups, on a CPU of its own"),
        ],
    ),
    (
        "clock",
        [
            (
                "clock --witness 10.0.0.2,10.0.0.3,10.0.0.4 --key-file key",
                "three `vtare serve`, of which one may be wrong",
            ),
            ("clock --witness 10.0.0.2 --page utc", "one witness, and a page of your own: set VTARE_UTC_PAGE=utc"),
        ],
    ),
    (
        "selftest",
        [
            ("selftest", "every fault, in one to two minutes; exit code 1 where one is missed"),
            ("selftest --quick --json > selftest.json", "in about 20 s, as one JSON document"),
        ],
    ),
    (
        "exec",
        [
            ("exec --report -- python3 loop.py", "its sleeps end on time; what was called is counted"),
            ("exec --clock unordered --sleep two_phase -- ./server", "a clock at half the cost, sleeps as HPTSleep"),
        ],
    ),
    (
        "completions",
        [
            ("completions bash > ~/.local/share/bash-completion/completions/vtare", "for bash, from its next start on"),
            ("completions fish > ~/.config/fish/completions/vtare.fish", "for fish"),
        ],
    ),
    (
        "measure",
        [
            ("measure run.json", "carry out the run and write its samples"),
            ("measure run.json --json", "and print the result"),
        ],
    ),
    (
        "agent",
        [
            ("agent --directory /tmp/work", "over stdin and stdout, files below one directory"),
            ("agent --init", "as the first process of a micro guest, over a virtio port"),
        ],
    ),
    (
        "link-counter",
        [
            ("link-counter job.json", "bins into link_counter.parquet beside the job"),
            ("link-counter job.json --out bins.parquet", "into another file"),
        ],
    ),
    (
        "shaper",
        [
            ("shaper job.json --log steps.jsonl", "make the steps and log when each took effect"),
            ("shaper --log /tmp/steps.jsonl /tmp/job.json", "the same in another directory"),
        ],
    ),
    (
        "trials",
        [
            ("trials < requests.jsonl > answers.jsonl", "a request a line, an answer for each"),
            (r#"trials --request '{"programs": [{"words": ["true"]}], "most_s": 9}'"#, "one trial"),
        ],
    ),
    (
        "costs",
        [
            ("costs", "what a system call, a page fault and others take here"),
            ("costs --count", "what each of the small programs asks of the kernel"),
        ],
    ),
    (
        "requests",
        [
            ("requests 127.0.0.1:8080", "latencies of GET / at a fixed rate, and the highest rate"),
            (r"requests 127.0.0.1:6379 --request 'PING\r\n'", "the same of another protocol"),
        ],
    ),
    (
        "schema",
        [
            ("schema > run.schema.json", "what `vtare measure` accepts"),
            ("schema --columns", "the columns of samples and logs"),
        ],
    ),
];

/// `command` with the examples of each subcommand below its help.
pub(crate) fn with_examples(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (name, examples)| {
        command.mut_subcommand(name, |one| {
            let before = one.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
            one.after_help(format!("{before}Examples:\n{}", text(examples)))
        })
    })
}

fn text(examples: &[(&str, &str); 2]) -> String {
    examples.map(|(line, what)| format!("  vtare {line}\n      {what}")).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command line as a shell gives them, without what it redirects.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate().flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        parts.take_while(|word| !matches!(word.as_str(), "<" | ">")).collect()
    }

    #[test]
    fn every_command_has_two_examples_which_it_accepts() {
        let parser = crate::cli::parser();
        let shown: Vec<&str> = parser
            .get_subcommands()
            .map(Command::get_name)
            .filter(|name| !["generate", "help"].contains(name) && crate::commands::replaced(name).is_none())
            .collect();
        assert_eq!(shown, EXAMPLES.map(|(name, _)| name));
        for (name, examples) in EXAMPLES {
            for (line, _) in examples {
                let words: Vec<String> = std::iter::once("vtare".to_owned()).chain(words(line)).collect();
                assert_eq!(words[1], name);
                let parsed = parser.clone().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("it is not accepted"));
            }
        }
    }
}
