//! What the tests share: a far end in this process, and a client of it that does what a test wants.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use vtare_methods::rpm::{RpmJob, RpmLimits};
use vtare_responsiveness::connect::{Connector, fetch};
use vtare_responsiveness::serve::{Server, listener};
use vtare_responsiveness::site::{Site, WELL_KNOWN, address_of};

/// A test that waits longer than this for something has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A far end under way; it ends with the test.
pub(crate) struct Far {
    pub(crate) server: Arc<Server>,
    running: JoinHandle<()>,
}

impl Far {
    pub(crate) async fn with(limits: RpmLimits) -> Self {
        Self::at("127.0.0.1:0".parse().expect("it is an address"), limits).await
    }

    pub(crate) async fn at(listen: SocketAddr, limits: RpmLimits) -> Self {
        let server = Arc::new(Server::at(listener(listen).expect("a port is free"), limits).expect("it serves"));
        let own = Arc::clone(&server);
        let running = tokio::spawn(async move { match own.run().await {} });
        Self { server, running }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What connects to it.
    pub(crate) async fn connector(&self) -> Connector {
        connector(self.address()).await
    }

    /// An https address there.
    pub(crate) fn uri(&self, path: &str) -> http::Uri {
        uri(self.address(), path)
    }

    /// A plain connection from another address of this host.
    pub(crate) async fn connect_from(&self, source: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket is free");
        socket.bind(format!("{source}:0").parse().expect("it is an address")).expect("it is this host's");
        socket.connect(self.address()).await.expect("it listens")
    }

    /// Whether it still serves: a whole request in time.
    pub(crate) async fn serves(&self) -> bool {
        let asked = async {
            let (send, polled) = self.requests().await;
            let text = fetch(&send, &self.uri(WELL_KNOWN), 10_000).await;
            polled.abort();
            Site::of_json(&text.expect("it answers")).is_ok()
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("it answers in time")
    }

    /// A connection whose requests are the test's own.
    pub(crate) async fn requests(&self) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
        let (send, connection, _) = self.connector().await.open().await.expect("it takes connections");
        (send, tokio::spawn(connection))
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// What connects to the far end there.
pub(crate) async fn connector(place: SocketAddr) -> Connector {
    let address = address_of(&place.to_string()).expect("it is an address");
    let site = Site::of_configuration(&address).expect("it has a host");
    Connector::find(&site).await.expect("it listens")
}

/// An https address of the far end there.
pub(crate) fn uri(place: SocketAddr, path: &str) -> http::Uri {
    format!("https://{place}{path}").parse().expect("it is an address")
}

/// A far end as a process of its own; it is killed with the test.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// The line that states what it has given up.
    pub(crate) confined: String,
    /// Open, so that it can print more.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    pub(crate) fn with(limits: RpmLimits) -> Self {
        let job =
            RpmJob::Serve { listen: "127.0.0.1:0".parse().expect("it is an address"), limits, below_serve: false };
        let job = serde_json::to_string(&job).expect("it is numbers");
        let mut command = Command::new(env!("CARGO_BIN_EXE_vtare-rpm"));
        let mut child = command.arg(job).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let mut line = || lines.next().expect("it prints two lines").expect("they are text");
        let (ready, confined) = (line(), line());
        let address = ready.split("listening on ").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.and_then(|text| text.parse().ok()).expect("it prints its address");
        Self { child, address, confined, _lines: lines }
    }

    /// A figure of its memory, kB.
    pub(crate) fn memory_kb(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("Linux has it");
        line.trim_start_matches(':').split_whitespace().next().and_then(|kb| kb.parse().ok()).expect("it is a number")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
