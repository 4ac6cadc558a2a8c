//! The head of a request: its line and its headers.

use axum::http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderValue, Request, Version};
use axum::response::{IntoResponse, Response};
use tenure_core::wire::{Code, Problem};

use super::problem::Failure;

/// Most headers of a request. Clients and proxies have some ten.
const MAX_HEADERS: usize = 64;

/// Why a head is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It has too many bytes or headers.
    #[error("{0}")]
    TooLarge(String),
    /// It contradicts itself: a proxy could take it for another request than this server does.
    #[error("{0}")]
    Malformed(String),
}

impl Refused {
    /// Where the head does not say for sure where its request ends, nothing after it is read.
    pub(crate) fn closing(&self, mut response: Response) -> Response {
        if matches!(self, Self::Malformed(_)) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }
}

/// Whether a head is taken, where at most `most` bytes are. Every request passes here, whatever it asks
/// for. A head that does not fit into the server's buffer never comes here.
pub(crate) fn check_head<B>(request: &Request<B>, most: usize) -> Result<(), Refused> {
    let (count, bytes) = (request.headers().len(), bytes_of(request));
    if bytes > most {
        Err(Refused::TooLarge(format!(
            "the line and headers have {bytes} bytes, at most {most} are taken"
        )))
    } else if count > MAX_HEADERS {
        Err(Refused::TooLarge(format!(
            "the request has {count} headers, at most {MAX_HEADERS} are taken"
        )))
    } else {
        let headers = request.headers();
        check_host(request)
            .and_then(|()| check_coding(headers))
            .and_then(|()| only(headers, &CONTENT_TYPE).map(drop))
            .map_err(Refused::Malformed)
    }
}

/// RFC 9112, section 3.2: one `Host`, and the one of an absolute target.
fn check_host<B>(request: &Request<B>) -> Result<(), String> {
    let Some(host) = only(request.headers(), &HOST)? else {
        return match request.version() {
            Version::HTTP_09 | Version::HTTP_10 => Ok(()),
            _ => Err("the request has no Host header; HTTP/1.1 needs one".into()),
        };
    };
    let shown = String::from_utf8_lossy(host.as_bytes());
    if !host.as_bytes().iter().copied().all(is_of_host) {
        return Err(format!(
            "the Host header must be a host with or without a port and is {shown:.100}"
        ));
    }
    match request.uri().authority() {
        Some(target)
            if !host
                .as_bytes()
                .eq_ignore_ascii_case(target.as_str().as_bytes()) =>
        {
            Err(format!(
                "the request is for {:.100} and its Host header is {shown:.100}; both must be the same",
                target.as_str()
            ))
        }
        _ => Ok(()),
    }
}

/// Whether a host and port may have this byte: RFC 3986, section 3.2.2, but for the comma, which would
/// be two hosts in one header.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte)
}

/// RFC 9112, sections 6.1 and 7: `chunked` is the only coding that is known, and applied once.
fn check_coding(headers: &HeaderMap) -> Result<(), String> {
    match only(headers, &TRANSFER_ENCODING)? {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Err(format!(
            "the Transfer-Encoding header must be chunked and is {:.100}",
            String::from_utf8_lossy(coding.as_bytes())
        )),
        _ => Ok(()),
    }
}

/// The header of this name, of which there may be one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (only, None) => Ok(only),
        (_, Some(_)) => Err(format!(
            "the request has more than one {name} header; send one"
        )),
    }
}

/// What a head is answered that is not taken.
pub(crate) fn refuse_head(refused: &Refused) -> Response {
    let problem = Problem::new(
        match refused {
            Refused::TooLarge(_) => Code::TooLarge,
            Refused::Malformed(_) => Code::Malformed,
        },
        refused.to_string(),
    );
    let status = match refused {
        // RFC 6585: "Request Header Fields Too Large".
        Refused::TooLarge(_) => 431,
        Refused::Malformed(_) => problem.status,
    };
    let answer = Failure(Problem { status, ..problem }).into_response();
    refused.closing(answer)
}

/// As many bytes as the head has when it is written without superfluous blanks:
/// `METHOD PATH HTTP/1.1`, `name: value` for each header, and an empty line.
fn bytes_of<B>(request: &Request<B>) -> usize {
    let (method, uri) = (request.method().as_str(), request.uri());
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let authority = uri.authority().map_or(0, |text| text.as_str().len());
    let line = method.len() + authority + path + "  HTTP/1.1\r\n".len();
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + headers.sum::<usize>() + "\r\n".len()
}
