//! Checks of a request's headers that keep pages of other sites away from a server which their
//! reader can reach.

use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

/// Refuses a request that a browser sent for a page of another origin, with any method. `header`
/// returns the first header of a name in lower case.
///
/// A browser sends a `POST` without a body for any page without a preflight request: the page can't
/// read the response, but the server executes the request. Browsers give the page's origin in one
/// of two headers, and no page can set them. A request without both headers does not come from a
/// page.
///
/// The headers are checked in the same order as in Go's `http.CrossOriginProtection`: behind a
/// proxy that writes another `Host`, the header that the browser sets decides (Fetch Metadata, W3C).
///
/// # Errors
///
/// The text names the origin.
pub fn check_page<'a>(header: impl Fn(&'static str) -> Option<&'a [u8]>) -> Result<(), String> {
    let origin = header("origin");
    let is_own = match (header("sec-fetch-site"), origin) {
        (Some(site), _) => site == b"same-origin" || site == b"none",
        (None, Some(origin)) => header("host").is_some_and(|host| is_of(origin, host)),
        (None, None) => true,
    };
    if is_own {
        return Ok(());
    }
    let origin = String::from_utf8_lossy(origin.unwrap_or(b"unknown"));
    Err(format!(
        "a browser sent the request for a page of another origin ({origin:.100})"
    ))
}

/// Returns whether an origin such as `https://store.example:7400` has this host and port.
fn is_of(origin: &[u8], host: &[u8]) -> bool {
    let of_origin = origin
        .strip_prefix(b"http://")
        .or_else(|| origin.strip_prefix(b"https://"));
    of_origin.is_some_and(|of_origin| of_origin.eq_ignore_ascii_case(host))
}

/// Refuses a request for a host that is not the server's: not an IP address, not `localhost`, and
/// none of the `own` names. `authority` is the host of the request, with or without a port.
///
/// An author of a page can let a name of its own resolve to the address of the server. Then the
/// browser considers the server and the page to be of one origin, and only the name is wrong. A
/// browser sends a host with each request, so a request without a host is not from a browser.
///
/// # Errors
///
/// The text names the host, `server`, and the `setting` that takes further names.
pub fn check_host<'a>(
    authority: Option<&[u8]>,
    own: impl IntoIterator<Item = &'a str>,
    server: &str,
    setting: &str,
) -> Result<(), String> {
    let Some(authority) = authority else {
        return Ok(());
    };
    let authority = String::from_utf8_lossy(authority);
    let host = without_port(&authority);
    if is_own_host(host, own) {
        return Ok(());
    }
    Err(format!(
        "the request is for the host {host:.100}; {server} answers for IP addresses, localhost, and \
         the names in its setting {setting}"
    ))
}

/// Removes the port from `host:port` or `[v6]:port`. A host without a port is returned as it is.
fn without_port(authority: &str) -> &str {
    let v6 = authority.strip_prefix('[');
    match v6.and_then(|rest| rest.split_once(']')) {
        Some((host, port)) if port.is_empty() || port.starts_with(':') => host,
        _ => authority.split(':').next().unwrap_or(authority),
    }
}

fn is_own_host<'a>(host: &str, own: impl IntoIterator<Item = &'a str>) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_localhost = |name: &str| {
        let name = name.to_ascii_lowercase();
        // Browsers resolve these names to this machine without a query (RFC 6761, section 6.3).
        name == "localhost" || name.ends_with(".localhost")
    };
    host.parse::<IpAddr>().is_ok()
        || is_localhost(host)
        || own.into_iter().any(|own| own.eq_ignore_ascii_case(host))
}

/// Checks that a content type is `application/json`, with or without parameters. A browser sends
/// such a request for a page of another origin only if the server permits it, and this one does not.
///
/// # Errors
///
/// The text names the content type.
pub fn check_json(content_type: Option<&[u8]>) -> Result<(), String> {
    let media_type = match content_type.map(core::str::from_utf8) {
        Some(Ok(text)) => text.split(';').next().unwrap_or("").trim(),
        Some(Err(_)) => "not ASCII",
        None => "missing",
    };
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(format!(
        "the content type must be application/json and is {media_type:.100}"
    ))
}

/// Reads a host name of a setting.
///
/// # Errors
///
/// The text names the value, if it has a scheme, a port or another character that no name has.
pub fn host_name(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if text.bytes().all(is_part) {
        return Ok(text.into());
    }
    Err(format!(
        "{text:?} is not a host name; write it without a scheme and a port"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(host: &str) -> bool {
        check_host(Some(host.as_bytes()), ["store.lan"], "a store", "hosts").is_ok()
    }

    #[test]
    fn a_host_is_an_address_this_machine_or_a_name_of_the_server() {
        for host in [
            "127.0.0.1:7400",
            "10.0.0.5",
            "[::1]:7400",
            "localhost",
            "localhost:7400",
            "LocalHost.:7400",
            "account.localhost:10000",
            "store.lan",
            "STORE.lan:7400",
        ] {
            assert!(is_own(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7400",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "store.lan.evil.example",
            "notlocalhost",
            "[::1].evil.example",
            "[::1",
            "",
        ] {
            assert!(!is_own(host), "{host}");
        }
        let refused = |host| check_host(Some(host), [], "a member", "hosts");
        assert_eq!(
            refused(b"evil.example:7500").unwrap_err(),
            "the request is for the host evil.example; a member answers for IP addresses, localhost, \
             and the names in its setting hosts"
        );
        assert!(refused(b"\xff").is_err(), "not a name of the server");
        assert_eq!(check_host(None, [], "a member", "hosts"), Ok(()));
    }

    #[test]
    fn a_page_of_another_origin_is_refused_and_a_program_is_not() {
        let check = |headers: &[(&str, &'static str)]| {
            check_page(|name| {
                let found = headers.iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| value.as_bytes())
            })
            .is_ok()
        };
        let host = ("host", "10.0.0.1:7500");
        assert!(check(&[]));
        assert!(check(&[host]));
        assert!(check(&[host, ("origin", "http://10.0.0.1:7500")]));
        assert!(check(&[host, ("sec-fetch-site", "same-origin")]));
        // A proxy has replaced the host.
        let proxied = [("host", "inside"), ("origin", "https://a.example")];
        assert!(!check(&proxied));
        assert!(check(&[
            proxied[0],
            proxied[1],
            ("sec-fetch-site", "same-origin")
        ]));
        for origin in ["https://evil.example", "http://10.0.0.1:7501", "null", ""] {
            assert!(!check(&[host, ("origin", origin)]), "{origin:?}");
        }
        for site in ["cross-site", "same-site", ""] {
            assert!(!check(&[host, ("sec-fetch-site", site)]), "{site:?}");
        }
    }

    #[test]
    fn only_json_is_declared_as_json() {
        for right in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(check_json(Some(right.as_bytes())), Ok(()));
        }
        for wrong in [
            "text/plain",
            "application/jsonp",
            "",
            "text/plain;application/json",
        ] {
            assert!(check_json(Some(wrong.as_bytes())).is_err(), "{wrong:?}");
        }
        let missing = check_json(None).unwrap_err();
        assert_eq!(
            missing,
            "the content type must be application/json and is missing"
        );
    }
}
