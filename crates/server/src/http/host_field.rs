//! The `Host` field, without which a request of HTTP/1.1 is none (RFC 9112, section 3.2).
//!
//! Nothing is chosen by it: one service answers whatever name it is reached by, and what a request may is its token's. So
//! HTTP/1.0, which knows no such field, may go without on the socket and on TCP alike. Not for which names may be used: only
//! `/v1/mcp` minds, and looks itself.

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::problem::Problem;

/// Lets a request through that says as often as it must, and in a form that reads, for which host it is.
pub(crate) async fn admit(request: Request, next: Next) -> Response {
    match wrong(request.version(), request.headers()) {
        None => next.run(request).await,
        Some(why) => Problem::argument("Host", why).into_response(),
    }
}

fn wrong(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut given = headers.get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (None, _) if version < Version::HTTP_11 => None,
        (None, _) => Some("is missing; every request of HTTP/1.1 has it, and it may be empty"),
        (Some(_), Some(_)) => Some("is given twice"),
        (Some(value), None) => (!reads(value)).then_some("is not a name or an address, and perhaps a port"),
    }
}

/// Whether it is nothing, as where the target has no authority, or a host and perhaps a port (RFC 9110, section 7.2).
fn reads(value: &HeaderValue) -> bool {
    let value = value.as_bytes();
    if value.is_empty() {
        return true;
    }
    let Ok(authority) = Authority::try_from(value) else { return false };
    let text = authority.as_str();
    let port = text
        .strip_prefix(authority.host())
        .and_then(|rest| rest.strip_prefix(':').or(rest.is_empty().then_some("")));
    !text.contains('@') && port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, hosts: &[&str], right: bool) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        assert_eq!(wrong(version, &headers).is_none(), right, "{version:?} {hosts:?}");
    }

    #[test]
    fn only_what_is_older_than_the_field_may_go_without() {
        check(Version::HTTP_11, &[], false);
        check(Version::HTTP_10, &[], true);
        check(Version::HTTP_11, &["localhost"], true);
        check(Version::HTTP_10, &["localhost"], true);
    }

    #[test]
    fn it_is_given_once_whatever_the_version() {
        check(Version::HTTP_11, &["one", "one"], false);
        check(Version::HTTP_10, &["one", "other"], false);
    }

    #[test]
    fn it_is_empty_or_a_host_and_perhaps_a_port() {
        for host in ["", "localhost", "127.0.0.1:7171", "[::1]", "[::1]:80", "yard.example:", "my_host"] {
            check(Version::HTTP_11, &[host], true);
        }
        for host in ["a b", "a/b", "http://a", "user@a", "a:b", "a:1:2", "[::1", "a,b c", "\t;"] {
            check(Version::HTTP_11, &[host], false);
        }
    }
}
