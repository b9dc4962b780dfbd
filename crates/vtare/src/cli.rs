//! The command line: which subcommands there are, and where each goes.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::capture::Capture;
use crate::context::Context;
use crate::failure::{Exit, Failure, error_document};
use crate::instrument::Instrument;
use crate::noise::Noise;
use crate::output;
use crate::parameters::Arguments;
use crate::path::Path;
use crate::rpm::Rpm;
use crate::sleep::Sleep;
use crate::throughput::Throughput;
use crate::{
    agent, avb, check, clock, commands, completions, costs, examples, exec, generate, help, instrument, lab, link,
    link_counter, load_command, measure, requests, rpm, rtt, schema, selftest, serve, shaper, torture, trials,
};

/// The command line of instrument `I`.
type InstrumentArguments<I> = Arguments<<I as Instrument>::Parameters>;

/// Measures how far time, sleeps and the network can be trusted on this machine
#[derive(Debug, Parser)]
#[command(name = "vtare", version, arg_required_else_help = true, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 measured, 1 a limit of --fail-if was crossed or undecided,\n\
    2 bad usage or input, 3 this machine cannot do it, 4 peer lost,\n\
    70 internal error, 130 interrupted (what was measured is kept and labelled).")]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Show results and errors only: no progress, no notices
    #[arg(long, short, global = true, display_order = 900)]
    quiet: bool,
}

/// The commands of the binary; [`commands::table`] has their words.
#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArguments),
    Timer(torture::TimerArguments),
    Sleep(InstrumentArguments<Sleep>),
    Counter(crate::counter::CounterArguments),
    Noise(InstrumentArguments<Noise>),
    Rtt(Box<rtt::RttArguments>),
    Avb(Box<avb::AvbArguments>),
    Path(Box<InstrumentArguments<Path>>),
    Rpm(InstrumentArguments<Rpm>),
    Throughput(Box<InstrumentArguments<Throughput>>),
    Capture(InstrumentArguments<Capture>),
    Load(Box<load_command::LoadArguments>),
    Link(Box<link::LinkArguments>),
    Serve(serve::ServeArguments),
    Clock(clock::ClockArguments),
    #[command(hide = true)]
    RpmServe(rpm::serve::RpmServeArguments),
    #[command(hide = true)]
    Torture(torture::TortureArguments),
    Selftest(selftest::SelftestArguments),
    Exec(exec::ExecArguments),
    Completions(completions::CompletionsArguments),
    /// Carry out one resolved run
    #[command(hide = true)]
    Measure(measure::MeasureArguments),
    /// Carry out what the lab asks for inside a guest
    #[command(hide = true)]
    Agent(agent::AgentArguments),
    /// Count what comes to a shaped link and leaves it
    #[command(hide = true)]
    LinkCounter(link_counter::LinkCounterArguments),
    /// Change the rate of a kernel shaper in steps
    #[command(hide = true)]
    Shaper(shaper::ShaperArguments),
    /// Run programs and measure each
    #[command(hide = true)]
    Trials(trials::TrialsArguments),
    /// Measure what single services of the kernel cost here
    #[command(hide = true)]
    Costs(costs::CostsArguments),
    /// Ask a server and measure its replies
    #[command(hide = true)]
    Requests(requests::RequestsArguments),
    /// Print the schema of run.json, or the columns of the samples
    #[command(hide = true)]
    Schema(schema::SchemaArguments),
    /// Write man pages or shell completions (for make install)
    #[command(hide = true)]
    Generate(generate::GenerateArguments),
    /// Show the commands, or the options of one
    #[command(hide = true)]
    Help(help::HelpArguments),
    /// A command of the lab, with its arguments as they were typed.
    #[command(external_subcommand)]
    Lab(Vec<OsString>),
}

/// Exit code of an error in vtare itself (EX_SOFTWARE of sysexits.h): no answer, and never that a limit was crossed.
const INTERNAL: u8 = 70;

/// Reads the command line, carries it out, and gives the exit code.
pub(crate) fn main() -> ExitCode {
    guarded(run)
}

/// What `work` returns, or [`INTERNAL`] where it panics. What went wrong has been printed by then.
fn guarded(work: impl FnOnce() -> ExitCode + std::panic::UnwindSafe) -> ExitCode {
    std::panic::catch_unwind(work).unwrap_or_else(|_| {
        let text = "internal error: this is a fault of vtare. Please report it with the lines above, the command and \
                    the output of `vtare --version`";
        if std::env::args_os().any(|argument| argument == "--json") {
            report_failure_as_json(&text, INTERNAL);
        }
        message!("vtare: {text}");
        ExitCode::from(INTERNAL)
    })
}

fn run() -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let mut name = None;
    let parsed = parser().try_get_matches_from(with_new_names(std::env::args_os())).and_then(|matches| {
        name = matches.subcommand_name().map(str::to_owned);
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut parser()))
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let help = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) && error.kind() != help {
                let text = crate::usage::message(&error, known(std::env::args().nth(1).as_deref()));
                if wants_json {
                    report_failure_as_json(&text, 2);
                }
                message!("vtare: {text}");
                return ExitCode::from(2);
            }
            if wants_json && error.kind() == help {
                report_failure_as_json(&"no command. Start with: vtare check", 2);
            }
            // Help goes to stdout with code 0, or where a command is missing to stderr with code 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            if let (0, Err(failure)) = (code, output::refuse_closed()) {
                message!("vtare: {failure}");
                return ExitCode::from(failure.code());
            }
            return match error.print() {
                // A reader that has gone (`| head`) is no error.
                Err(refused) if refused.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::from(2),
                _ => ExitCode::from(code),
            };
        }
    };
    if let (false, Some(notice)) = (cli.quiet, name.as_deref().and_then(commands::replaced)) {
        message!("{notice}");
    }
    match dispatch(&cli.command, cli.quiet) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            if wants_json {
                report_failure_as_json(&failure, failure.code());
            }
            message!("vtare: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// The words with options of earlier versions in their present form: `serve --max-rate 5` is `serve --limit rate=5`.
fn with_new_names(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let quiet = words.iter().any(|word| word == "-q" || word == "--quiet");
    if words.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-')).is_some_and(|word| word == "serve") {
        let mut at = 1;
        while at < words.len() {
            let text = words[at].to_string_lossy();
            let (option, value) = text.split_once('=').map_or((&*text, None), |(option, value)| (option, Some(value)));
            if let Some(name) = serve::limits::replaced(option) {
                let (value, taken) = match value {
                    Some(value) => (value.to_owned(), 1),
                    None => (words.get(at + 1).map_or_else(String::new, |next| next.to_string_lossy().into()), 2),
                };
                if !quiet {
                    message!("`{option} {value}` is now `--limit {name}={value}`");
                }
                let end = words.len().min(at + taken);
                words.splice(at..end, ["--limit".into(), format!("{name}={value}").into()]);
                at += 1;
            }
            at += 1;
        }
    }
    words
}

/// The command line. A number below zero after an option is its value, so that the message names what is wrong with it,
/// and not that it is an unknown option.
pub(crate) fn parser() -> clap::Command {
    fn with_negatives(command: clap::Command) -> clap::Command {
        let value = |argument: clap::Arg| match argument.get_action().takes_values() && !argument.is_positional() {
            true => argument.allow_negative_numbers(true),
            false => argument,
        };
        command.mut_args(value).mut_subcommands(with_negatives)
    }
    let root = with_negatives(examples::with_examples(commands::with_words(Cli::command())));
    let front = help::front(&root);
    root.override_help(front)
}

/// A word where it is a subcommand.
fn known(word: Option<&str>) -> Option<&str> {
    word.filter(|word| parser().find_subcommand(word).is_some())
}

/// `--json` promises one valid document, also where nothing could be measured.
fn report_failure_as_json(message: &impl std::fmt::Display, exit_code: u8) {
    if let Err(failure) = output::print_json(&error_document(message, exit_code)) {
        message!("vtare: {failure}");
    }
}

fn dispatch(command: &Command, quiet: bool) -> Result<Exit, Failure> {
    let context = || Context::with_signals().map(|context| context.quiet(quiet));
    match command {
        Command::Check(arguments) => check::command(arguments, &context()?),
        Command::Timer(arguments) => torture::timer(arguments, &context()?),
        Command::Sleep(arguments) => instrument::run::<Sleep>(arguments, &context()?),
        Command::Counter(arguments) => crate::counter::command(arguments, &context()?),
        Command::Noise(arguments) => instrument::run::<Noise>(arguments, &context()?),
        Command::Rtt(arguments) => rtt::command(arguments, &context()?.live(arguments.live)),
        Command::Avb(arguments) => avb::command(arguments, &context()?),
        Command::Path(arguments) => instrument::run::<Path>(arguments, &context()?),
        Command::Rpm(arguments) => instrument::run::<Rpm>(arguments, &context()?),
        Command::Throughput(arguments) => instrument::run::<Throughput>(arguments, &context()?),
        Command::Capture(arguments) => instrument::run::<Capture>(arguments, &context()?),
        Command::Load(arguments) => load_command::command(arguments, &context()?),
        Command::Link(arguments) => link::command(arguments, &context()?),
        Command::Serve(arguments) => serve::command(arguments, &context()?),
        Command::Clock(arguments) => clock::command(arguments, &context()?),
        Command::RpmServe(arguments) => rpm::serve::command(arguments),
        Command::Torture(arguments) => torture::command(arguments, &context()?),
        Command::Selftest(arguments) => selftest::command(arguments, &context()?),
        Command::Exec(arguments) => exec::command(arguments),
        Command::Measure(arguments) => measure::command(arguments, &context()?),
        Command::Agent(arguments) => agent::command(arguments),
        Command::LinkCounter(arguments) => link_counter::command(arguments, &context()?),
        Command::Trials(arguments) => trials::command(arguments, &context()?),
        Command::Costs(arguments) => costs::command(arguments, &context()?),
        Command::Requests(arguments) => requests::command(arguments, &context()?),
        Command::Shaper(arguments) => shaper::command(arguments, &context()?),
        Command::Schema(arguments) => schema::command(arguments),
        Command::Help(arguments) => help::command(arguments, &parser()),
        Command::Generate(arguments) => generate::command(arguments, &parser()),
        Command::Completions(arguments) => completions::command(arguments),
        Command::Lab(typed) => lab::hand_over(typed, quiet, &parser()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_an_exit_code_of_its_own() {
        let code = |code: ExitCode| format!("{code:?}");
        assert_eq!(code(guarded(|| panic!("as a fault of vtare does"))), code(ExitCode::from(70)));
        let in_a_thread = || {
            std::thread::spawn(|| panic!("there, too"))
                .join()
                .map_or_else(|it| std::panic::resume_unwind(it), |()| ExitCode::SUCCESS)
        };
        assert_eq!(code(guarded(in_a_thread)), code(ExitCode::from(70)));
        assert_eq!(code(guarded(|| ExitCode::from(3))), code(ExitCode::from(3)));
    }

    #[test]
    fn the_command_line_is_consistent() {
        parser().debug_assert();
    }

    fn of(line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let error = parser()
            .try_get_matches_from(std::iter::once("vtare").chain(words.iter().copied()))
            .expect_err("such a line is refused");
        crate::usage::message(&error, known(words.first().copied()))
    }

    #[test]
    fn a_command_that_neither_half_has_is_refused_with_the_nearest() {
        for (name, wanted) in [
            ("slep", "unknown command 'slep'. Did you mean 'sleep'?"),
            ("qqq", "unknown command 'qqq'. `vtare help --all` lists the commands"),
            ("reprot", "unknown command 'reprot'. Did you mean 'report'?"),
        ] {
            let matches = parser().try_get_matches_from(["vtare", name, "--json"]).expect("it may be one of the lab");
            let cli = Cli::from_arg_matches(&matches).expect("it is a line");
            let failure = dispatch(&cli.command, false).expect_err("there is none of this name");
            assert_eq!((failure.code(), failure.to_string().as_str()), (2, wanted));
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_one_message_with_the_value_and_the_fix() {
        for (line, wanted) in [
            ("sleep --tarket 1ms", "unknown option '--tarket'. Did you mean '--target'?"),
            ("sleep --xyz", "unknown option '--xyz': see `vtare sleep --help`"),
            ("noise 5", "unexpected argument '5': see `vtare noise --help`"),
            ("sleep --target 1x", "--target: '1x' is not a time. Write it as"),
            ("sleep --cpu x", "--cpu: 'x' is not a whole number, 0 or more"),
            ("sleep --cpu 99999999999999999999999", "--cpu: '99999999999999999999999' is not a number that fits here"),
            ("timer --source rdtscx", "--source: 'rdtscx' is not one of"),
            ("capture lo --hook packt", "--hook: 'packt' is not one of auto, tc, packet. Did you mean 'packet'?"),
            ("rtt", "<PEER>... is missing: see `vtare rtt --help`"),
            ("sleep --target", "--target takes a value"),
            ("timer --path", "--path takes one of auto, line, os"),
            ("counter --seconds 9 --unit-ms 1", "the argument '--seconds <S>' cannot be used with"),
        ] {
            let found = of(line);
            assert!(found.starts_with(wanted) && !found.contains('\n'), "{line}: {found}");
        }
    }
}
