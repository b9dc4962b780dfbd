//! The far end in HTTP/1.1, for clients that probe an idle path so: one request a connection, for the configuration or
//! for one byte. A load takes HTTP/2.

use std::fmt::Write as _;

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::content::{LARGE, SMALL, UPLOAD, configuration};
use crate::site::WELL_KNOWN;

/// Request line and headers, bytes.
const HEAD_BYTE: usize = 8_192;

/// Answers one request. `place` names this far end where the request does not.
///
/// # Errors
/// Where the connection ends early.
pub(crate) async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, place: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTE {
        if (&mut stream).take((HEAD_BYTE - head.len()) as u64).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(&response(&head, place)).await?;
    stream.shutdown().await
}

fn response(head: &[u8], place: &str) -> Vec<u8> {
    let (status, body) =
        content(head, place).map_or_else(|refused| (refused, Vec::new()), |body| (StatusCode::OK, body));
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        // Writing to a string does not fail.
        let _ = text.write_str("Allow: GET\r\n");
    }
    [text.as_bytes(), b"\r\n", &body].concat()
}

/// What is asked for, or the status that refuses it.
fn content(head: &[u8], place: &str) -> Result<Vec<u8>, StatusCode> {
    let head = std::str::from_utf8(head).ok().and_then(|head| head.split_once("\r\n\r\n"));
    let mut lines = head.ok_or(StatusCode::BAD_REQUEST)?.0.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1"), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(StatusCode::BAD_REQUEST);
    };
    match path {
        LARGE | UPLOAD => Err(StatusCode::HTTP_VERSION_NOT_SUPPORTED),
        SMALL | WELL_KNOWN if method != "GET" => Err(StatusCode::METHOD_NOT_ALLOWED),
        SMALL => Ok(vec![0]),
        WELL_KNOWN => {
            let named = lines.filter_map(|line| line.split_once(':'));
            let host = named.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.trim());
            // As in HTTP/2: what is no authority is not repeated.
            let host = host.filter_map(|host| host.parse::<http::uri::Authority>().ok()).next();
            Ok(configuration(host.as_ref().map_or(place, http::uri::Authority::as_str)))
        }
        _ => Err(StatusCode::NOT_FOUND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: &str) -> String {
        String::from_utf8(response(head.as_bytes(), "far:4043")).expect("text")
    }

    #[test]
    fn the_configuration_and_one_byte_are_given_and_all_else_is_refused() {
        let small = asked("GET /nq/small HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(small, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n\0");
        for (host, wanted) in [("hOst: b:1\r\n", "https://b:1/nq/small"), ("", "https://far:4043/nq/small")] {
            let text = asked(&format!("GET /.well-known/nq HTTP/1.1\r\n{host}\r\n"));
            assert!(text.contains(wanted), "{text}");
        }
        let text = asked("GET /.well-known/nq HTTP/1.1\r\nHost: a\"b\r\n\r\n");
        assert!(text.contains("https://far:4043/nq/large"), "{text}");
        for (line, status) in [
            ("GET /nq/large HTTP/1.1", "505"),
            ("POST /nq/upload HTTP/1.1", "505"),
            ("POST /nq/small HTTP/1.1", "405"),
            ("GET /else HTTP/1.1", "404"),
            ("GET /nq/small HTTP/1.0", "400"),
            ("GET  /nq/small HTTP/1.1", "400"),
            ("", "400"),
        ] {
            let text = asked(&format!("{line}\r\n\r\n"));
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {text}");
            assert!(text.ends_with("\r\n\r\n"), "{text}");
        }
        assert!(response(b"\xff\r\n\r\n", "a").starts_with(b"HTTP/1.1 400 "));
        assert!(response(&[b'a'; HEAD_BYTE], "a").starts_with(b"HTTP/1.1 400 "));
    }

    #[tokio::test]
    async fn a_head_that_has_no_end_is_refused_and_a_connection_without_one_closed() {
        let (near, mut far) = tokio::io::duplex(2 * HEAD_BYTE);
        far.write_all(&[b'a'; HEAD_BYTE + 1]).await.expect("there is room");
        answer(near, "a").await.expect("it answers");
        let mut text = String::new();
        far.read_to_string(&mut text).await.expect("text");
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        let (near, far) = tokio::io::duplex(64);
        drop(far);
        answer(near, "a").await.expect("nothing was asked");
    }
}
