//! `vtare requests`: latencies from the times that requests were due, the highest rate, and servers that are no help.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{VTARE, pause, vtare_line};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that hands each connection on, with a thread for it; it ends with the test.
fn serve(handle: impl Fn(TcpStream, usize) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let handle = handle.clone();
            std::thread::spawn(move || handle(stream, number));
        }
    });
    address
}

/// Answers each request by what `reply` gives for its number on the connection.
fn answer(mut stream: TcpStream, reply: impl Fn(usize) -> Option<String>) {
    let mut buffer = [0; 4096];
    for number in 0.. {
        match (stream.read(&mut buffer), reply(number)) {
            (Ok(1..), Some(text)) if stream.write_all(text.as_bytes()).is_ok() => {}
            _ => return,
        }
    }
}

fn latencies(document: &Value) -> Vec<u64> {
    document["latency_ns"].as_array().expect("it is a list").iter().filter_map(Value::as_u64).collect()
}

#[test]
fn a_kept_connection_carries_all_requests_and_the_rate_is_that_of_several() {
    let address = serve(|stream, _| answer(stream, |_| Some(OK.to_owned())));
    let document = vtare_line(&format!("requests {address} --requests 50 --seconds 0.2")).json();
    assert_eq!((latencies(&document).len(), &document["failed"]), (50, &Value::from(0)));
    assert_eq!((&document["status"], &document["bytes"]), (&Value::from(200), &Value::from(OK.len())));
    assert!(document["per_s"].as_f64() > Some(100.0), "{document}");
}

#[test]
fn a_server_that_stands_still_is_late_for_every_request_that_was_due_meanwhile() {
    let stalls = |stream, _| {
        answer(stream, |number| {
            if number == 20 {
                pause(300);
            }
            Some(OK.to_owned())
        });
    };
    let line = format!("requests {} --requests 60 --rate 100 --seconds 0", serve(stalls));
    let document = vtare_line(&line).json();
    // About 30 were due in 300 ms; counted from when each was sent, only one would be late.
    assert!(latencies(&document).iter().filter(|ns| **ns > 20_000_000).count() >= 25, "{document}");
    assert_eq!(document["per_s"], Value::Null);
}

#[test]
fn connections_that_the_server_closes_are_made_anew() {
    let closes = OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let once = serve(move |stream, _| answer(stream, |number| (number == 0).then(|| closes.clone())));
    // It closes without a word after some requests, as servers do.
    let unannounced = serve(|stream, _| answer(stream, |number| (number < 3).then(|| OK.to_owned())));
    for address in [once, unannounced] {
        let document = vtare_line(&format!("requests {address} --requests 20 --seconds 0.1")).json();
        assert_eq!((latencies(&document).len(), &document["failure"]), (20, &Value::Null), "{document}");
    }
}

#[test]
fn another_protocol_is_asked_with_its_own_words() {
    let address = serve(|stream, _| answer(stream, |_| Some("+PONG\r\n".to_owned())));
    let document = vtare_line(&format!(r"requests {address} --request PING\r\n --requests 20 --seconds 0.1")).json();
    assert_eq!((latencies(&document).len(), &document["bytes"]), (20, &Value::from(7)));
    vtare_line(&format!("requests {address} --wait 2")).refused(4, &["not HTTP/1", "--request TEXT"]);
    vtare_line(&format!("requests {address} --rate 0")).refused(2, &["--rate: '0' is not a rate from 0.01"]);
    vtare_line(&format!("requests {address} --seconds inf")).refused(2, &["'inf' is not a number"]);
    vtare_line(&format!(r"requests {address} --request \q")).refused(2, &["unknown escape", r"\xHH"]);
}

#[test]
fn what_breaks_on_the_way_is_counted_with_its_reason() {
    let worse = serve(|stream, _| {
        answer(stream, |number| {
            Some(if number < 10 { OK.to_owned() } else { "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned() })
        });
    });
    let document = vtare_line(&format!("requests {worse} --requests 40 --seconds 0")).json();
    assert!(document["failed"].as_u64() > Some(0), "{document}");
    assert_eq!(document["failure"], "it answered with status 503");
    let garbage = serve(|stream, number| {
        answer(stream, |at| Some(if number + at < 10 { OK.to_owned() } else { "\0\u{1}\n".repeat(2000) }));
    });
    let document = vtare_line(&format!("requests {garbage} --requests 40 --seconds 0.1")).json();
    assert_eq!(document["failed"].as_u64().map(|failed| failed + latencies(&document).len() as u64), Some(40));
}

#[test]
fn nobody_there_is_an_error_in_bounded_time_and_no_request_only_waits() {
    let silent = serve(|stream, _| {
        pause(20_000);
        drop(stream);
    });
    vtare_line(&format!("requests {silent} --wait 0.3")).refused(4, &["no whole reply came in time"]);
    assert!(vtare_line(&format!("requests {silent} --requests 0 --seconds 0.0")).json()["first_ns"].as_u64() > Some(0));
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("there is a port");
    vtare_line(&format!("requests {free} --wait 0.2")).refused(4, &["refused"]);
}

#[test]
fn it_waits_for_no_server_where_nobody_reads_its_answer() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("there is a port");
    let mut child = Command::new(VTARE)
        .args(["requests", &free.to_string(), "--wait", "600"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
