//! Bodies of requests and answers. A request has small JSON with the content type of JSON and with
//! known fields only. [`authorize`](super::authorize) reads the bodies before the handlers run.

use std::pin::pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::wire::{self, Code, Object, Problem};

use super::problem;
use crate::config::Limits;

/// An answer in JSON.
///
/// It differs from axum's type only in its cost: it writes into a vector with room for a view of a
/// lease, and not into a small buffer that grows.
pub(super) struct Json<T>(pub(super) T);

pub(super) type JsonResult<T> = Result<Json<T>, Problem>;

/// The room for an answer, in bytes. A view of a lease has some 300.
const ANSWER_BYTES: usize = 512;

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(ANSWER_BYTES);
        if let Err(error) = serde_json::to_writer(&mut body, &self.0) {
            return problem::response(&Problem::new(Code::Internal, error.to_string()));
        }
        json_response(body)
    }
}

/// Creates the answer with this JSON.
pub(super) fn json_response(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Checks that the content type is `application/json`, with or without parameters.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    wire::check_json(headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes))
        .map_err(|detail| Problem::new(Code::NotJson, detail))
}

/// Reads the whole body, if it has at most `most` bytes and arrives in time. Only the check of
/// rights calls this.
pub(super) async fn read(
    body: impl HttpBody<Data = Bytes, Error = axum::Error>,
    limits: &Limits,
    most: usize,
) -> Result<Bytes, Problem> {
    let too_large = |size: String| {
        let detail = format!("the body has {size} bytes, at most {most} are allowed");
        Problem::new(Code::TooLarge, detail)
    };
    // A declared size needs no wait.
    let declared = body.size_hint().lower();
    if declared > most as u64 {
        return Err(too_large(declared.to_string()));
    }
    let mut body = pin!(Limited::new(body, most).collect());
    let read = match body.as_mut().now_or_never() {
        // Most bodies arrive together with their heads.
        Some(read) => Ok(read),
        // Boxed, because most requests do not wait, and each of them would hold the memory for this
        // future.
        None => Box::pin(tokio::time::timeout(limits.request_time, body)).await,
    };
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(too_large(format!("more than {most}")))
        }
        Ok(Err(error)) => Err(Problem::new(Code::Malformed, error.to_string())),
        Err(_) => Err(Problem::new(
            Code::RequestTimeout,
            format!("the body took longer than {:?}", limits.request_time),
        )),
    }
}

pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let parsed = serde_json::from_slice(body).map(|Object(parsed)| parsed);
    parsed.map_err(|error| {
        let detail = error.to_string();
        // The parser reports no error code for an unknown field, but the trait of serde fixes the
        // text.
        let code = if detail.starts_with("unknown field") {
            Code::UnknownField
        } else {
            Code::Malformed
        };
        Problem::new(code, detail)
    })
}
