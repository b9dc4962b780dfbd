//! `vtare serve`: the far end of rtt and avb (docs/internals/security.md).

mod confine;
pub(crate) mod limits;
mod log;
mod new_key;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use vtare_control::{KeyError, PresharedKey};
use vtare_serve::journal::{Line, Weight};
use vtare_serve::kernel::Attached;
use vtare_serve::{ConnectionLimits, Obtained, Options, Responder, ServeError, StampOptions, Summary};
use vtare_wire::DEFAULT_PORT;
use vtare_wire::session::Limits;
use zeroize::Zeroizing;

use crate::context::Context;
use crate::document::Program;
use crate::failure::{Exit, Failure, error_document};
use crate::instrument::check_cpu;
use crate::output::{print, to_json};
use crate::rpm;
use confine::Confinement;
use limits::{Limit, ServeLimits};
use log::Lines;
use new_key::NewKey;

/// The environment's name for the key.
pub(crate) const KEY_VARIABLE: &str = "VTARE_KEY";

/// Keys that let clients in at the same time: the one that is given up and the one that follows it.
const MOST_KEYS: usize = 2;

/// Arguments of `vtare serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArguments {
    /// Where to listen, TCP and UDP [default: port 8462 of all addresses; with --json and no key of 127.0.0.1]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::peers::address)]
    listen: Option<SocketAddr>,

    /// File with the key that both ends share: 64 hexadecimal digits; twice to let two keys in while clients change to
    /// the second [default: the variable VTARE_KEY, else a new key, shown in the line to type on the other machine]
    #[arg(long = "key-file", value_name = "FILE")]
    key_files: Vec<PathBuf>,

    /// Write a new key to this file, readable by its owner only, and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_files", "listen", "spin", "cpu"])]
    new_key: Option<PathBuf>,

    /// Spin while waiting for probes: no wake-up in the round-trip times, and one CPU is used up
    #[arg(long)]
    spin: bool,

    /// The CPU of the thread that answers probes
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    /// Let a program in the kernel answer what comes in over this interface: up to 1 Mpps and more (root, IPv4;
    /// docs/internals/xdp.md)
    #[arg(long, value_name = "IFACE")]
    xdp: Option<String>,

    /// Send each reply by itself, never several that are due together as one large send, which capture points see as
    /// one packet
    #[arg(long)]
    no_gso: bool,

    /// Reflect STAMP packets (RFC 8762), too: unauthenticated, unless there is --stamp-key-file; on other addresses
    /// than this host's own only where named
    #[arg(
        long, value_name = "ADDR:PORT", value_parser = crate::peers::address, num_args = 0..=1,
        default_missing_value = "127.0.0.1:862"
    )]
    stamp: Option<SocketAddr>,

    /// File with the key of STAMP's authenticated mode, as --new-key makes it; packets without its code get no answer
    #[arg(long, value_name = "FILE", requires = "stamp")]
    stamp_key_file: Option<PathBuf>,

    /// Serve RPM tests to any client, without a key (uses bandwidth); other hosts can reach it only at an address that
    /// you name
    #[arg(
        long, value_name = "ADDR:PORT", value_parser = crate::peers::address, num_args = 0..=1,
        default_missing_value = "127.0.0.1:4043"
    )]
    rpm: Option<SocketAddr>,

    /// Print one JSON line on stdout once ready, and one at the end
    #[arg(long)]
    json: bool,

    /// Change what clients may ask for, such as rate=5000 (packets/s of a session); repeatable; help lists all
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limits::limit)]
    limits: Vec<Limit>,
}

pub(crate) const READY_SCHEMA: &str = "vtare.serve/1";
pub(crate) const ENDED_SCHEMA: &str = "vtare.serve_end/1";

/// The line that is printed once the responder is ready.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Ready<'r> {
    schema: &'static str,
    /// The address and port.
    listen: SocketAddr,
    /// Where STAMP packets are reflected; null where they are not.
    stamp: Option<SocketAddr>,
    /// Whether they must carry a code by a key.
    stamp_authenticated: bool,
    /// Where RPM tests are served; null where they are not.
    rpm: Option<SocketAddr>,
    /// Whether clients need a key.
    keyed: bool,
    /// How many keys there are.
    keys: usize,
    /// Whether it looks for packets without pause.
    spin: bool,
    /// The CPU that it is pinned to.
    cpu: Option<usize>,
    /// Whether trains leave as large segments.
    gso: bool,
    /// What clients may ask for.
    limits: Limits,
    /// Limits of control connections.
    connections: ConnectionLimits,
    /// What the kernel gave.
    socket: &'r Obtained,
    /// Where the kernel answers probes; null where it does not.
    xdp: Option<&'r Attached>,
    /// What this process may no longer do.
    confinement: &'r Confinement,
    program: Program,
}

/// The last line on stdout.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Ended<'r> {
    schema: &'static str,
    #[serde(flatten)]
    summary: &'r Summary,
    /// Lines of the log that could not be written.
    log_lines_dropped: u64,
}

/// Serves until SIGTERM or SIGINT, which are its ordinary end: exit code 0.
///
/// # Errors
/// For an address without a key that others can reach, a file that is no key, an address that cannot be bound, or a CPU
/// that is not available.
pub(crate) fn command(arguments: &ServeArguments, context: &Context) -> Result<Exit, Failure> {
    if let Some(path) = &arguments.new_key {
        return write_new_key(path);
    }
    let limits = limits::limits(&arguments.limits);
    if arguments.limits.iter().any(|limit| matches!(limit, Limit::Help)) {
        print(&limits::table(&limits))?;
        return Ok(Exit::Measured);
    }
    let (stamp, rpm) = (arguments.stamp.is_some(), arguments.rpm.is_some());
    if let Some((name, option)) = limits::of_what_is_not_served(&arguments.limits, stamp, rpm) {
        return Err(Failure::Input(format!("--limit {name} limits what is not served: add {option}, or leave it out")));
    }
    let (stamp_packet_per_s, rpm_bit_per_s) = (limits.stamp_packet_per_s, limits.rpm_bit_per_s);
    vtare_sys::process::close_inherited()?;
    check_cpu(arguments.cpu)?;
    arguments.xdp.as_deref().map(crate::peers::interface_named).transpose()?;
    // A log file at its limit (RLIMIT_FSIZE) shall be a failed write, not the end.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())
        .map_err(|error| Failure::Machine(format!("cannot take SIGXFSZ: {error}")))?;
    let mut keys = keys(&arguments.key_files)?;
    let new_key = (keys.is_empty() && wants_key(arguments)).then(NewKey::make).transpose().map_err(key_failure)?;
    keys.extend(new_key.as_ref().map(NewKey::key));
    let options = options(arguments, limits, keys);
    let (limits, connections, keys) = (options.limits, options.connections, options.keys.len());
    let locked = options.keys.iter().all(PresharedKey::is_locked);
    let mut responder = Responder::bind(options).map_err(failure)?;
    let stamp = match arguments.stamp {
        Some(listen) => {
            Some(responder.offer_stamp(listen, stamp_options(arguments, stamp_packet_per_s)?).map_err(failure)?)
        }
        None => None,
    };
    if let Some(interface) = &arguments.xdp {
        responder.attach_xdp(interface).map_err(|error| Failure::Machine(format!("--xdp: {error}")))?;
    }
    let rpm = arguments.rpm.map(|listen| rpm::serve::beside(listen, rpm_bit_per_s)).transpose()?;
    let confinement = confine::confine(&connections, locked)?;
    // After the confinement, which holds for the threads that are started later.
    let log = Lines::to(std::io::stderr())?;
    log::report_panics(&log);
    tracing_subscriber::fmt().with_writer(log.clone()).with_target(false).with_ansi(false).init();
    let ready = Ready {
        schema: READY_SCHEMA,
        listen: responder.address(),
        stamp,
        stamp_authenticated: arguments.stamp_key_file.is_some(),
        rpm: rpm.as_ref().map(|rpm| rpm.address),
        keyed: keys > 0,
        keys,
        spin: arguments.spin,
        cpu: arguments.cpu,
        gso: !arguments.no_gso,
        limits,
        connections,
        socket: responder.obtained(),
        xdp: responder.in_kernel(),
        confinement: &confinement,
        program: Program::OWN,
    };
    announce(&ready, arguments.json, stamp_packet_per_s)?;
    if let Some(rpm) = &rpm {
        tracing::info!("serving RPM tests on {}, without a key: {}", rpm.address, rpm.words);
    }
    if let Some(new_key) = &new_key {
        new_key.show(KEY_VARIABLE, ready.listen)?;
    }
    let stop = context.stop_flag();
    let ended = responder.run(&stop, journal).map_err(failure);
    match &ended {
        Ok(summary) => tracing::info!("{}", in_words(summary, log.dropped())),
        Err(failure) => tracing::error!("{failure}"),
    }
    let log_lines_dropped = log.drain();
    if arguments.json {
        let last = match &ended {
            Ok(summary) => to_json(&Ended { schema: ENDED_SCHEMA, summary, log_lines_dropped }),
            Err(failure) => error_document(failure, failure.code()),
        };
        let out = Lines::to(std::io::stdout())?;
        out.push(format!("{last}\n").into_bytes());
        out.drain();
    }
    Ok(ended.map_or_else(|failure| Exit::Reported(failure.code()), |_| Exit::Measured))
}

fn write_new_key(path: &Path) -> Result<Exit, Failure> {
    PresharedKey::generate().and_then(|key| key.write(path)).map_err(key_failure)?;
    print(&(crate::sentences::serve::key_file(path.display()) + "\n"))?;
    Ok(Exit::Measured)
}

/// Whether a key is made where none is given: for a person who serves other machines, and not for a program (`--json`).
fn wants_key(arguments: &ServeArguments) -> bool {
    let this_host_only = arguments.listen.is_some_and(|listen| listen.ip().to_canonical().is_loopback());
    !arguments.json && !this_host_only
}

/// The keys: of the files, else of the environment; none where neither is given. Never from an argument: those are seen
/// by every user of the host.
fn keys(files: &[PathBuf]) -> Result<Vec<PresharedKey>, Failure> {
    if files.len() > MOST_KEYS {
        let count = files.len();
        return Err(Failure::Input(format!(
            "--key-file names {count} keys: use {MOST_KEYS} or fewer, the old key and the new one"
        )));
    }
    if !files.is_empty() {
        return files.iter().map(|path| PresharedKey::read(path).map_err(key_failure)).collect();
    }
    match std::env::var(KEY_VARIABLE).map(Zeroizing::new) {
        Ok(text) => Ok(vec![PresharedKey::parse(KEY_VARIABLE, &text).map_err(key_failure)?]),
        Err(std::env::VarError::NotPresent) => Ok(Vec::new()),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::Input(format!("{KEY_VARIABLE} is not text: use 64 hexadecimal digits")))
        }
    }
}

fn stamp_options(arguments: &ServeArguments, rate_packet_per_s: u64) -> Result<StampOptions, Failure> {
    let key = arguments.stamp_key_file.as_deref().map(PresharedKey::read).transpose();
    let key = key.map_err(|error| Failure::Input(format!("--stamp-key-file: {error}")))?;
    Ok(StampOptions { rate_packet_per_s, key: key.as_ref().map(PresharedKey::for_stamp) })
}

fn options(arguments: &ServeArguments, limits: ServeLimits, keys: Vec<PresharedKey>) -> Options {
    let listen = arguments.listen.unwrap_or_else(|| default_address(!keys.is_empty()));
    let ServeLimits { sessions, tcp, handshakes, .. } = limits;
    let connections = ConnectionLimits {
        handshakes: handshakes.into(),
        // One connection for each session, and some that are about to ask for one.
        connections: usize::from(sessions.sessions) + 64,
        connections_per_peer: usize::from(sessions.sessions_per_peer) + 16,
        ..ConnectionLimits::default()
    };
    let limits = Limits { tcp: Some(tcp), ..sessions };
    let program = format!("vtare {}", env!("CARGO_PKG_VERSION"));
    let (spin, cpu, segments) = (arguments.spin, arguments.cpu, !arguments.no_gso);
    Options { listen, keys, limits, connections, spin, cpu, segments, program }
}

/// All addresses with a key; this host only without. A host without IPv6 has no address for both families.
fn default_address(keyed: bool) -> SocketAddr {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    let ip: IpAddr = match (keyed, has_ipv6) {
        (false, _) => Ipv4Addr::LOCALHOST.into(),
        (true, true) => Ipv6Addr::UNSPECIFIED.into(),
        (true, false) => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, DEFAULT_PORT)
}

fn announce(ready: &Ready<'_>, json: bool, stamp_packet_per_s: u64) -> Result<(), Failure> {
    if json {
        print_json_line(ready)?;
    }
    let how = match ready.keys {
        0 => "this host only, without a key",
        1 => "clients with the key",
        _ => "clients with either key",
    };
    tracing::info!("listening on {}, TCP and UDP, for {how}", ready.listen);
    if let Some(stamp) = ready.stamp {
        let who = if ready.stamp_authenticated { "of those who have its key" } else { "without a key" };
        tracing::info!("reflecting STAMP packets {who} on {stamp}, at most {stamp_packet_per_s} a second");
        if !ready.stamp_authenticated && !stamp.ip().to_canonical().is_loopback() {
            tracing::warn!(
                "whoever reaches {stamp} is answered there, also with a forged address: leave it open no longer than \
                 needed"
            );
        }
    }
    if !ready.keyed {
        tracing::warn!("no key: other hosts cannot be served; `vtare serve --new-key FILE` writes one");
    }
    if let Some(attached) = ready.xdp {
        let Attached { interface, native, veth, native_refused, memory_byte } = attached;
        let place = if *native { "the driver" } else { "the network stack" };
        let state = memory_byte / 1_000_000;
        tracing::info!("a kernel program in {place} answers on {interface}; {state} MB for its sessions");
        if *veth {
            tracing::info!(
                "{interface} is a veth: replies reach its other end only where that has GRO or an XDP program, as \
                 vtare rtt --engine xdp has"
            );
        }
        if let Some(reason) = native_refused {
            tracing::warn!("not obtained: {interface} runs no program in its driver: {reason}");
        }
    }
    tracing::info!("{}", ready.confinement.in_words());
    for refusal in ready.socket.refusals.iter().chain(&ready.confinement.refusals) {
        tracing::warn!("not obtained: {refusal}");
    }
    Ok(())
}

/// One line, so that whoever started the responder can read up to its end and go on.
fn print_json_line(ready: &Ready<'_>) -> Result<(), Failure> {
    print(&format!("{}\n", to_json(ready)))
}

fn journal(line: &Line) {
    let Line { kind, weight, count, example } = line;
    match weight {
        Weight::Course => tracing::info!(kind, count, "{example}"),
        Weight::Refusal => tracing::warn!(kind, count, "{example}"),
    }
}

fn in_words(summary: &Summary, log_lines_dropped: u64) -> String {
    let drops = summary.socket_drops.map_or_else(|| "an unknown number".to_owned(), |drops| drops.to_string());
    format!(
        "ended: {} sessions; {} datagrams received ({} by the kernel program), {} replies sent, {} refused by the \
         kernel; without a session: {} malformed, {} unknown; {drops} dropped by the kernel; {} connections refused; \
         {log_lines_dropped} log lines dropped",
        summary.sessions,
        summary.datagrams,
        summary.in_kernel,
        summary.replies,
        summary.unsent,
        summary.discards.garbage,
        summary.discards.unknown_session,
        summary.turned_away
    )
}

fn key_failure(error: KeyError) -> Failure {
    match error {
        KeyError::Random { .. } | KeyError::Memory { .. } => Failure::Machine(error.to_string()),
        _ => Failure::Input(error.to_string()),
    }
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::NeedsKey { .. } => Failure::Input(error.to_string()),
        _ => Failure::Machine(error.to_string()),
    }
}
