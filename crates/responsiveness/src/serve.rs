//! The far end: takes connections of strangers, within bounds.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use vtare_methods::rpm::RpmLimits;
use vtare_sys::net::tcp;

use crate::connect::{choose_congestion, provider, unqueued};
use crate::content::{STALL_TIME, answer};
use crate::meter::{Metered, Rates, SharedRate};
use crate::{RpmError, UNSENT_MOST, http1};

/// For each handshake, TLS and HTTP/2, and for the first or the next request.
const QUIET_TIME: Duration = STALL_TIME;
/// Requests of a connection at the same time.
const STREAMS: u32 = 100;
/// Payload that may be under way to here, on a stream and on a connection.
const WINDOW_BYTE: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTE: u32 = 4 << 20;
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
    /// Connections that were closed at once: there were too many.
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
    turned_away: AtomicU64,
    taken: AtomicU64,
}

/// Connections that are open, by address.
#[derive(Debug, Default)]
struct Places(Mutex<HashMap<IpAddr, usize>>);

/// One of them; gives its place back when dropped.
struct Place {
    all: Arc<Places>,
    peer: IpAddr,
}

impl Places {
    /// A place for a connection of this address; `None` where there are too many.
    fn take(all: &Arc<Self>, peer: IpAddr, limits: &RpmLimits) -> Option<Place> {
        let peer = network(peer);
        let mut open = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole: usize = open.values().sum();
        let own = open.get(&peer).copied().unwrap_or(0);
        if whole >= limits.connections || own >= limits.connections_per_peer {
            return None;
        }
        open.insert(peer, own + 1);
        drop(open);
        Some(Place { all: Arc::clone(all), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.peer)),
        }
    }
}

/// What counts as one client: an IPv4 address, or the /64 that one host may have whole.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        ipv4 => ipv4,
    }
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
            places: Arc::default(),
            turned_away: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        })
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
            turned_away: self.turned_away.load(Ordering::Relaxed),
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
                    Ok((stream, peer)) => match Places::take(&self.places, peer.ip(), &self.limits) {
                        Some(place) => {
                            self.taken.fetch_add(1, Ordering::Relaxed);
                            clients.spawn(self.client(stream, place));
                        }
                        None => drop(self.turned_away.fetch_add(1, Ordering::Relaxed)),
                    },
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
            }
        }
    }

    /// A connection, to its end. Why a stranger's connection ended is nobody's concern.
    fn client(&self, stream: TcpStream, place: Place) -> impl Future<Output = ()> + Send + use<> {
        let (tls, address) = (self.tls.clone(), self.address.to_string());
        let most = Duration::from_nanos(self.limits.connection_ns);
        let metered =
            unqueued(&stream).map(|()| Metered::new(stream, Arc::clone(&self.rates), self.limits.connection_byte));
        async move {
            let _place = place;
            if let Ok(metered) = metered {
                let _ = timeout(most, converse(tls, metered, address)).await;
            }
        }
    }
}

/// Handshakes, then requests until the connection ends or has none for too long.
async fn converse(tls: TlsAcceptor, metered: Metered<TcpStream>, address: String) -> Option<()> {
    let mut stream = timeout(QUIET_TIME, tls.accept(metered)).await.ok()?.ok()?;
    if stream.get_ref().1.alpn_protocol() == Some(HTTP1) {
        return timeout(QUIET_TIME, http1::answer(stream, &address)).await.ok()?.ok();
    }
    stream.get_mut().1.set_buffer_limit(Some(UNSENT_MOST));
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(WINDOW_BYTE)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTE)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTE)
        .max_send_buffer_size(UNSENT_MOST);
    let mut connection = timeout(QUIET_TIME, builder.handshake(stream)).await.ok()?.ok()?;
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = answers.join_next() => {}
            asked = connection.accept() => {
                let (request, respond) = asked?.ok()?;
                answers.spawn(answer(request, respond, address.clone()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_cannot_take_all_places_and_gives_back_what_it_had() {
        let limits = RpmLimits { connections: 3, connections_per_peer: 2, ..RpmLimits::default() };
        let all = Arc::<Places>::default();
        let take = |peer: &str| Places::take(&all, peer.parse().expect("it is an address"), &limits);
        let (first, second) = (take("fd00::1"), take("fd00::2"));
        assert!(first.is_some() && second.is_some());
        assert!(take("fd00::3").is_none(), "a /64 is one client");
        let third = take("::ffff:10.0.0.1");
        assert!(third.is_some() && take("10.0.0.2").is_none(), "three in all");
        drop((first, third));
        assert!(take("10.0.0.1").is_some());
        drop(second);
        assert!(all.0.lock().expect("nobody panicked").is_empty());
    }
}
