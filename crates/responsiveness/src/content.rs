//! What the far end answers: the configuration, one byte, 8 GB, and nothing to what is posted.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::time::timeout;

use crate::UNSENT_MOST;
use crate::site::{Configuration, Urls, WELL_KNOWN};

/// The three addresses.
pub const SMALL: &str = "/nq/small";
/// A large download.
pub const LARGE: &str = "/nq/large";
/// What is posted there is thrown away.
pub const UPLOAD: &str = "/nq/upload";
/// Bytes of the large download, by the draft.
pub const LARGE_BYTE: u64 = 8 << 30;
/// A connection with a request that does not move for so long is ended.
pub const STALL_TIME: Duration = Duration::from_secs(10);

/// The large download, over and over.
static ZEROS: [u8; UNSENT_MOST] = [0; UNSENT_MOST];

/// Why a request got no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The client takes nothing, or sends nothing, for [`STALL_TIME`].
    #[error("it did not move for {} s", STALL_TIME.as_secs())]
    Stalled,
    /// The stream or its connection ended early.
    #[error(transparent)]
    Ended(#[from] h2::Error),
}

/// What is left to do for a request. Holds nothing of it but the body of an upload: what a client sends beside that is
/// thrown away at once, since many requests would make it much.
pub(crate) enum Task {
    Upload(RecvStream),
    Small,
    Large,
    Configuration(Vec<u8>),
    Refuse(StatusCode),
}

impl Task {
    /// What a request asks for. `place` names this far end where the request does not.
    pub(crate) fn of(request: Request<RecvStream>, place: &str) -> Self {
        let path = request.uri().path();
        let wanted = if path == UPLOAD { Method::POST } else { Method::GET };
        if ![SMALL, LARGE, UPLOAD, WELL_KNOWN].contains(&path) {
            return Self::Refuse(StatusCode::NOT_FOUND);
        }
        if request.method() != wanted {
            return Self::Refuse(StatusCode::METHOD_NOT_ALLOWED);
        }
        match path {
            UPLOAD => Self::Upload(request.into_body()),
            SMALL => Self::Small,
            LARGE => Self::Large,
            _ => Self::Configuration(configuration(request.uri().authority().map_or(place, Authority::as_str))),
        }
    }
}

/// Answers one request.
///
/// # Errors
/// Where the stream or its connection ends early, or does not move.
pub(crate) async fn answer(task: Task, mut respond: SendResponse<Bytes>) -> Result<(), Unanswered> {
    match task {
        Task::Upload(body) => {
            drain(body).await?;
            respond.send_response(headers(None, 0), true)?;
        }
        Task::Small => whole(&mut respond, "application/octet-stream", Bytes::from_static(&ZEROS[..1]))?,
        Task::Large => large(&mut respond).await?,
        Task::Configuration(text) => whole(&mut respond, "application/json", Bytes::from(text))?,
        Task::Refuse(status) => refuse(&mut respond, status)?,
    }
    Ok(())
}

/// The configuration of a far end that its clients know by this name.
pub(crate) fn configuration(place: &str) -> Vec<u8> {
    let url = |path: &str| format!("https://{place}{path}");
    let urls = Urls { large_download_url: url(LARGE), small_download_url: url(SMALL), upload_url: url(UPLOAD) };
    serde_json::to_vec(&Configuration { version: 1, urls, test_endpoint: None })
        .expect("text and numbers can be written as JSON")
}

fn headers(kind: Option<&'static str>, byte: u64) -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(byte));
    if let Some(kind) = kind {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}

fn refuse(respond: &mut SendResponse<Bytes>, status: StatusCode) -> Result<(), h2::Error> {
    let mut response = headers(None, 0);
    *response.status_mut() = status;
    respond.send_response(response, true).map(drop)
}

fn whole(respond: &mut SendResponse<Bytes>, kind: &'static str, content: Bytes) -> Result<(), h2::Error> {
    respond.send_response(headers(Some(kind), content.len() as u64), false)?.send_data(content, true)
}

/// Sends the large download as fast as it is taken.
async fn large(respond: &mut SendResponse<Bytes>) -> Result<(), Unanswered> {
    let mut body = respond.send_response(headers(Some("application/octet-stream"), LARGE_BYTE), false)?;
    let mut left = LARGE_BYTE;
    while left > 0 {
        body.reserve_capacity(ZEROS.len());
        let ready = timeout(STALL_TIME, poll_fn(|context| body.poll_capacity(context))).await;
        let Some(byte) = ready.map_err(|_| Unanswered::Stalled)? else { return Err(gone()) };
        let byte = (byte?.min(ZEROS.len()) as u64).min(left);
        left -= byte;
        body.send_data(Bytes::from_static(&ZEROS[..byte as usize]), left == 0)?;
    }
    Ok(())
}

/// The client has reset its stream.
fn gone() -> Unanswered {
    h2::Error::from(Reason::CANCEL).into()
}

/// Throws away what is posted.
async fn drain(mut body: RecvStream) -> Result<(), Unanswered> {
    loop {
        match timeout(STALL_TIME, body.data()).await {
            Ok(Some(chunk)) => {
                let byte = chunk?.len();
                body.flow_control().release_capacity(byte)?;
            }
            Ok(None) => return Ok(()),
            Err(_) => return Err(Unanswered::Stalled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Site;

    #[test]
    fn the_configuration_is_one_that_a_client_takes() {
        let site = Site::of_json(&configuration("[fd00::2]:4043")).expect("it is valid");
        assert_eq!((site.host.as_str(), site.port, site.upload.path()), ("fd00::2", 4043, UPLOAD));
    }
}
