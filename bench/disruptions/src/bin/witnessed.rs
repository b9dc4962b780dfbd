//! Guests whose time is confirmed by witnesses: the first and only program of such a guest, the witnesses beside it,
//! and the simulation of both.
//!
//! `witnessed simulate N SEED`: scenarios, and planted faults. `witnessed witness HOST BOUND_US AHEAD_MS`: answers
//! heartbeats on a port of its own, which it prints, as one of several hosts; UTC is this host's CLOCK_REALTIME and
//! AHEAD_MS more. `witnessed cost`: what readings cost. `witnessed keep SECONDS THREADS LIST`: a page beside busy
//! threads. `witnessed clients N SECONDS ADDRESS`: clients of one witness, each with a socket of its own and one
//! heartbeat a second. As init:
//! `witnesses=HOST:PORT,...` on the kernel's command line; lines in on the serial line: `read`, `confirm`, `step NS`,
//! `rate TICK` (adjtimex); out: `STATUS EARLIEST_NS LATEST_NS GENERATION ROUND_TRIP_NS`.

#[path = "../guest.rs"]
mod guest;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::thread::Builder;
use std::time::Duration;

use vtare_clock::simulated::{Counts, Planted, scenario};
use vtare_clock::{Clock, ClockOptions, UtcLine};
use vtare_control::PresharedKey;
use vtare_sys::{clocks, net, process};
use vtare_units::{Monotonic, Span, Timestamp, Wall};
use vtare_wire::heartbeat::{self, HeartbeatKey, Nonce, Statement};
use vtare_witness::{PageReader, PageWriter, Witnesses};

/// Of this benchmark alone: guest and witnesses are on one host.
const KEY: &str = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";

fn key() -> PresharedKey {
    PresharedKey::parse("the benchmark", KEY).expect("64 digits")
}

fn simulate(scenarios: u64, seed: u64) {
    let count = |planted, scenarios| {
        let mut all = Counts::default();
        (seed..seed + scenarios).for_each(|seed| all.add(&scenario(seed, planted)));
        all
    };
    let show = |name: &str, all: &Counts| {
        println!(
            "{{\"name\": \"{name}\", \"disruptions\": {}, \"confirmed\": {}, \"wrong_confirmed\": {}, \"unconfirmed\": \
             {}, \"readings\": {}, \"vouched\": {}, \"wrong_early\": {}, \"wrong_late\": {}, \
             \"false_disruptions\": {}, \"widest_beyond_ns\": {}}}",
            all.disruptions,
            all.confirmed,
            all.wrong_confirmed,
            all.unconfirmed,
            all.readings,
            all.vouched,
            all.wrong_early,
            all.wrong_late,
            all.false_disruptions,
            all.widest_beyond_ns
        );
    };
    show("none", &count(Planted::None, scenarios));
    for planted in [Planted::NoRoundTrip, Planted::HostsApart, Planted::FirstAnswer, Planted::NoStamps] {
        show(&format!("{planted:?}"), &count(planted, scenarios / 10 + 1));
    }
}

fn witness(host: u64, bound_us: u64, ahead_ms: u64) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    println!("{}", socket.local_addr()?.port());
    let keys = [PresharedKey::for_heartbeats(Some(&key()))];
    let mut datagram = [0; 2_000];
    loop {
        let (length, from) = socket.recv_from(&mut datagram)?;
        let Ok((nonce, _)) = heartbeat::read_request(&keys, &datagram[..length]) else { continue };
        let utc_ns = clocks::now::<Wall>().as_nanos() + ahead_ms * 1_000_000;
        let statement = Statement {
            status: 0,
            earliest_ns: utc_ns - bound_us * 1_000,
            latest_ns: utc_ns + bound_us * 1_000,
            generation: 1,
            stamp_ns: clocks::now::<Monotonic>().as_nanos(),
            host,
        };
        let _ = socket.send_to(&heartbeat::reply(&keys[0], &nonce, &statement), from);
    }
}

fn used<T>(value: T) {
    std::hint::black_box(value);
}

/// Readings beside each other: ns each, the least of twenty batches.
fn cost() -> io::Result<()> {
    let clock = Clock::start(&ClockOptions::fast());
    let path = std::env::temp_dir().join(format!("vtare-cost-{}", std::process::id()));
    let writer = PageWriter::open(&path)?;
    let at = clock.now_checked().at;
    writer.write(&UtcLine {
        begun: at,
        at,
        until: at + Span::from_secs(3_600),
        earliest: clocks::now(),
        latest: clocks::now(),
        status: vtare_clock::UtcStatus::Synchronized,
        rounds: 1,
        ..UtcLine::default()
    });
    let reader = PageReader::open(&path)?;
    fs::remove_file(&path)?;
    let least = |read: &dyn Fn()| {
        let batch = || {
            let begun = clocks::now::<Monotonic>();
            (0..100_000).for_each(|_| read());
            (clocks::now::<Monotonic>() - begun).as_nanos() as f64 / 1e5
        };
        (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min)
    };
    let counter = least(&|| used(vtare_sys::counter::read()));
    let rows = [
        ("the counter", counter),
        ("now_checked", least(&|| used(clock.now_checked()))),
        ("now_utc_interval, kernel's statement", least(&|| used(clock.now_utc_interval()))),
        ("now_utc_interval, page of witnesses", least(&|| used(reader.interval(&clock)))),
    ];
    for (name, ns) in rows {
        println!("{{\"name\": \"{name}\", \"ns\": {ns:.1}, \"counters\": {:.2}}}", ns / counter);
    }
    Ok(())
}

/// Keeps a page on this host beside busy threads: disruptions stated, rounds, and the share of a CPU.
fn keep(seconds: u64, threads: u64, list: &str) -> io::Result<()> {
    let witnesses = Witnesses::new(list, Some(&key())).map_err(io::Error::other)?;
    let clock = Clock::start(&ClockOptions::fast());
    let path = std::env::temp_dir().join(format!("vtare-keep-{}", std::process::id()));
    let writer = PageWriter::open(&path)?;
    fs::remove_file(&path)?;
    let busy: Vec<_> =
        (0..threads).filter_map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().ok()).collect();
    let until = clocks::now::<Monotonic>() + Span::from_secs(seconds.cast_signed());
    let (mut rounds, mut vouched, mut stated) = (0_u64, 0_u64, 0);
    let begun = process::cpu_time();
    let kept = writer.keep(&witnesses, &clock, &|| clocks::now::<Monotonic>() >= until, |line, _| {
        rounds += 1;
        vouched += u64::from(line.status == vtare_clock::UtcStatus::Synchronized);
        stated = line.generation;
    });
    let used_s = (process::cpu_time() - begun).as_secs_f64();
    for mut child in busy {
        child.kill()?;
        child.wait()?;
    }
    println!(
        "{{\"rounds\": {rounds}, \"vouched\": {vouched}, \"disruptions\": {stated}, \"cpu\": {}}}",
        used_s / seconds as f64
    );
    kept.map_err(io::Error::other)
}

/// Most threads that ask: more clients than these are simulated, several by each thread.
const MOST_THREADS: u64 = 1_000;

/// One client that asks `questions` times, once in a `period`: round trips in us. It begins at its own moment.
fn client(
    key: &HeartbeatKey,
    to: &str,
    questions: u64,
    period: Span,
    begin: Timestamp<Monotonic>,
) -> io::Result<Vec<f64>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(to)?;
    let (mut round_trips, mut nonce) = (Vec::new(), Nonce::default());
    for question in 0..questions {
        let due = begin + period * question.cast_signed();
        let _ = clocks::sleep_until(due);
        nonce[..8].copy_from_slice(&clocks::now::<Monotonic>().as_nanos().to_be_bytes());
        let (sent, mut datagram) = (clocks::now::<Monotonic>(), [0; 100]);
        if socket.send(&heartbeat::request(key, &nonce)).is_err() {
            continue;
        }
        // Until the next heartbeat: what comes later is lost, and an answer to another question is none.
        let until = due + period;
        loop {
            let left = until - clocks::now();
            if left <= Span::ZERO {
                break;
            }
            socket.set_read_timeout(Some(Duration::from_nanos(left.as_nanos_unsigned())))?;
            let Ok(length) = socket.recv(&mut datagram) else { break };
            if heartbeat::read_reply(key, &datagram[..length]).is_ok_and(|(found, _)| found == nonce) {
                round_trips.push((clocks::now::<Monotonic>() - sent).as_nanos() as f64 / 1e3);
                break;
            }
        }
    }
    Ok(round_trips)
}

/// Clients of one witness that ask once a second each: requests, answers, and the quantiles of their round trips.
fn clients(count: u64, seconds: u64, to: &str) -> io::Result<()> {
    let each = count.div_ceil(MOST_THREADS);
    let (threads, period) = (count.div_ceil(each), Span::from_nanos((1_000_000_000 / each).cast_signed()));
    let asked = threads * each * seconds;
    let shared = PresharedKey::for_heartbeats(Some(&key()));
    let start = clocks::now::<Monotonic>() + Span::from_secs(1);
    let threads = (0..threads).map(|number| {
        let (shared, to) = (shared.clone(), to.to_owned());
        let begin = start + Span::from_nanos((number * 1_000_000_000 / count).cast_signed());
        Builder::new().stack_size(128 << 10).spawn(move || client(&shared, &to, each * seconds, period, begin))
    });
    let threads: Vec<_> = threads.collect::<io::Result<_>>()?;
    let mut round_trips = Vec::new();
    for thread in threads {
        round_trips.extend(thread.join().map_err(|_| io::Error::other("a client panicked"))??);
    }
    round_trips.sort_by(f64::total_cmp);
    let quantile = |share: f64| match round_trips.len() {
        0 => "null".to_owned(),
        length => format!("{:.1}", round_trips[((length - 1) as f64 * share) as usize]),
    };
    let (answered, median, p99) = (round_trips.len(), quantile(0.5), quantile(0.99));
    println!("{{\"asked\": {asked}, \"answered\": {answered}, \"median_us\": {median}, \"p99_us\": {p99}}}");
    Ok(())
}

/// Loads the modules, and gives the card the address of QEMU's user network.
fn bring_up() -> io::Result<()> {
    for path in fs::read_to_string("/modules/order")?.lines() {
        let file = File::open(path)?;
        // SAFETY: a live descriptor and an empty text.
        if unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) } != 0 {
            return Err(io::Error::other(format!("{path}: {}", io::Error::last_os_error())));
        }
    }
    let until = clocks::now::<Monotonic>() + Span::from_secs(10);
    let place = Path::new("/sys/class/net/eth0/ifindex");
    while !place.exists() && clocks::now::<Monotonic>() < until {
        let _ = clocks::sleep_until(clocks::now::<Monotonic>() + Span::from_millis(20));
    }
    let index = fs::read_to_string(place)?.trim().parse().map_err(io::Error::other)?;
    net::configure::give_address(index, Ipv4Addr::new(10, 0, 2, 15), 24).map_err(io::Error::other)?;
    net::configure::bring_up(index, None).map_err(io::Error::other)
}

fn serve(serial: &mut File) -> io::Result<()> {
    bring_up()?;
    let line = fs::read_to_string("/proc/cmdline")?;
    let list = line.split_whitespace().find_map(|word| word.strip_prefix("witnesses=")).unwrap_or_default();
    let witnesses = Witnesses::new(list, Some(&key())).map_err(io::Error::other)?;
    let clock: &'static Clock = Box::leak(Box::new(Clock::start(&ClockOptions::fast())));
    let path = Path::new("/utc");
    let writer = PageWriter::open(path)?;
    let reader = PageReader::open(path)?;
    let kept = witnesses.clone();
    std::thread::spawn(move || {
        let ended = writer.keep(&kept, clock, &|| false, |_, _| ());
        println!("the keeper ended: {ended:?}");
    });
    writeln!(serial, "path {:?}", clock.path())?;
    let mut text = Vec::new();
    loop {
        let mut poll = libc::pollfd { fd: serial.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        if unsafe { libc::poll(&raw mut poll, 1, 1_000) } <= 0 {
            continue;
        }
        let mut byte = [0];
        if serial.read(&mut byte)? == 0 {
            continue;
        }
        if byte[0] != b'\n' {
            text.push(byte[0]);
            continue;
        }
        let words = String::from_utf8_lossy(&text).into_owned();
        text.clear();
        let mut words = words.split_whitespace();
        let answer = |found: vtare_clock::UtcInterval| {
            let (earliest, latest) = (found.earliest.as_nanos(), found.latest.as_nanos());
            format!("{:?} {earliest} {latest} {} 0", found.status, found.generation)
        };
        let words = match (words.next(), words.next().and_then(|word| word.parse().ok()).unwrap_or(0)) {
            (Some("confirm"), _) => match witnesses.confirm(clock) {
                Ok(found) => {
                    let (earliest, latest) = (found.confirmed.earliest.as_nanos(), found.confirmed.latest.as_nanos());
                    format!("Confirmed {earliest} {latest} {} {}", found.generation, found.round_trip.as_nanos())
                }
                Err(error) => {
                    println!("{error}");
                    "Refused 0 0 0 0".to_owned()
                }
            },
            (Some("step"), ns) => {
                guest::step_wall(ns)?;
                answer(reader.interval(clock))
            }
            (Some("rate"), tick) => {
                set_tick(tick)?;
                answer(reader.interval(clock))
            }
            _ => answer(reader.interval(clock)),
        };
        writeln!(serial, "{words}")?;
    }
}

/// Makes the guest's clocks run at `tick` / 10,000 of their rate.
fn set_tick(tick: i64) -> io::Result<()> {
    // SAFETY: plain numbers.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = libc::ADJ_TICK;
    timex.tick = tick;
    // SAFETY: a live timex.
    if unsafe { libc::adjtimex(&raw mut timex) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn main() -> io::Result<()> {
    if std::process::id() == 1 {
        guest::run("witnessed", serve);
        return Ok(());
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(1);
    match words.first().map(String::as_str) {
        Some("simulate") => simulate(number(1), number(2)),
        Some("witness") => witness(number(1), number(2), number(3))?,
        Some("cost") => cost()?,
        Some("clients") => clients(number(1), number(2), words.get(3).map_or("", String::as_str))?,
        Some("keep") => keep(number(1), number(2), words.get(3).map_or("", String::as_str))?,
        other => println!("{other:?} is no part of this benchmark: use simulate, witness, cost, clients or keep"),
    }
    Ok(())
}
