//! A far end: its name as people write it, and the configuration that it hands out.

use http::Uri;
use http::uri::{Authority, PathAndQuery};
use serde::{Deserialize, Serialize};

use crate::RpmError;

/// Where the configuration stands.
//= draft-ietf-ippm-responsiveness-08, Well-Known Uniform Resource Identifier (URI) For Test Server Discovery
pub const WELL_KNOWN: &str = "/.well-known/nq";
/// The port of https.
const PORT: u16 = 443;

/// The configuration. A key that is there twice is refused, as are other versions; further keys are left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Configuration {
    /// Version of this object.
    pub version: u64,
    /// The three addresses.
    pub urls: Urls,
    /// The host to connect to, where that is not the one of the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_endpoint: Option<String>,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Urls {
    /// 8 GB or more.
    pub large_download_url: String,
    /// One byte.
    pub small_download_url: String,
    /// Takes what is posted.
    pub upload_url: String,
}

/// A far end by its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The host of the three addresses: the name in the TLS handshake.
    pub host: String,
    /// Where to connect.
    pub endpoint: String,
    /// The port there.
    pub port: u16,
    /// One byte.
    pub small: Uri,
    /// 8 GB or more.
    pub large: Uri,
    /// Takes what is posted.
    pub upload: Uri,
}

/// The address of the configuration of a far end that was given as `host`, `host:port`, `[fd00::2]:port` or as an
/// https address.
///
/// # Errors
/// [`RpmError::Input`] for anything else.
pub fn address_of(peer: &str) -> Result<Uri, RpmError> {
    let wanted = || RpmError::Input(format!("peer is '{peer}': use a host, host:port or an https address"));
    let whole = if peer.contains("://") { peer.to_owned() } else { format!("https://{peer}") };
    let uri = whole.parse::<Uri>().ok().filter(|uri| host_of(uri).is_some()).ok_or_else(wanted)?;
    let mut parts = uri.into_parts();
    if parts.path_and_query.as_ref().is_none_or(|path| path.as_str() == "/") {
        parts.path_and_query = Some(PathAndQuery::from_static(WELL_KNOWN));
    }
    Uri::from_parts(parts).map_err(|_| wanted())
}

/// The host of an https address, without the brackets of an IPv6 address. `None` for other schemes, for a port that is
/// none, and where a user is named.
fn host_of(uri: &Uri) -> Option<String> {
    let (host, authority) = (uri.host()?, uri.authority()?.as_str());
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let whole = uri.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    (uri.scheme_str() == Some("https") && authority == whole && !bare.is_empty()).then(|| bare.to_owned())
}

impl Site {
    /// The place of the configuration itself, where no other is known yet.
    ///
    /// # Errors
    /// As [`address_of`].
    pub fn of_configuration(address: &Uri) -> Result<Self, RpmError> {
        let wanted = || RpmError::Input(format!("peer is '{address}': use an https address"));
        let host = host_of(address).ok_or_else(wanted)?;
        let port = address.port_u16().unwrap_or(PORT);
        let any = address.clone();
        Ok(Self { endpoint: host.clone(), host, port, small: any.clone(), large: any.clone(), upload: any })
    }

    /// The far end that a configuration describes.
    ///
    /// # Errors
    /// [`RpmError::Peer`] for one that is not valid by the draft, with what is wrong.
    pub fn of_json(text: &[u8]) -> Result<Self, RpmError> {
        let invalid = |what: String| RpmError::Peer(format!("the configuration of the far end is not valid: {what}"));
        let found: Configuration = serde_json::from_slice(text).map_err(|error| invalid(error.to_string()))?;
        if found.version != 1 {
            return Err(invalid(format!("version is {}, not 1", found.version)));
        }
        let read = |url: &str| {
            let found = url.parse::<Uri>().ok().and_then(|uri| host_of(&uri).map(|host| (uri, host)));
            found.ok_or_else(|| invalid(format!("the URL '{url}' is not an https address")))
        };
        let (small, host) = read(&found.urls.small_download_url)?;
        let (large, large_host) = read(&found.urls.large_download_url)?;
        let (upload, upload_host) = read(&found.urls.upload_url)?;
        let ports = [&small, &large, &upload].map(|uri| uri.port_u16().unwrap_or(PORT));
        if large_host != host || upload_host != host || ports.iter().any(|port| *port != ports[0]) {
            return Err(invalid(format!("its URLs are of {host}, {large_host} and {upload_host}, not of one host")));
        }
        let endpoint = match found.test_endpoint {
            Some(text) => bare_host(&text).ok_or_else(|| invalid(format!("test_endpoint '{text}' is not a host")))?,
            None => host.clone(),
        };
        Ok(Self { host, endpoint, port: ports[0], small, large, upload })
    }
}

/// A host name or an address that stands alone.
fn bare_host(text: &str) -> Option<String> {
    text.parse::<std::net::IpAddr>().map(|_| text.to_owned()).ok().or_else(|| {
        let authority = text.parse::<Authority>().ok()?;
        (authority.host() == text && !text.is_empty()).then(|| text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(version: u64, large: &str, rest: &str) -> String {
        format!(
            r#"{{"version": {version}, "urls": {{"small_download_url": "https://a.example/s",
               "large_download_url": "{large}", "upload_url": "https://a.example/u"}}{rest}}}"#
        )
    }

    fn site(text: &str) -> Result<Site, String> {
        Site::of_json(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_far_end_is_a_host_with_or_without_port_or_an_https_address() {
        for (peer, wanted) in [
            ("a.example", "https://a.example/.well-known/nq"),
            ("10.0.0.2:4043", "https://10.0.0.2:4043/.well-known/nq"),
            ("[fd00::2]:4043", "https://[fd00::2]:4043/.well-known/nq"),
            ("https://a.example/other", "https://a.example/other"),
        ] {
            assert_eq!(address_of(peer).map(|uri| uri.to_string()), Ok(wanted.to_owned()));
        }
        for peer in ["", "http://a.example", "a b", "https://", "https:///x", "a.example:99999", "me@a.example"] {
            assert!(matches!(address_of(peer), Err(RpmError::Input(_))), "{peer}");
        }
    }

    #[test]
    fn a_configuration_gives_host_port_and_place_to_connect_to() {
        let plain = site(&json(1, "https://a.example/l", "")).expect("it is valid");
        assert_eq!((plain.endpoint.as_str(), plain.port, plain.small.path()), ("a.example", 443, "/s"));
        let other = site(&json(1, "https://a.example/l", r#", "test_endpoint": "b.example", "more": 1"#));
        let other = other.expect("it is valid");
        assert_eq!((other.host.as_str(), other.endpoint.as_str()), ("a.example", "b.example"));
    }

    #[test]
    fn a_configuration_that_the_draft_refuses_is_refused_with_the_reason() {
        for (text, wanted) in [
            (json(2, "https://a.example/l", ""), "version is 2"),
            (json(1, "https://b.example/l", ""), "not of one host"),
            (json(1, "https://a.example:444/l", ""), "not of one host"),
            (json(1, "http://a.example/l", ""), "is not an https address"),
            (json(1, "https://a.example/l", r#", "version": 1"#), "duplicate field"),
            (json(1, "https://a.example/l", r#", "test_endpoint": "a/b""#), "test_endpoint"),
            (r#"{"version": 1}"#.to_owned(), "missing field"),
            ("[".repeat(10_000), "not valid"),
        ] {
            let found = site(&text).expect_err(wanted);
            assert!(found.contains(wanted), "{found}");
        }
    }
}
