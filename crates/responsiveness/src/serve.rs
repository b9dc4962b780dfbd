//! The far end: takes connections of strangers, within bounds.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use vtare_methods::rpm::RpmLimits;
use vtare_sys::errno::{EMFILE, ENFILE};
use vtare_sys::net::tcp;

use crate::connect::{choose_congestion, provider, unqueued};
use crate::content::{STALL_TIME, Task, Unanswered, answer};
use crate::meter::{Metered, Rates, SharedRate};
use crate::places::{Place, Places, place_limits};
use crate::{RpmError, UNSENT_MOST, http1};

/// Memory that a connection takes at most, bytes, in the mean of all: up to 64 kB of a handshake that is not whole or
/// `WINDOW_BYTE` of payload, a record of TLS and one of HTTP/2 each way, and 0.6 kB for each of `STREAMS`.
pub const CONNECTION_MEMORY_BYTE: usize = 192 << 10;
/// For each handshake, TLS and HTTP/2, and for the first or the next request.
const QUIET_TIME: Duration = STALL_TIME;
/// Requests of a connection at the same time.
const STREAMS: u32 = 100;
/// Payload that may be under way to here on a connection: from its start, as RFC 9113 has it, and once it uploads.
const WINDOW_BYTE: u32 = 65_535;
const UPLOAD_WINDOW_BYTE: u32 = 4 << 20;
/// Payload that may be under way to here on a stream.
const STREAM_WINDOW_BYTE: u32 = 1 << 20;
/// Headers of a request, bytes.
const HEADER_BYTE: u32 = 8_192;
/// By its name in TLS: for clients that probe an idle path in HTTP/1.1, as cf-mach does.
const HTTP1: &[u8] = b"http/1.1";
/// After a failed accept: descriptors may come free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a far end has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Connections that were taken.
    pub connections: u64,
    /// Connections that were closed, or got no answer, because there were too many.
    pub turned_away: u64,
    /// Bytes received, whatever they were.
    pub received_byte: u64,
    /// Bytes sent.
    pub sent_byte: u64,
}

/// A far end that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    limits: RpmLimits,
    rates: Arc<Rates>,
    places: Arc<Places>,
    taken: AtomicU64,
}

impl Server {
    /// Serves at a [`listener`], with a certificate that is made for this run and signed by itself. Within a runtime.
    ///
    /// # Errors
    /// [`RpmError::Machine`] where the certificate cannot be made.
    pub fn at(listener: std::net::TcpListener, limits: RpmLimits) -> Result<Self, RpmError> {
        let refused = |error: std::io::Error| RpmError::Machine(format!("cannot listen: {error}"));
        let address = listener.local_addr().map_err(refused)?;
        let listener = TcpListener::from_std(listener).map_err(refused)?;
        let rate = || SharedRate::new(limits.rate_bit_per_s);
        Ok(Self {
            listener,
            address,
            tls: TlsAcceptor::from(Arc::new(server_config(address)?)),
            limits,
            rates: Arc::new(Rates { received: rate(), sent: rate() }),
            places: Places::new(&limits),
            taken: AtomicU64::new(0),
        })
    }

    /// How many connections are open at most.
    #[must_use]
    pub const fn most_connections(limits: &RpmLimits) -> usize {
        place_limits(limits).most()
    }

    /// Memory that all connections together take at most, bytes; the buffers of the kernel come on top.
    #[must_use]
    pub const fn most_memory_byte(limits: &RpmLimits) -> usize {
        Self::most_connections(limits) * CONNECTION_MEMORY_BYTE
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The congestion control of the connections.
    #[must_use]
    pub fn congestion(&self) -> String {
        tcp::congestion(&self.listener).unwrap_or_default()
    }

    /// What it has done.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            connections: self.taken.load(Ordering::Relaxed),
            turned_away: self.places.turned_away(),
            received_byte: self.rates.received.byte(),
            sent_byte: self.rates.sent.byte(),
        }
    }

    /// Serves until it is dropped. Nothing that a client does ends it.
    pub async fn run(&self) -> std::convert::Infallible {
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                // Those that have ended are let go.
                Some(_) = clients.join_next() => {}
                taken = self.listener.accept() => match taken {
                    Ok((stream, peer)) => {
                        self.taken.fetch_add(1, Ordering::Relaxed);
                        clients.spawn(self.client(stream, peer.ip()));
                    }
                    Err(error) => {
                        // Fewer descriptors than places: those that are silent must not keep them all.
                        if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
                            self.places.make_room();
                        }
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    /// A connection, to its end. Why a stranger's connection ended is nobody's concern.
    fn client(&self, stream: TcpStream, peer: IpAddr) -> impl Future<Output = ()> + Send + use<> {
        let (tls, address) = (self.tls.clone(), self.address.to_string());
        let most = Duration::from_nanos(self.limits.connection_ns);
        let metered =
            unqueued(&stream).map(|()| Metered::new(stream, Arc::clone(&self.rates), self.limits.connection_byte));
        let (place, must_go) = self.places.enter(peer);
        async move {
            let Ok(metered) = metered else { return };
            tokio::select! {
                _ = must_go => {}
                _ = timeout(most, converse(tls, metered, address, &place)) => {}
            }
        }
    }
}

/// Handshakes, then requests until the connection ends or has none for too long.
async fn converse(tls: TlsAcceptor, metered: Metered<TcpStream>, address: String, place: &Place) -> Option<()> {
    let mut stream = timeout(QUIET_TIME, tls.accept(metered)).await.ok()?.ok()?;
    if stream.get_ref().1.alpn_protocol() == Some(HTTP1) {
        return timeout(QUIET_TIME, http1::answer(stream, &address)).await.ok()?.ok();
    }
    stream.get_mut().1.set_buffer_limit(Some(UNSENT_MOST));
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW_BYTE)
        .initial_connection_window_size(WINDOW_BYTE)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTE)
        .max_send_buffer_size(UNSENT_MOST);
    let mut connection = timeout(QUIET_TIME, builder.handshake(stream)).await.ok()?.ok()?;
    let (mut answers, mut has_asked) = (JoinSet::new(), false);
    loop {
        tokio::select! {
            // What a client does not take is not kept for it.
            Some(ended) = answers.join_next() => {
                if matches!(ended, Ok(Err(Unanswered::Stalled))) {
                    return None;
                }
            }
            asked = connection.accept() => {
                let (request, respond) = asked?.ok()?;
                if !has_asked {
                    has_asked = place.has_asked();
                    has_asked.then_some(())?;
                }
                let task = Task::of(request, &address);
                if matches!(task, Task::Upload(_)) {
                    connection.set_target_window_size(UPLOAD_WINDOW_BYTE);
                }
                answers.spawn(answer(task, respond));
            }
            () = sleep(QUIET_TIME), if answers.is_empty() => return None,
        }
    }
}

/// Listens. Connections inherit the congestion control of the listener.
///
/// # Errors
/// [`RpmError::Machine`] where the address cannot be bound.
pub fn listener(listen: SocketAddr) -> Result<std::net::TcpListener, RpmError> {
    let refused = |error: std::io::Error| RpmError::Machine(format!("cannot listen on {listen}: {error}"));
    let listener = std::net::TcpListener::bind(listen).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    choose_congestion(&listener);
    Ok(listener)
}

fn server_config(address: SocketAddr) -> Result<ServerConfig, RpmError> {
    let failed = |error: &dyn std::fmt::Display| RpmError::Machine(format!("cannot make a certificate: {error}"));
    let names = vec!["localhost".to_owned(), address.ip().to_string()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| failed(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(|error| failed(&error))?;
    // Those that offer both get the first.
    config.alpn_protocols = vec![b"h2".to_vec(), HTTP1.to_vec()];
    // Clients measure whole handshakes.
    config.send_tls13_tickets = 0;
    Ok(config)
}
