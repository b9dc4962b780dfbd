//! What the tests share: a far end in this process, and a client of it that does what a test wants.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use vtare_methods::rpm::RpmLimits;
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
        let listen = "127.0.0.1:0".parse().expect("it is an address");
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
        let address = address_of(&self.address().to_string()).expect("it is an address");
        let site = Site::of_configuration(&address).expect("it has a host");
        Connector::find(&site).await.expect("it listens")
    }

    /// An https address there.
    pub(crate) fn uri(&self, path: &str) -> http::Uri {
        format!("https://{}{path}", self.address()).parse().expect("it is an address")
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
