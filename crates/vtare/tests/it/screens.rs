//! What each command prints for people without `-v`: few lines of 80 columns, the answer first.

use crate::common::vtare_line;
use crate::common::wire::Responder;

/// Lines that are typed again, or name a file, are never broken.
const WHOLE: [&str; 3] = ["Try: ", "samples: ", "      "];

/// The command line and the most lines of its screen.
const HERE: [(&str, usize); 7] = [
    ("check --seconds 5", 8),
    ("timer --seconds 0.1", 14),
    ("timer --all-cpus --seconds 0.1", 8),
    ("sleep --seconds 0.1", 10),
    ("counter --batches 2 --calls 4 --max-exponent 1 --unit-ms 1", 8),
    ("noise --seconds 0.1", 8),
    ("load cpu --threads 1 --seconds 0.1", 2),
];
const WITH_FAR_END: [(&str, usize); 3] = [("rtt {} --count 200", 8), ("avb {}", 8), ("path {}", 8)];

#[test]
fn a_screen_is_few_lines_of_at_most_80_columns_and_begins_with_the_answer() {
    let responder = Responder::on_loopback();
    let lines = HERE.iter().chain(&WITH_FAR_END).map(|(line, most)| (line.replace("{}", &responder.address), *most));
    for (line, most) in lines {
        let outcome = vtare_line(&line);
        assert_eq!(outcome.code, 0, "{line}: {}", outcome.stderr);
        let screen: Vec<&str> = outcome.stdout.lines().collect();
        assert!((1..=most).contains(&screen.len()), "{line}: {} lines of {most}\n{}", screen.len(), outcome.stdout);
        let wide = |text: &&&str| text.chars().count() > 80 && WHOLE.iter().all(|start| !text.starts_with(start));
        assert_eq!(screen.iter().find(wide), None, "{line}");
    }
}
