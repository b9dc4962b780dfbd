//! One connection to the far end: TCP, TLS 1.3, HTTP/2, each timed.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use http::{Method, Request, Response, StatusCode, Uri};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{self, CryptoProvider};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio_rustls::{TlsConnector, rustls};
use vtare_sys::net::tcp;

use crate::site::Site;
use crate::{RpmError, UNSENT_MOST, now, since};

/// Payload that may be under way on a stream, and on a connection: above what a path holds, so that TCP is what limits.
const WINDOW_BYTE: u32 = 16 << 20;

/// What a connection took, ns.
#[derive(Clone, Copy, Debug)]
pub struct Handshakes {
    /// The TCP handshake.
    pub tcp_ns: u64,
    /// The TLS handshake: one round trip, since only TLS 1.3 is offered and no session is resumed.
    pub tls_ns: u64,
}

/// Connects to one far end, always at the same address.
#[derive(Clone)]
pub struct Connector {
    address: SocketAddr,
    congestion: String,
    name: ServerName<'static>,
    tls: TlsConnector,
}

/// A connection: what sends requests, and what must be polled for anything to move.
pub type Open = (SendRequest<Bytes>, Connection<TlsStream<TcpStream>, Bytes>, Handshakes);

impl Connector {
    /// Looks the name of a far end up.
    ///
    /// # Errors
    /// [`RpmError::Input`] where it has no address, [`RpmError::Peer`] where none takes a connection.
    pub async fn find(site: &Site) -> Result<Self, RpmError> {
        // No certificate names the interface of a link-local address.
        let host = site.host.split('%').next().unwrap_or_default().to_owned();
        let name = ServerName::try_from(host)
            .map_err(|_| RpmError::Input(format!("peer is '{}': use a host name or address", site.host)))?;
        let place = format!("{}:{}", site.endpoint, site.port);
        let found = tokio::net::lookup_host((site.endpoint.as_str(), site.port)).await;
        let mut last = "it has no address".to_owned();
        let found =
            found.map_err(|error| RpmError::Input(format!("peer '{place}': {error}; use an address or a name")))?;
        for address in found {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    choose_congestion(&stream);
                    let congestion = tcp::congestion(&stream).map_err(|error| RpmError::Machine(error.to_string()))?;
                    let tls = tls(b"h2")?;
                    return Ok(Self { address, name, congestion, tls });
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(RpmError::Peer(format!("cannot reach {place}: {last}: start `vtare serve --rpm` there, or name its port")))
    }

    /// Where connections go.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The congestion control of what is sent from here.
    #[must_use]
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> RpmError {
        RpmError::peer(&self.address.to_string(), error)
    }

    /// Connects, up to the end of the TLS handshake.
    ///
    /// # Errors
    /// [`RpmError::Peer`] where a handshake fails.
    pub async fn secure(&self) -> Result<(TlsStream<TcpStream>, Handshakes), RpmError> {
        let failed = |error: &dyn std::fmt::Display| self.failed(error);
        let begin = now();
        let stream = TcpStream::connect(self.address).await.map_err(|error| failed(&error))?;
        let tcp_ns = since(begin);
        unqueued(&stream).map_err(|error| failed(&error))?;
        choose_congestion(&stream);
        let begin = now();
        let mut stream = self.tls.connect(self.name.clone(), stream).await.map_err(|error| failed(&error))?;
        let tls_ns = since(begin);
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(failed(&"it does not offer HTTP/2"));
        }
        stream.get_mut().1.set_buffer_limit(Some(UNSENT_MOST));
        Ok((stream, Handshakes { tcp_ns, tls_ns }))
    }

    /// Opens a connection that takes requests.
    ///
    /// # Errors
    /// [`RpmError::Peer`] where a handshake fails.
    pub async fn open(&self) -> Result<Open, RpmError> {
        let (stream, handshakes) = self.secure().await?;
        let built = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW_BYTE)
            .initial_connection_window_size(WINDOW_BYTE)
            .max_send_buffer_size(UNSENT_MOST)
            .handshake(stream)
            .await;
        let (send, connection) = built.map_err(|error| self.failed(&error))?;
        Ok((send, connection, handshakes))
    }
}

/// Has a socket send at once what it is given, and take no more than it can send soon.
///
/// # Errors
/// Where the kernel refuses.
pub fn unqueued(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    tcp::set_unsent_most(stream, UNSENT_MOST as u32).map_err(std::io::Error::other)
}

/// Has a socket use CUBIC, the standard (RFC 9438), where the kernel has it and this user may choose it; the kernel's
/// own choice stays otherwise. With BBR a third of the packets are lost that several connections send into a full
/// queue, and a self probe waits for all that is lost before it: its time is that of BBR and not of the queue.
pub fn choose_congestion(socket: impl AsFd) {
    // What is used in the end is read from the socket, and reported.
    let _ = tcp::set_congestion(socket, "cubic");
}

/// A request without a body.
#[must_use]
pub fn get(uri: &Uri) -> Request<()> {
    request(Method::GET, uri, http::header::ACCEPT_ENCODING, "identity")
}

/// A request whose body follows.
#[must_use]
pub fn post(uri: &Uri) -> Request<()> {
    request(Method::POST, uri, http::header::CONTENT_TYPE, "application/octet-stream")
}

fn request(method: Method, uri: &Uri, name: http::HeaderName, value: &'static str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri.clone();
    request.headers_mut().insert(name, http::HeaderValue::from_static(value));
    request
}

/// Checks that a request succeeded.
///
/// # Errors
/// [`RpmError::Peer`] with the status.
pub fn succeeded<B>(uri: &Uri, response: &Response<B>) -> Result<(), RpmError> {
    match response.status() {
        StatusCode::OK => Ok(()),
        status => Err(RpmError::Peer(format!("{uri}: the status is {status}, not 200 OK"))),
    }
}

/// Asks for something small, and gives its content.
///
/// # Errors
/// [`RpmError::Peer`] where it is refused, or longer than `most` bytes.
pub async fn fetch(send: &SendRequest<Bytes>, uri: &Uri, most: usize) -> Result<Vec<u8>, RpmError> {
    let failed = |error: h2::Error| RpmError::peer(&uri.to_string(), error);
    let mut send = send.clone().ready().await.map_err(failed)?;
    let (response, _) = send.send_request(get(uri), true).map_err(failed)?;
    let response = response.await.map_err(failed)?;
    succeeded(uri, &response)?;
    let (mut body, mut content) = (response.into_body(), Vec::new());
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(failed)?;
        if content.len() + chunk.len() > most {
            return Err(RpmError::Peer(format!("{uri}: the answer has more than {most} bytes")));
        }
        body.flow_control().release_capacity(chunk.len()).map_err(failed)?;
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// The one implementation of cryptography that the program has.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

/// Makes TLS 1.3 of a TCP connection, for this protocol in it; takes any certificate.
///
/// # Errors
/// [`RpmError::Machine`] where the cryptography cannot be set up.
pub fn tls(protocol: &[u8]) -> Result<TlsConnector, RpmError> {
    let provider = provider();
    let any = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| RpmError::Machine(error.to_string()))?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(any).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    // Each probe makes a whole handshake.
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Takes any certificate: a far end has a self-signed one, and nothing that is sent is secret. The handshake is
/// checked all the same, by the key in it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not offered".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
