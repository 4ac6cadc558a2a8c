//! "Blob Batch": up to 256 deletions in one request.
//!
//! Each deletion is a separate request with its own credential, conditions and lease id, in one
//! part of a `multipart/mixed` body (RFC 2046). Each deletion gets its own part in the response.

use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use httparse::{EMPTY_HEADER, Status};
use uuid::Uuid;

use crate::server::call::{Call, ResponseContext, serve};
use crate::server::error::{EXCEEDS_MAX_BATCH_REQUEST_COUNT, Error, INVALID_INPUT, Result};
use crate::server::headers::{invalid, required};
use crate::server::random;
use crate::server::target::{Level, Target, account_of};

/// The greatest number of bytes in a batch, which is the service's limit.
const MAX_BYTES: usize = 4 << 20;

/// The greatest number of requests in a batch, which is the service's limit.
const MAX_REQUESTS: usize = 256;

/// The greatest number of headers of a request in a batch, as for any other request.
const MAX_HEADERS: usize = 64;

const CONTENT_ID: HeaderName = HeaderName::from_static("content-id");

/// One request of a batch.
struct Part {
    /// The id that the client gave to the part.
    id: Option<HeaderValue>,
    request: Result<Request>,
}

pub(in crate::server) async fn batch(call: Call) -> Result<Response> {
    let boundary = boundary(required(&call.head.headers, "content-type")?)?;
    let body = call.body(MAX_BYTES).await?;
    let parts = split(&body, &boundary)?;
    let (high, low) = random::bits();
    let made = format!("batchresponse_{}", Uuid::from_u64_pair(high, low));
    let mut answers = Vec::new();
    for part in parts {
        let part = Part::of(part);
        let context = match &part.request {
            Ok(request) => ResponseContext::of(request.method(), request.headers()),
            Err(_) => ResponseContext::unknown(),
        };
        // The deletions run in the order of the batch.
        let result = match part.request {
            Ok(request) => delete(&call, request).await,
            Err(error) => Err(error),
        };
        let answer = context.respond(result);
        write(&mut answers, &made, part.id.as_ref(), answer).await;
    }
    answers.extend_from_slice(format!("--{made}--\r\n").as_bytes());
    let mut response = Response::new(answers.into());
    *response.status_mut() = StatusCode::ACCEPTED;
    if let Ok(kind) = HeaderValue::try_from(format!("multipart/mixed; boundary={made}")) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    Ok(response)
}

/// Executes one request, which must delete a blob in the container of the batch.
async fn delete(call: &Call, request: Request) -> Result<Response> {
    let path = request.uri().path();
    let wrong = |reason| Err(INVALID_INPUT.because(reason));
    if request.method() != Method::DELETE || account_of(path) != call.target.account {
        return wrong("a batch takes deletions of blobs of its account only");
    }
    let target = Target::of_path(path)?;
    if target.level() != Level::Blob {
        return wrong("a batch takes deletions of blobs only");
    }
    if call.target.level() == Level::Container && target.of_container() != call.target {
        return wrong("this batch takes blobs of its container only");
    }
    serve(Arc::clone(&call.service), request, call.client).await
}

/// Parses the boundary between the parts.
fn boundary(content_type: &str) -> Result<String> {
    let mut parameters = content_type.split(';').map(str::trim);
    let kind = parameters.next().unwrap_or_default();
    let boundary = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_it = name.eq_ignore_ascii_case("boundary");
        is_it.then(|| value.trim_matches('"'))
    });
    // The limit is from RFC 2046, section 5.1.1.
    let boundary = boundary.filter(|boundary| (1..=70).contains(&boundary.len()));
    match boundary {
        Some(boundary) if kind.eq_ignore_ascii_case("multipart/mixed") => Ok(boundary.to_owned()),
        _ => Err(invalid(
            "content-type",
            "it must be multipart/mixed; boundary=...",
        )),
    }
}

/// Splits a body into its parts.
fn split<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<&'a [u8]>> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    // The text before the first delimiter is not a part.
    let mut part = None;
    let mut end = 0;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let start = end;
        end += line.len();
        let after = line.trim_ascii_end().strip_prefix(delimiter.as_bytes());
        let Some(after @ (b"" | b"--")) = after else {
            continue;
        };
        parts.extend(part.map(|first| &body[first..start]));
        if parts.len() > MAX_REQUESTS {
            return Err(EXCEEDS_MAX_BATCH_REQUEST_COUNT
                .because(format!("at most {MAX_REQUESTS} requests are allowed")));
        }
        if after == b"--" {
            return match parts.is_empty() {
                true => Err(INVALID_INPUT.because("there are no requests in the batch")),
                false => Ok(parts),
            };
        }
        part = Some(end);
    }
    Err(INVALID_INPUT.because("the batch has no end"))
}

impl Part {
    fn of(part: &[u8]) -> Self {
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let Ok(Status::Complete((len, headers))) = httparse::parse_headers(part, &mut headers)
        else {
            let request = Err(malformed("the headers of a part"));
            return Self { id: None, request };
        };
        let of = |name: &HeaderName| {
            let found = headers.iter().find(|header| *name == header.name)?;
            HeaderValue::from_bytes(found.value).ok()
        };
        let request = match of(&CONTENT_TYPE) {
            Some(kind) if kind == "application/http" => request(&part[len..]),
            _ => Err(INVALID_INPUT.because("a part's content type must be application/http")),
        };
        let id = of(&CONTENT_ID);
        Self { id, request }
    }
}

fn malformed(what: &str) -> Error {
    INVALID_INPUT.because(format!("{what} can't be read"))
}

/// Parses a request without a body.
fn request(text: &[u8]) -> Result<Request> {
    // Some clients omit the empty line at the end.
    let text = [text.trim_ascii_end(), b"\r\n\r\n"].concat();
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let malformed = || malformed("a request");
    match parsed.parse(&text) {
        Ok(Status::Complete(len)) if len == text.len() => {}
        _ => return Err(malformed()),
    }
    let mut request = http::Request::builder()
        .method(parsed.method.ok_or_else(malformed)?)
        .uri(parsed.path.ok_or_else(malformed)?);
    for header in &*parsed.headers {
        request = request.header(header.name, header.value);
    }
    request.body(Body::empty()).map_err(|_| malformed())
}

/// Writes a response as a part of the body.
async fn write(to: &mut Vec<u8>, boundary: &str, id: Option<&HeaderValue>, answer: Response) {
    let (mut head, body) = answer.into_parts();
    // The body is in memory, so reading it can't fail.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    let _ = write!(to, "--{boundary}\r\nContent-Type: application/http\r\n");
    if let Some(id) = id.and_then(|id| id.to_str().ok()) {
        let _ = write!(to, "Content-ID: {id}\r\n");
    }
    let _ = write!(to, "\r\nHTTP/1.1 {}\r\n", head.status);
    for (name, value) in &head.headers {
        to.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    to.extend([b"\r\n", &body[..], b"\r\n"].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_split_only_at_its_boundary() {
        let body = b"before\r\n--b\r\none --b\r\n\r\n--b\r\n--bc\r\ntwo\r\n--b--\r\nafter";
        let parts = split(body, "b").unwrap();
        assert_eq!(parts, [&b"one --b\r\n\r\n"[..], b"--bc\r\ntwo\r\n"]);
        for bad in [
            &b""[..],
            b"--b\r\none\r\n",
            b"--b--\r\n",
            b"one\r\n--c--\r\n",
        ] {
            let code = split(bad, "b").map_err(|error| error.code);
            assert_eq!(code, Err(INVALID_INPUT), "{}", bad.escape_ascii());
        }
        let parts = |count| format!("{}--b--", "--b\r\nx\r\n".repeat(count));
        assert!(split(parts(MAX_REQUESTS).as_bytes(), "b").is_ok());
        let many = parts(MAX_REQUESTS + 1);
        let many = split(many.as_bytes(), "b");
        assert_eq!(
            many.map_err(|error| error.code),
            Err(EXCEEDS_MAX_BATCH_REQUEST_COUNT)
        );
    }

    #[test]
    fn a_part_is_a_request_with_or_without_an_empty_line_at_its_end() {
        let head = "Content-Type: application/http\r\nContent-ID: 7\r\n\r\n";
        for end in ["", "\r\n", "\r\n\r\n"] {
            let part = format!("{head}DELETE /a/c/b%20?x=y HTTP/1.1\r\nx-ms-date: now{end}");
            let part = Part::of(part.as_bytes());
            assert_eq!(part.id, Some(HeaderValue::from_static("7")));
            let request = part.request.unwrap();
            assert_eq!(request.uri(), "/a/c/b%20?x=y");
            assert_eq!(request.headers()["x-ms-date"], "now");
        }
        for bad in [
            "",
            "x",
            "Content-Type: text/plain\r\n\r\nDELETE / HTTP/1.1\r\n",
            head,
        ] {
            assert!(Part::of(bad.as_bytes()).request.is_err(), "{bad}");
        }
    }
}
