//! What the far end answers: the configuration, one byte, 8 GB, and nothing to what is posted.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
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
/// A request that does not move for so long is ended.
pub const STALL_TIME: Duration = Duration::from_secs(10);

/// The large download, over and over.
static ZEROS: [u8; UNSENT_MOST] = [0; UNSENT_MOST];

/// Answers one request. `place` names this far end where the request does not.
///
/// # Errors
/// Where the stream or its connection ends early, or does not move.
pub async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    place: String,
) -> Result<(), h2::Error> {
    let path = request.uri().path().to_owned();
    let uploads = path == UPLOAD;
    let wanted = if uploads { Method::POST } else { Method::GET };
    if ![SMALL, LARGE, UPLOAD, WELL_KNOWN].contains(&path.as_str()) {
        return refuse(&mut respond, StatusCode::NOT_FOUND);
    }
    if request.method() != wanted {
        return refuse(&mut respond, StatusCode::METHOD_NOT_ALLOWED);
    }
    if uploads {
        drain(request.into_body()).await?;
        respond.send_response(headers(None, 0), true)?;
        return Ok(());
    }
    match path.as_str() {
        SMALL => whole(&mut respond, "application/octet-stream", Bytes::from_static(&ZEROS[..1])),
        LARGE => large(&mut respond).await,
        _ => {
            let place = request.uri().authority().map_or(place, ToString::to_string);
            whole(&mut respond, "application/json", Bytes::from(configuration(&place)))
        }
    }
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
async fn large(respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let mut body = respond.send_response(headers(Some("application/octet-stream"), LARGE_BYTE), false)?;
    let mut left = LARGE_BYTE;
    while left > 0 {
        body.reserve_capacity(ZEROS.len());
        let ready = timeout(STALL_TIME, poll_fn(|context| body.poll_capacity(context))).await;
        let Ok(Some(byte)) = ready else {
            body.send_reset(Reason::CANCEL);
            return Err(Reason::CANCEL.into());
        };
        let byte = (byte?.min(ZEROS.len()) as u64).min(left);
        left -= byte;
        body.send_data(Bytes::from_static(&ZEROS[..byte as usize]), left == 0)?;
    }
    Ok(())
}

/// Throws away what is posted.
async fn drain(mut body: RecvStream) -> Result<(), h2::Error> {
    loop {
        match timeout(STALL_TIME, body.data()).await {
            Ok(Some(chunk)) => {
                let byte = chunk?.len();
                body.flow_control().release_capacity(byte)?;
            }
            Ok(None) => return Ok(()),
            Err(_) => return Err(Reason::CANCEL.into()),
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
