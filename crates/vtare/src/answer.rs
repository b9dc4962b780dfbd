//! A result in words, as a terminal shows it above the figures: the answer in one sentence, what limits it, and the
//! command that changes that. `vtare check` and the instruments have this shape in common.

use std::fmt;
use std::io::IsTerminal as _;

use serde::Serialize;

use crate::document::AnswerDocument;
use crate::note::{CPU_QUOTA, Note};
use crate::sentences::answer as words;
use crate::terminal::{self, wrap};

/// Lines are no longer than this, nor than the terminal.
pub(crate) const WIDTH: usize = 80;

/// What hits 1 in 100 readings is in their p99.
pub(crate) const IN_P99: f64 = 0.01;
/// Below this share of time lost there is nothing worth a change of the machine.
pub(crate) const LOST_WORTH_A_CHANGE: f64 = 0.001;

/// What an answer amounts to: only its colour depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerdictLevel {
    /// Nothing limits it.
    Good,
    /// Something does.
    Poor,
    /// There is no answer.
    Undecided,
}

/// What to change, for programs.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Change {
    /// What to do, or why.
    text: String,
    /// The command that does it.
    command: String,
}

/// The answer to what a command measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    sentence: String,
    found: bool,
    figures: Vec<String>,
    limits: Vec<String>,
    changes: Vec<(String, String)>,
    covered: Vec<String>,
}

impl Answer {
    /// An answer that nothing limits yet.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        let (figures, limits, changes, covered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { sentence: sentence.into(), found: true, figures, limits, changes, covered }
    }

    /// The sentence where there is no answer.
    pub(crate) fn none(sentence: impl Into<String>) -> Self {
        Self { found: false, ..Self::new(sentence) }
    }

    /// Adds a line with a figure that supports the answer, the most important first.
    pub(crate) fn figure(&mut self, text: impl Into<String>) {
        self.figures.push(text.into());
    }

    /// Adds why the answer is a bound, or may be off.
    pub(crate) fn limit(&mut self, text: impl Into<String>) {
        self.limits.push(text.into());
    }

    /// Adds what to do about it, and the command that does it. A command stands once.
    pub(crate) fn change(&mut self, text: impl Into<String>, command: impl fmt::Display) {
        let command = command.to_string();
        if self.changes.iter().all(|(_, known)| *known != command) {
            self.changes.push((text.into(), command));
        }
    }

    /// Takes a note over, so that it is shown once; whether there is one of that id.
    pub(crate) fn covers(&mut self, notes: &[Note], id: &str) -> bool {
        let found = notes.iter().any(|note| note.id == id);
        if found {
            self.covered.push(id.to_owned());
        }
        found
    }

    /// Takes the notes of that id over as limits; whether there is one.
    pub(crate) fn limited_by(&mut self, notes: &[Note], id: &str) -> bool {
        self.limits.extend(notes.iter().filter(|note| note.id == id).map(|note| note.text.clone()));
        self.covers(notes, id)
    }

    /// Adds what to do where something takes the CPU from this program's thread, which is on `cpu` or free to move.
    pub(crate) fn free_the_cpu(&mut self, notes: &[Note], cpu: Option<usize>, line: &CommandLine) {
        if self.limited_by(notes, CPU_QUOTA) {
            self.change(words::lift_the_quota(), "vtare check");
            return;
        }
        match (cpu, spare_cpu()) {
            (None, Some(cpu)) => {
                self.covers(notes, "not_pinned");
                self.change(words::pin(), line.with("--cpu", cpu));
            }
            (Some(cpu), _) => self.change(words::find_user_of_that_cpu(), format!("vtare noise --cpu {cpu}")),
            (None, None) => self.change(words::find_user_of_the_cpu(), "vtare noise"),
        }
    }

    /// The notes that the answer does not have.
    pub(crate) fn others<'n>(&self, notes: &'n [Note]) -> Vec<&'n Note> {
        notes.iter().filter(|note| !self.covered.contains(&note.id)).collect()
    }

    fn level(&self) -> VerdictLevel {
        match (self.found, self.limits.is_empty()) {
            (false, _) => VerdictLevel::Undecided,
            (true, true) => VerdictLevel::Good,
            (true, false) => VerdictLevel::Poor,
        }
    }

    /// The answer for programs.
    pub(crate) fn document(&self) -> AnswerDocument<VerdictLevel, Change> {
        let change = |(text, command): &(String, String)| Change { text: text.clone(), command: command.clone() };
        AnswerDocument {
            text: self.sentence.clone(),
            status: Some(self.level()),
            limits: self.limits.clone(),
            advice: self.changes.iter().map(change).collect(),
        }
    }

    /// The sentence alone, coloured, as the first line of a screen.
    pub(crate) fn first_line(&self, shape: Shape) -> String {
        shape.verdict(&self.sentence, self.level(), "")
    }

    /// What limits it.
    pub(crate) fn limits(&self) -> &[String] {
        &self.limits
    }

    /// The sentence, the figures, the limits and the changes as text, which ends with an empty line.
    pub(crate) fn render(&self, shape: Shape) -> String {
        let changes = self.changes.iter().map(|(text, command)| shape.change(text, command)).collect();
        let parts = [
            shape.verdict(&self.sentence, self.level(), "  "),
            self.figures.iter().map(|text| wrap(text, "  ", "    ", shape.width)).collect(),
            shape.section("Limits of this answer", self.limits.iter().map(|text| shape.item(text)).collect()),
            shape.section("What to change", changes),
        ];
        parts.concat() + "\n"
    }

    /// The answer on at most `most` lines: the sentence, what it is limited by, the command that changes that, and as
    /// many figures as there is room for. `notes` may limit any answer; `last` are lines that are never left out.
    pub(crate) fn short(&self, shape: Shape, most: usize, notes: &[Note], last: &[String]) -> String {
        let line = |text: &str| wrap(text, "", "  ", shape.width);
        let sentence = shape.verdict(&self.sentence, self.level(), "");
        // Whatever took the whole process explains the other limits.
        let of_any: Vec<&Note> = notes.iter().filter(|note| LIMITS_OF_ANY.contains(&note.id.as_str())).collect();
        let own = self.limits.iter().filter(|text| of_any.iter().all(|note| note.text != **text));
        let of_any = of_any.iter().map(|note| &note.text);
        let limits: Vec<String> = of_any.chain(own).map(|text| line(text)).collect();
        let change = self.changes.first().map(|(_, command)| format!("Try: {}\n", command.replace('\n', " && ")));
        let last: String = last.iter().map(|text| line(text)).collect();
        // The line on what is left out is always there.
        let mut room = most.saturating_sub(rows(&sentence, shape.width) + rows(&last, shape.width) + 1);
        let mut taken = |text: &String| {
            let fits = rows(text, shape.width) <= room;
            room -= if fits { rows(text, shape.width) } else { 0 };
            fits
        };
        let first_limit: Vec<&String> = limits.iter().take(1).filter(|text| taken(text)).collect();
        let change = change.filter(|text| taken(text)).unwrap_or_default();
        let figures: Vec<String> = self.figures.iter().map(|text| line(text)).filter(|text| taken(text)).collect();
        let other_limits: Vec<&String> = limits.iter().skip(1).take_while(|text| taken(text)).collect();
        let hidden = limits.len() - first_limit.len() - other_limits.len();
        let more = match hidden {
            0 => words::all_figures(),
            1 => words::one_limit_hidden(),
            many => words::limits_hidden(many),
        };
        let limits = [first_limit, other_limits].concat().into_iter().cloned().collect::<String>();
        [sentence, figures.concat(), limits, change, last, more + "\n"].concat()
    }
}

/// Notes that limit the answer of every instrument.
const LIMITS_OF_ANY: [&str; 4] = [CPU_QUOTA, "suspended", "wall_time_set", "samples_lost"];

/// The lines that `text` takes on a terminal, which breaks those that are longer.
fn rows(text: &str, width: usize) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(width).max(1)).sum()
}

/// How text is laid out for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Whether there are colours.
    pub(crate) colour: bool,
    /// Columns.
    pub(crate) width: usize,
}

impl Shape {
    /// That of stdout.
    pub(crate) fn here() -> Self {
        let width = terminal::width().map_or(WIDTH, |columns| columns.min(WIDTH));
        Self { colour: coloured(|name| std::env::var_os(name), std::io::stdout().is_terminal()), width }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The sentence that comes first, `indent` before its first line.
    pub(crate) fn verdict(self, text: &str, level: VerdictLevel, indent: &str) -> String {
        let code = match level {
            VerdictLevel::Good => "1;32",
            VerdictLevel::Poor => "1;33",
            VerdictLevel::Undecided => "1",
        };
        // Each line is painted alone: pagers lose a colour that runs over the end of a line.
        wrap(text, indent, "  ", self.width).lines().map(|line| self.paint(code, line) + "\n").collect()
    }

    /// A heading and what stands below it; nothing where that is empty.
    pub(crate) fn section(self, title: &str, body: String) -> String {
        if body.is_empty() { body } else { format!("\n{}\n{body}", self.paint("1", title)) }
    }

    /// An item of a list.
    pub(crate) fn item(self, text: &str) -> String {
        wrap(text, "  - ", "    ", self.width)
    }

    /// What to change: why, and the lines to type, which are never broken.
    pub(crate) fn change(self, text: &str, command: &str) -> String {
        let commands: String = command.lines().map(|line| format!("      {line}\n")).collect();
        self.item(text) + &commands
    }
}

/// Whether text has colours: NO_COLOR (no-color.org) forbids them, CLICOLOR_FORCE (bixense.com/clicolors) asks for them
/// where there is no terminal either.
fn coloured(variable: impl Fn(&str) -> Option<std::ffi::OsString>, on_terminal: bool) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && (on_terminal || set("CLICOLOR_FORCE").is_some_and(|value| value != "0"))
}

/// The command line of this process, to be given again with other options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine(Vec<String>);

impl CommandLine {
    /// That of this process.
    pub(crate) fn own() -> Self {
        Self(std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    #[cfg(test)]
    pub(crate) fn of(line: &str) -> Self {
        Self(line.split_whitespace().map(str::to_owned).collect())
    }

    /// Without an option that has no value.
    pub(crate) fn without(&self, flag: &str) -> Self {
        Self(self.0.iter().filter(|word| *word != flag).cloned().collect())
    }

    /// With this value of an option, instead of the one that it has.
    pub(crate) fn with(&self, option: &str, value: impl fmt::Display) -> Self {
        let mut words: Vec<String> = Vec::new();
        let mut old = self.0.iter();
        while let Some(word) = old.next() {
            if word == option {
                old.next();
            } else if word.strip_prefix(option).is_none_or(|rest| !rest.starts_with('=')) {
                words.push(word.clone());
            }
        }
        words.extend([option.to_owned(), value.to_string()]);
        Self(words)
    }

    /// As root.
    pub(crate) fn as_root(&self) -> Self {
        Self(std::iter::once("sudo".to_owned()).chain(self.0.iter().cloned()).collect())
    }
}

impl fmt::Display for CommandLine {
    /// As a shell reads it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |word: &str| {
            !word.is_empty() && word.chars().all(|sign| sign.is_ascii_alphanumeric() || "_-./:,=@%+".contains(sign))
        };
        let quoted = |word: &String| {
            if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
        };
        out.write_str(&self.0.iter().map(quoted).collect::<Vec<_>>().join(" "))
    }
}

/// The CPU to pin to: the last that this process may use, since CPU 0 takes the interrupts that have no other place.
/// `None` where there is no choice.
fn spare_cpu() -> Option<usize> {
    let cpus = vtare_sys::sched::allowed_cpus().ok()?;
    cpus.iter().copied().max().filter(|_| cpus.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Shape = Shape { colour: false, width: 40 };

    #[test]
    fn the_sentence_comes_first_then_its_limits_then_the_commands() {
        let mut answer = Answer::new("A round trip to 10.0.0.2 takes 45.2 us in the median.");
        answer.limit("The sender was late.");
        answer.change("Keep it on a CPU of its own.", "vtare rtt 10.0.0.2 --cpu 1 --seconds 10 --rate 1000");
        answer.change("Again.", "vtare rtt 10.0.0.2 --cpu 1 --seconds 10 --rate 1000");
        let shown = "  A round trip to 10.0.0.2 takes 45.2 us\n  in the median.\n\n\
                     Limits of this answer\n  - The sender was late.\n\n\
                     What to change\n  - Keep it on a CPU of its own.\n      vtare rtt 10.0.0.2 --cpu 1 --seconds 10 \
                     --rate 1000\n\n";
        assert_eq!(answer.render(PLAIN), shown);
    }

    #[test]
    fn the_colour_shows_whether_there_is_an_answer_and_whether_something_limits_it() {
        let page = Shape { colour: true, ..PLAIN };
        assert_eq!(Answer::new("a").render(page), "\x1b[1;32m  a\x1b[0m\n\n");
        assert_eq!(Answer::none("a").render(page), "\x1b[1m  a\x1b[0m\n\n");
        let mut limited = Answer::new("a");
        limited.limit("b");
        assert!(limited.render(page).starts_with("\x1b[1;33m  a\x1b[0m\n"));
    }

    #[test]
    fn the_short_answer_keeps_to_its_lines_and_counts_the_limits_it_leaves_out() {
        let mut answer = Answer::new("A round trip takes 45.2 us.");
        assert_eq!(answer.short(PLAIN, 8, &[], &[]), "A round trip takes 45.2 us.\nAll figures: add -v\n");
        for at in 1..=5 {
            answer.figure(format!("Figure {at}."));
        }
        answer.limit("The sender was late.");
        answer.limit("A second one.");
        answer.change("Again.", "vtare rtt a --cpu 1");
        let notes = [Note::new(CPU_QUOTA, "The quota stopped it."), Note::new("other", "none of this")];
        let wide = Shape { width: 80, ..PLAIN };
        let shown = "A round trip takes 45.2 us.\nFigure 1.\nFigure 2.\nFigure 3.\nThe quota stopped it.\n\
                     Try: vtare rtt a --cpu 1\nsamples: s.parquet\n2 more limits of this answer, and all \
                     figures: add -v\n";
        assert_eq!(answer.short(wide, 8, &notes, &["samples: s.parquet".to_owned()]), shown);
        for (most, width) in [(8, 40), (10, 20), (8, 80)] {
            let text = answer.short(Shape { width, ..PLAIN }, most, &notes, &[]);
            assert!(rows(&text, width) <= most + 2, "{text}");
        }
    }

    #[test]
    fn no_colour_goes_before_forced_colour_and_that_before_the_terminal() {
        let with = |pairs: &[(&str, &str)], on_terminal| {
            coloured(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()), on_terminal)
        };
        assert!(with(&[], true) && !with(&[], false));
        assert!(with(&[("CLICOLOR_FORCE", "1")], false) && !with(&[("CLICOLOR_FORCE", "0")], false));
        assert!(!with(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true) && with(&[("NO_COLOR", "")], true));
    }

    #[test]
    fn a_note_that_limits_the_answer_is_shown_once() {
        let notes = [Note::new("queues", "Trials are short."), Note::new("slack", "50 us")];
        let mut answer = Answer::new("a");
        assert!(answer.limited_by(&notes, "queues") && !answer.limited_by(&notes, "none"));
        assert!(answer.render(PLAIN).contains("  - Trials are short.\n"));
        assert_eq!(answer.others(&notes), [&notes[1]]);
    }

    #[test]
    fn a_command_line_is_given_again_with_other_options() {
        let line = CommandLine::of("vtare rtt a --cpu 1 --rate=5 --flood");
        assert_eq!(line.with("--cpu", 3).to_string(), "vtare rtt a --rate=5 --flood --cpu 3");
        assert_eq!(line.with("--rate", 9).without("--flood").to_string(), "vtare rtt a --cpu 1 --rate 9");
        assert_eq!(line.with("--fifo", 1).as_root().to_string(), "sudo vtare rtt a --cpu 1 --rate=5 --flood --fifo 1");
    }

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        let line = CommandLine(["vtare", "--fail-if", "a > 5", "it's", ""].map(str::to_owned).to_vec());
        assert_eq!(line.to_string(), r"vtare --fail-if 'a > 5' 'it'\''s' ''");
    }
}
