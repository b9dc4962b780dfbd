//! `vtare-rpm`: carries out a job of `vtare rpm` and `vtare rpm-serve`, which is its only argument, as JSON
//! ([`vtare_methods::rpm::RpmJob`]).
#![forbid(unsafe_code)]

use std::io::Read as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use vtare_methods::rpm::{RpmEvent, RpmJob, RpmLimits};
use vtare_responsiveness::confine::Confinement;
use vtare_responsiveness::serve::{Server, listener};
use vtare_responsiveness::{RpmError, measure};

/// Threads that move bytes and answer requests.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let done = job().and_then(|job| match job {
        RpmJob::Measure { peer, seed, settings } => runtime(|| ())?.block_on(async {
            let ended = measure::measure(&peer, seed, settings, stop_at_end_of_input(), &mut print_event).await;
            if let Err(error) = &ended {
                print_event(&RpmEvent::Failed { exit_code: error.exit_code(), error: error.to_string() });
            }
            // It has been reported.
            Ok(ended.err().map_or(0, |error| error.exit_code()))
        }),
        RpmJob::Serve { listen, limits, below_serve } => serve(listen, limits, below_serve),
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print(&mut std::io::stderr(), format_args!("vtare: {error}\n"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn job() -> Result<RpmJob, RpmError> {
    let mut words = std::env::args().skip(1);
    let (Some(text), None) = (words.next(), words.next()) else {
        return Err(RpmError::Input("this program needs a job as JSON: run `vtare rpm` instead".to_owned()));
    };
    serde_json::from_str(&text).map_err(|error| RpmError::Input(format!("the job cannot be read: {error}")))
}

/// A runtime whose threads begin with `begin`.
fn runtime(begin: fn()) -> Result<Runtime, RpmError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let built = Builder::new_multi_thread().worker_threads(threads).enable_all().on_thread_start(begin).build();
    built.map_err(|error| RpmError::Machine(format!("cannot start threads: {error}")))
}

/// Holds true once stdin has ended: whoever started this wants it to end, or has ended itself.
fn stop_at_end_of_input() -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while std::io::stdin().lock().read(&mut buffer).is_ok_and(|byte| byte > 0) {}
        let _ = stop.send(true);
    });
    stopped
}

/// Serves until SIGTERM or SIGINT, which are its ordinary end, or below `vtare serve` until the end of its input.
fn serve(listen: SocketAddr, limits: RpmLimits, below_serve: bool) -> Result<u8, RpmError> {
    let listener = listener(listen)?;
    let confinement = Confinement::before_threads(Server::most_connections(&limits))?;
    // Each thread is confined by itself: this one still needs sockets for signals. What it is refused, they are, too.
    let runtime = runtime(|| drop(Confinement::default().and_system_calls()))?;
    let input = below_serve.then(stop_at_end_of_input);
    runtime.block_on(serve_at(listener, limits, confinement, input))
}

async fn serve_at(
    listener: std::net::TcpListener,
    limits: RpmLimits,
    confinement: Confinement,
    input: Option<watch::Receiver<bool>>,
) -> Result<u8, RpmError> {
    let of = |kind| signal(kind).map_err(|error| RpmError::Machine(format!("cannot listen for signals: {error}")));
    let (mut terminate, mut interrupt) = (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
    let server = Server::at(listener, limits)?;
    let (place, congestion) = (server.address(), server.congestion());
    let memory = Server::most_memory_byte(&limits) as f64 / 1e6;
    let confinement = confinement.and_system_calls();
    let words = format!(
        "self-signed certificate, TCP {congestion}, at most {memory:.0} MB of memory; clients: vtare rpm {place}"
    );
    match input {
        Some(_) => print_event(&RpmEvent::Serving { address: place, words: format!("{words}; {confinement}") }),
        None => print(
            &mut std::io::stdout(),
            format_args!("vtare rpm-serve: listening on {place}, {words}\nvtare rpm-serve: {confinement}\n"),
        ),
    }
    let mut input = input;
    let input_ended = async {
        match &mut input {
            Some(ended) => drop(ended.wait_for(|ended| *ended).await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = input_ended => return Ok(0),
        never = server.run() => match never {},
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let done = server.summary();
    print(
        &mut std::io::stdout(),
        format_args!(
            "vtare rpm-serve: {} connections, {} turned away, {} B received, {} B sent\n",
            done.connections, done.turned_away, done.received_byte, done.sent_byte
        ),
    );
    Ok(0)
}

fn print_event(event: &RpmEvent) {
    let text = serde_json::to_string(event).expect("numbers and text can be written as JSON");
    print(&mut std::io::stdout(), format_args!("{text}\n"));
}

/// Writes as far as it can be written: who reads may have gone, and then stdin ends, too.
fn print(to: &mut dyn std::io::Write, text: std::fmt::Arguments<'_>) {
    let _ = to.write_fmt(text).and_then(|()| to.flush());
}
