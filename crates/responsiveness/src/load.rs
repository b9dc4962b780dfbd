//! Load-generating connections: one large request each, and self probes beside it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use h2::client::SendRequest;
use vtare_methods::rpm::Direction;
use vtare_units::Random;

use crate::connect::{Connector, get, post, succeeded};
use crate::site::Site;
use crate::{RpmError, UNSENT_MOST};

/// A large download that is shorter is none, bytes.
const LEAST_LARGE_BYTE: u64 = 1_000_000;

/// All load-generating connections of a direction.
#[derive(Clone)]
pub(crate) struct Loads {
    connector: Connector,
    site: Arc<Site>,
    direction: Direction,
    moved: Arc<AtomicU64>,
    open: Arc<Mutex<Vec<SendRequest<Bytes>>>>,
    /// What is sent: no middlebox can make it smaller.
    noise: Bytes,
}

impl Loads {
    pub(crate) fn new(connector: &Connector, site: &Arc<Site>, direction: Direction) -> Self {
        let mut random = Random::new(1);
        let noise: Vec<u8> = (0..UNSENT_MOST / 8).flat_map(|_| random.bits().to_ne_bytes()).collect();
        Self {
            connector: connector.clone(),
            site: Arc::clone(site),
            direction,
            moved: Arc::default(),
            open: Arc::default(),
            noise: Bytes::from(noise),
        }
    }

    /// Bytes of payload since the last call.
    pub(crate) fn take_moved(&self) -> u64 {
        self.moved.swap(0, Ordering::Relaxed)
    }

    /// One of the open connections; `None` before the first is open.
    pub(crate) fn any(&self, random: &mut Random) -> Option<SendRequest<Bytes>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let at = (random.bits() % (open.len() as u64).max(1)) as usize;
        open.get(at).cloned()
    }

    /// Opens a connection and loads it until it is dropped.
    ///
    /// # Errors
    /// [`RpmError::Peer`] as soon as the connection is lost.
    pub(crate) async fn run(self) -> Result<Infallible, RpmError> {
        let (send, connection, _) = self.connector.open().await?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(send.clone());
        let place = format!("load-generating connection to {}", self.connector.address());
        let pump = async {
            match self.direction {
                Direction::Down => self.download(&send).await,
                Direction::Up => self.upload(&send).await,
            }
        };
        tokio::select! {
            ended = connection => match ended {
                Ok(()) => Err(RpmError::Peer(format!("{place}: the far end closed it"))),
                Err(error) => Err(RpmError::peer(&place, error)),
            },
            ended = pump => ended,
        }
    }

    async fn download(&self, send: &SendRequest<Bytes>) -> Result<Infallible, RpmError> {
        let uri = &self.site.large;
        let failed = |error: h2::Error| RpmError::peer(&uri.to_string(), error);
        loop {
            let mut send = send.clone().ready().await.map_err(failed)?;
            let (response, _) = send.send_request(get(uri), true).map_err(failed)?;
            let response = response.await.map_err(failed)?;
            succeeded(uri, &response)?;
            let (mut body, mut all) = (response.into_body(), 0);
            while let Some(chunk) = body.data().await {
                let byte = chunk.map_err(failed)?.len();
                body.flow_control().release_capacity(byte).map_err(failed)?;
                self.moved.fetch_add(byte as u64, Ordering::Relaxed);
                all += byte as u64;
            }
            if all < LEAST_LARGE_BYTE {
                return Err(RpmError::Peer(format!("{uri}: the download has {all} bytes, less than 8 GB")));
            }
        }
    }

    async fn upload(&self, send: &SendRequest<Bytes>) -> Result<Infallible, RpmError> {
        let uri = &self.site.upload;
        let failed = |error: h2::Error| RpmError::peer(&uri.to_string(), error);
        let mut send = send.clone().ready().await.map_err(failed)?;
        let (response, mut body) = send.send_request(post(uri), false).map_err(failed)?;
        let pump = async {
            loop {
                body.reserve_capacity(self.noise.len());
                match poll_fn(|context| body.poll_capacity(context)).await {
                    Some(Ok(byte)) => {
                        let byte = byte.min(self.noise.len());
                        body.send_data(self.noise.slice(..byte), false).map_err(failed)?;
                        self.moved.fetch_add(byte as u64, Ordering::Relaxed);
                    }
                    Some(Err(error)) => return Err(failed(error)),
                    None => return Err(RpmError::Peer(format!("{uri}: the far end ended the upload"))),
                }
            }
        };
        tokio::select! {
            ended = pump => ended,
            response = response => {
                succeeded(uri, &response.map_err(failed)?)?;
                Err(RpmError::Peer(format!("{uri}: the far end answered before the upload had ended")))
            }
        }
    }
}
