//! The head of a request: its line and its headers.

use axum::http::Request;
use axum::response::{IntoResponse, Response};
use tenure_core::wire::{Code, Problem};

use super::problem::Failure;

/// Most headers of a request. Clients and proxies have some ten.
const MAX_HEADERS: usize = 64;

/// Why a head is not taken, where at most `most` bytes are; `None` for one that is. What does not even fit
/// into the server's buffer never comes here.
pub(crate) fn excess<B>(request: &Request<B>, most: usize) -> Option<String> {
    let (count, bytes) = (request.headers().len(), bytes_of(request));
    if bytes > most {
        Some(format!(
            "the line and headers have {bytes} bytes, at most {most} are taken"
        ))
    } else if count > MAX_HEADERS {
        Some(format!(
            "the request has {count} headers, at most {MAX_HEADERS} are taken"
        ))
    } else {
        None
    }
}

/// What a head is answered that is not taken.
pub(crate) fn too_large_head(detail: String) -> Response {
    let problem = Problem {
        // RFC 6585: "Request Header Fields Too Large".
        status: 431,
        ..Problem::new(Code::TooLarge, detail)
    };
    Failure(problem).into_response()
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
