//! The command line: which subcommands there are, and where each goes.

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
use crate::timer::Timer;
use crate::{
    agent, avb, check, examples, exec, generate, help, instrument, lab, link, link_counter, load_command, measure, rpm,
    rtt, schema, selftest, serve, shaper, torture, trials,
};

/// The command line of instrument `I`.
type InstrumentArguments<I> = Arguments<<I as Instrument>::Parameters>;

/// Measures how far time, sleeps and the network can be trusted on this machine
#[derive(Debug, Parser)]
#[command(name = "vtare", version, propagate_version = true, arg_required_else_help = true, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 measured, 1 a limit of --fail-if was crossed or undecided,\n\
    2 bad usage or input, 3 this machine cannot do it, 4 peer lost,\n\
    70 internal error, 130 interrupted (what was measured is kept and labelled).")]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Show results and errors only: no progress, no notices
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Is this machine good enough for timings? If not, what to change (20 s)
    Check(check::CheckArguments),
    /// Measure the cost of reading the time
    Timer(InstrumentArguments<Timer>),
    /// Measure how late sleeps wake
    Sleep(InstrumentArguments<Sleep>),
    /// Measure how evenly equal work runs (after TiMeAcE.KOM)
    Counter(crate::counter::CounterArguments),
    /// Measure the time taken from a spinning thread
    Noise(InstrumentArguments<Noise>),
    /// Measure round-trip times and losses to a far end
    Rtt(Box<rtt::RttArguments>),
    /// Estimate the available bandwidth to a far end
    Avb(Box<avb::AvbArguments>),
    /// Measure what is free on a path, and its latency when it is used
    Path(Box<InstrumentArguments<Path>>),
    /// Measure responsiveness while the path is full, over HTTP/2 (RPM)
    Rpm(InstrumentArguments<Rpm>),
    /// Measure the throughput and latency of a forwarding device or VM
    Throughput(Box<InstrumentArguments<Throughput>>),
    /// Capture probes at an interface, or read them from a capture file
    Capture(InstrumentArguments<Capture>),
    /// Make a background load
    Load(Box<load_command::LoadArguments>),
    /// Emulate a wide-area link between two interfaces
    Link(Box<link::LinkArguments>),
    /// Be the far end of rtt, avb and path
    Serve(serve::ServeArguments),
    /// Serve RPM tests to any client (uses bandwidth)
    RpmServe(rpm::serve::RpmServeArguments),
    /// Read the clock on all CPUs at once; count steps backwards
    Torture(torture::TortureArguments),
    /// Inject known faults; show that each instrument finds them (2 min)
    Selftest(selftest::SelftestArguments),
    /// Run another program on vtare's clock and sleeps
    Exec(exec::ExecArguments),
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
    /// Print the schema of run.json, or the columns of the samples
    #[command(hide = true)]
    Schema(schema::SchemaArguments),
    /// Write man pages or shell completions (for make install)
    #[command(hide = true)]
    Generate(generate::GenerateArguments),
    /// Show the commands, or the options of one
    #[command(hide = true)]
    Help(help::HelpArguments),
    /// Run a plan of measurements, then write its report
    #[command(disable_help_flag = true)]
    Run(lab::LabArguments),
    /// Show a campaign's progress
    #[command(disable_help_flag = true)]
    Status(lab::LabArguments),
    /// Resume a campaign
    #[command(disable_help_flag = true)]
    Resume(lab::LabArguments),
    /// Repeat the failed or skipped runs of a campaign
    #[command(disable_help_flag = true)]
    Retry(lab::LabArguments),
    /// Show the hosts of a fleet, and rank them
    #[command(disable_help_flag = true)]
    Fleet(lab::LabArguments),
    /// Check every file of a store, and repair it
    #[command(disable_help_flag = true)]
    Verify(lab::LabArguments),
    /// Write the report of a campaign
    #[command(disable_help_flag = true)]
    Report(lab::LabArguments),
    /// Write the figures of a campaign as SVG files
    #[command(disable_help_flag = true)]
    Plot(lab::LabArguments),
    /// Show the report in a browser while its campaign runs
    #[command(disable_help_flag = true)]
    ServeReport(lab::LabArguments),
    /// Compare two campaigns, before and after
    #[command(disable_help_flag = true)]
    Compare(lab::LabArguments),
    /// Compare commands: is B slower than A, on a noisy machine?
    #[command(disable_help_flag = true)]
    Ab(lab::LabArguments),
    /// Has this machine got worse? Repeat a plan for months
    #[command(disable_help_flag = true)]
    Watch(lab::LabArguments),
    /// Show the published tables, and which of their claims reproduce
    #[command(disable_help_flag = true)]
    Papers(lab::LabArguments),
    /// Split round trips by place, with captures from the hosts
    #[command(disable_help_flag = true)]
    Overhead(lab::LabArguments),
    /// Remove what a killed campaign left on this machine
    #[command(disable_help_flag = true)]
    Clean(lab::LabArguments),
    /// Show what can be measured here, and how to get the rest
    #[command(disable_help_flag = true)]
    Doctor(lab::LabArguments),
    /// List and check plans
    #[command(disable_help_flag = true)]
    Plan(lab::LabArguments),
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
    let parsed = parser()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut parser())));
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
    let root = with_negatives(examples::with_examples(Cli::command()));
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
        Command::Timer(arguments) => instrument::run::<Timer>(arguments, &context()?),
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
        Command::RpmServe(arguments) => rpm::serve::command(arguments),
        Command::Torture(arguments) => torture::command(arguments, &context()?),
        Command::Selftest(arguments) => selftest::command(arguments, &context()?),
        Command::Exec(arguments) => exec::command(arguments),
        Command::Measure(arguments) => measure::command(arguments, &context()?),
        Command::Agent(arguments) => agent::command(arguments),
        Command::LinkCounter(arguments) => link_counter::command(arguments, &context()?),
        Command::Trials(arguments) => trials::command(arguments, &context()?),
        Command::Shaper(arguments) => shaper::command(arguments, &context()?),
        Command::Schema(arguments) => schema::command(arguments),
        Command::Help(arguments) => help::command(arguments, &parser()),
        Command::Generate(arguments) => generate::command(arguments, &parser()),
        Command::Run(_) => lab::hand_over("run"),
        Command::Status(_) => lab::hand_over("status"),
        Command::Resume(_) => lab::hand_over("resume"),
        Command::Retry(_) => lab::hand_over("retry"),
        Command::Fleet(_) => lab::hand_over("fleet"),
        Command::Verify(_) => lab::hand_over("verify"),
        Command::Report(_) => lab::hand_over("report"),
        Command::Plot(_) => lab::hand_over("plot"),
        Command::ServeReport(_) => lab::hand_over("serve-report"),
        Command::Compare(_) => lab::hand_over("compare"),
        Command::Ab(_) => lab::hand_over("ab"),
        Command::Watch(_) => lab::hand_over("watch"),
        Command::Papers(_) => lab::hand_over("papers"),
        Command::Overhead(_) => lab::hand_over("overhead"),
        Command::Clean(_) => lab::hand_over("clean"),
        Command::Doctor(_) => lab::hand_over("doctor"),
        Command::Plan(_) => lab::hand_over("plan"),
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
    fn a_line_that_cannot_be_read_is_one_message_with_what_was_found_and_what_is_wanted() {
        for (line, wanted) in [
            ("slep", "unknown command 'slep'. Did you mean 'sleep'?"),
            ("qqq", "unknown command 'qqq'. `vtare help --all` lists the commands"),
            ("reprot", "unknown command 'reprot'. Did you mean 'report'?"),
            (
                "sleep --tarket 1ms",
                "found the argument '--tarket' (did you mean '--target'?), expected one that `vtare sleep",
            ),
            ("sleep --target 1x", "--target: '1x' is not a time. Write it as"),
            ("sleep --cpu x", "--cpu: found 'x', expected"),
            ("timer --source rdtscx", "--source: found 'rdtscx' (did you mean 'rdtsc'"),
            (
                "capture lo --hook packt",
                "--hook: found 'packt' (did you mean 'packet'?), expected one of auto, tc, packet",
            ),
            ("rtt", "found no <PEER>..., expected one: see `vtare rtt --help`"),
            ("sleep --target", "--target: found no value, expected"),
            ("counter --seconds 9 --unit-ms 1", "the argument '--seconds <S>' cannot be used with"),
        ] {
            let found = of(line);
            assert!(found.starts_with(wanted) && !found.contains('\n'), "{line}: {found}");
        }
    }
}
