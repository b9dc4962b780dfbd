//! `vtare link` between namespaces: every frame is accounted for, large ones are cut, damage is found. And what is
//! refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use vtare_sys::net::namespace;

use crate::common::{Outcome, Place, VTARE, vtare_line};

/// Namespaces A and B, each joined to M: 10.113.0.1 and 10.113.0.2. No IPv6 and no address resolution: what a test
/// sends is all there is.
struct Ends {
    names: [String; 3],
}

const A: usize = 0;
const B: usize = 1;
const M: usize = 2;

impl Ends {
    /// Makes them; `None`, with the reason on stderr, where this user or machine cannot.
    fn new() -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("vtare-link-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let ends = Self { names: ["a", "b", "m"].map(|end| format!("{name}-{end}")) };
        let [a, b, m] = &ends.names;
        let mut script: Vec<String> = ends.names.iter().map(|name| format!("ip netns add {name}")).collect();
        let quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
        script.extend(ends.names.iter().map(|name| format!("ip netns exec {name} {quiet}")));
        for (end, name, last, other) in [("a", a, 1, 2), ("b", b, 2, 1)] {
            let own = format!("02:00:00:00:00:0{last}");
            script.push(format!("ip link add v{end} netns {name} address {own} type veth peer name m{end} netns {m}"));
            script.push(format!("ip -n {name} addr add 10.113.0.{last}/24 dev v{end}"));
            script.push(format!("ip -n {name} link set dev v{end} up"));
            script.push(format!("ip -n {m} link set dev m{end} up"));
            script.push(format!("ip -n {name} neigh add 10.113.0.{other} lladdr 02:00:00:00:00:0{other} dev v{end}"));
        }
        let Output { status, stderr, .. } =
            Command::new("sh").args(["-ec", &script.join("\n")]).output().expect("there is a shell");
        if !status.success() {
            eprintln!("skipped: no network namespaces here: {}", String::from_utf8_lossy(&stderr));
            return None;
        }
        Some(ends)
    }

    /// Starts `vtare` in a namespace and waits until it is ready.
    fn start(&self, end: usize, line: &str) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[end], VTARE]).args(line.split_whitespace());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip was there before");
        let mut first = String::new();
        let stderr = process.stderr.as_mut().expect("it is piped");
        BufReader::new(stderr).read_line(&mut first).expect("stderr is readable");
        assert_eq!(first, "ready\n");
        Running(Some(process))
    }

    fn link(&self, options: &str) -> Running {
        self.start(M, &format!("link ma mb --json {options}"))
    }

    fn send(&self, options: &str) -> Value {
        let mut sender = self.start(A, &format!("load net --to 10.113.0.2:5001 --json {options}"));
        sender.0.take().map(ended).expect("it runs")
    }

    fn sink(&self) -> Running {
        self.start(B, "load net --sink 10.113.0.2:5001 --json")
    }

    fn path(&self, end: usize) -> String {
        format!("/run/netns/{}", self.names[end])
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for name in &self.names {
            let _gone = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

/// A program that runs until it is stopped; killed when dropped.
struct Running(Option<Child>);

impl Running {
    /// Ends it as people do, and gives its document.
    fn stop(mut self) -> Value {
        let process = self.0.take().expect("it runs");
        let status = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
        ended(process)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take() {
            let _ended = process.kill();
            let _reaped = process.wait();
        }
    }
}

fn ended(process: Child) -> Value {
    let outcome = Outcome::of(process.wait_with_output().expect("it ends"));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.json()
}

#[track_caller]
fn count(document: &Value, path: &str) -> u64 {
    let found = path.split('.').fold(document, |value, key| match key.parse::<usize>() {
        Ok(index) => &value[index],
        Err(_) => &value[key],
    });
    found.as_u64().unwrap_or_else(|| panic!("no count at {path} in {document:#}"))
}

/// Whether the kernel dropped frames before the program saw them, since the machine kept it from its turn: they are in
/// no account but this one.
fn was_held_up(link: &Value) -> bool {
    let dropped = [0, 1].iter().any(|way| count(&link["directions"][way], "inlet.socket_drops") > 0);
    if dropped {
        crate::common::skips::spoiled("this machine kept the link from its turn until the sockets were full");
    }
    dropped
}

#[test]
fn every_packet_is_accounted_for_and_the_log_holds_the_same_truth() {
    let Some(ends) = Ends::new() else { return };
    let place = Place::new();
    let log = place.file("truth.parquet");
    let options = "--rate 20M --buffer 20p --delay 5ms --loss 5% --duplicate 3% --probe-port 5001 --seed 7";
    let link = ends.link(&format!("{options} --log {}", log.display()));
    let sink = ends.sink();
    // A burst beyond the queue, so that it overflows; Pareto bursts at five times the rate.
    let sent = ends.send("--rate 15M --arrivals onoff --peak 100M --burst 20ms --seconds 1 --seed 3 --catch-up 1s");
    // The log has whole bins only: the one of the last packet must be over.
    assert_eq!(vtare_line("load idle --seconds 0.05").code, 0);
    let link = link.stop();
    let sink = sink.stop();
    let way = &link["directions"][0];
    if was_held_up(&link) || sink["net"]["sink"]["socket_drops"] != 0 {
        return;
    }
    assert_eq!(count(way, "arrived_packet"), count(&sent, "net.packets"), "{way:#}");
    assert_eq!(count(way, "arrived_byte"), count(&sent, "net.ip_byte"));
    let parts = ["lost_packet", "overflow_packet", "unable_packet", "admitted_packet"].map(|part| count(way, part));
    assert_eq!(parts.iter().sum::<u64>(), count(way, "arrived_packet"));
    if parts[0] == 0 || parts[1] == 0 || parts[3] == 0 {
        return crate::common::skips::spoiled(&format!("this machine let too little be sent: {parts:?}"));
    }
    let out = count(way, "admitted_packet") + count(way, "duplicated_packet");
    assert_eq!(count(way, "outlet.sent_packet") + count(way, "outlet.left_packet"), out);
    assert_eq!(count(&sink, "net.packets"), count(way, "outlet.sent_packet"));
    assert_eq!(count(&sink, "net.ip_byte"), count(way, "outlet.sent_byte"));
    assert_eq!(count(&link, "directions.1.arrived_packet"), 0, "nothing came back");

    let (found, stated) = crate::common::found_and_stated_columns(&log, "logs", "link");
    assert_eq!(found, stated);
    let reader = SerializedFileReader::new(std::fs::File::open(&log).expect("it is there")).expect("it is Parquet");
    let mut sums = [0_i64; 4];
    let mut bins = Vec::new();
    for row in reader.get_row_iter(None).expect("it has rows").map(|row| row.expect("it is whole")) {
        if row.get_string(0).expect("a direction") == "ab" {
            bins.push(row.get_long(1).expect("a time"));
            assert_eq!(row.get_long(2).expect("a capacity"), 20_000_000);
            for (sum, column) in sums.iter_mut().zip([4, 5, 8, 9]) {
                *sum += row.get_long(column).expect("a count");
            }
        }
    }
    assert!(bins.windows(2).all(|pair| pair[1] - pair[0] == 10_000_000));
    let wanted = ["admitted_byte", "overflow_packet", "lost_packet"].map(|part| count(way, part) as i64);
    assert_eq!((sums[0], [sums[1], sums[2], sums[3]]), (0, wanted));
}

#[test]
fn every_packet_of_large_tcp_sends_has_its_own_fate_and_all_arrives() {
    let Some(ends) = Ends::new() else { return };
    let link = ends.link("--rate 2G --delay 1ms --buffer 4MB --ab-loss 0.5% --ab-reorder 0.5%:1ms");
    let content: Vec<u8> = (0..1_u32 << 21).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (listening, is_listening) = channel();
    let (from, to) = (ends.path(A), ends.path(B));
    let taken = std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            namespace::enter(Path::new(&to)).expect("it was made");
            let listener = TcpListener::bind("10.113.0.2:5003").expect("nobody else is there");
            listening.send(()).expect("the client waits");
            let mut taken = Vec::new();
            listener.accept().expect("it comes").0.read_to_end(&mut taken).expect("it is read");
            taken
        });
        is_listening.recv().expect("the server listens");
        let client = scope.spawn(|| {
            namespace::enter(Path::new(&from)).expect("it was made");
            TcpStream::connect("10.113.0.2:5003").expect("it answers").write_all(&content).expect("it is sent");
        });
        client.join().expect("the client ends");
        server.join().expect("the server ends")
    });
    assert!(taken == content, "{} of {} B came", taken.len(), content.len());
    let link = link.stop();
    let way = &link["directions"][0];
    assert!(count(way, "inlet.cut_frames") > 0, "no large send came: the test tests nothing: {way:#}");
    let mean_byte = count(way, "arrived_byte") / count(way, "arrived_packet");
    assert!(mean_byte <= 1_500 && count(way, "arrived_packet") > count(way, "inlet.frames"));
    assert!(count(way, "outlet.sent_frame") <= count(way, "outlet.sent_packet"));
    assert!(count(way, "arrived_byte") > 1 << 21);
    assert_eq!((count(way, "unable_packet"), count(way, "outlet.too_long_packet")), (0, 0));
}

#[test]
fn datagrams_that_are_due_together_leave_as_one_frame_and_are_lost_one_by_one() {
    let Some(ends) = Ends::new() else { return };
    // What came in an outage leaves at a packet in 0.6 us behind it: faster than frames of one packet each could.
    let link = ends.link("--rate-steps 0:30ms,20G:10ms --buffer 50MB --loss 5% --seed 5");
    let sink = ends.sink();
    let sent = ends.send("--rate 400M --catch-up 1s --seconds 0.3");
    let link = link.stop();
    let sink = sink.stop();
    if was_held_up(&link) || sink["net"]["sink"]["socket_drops"] != 0 {
        return;
    }
    let way = &link["directions"][0];
    assert_eq!(count(way, "arrived_packet"), count(&sent, "net.packets"), "{way:#}");
    assert_eq!(count(&sink, "net.packets"), count(way, "outlet.sent_packet"));
    assert_eq!(count(&sink, "net.ip_byte"), count(way, "outlet.sent_byte"));
    let (frames, packets) = (count(way, "outlet.sent_frame"), count(way, "outlet.sent_packet"));
    assert!(frames * 2 < packets, "{frames} frames for {packets} packets");
    let (lost, arrived) = (count(way, "lost_packet") as f64, count(way, "arrived_packet") as f64);
    assert!((lost - 0.05 * arrived).abs() < 5.0 * (0.05 * 0.95 * arrived).sqrt(), "{lost} of {arrived}");
}

#[test]
fn damaged_datagrams_reach_the_far_host_and_not_its_programs() {
    let Some(ends) = Ends::new() else { return };
    let link = ends.link("--corrupt 100%");
    let sink = ends.sink();
    let sent = ends.send("--rate 5M --seconds 0.2");
    let link = link.stop();
    let sink = sink.stop();
    assert!(count(&sent, "net.packets") > 0);
    if was_held_up(&link) {
        return;
    }
    assert_eq!(count(&link, "directions.0.corrupted_packet"), count(&sent, "net.packets"));
    // Those that were still on their way when it ended have not been sent.
    let out = count(&link, "directions.0.outlet.sent_packet") + count(&link, "directions.0.outlet.left_packet");
    assert_eq!(out, count(&sent, "net.packets"));
    assert_eq!(count(&sink, "net.packets"), 0, "{sink:#}");
}

#[test]
fn what_makes_no_link_is_refused_with_the_way_out() {
    vtare_line("link").refused(2, &["<A>", "<B>"]);
    vtare_line("link lo lo").refused(2, &["both ends are lo", "two interfaces"]);
    vtare_line("link lo nothere0").refused(2, &["no interface nothere0", "ip link"]);
    vtare_line("link lo x --rate fast").refused(2, &["'fast'", "150M"]);
    vtare_line("link lo x --loss 0.01").refused(2, &["'0.01'", "percent", "1%"]);
    vtare_line("link lo x --rate 1M --rate-steps 1M:1s").refused(2, &["--rate", "--rate-steps"]);
    vtare_line("link lo x --rate-steps 0:1s").refused(2, &["0 bit/s", "above 0"]);
    vtare_line("link lo x --ab-jitter 1ms:odd").refused(2, &["'odd'", "pareto"]);
    vtare_line("link lo x --loss 90% --loss-burst 2").refused(2, &["--loss-burst", "use 9"]);
    vtare_line("link lo x --cpu 4000").refused(2, &["cpu is 4000"]);
    vtare_line("link lo x --log /nonexistent/truth.parquet").refused(2, &["/nonexistent", "writable"]);
    assert_eq!(vtare_line("link lo nothere0 --json").json()["exit_code"], 2);
}
