//! Bodies of requests and answers. A request has small JSON with the content type of JSON and with
//! known fields only.

use std::pin::pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::wire::{self, Code, Object, Problem};

use super::problem::ProblemResponse;
use crate::config::Limits;
use crate::store::ServedStore;

/// An answer in JSON.
///
/// It differs from axum's type only in its cost: it writes into a vector with room for a view of a
/// lease, and not into a small buffer that grows.
pub(super) struct Json<T>(pub(super) T);

/// The room for an answer, in bytes. A view of a lease has some 300.
const ANSWER_BYTES: usize = 512;

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(ANSWER_BYTES);
        if let Err(error) = serde_json::to_writer(&mut body, &self.0) {
            let problem = Problem::new(Code::Internal, error.to_string());
            return ProblemResponse(problem).into_response();
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

/// The body of a request, parsed as `T`.
pub(super) struct JsonBody<T>(pub(super) T);

/// A body that may be absent.
pub(super) struct OptionalJsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<ServedStore> for JsonBody<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, stores: &ServedStore) -> Result<Self, ProblemResponse> {
        let store = stores.current();
        let limits = store.limits();
        Ok(Self(read(request, limits, limits.max_body_bytes).await?))
    }
}

impl<T: DeserializeOwned + Default> FromRequest<ServedStore> for OptionalJsonBody<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, stores: &ServedStore) -> Result<Self, ProblemResponse> {
        let declared = check_content_type(request.headers());
        let store = stores.current();
        let limits = store.limits();
        let body = read_bytes(request.into_body(), limits, limits.max_body_bytes).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        declared?;
        Ok(Self(parse(&body)?))
    }
}

/// Checks that the content type is `application/json`, with or without parameters.
fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    wire::check_json(headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes))
        .map_err(|detail| Problem::new(Code::NotJson, detail))
}

/// Reads the body of a request, which may have at most `most` bytes.
pub(super) async fn read<T, B>(
    request: Request<B>,
    limits: &Limits,
    most: usize,
) -> Result<T, Problem>
where
    T: DeserializeOwned,
    B: HttpBody<Data = Bytes, Error = axum::Error>,
{
    parse(&read_unparsed(request, limits, most).await?)
}

/// Reads the body of a request, which must be declared as JSON, for [`parse`].
pub(super) async fn read_unparsed<B>(
    request: Request<B>,
    limits: &Limits,
    most: usize,
) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes, Error = axum::Error>,
{
    check_content_type(request.headers())?;
    read_bytes(request.into_body(), limits, most).await
}

/// Reads the whole body, if it has at most `most` bytes and arrives in time.
async fn read_bytes(
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
