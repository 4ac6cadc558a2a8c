//! The head of a request: its line and its headers.

use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Version};
use tenure_core::wire::{Code, Problem};

/// The maximum number of headers of a request. Clients and proxies send about ten.
const MAX_HEADERS: usize = 64;

/// Checks the head of a request, which may have at most `max_bytes`. A head that does not fit into
/// the buffer of the server never reaches this function. [`Code::Malformed`] means that the head
/// contradicts itself: a proxy could read another request from it than this server does.
pub(super) fn check_head(head: &Parts, max_bytes: usize) -> Result<(), Problem> {
    let (count, bytes) = (head.headers.len(), bytes_of(head));
    if bytes > max_bytes {
        Err(too_large(format!(
            "the line and headers have {bytes} bytes, at most {max_bytes} are allowed"
        )))
    } else if count > MAX_HEADERS {
        Err(too_large(format!(
            "the request has {count} headers, at most {MAX_HEADERS} are allowed"
        )))
    } else {
        check_host(head)
            .and_then(|()| check_coding(&head.headers))
            .and_then(|()| only(&head.headers, &CONTENT_TYPE).map(drop))
            .map_err(|detail| Problem::new(Code::Malformed, detail))
    }
}

/// RFC 6585: "Request Header Fields Too Large".
fn too_large(detail: String) -> Problem {
    Problem {
        status: 431,
        ..Problem::new(Code::TooLarge, detail)
    }
}

/// Checks that there is one `Host`, and that it is that of an absolute target: RFC 9112, section
/// 3.2.
fn check_host(head: &Parts) -> Result<(), String> {
    let Some(host) = only(&head.headers, &HOST)? else {
        return match head.version {
            Version::HTTP_11 => Err("the request has no Host header; HTTP/1.1 needs one".into()),
            _ => Ok(()),
        };
    };
    let shown = String::from_utf8_lossy(host.as_bytes());
    if !host.as_bytes().iter().copied().all(is_of_host) {
        return Err(format!(
            "the Host header must be a host with or without a port and is {shown:.100}"
        ));
    }
    if let Some(target) = head.uri.authority().map(|target| target.as_str())
        && !host.as_bytes().eq_ignore_ascii_case(target.as_bytes())
    {
        return Err(format!(
            "the request is for {target:.100} and its Host header is {shown:.100}; both must be the same"
        ));
    }
    Ok(())
}

/// Returns whether a host and port may contain this byte: RFC 3986, section 3.2.2, without the
/// comma, which would allow two hosts in one header.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte)
}

/// Checks the transfer coding: `chunked` is the only known one, and may be applied once. RFC 9112,
/// sections 6.1 and 7.
fn check_coding(headers: &HeaderMap) -> Result<(), String> {
    match only(headers, &TRANSFER_ENCODING)? {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Err(format!(
            "the Transfer-Encoding header must be chunked and is {:.100}",
            String::from_utf8_lossy(coding.as_bytes())
        )),
        _ => Ok(()),
    }
}

/// Returns the header with this name. There may be at most one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (only, None) => Ok(only),
        (_, Some(_)) => Err(format!(
            "the request has more than one {name} header; send one"
        )),
    }
}

/// Returns the size of the head without superfluous blanks: `METHOD PATH HTTP/1.1`, `name: value`
/// for each header, and an empty line.
fn bytes_of(head: &Parts) -> usize {
    let (method, uri) = (head.method.as_str(), &head.uri);
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let authority = uri.authority().map_or(0, |text| text.as_str().len());
    let line = method.len() + authority + path + "  HTTP/1.1\r\n".len();
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + headers.sum::<usize>() + "\r\n".len()
}
