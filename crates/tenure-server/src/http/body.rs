//! Bodies: JSON with the content type of JSON, small, and with known fields only.

use std::pin::pin;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::wire::{BreakRequest, Code, Object, Problem, RenewManyRequest};

use super::problem::ProblemResponse;
use crate::Store;
use crate::config::Limits;

/// Most bytes of a body of many renewals: enough for a thousand with names of usual lengths.
const MAX_RENEWALS_BYTES: usize = 256 * 1024;

/// A body of this shape, of a request or of a response.
pub(super) struct Json<T>(pub(super) T);

/// The body of a namespace's `renew`, which may be larger than others.
pub(super) struct Renewals(pub(super) RenewManyRequest);

/// The body of `break`, which may be absent.
pub(super) struct BreakBody(pub(super) BreakRequest);

impl<T: DeserializeOwned> FromRequest<Store> for Json<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, store: &Store) -> Result<Self, ProblemResponse> {
        let declared = check_content_type(request.headers());
        Self::read(declared, request.into_body(), store.limits()).await
    }
}

impl<T: DeserializeOwned> Json<T> {
    /// Reads a body of this content type.
    pub(super) async fn read<B>(
        declared: Result<(), ProblemResponse>,
        body: B,
        limits: &Limits,
    ) -> Result<Self, ProblemResponse>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        declared?;
        parse(&read(body, limits, limits.max_body_bytes).await?).map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        // The view of a lease fits, so that the buffer need not grow.
        let mut body = Vec::with_capacity(512);
        if let Err(error) = serde_json::to_writer(&mut body, &self.0) {
            return ProblemResponse(Problem::new(Code::Internal, error.to_string()))
                .into_response();
        }
        let json = HeaderValue::from_static("application/json");
        ([(CONTENT_TYPE, json)], body).into_response()
    }
}

impl FromRequest<Store> for Renewals {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, store: &Store) -> Result<Self, ProblemResponse> {
        check_content_type(request.headers())?;
        parse(&read(request.into_body(), store.limits(), MAX_RENEWALS_BYTES).await?).map(Self)
    }
}

impl FromRequest<Store> for BreakBody {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, store: &Store) -> Result<Self, ProblemResponse> {
        let declared = check_content_type(request.headers());
        let limits = store.limits();
        let body = read(request.into_body(), limits, limits.max_body_bytes).await?;
        if body.is_empty() {
            return Ok(Self(BreakRequest::default()));
        }
        declared?;
        parse(&body).map(Self)
    }
}

/// `application/json`, with or without parameters.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), ProblemResponse> {
    let declared = headers.get(CONTENT_TYPE).map(|value| value.to_str());
    let media_type = match declared {
        Some(Ok(text)) => text.split(';').next().unwrap_or("").trim(),
        Some(Err(_)) => "not ASCII",
        None => "missing",
    };
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ProblemResponse(Problem::new(
        Code::NotJson,
        format!("the content type must be application/json and is {media_type:.100}"),
    )))
}

/// The whole body, if it has at most `most` bytes and comes in time.
async fn read<B>(body: B, limits: &Limits, most: usize) -> Result<Bytes, ProblemResponse>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let too_large = |size: String| {
        let detail = format!("the body has {size} bytes, at most {most} are allowed");
        ProblemResponse(Problem::new(Code::TooLarge, detail))
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
        // Boxed, because most requests do not wait, and each would hold the memory for it.
        None => Box::pin(tokio::time::timeout(limits.request_time, body)).await,
    };
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(too_large(format!("more than {most}")))
        }
        Ok(Err(error)) => Err(ProblemResponse(Problem::new(
            Code::Malformed,
            error.to_string(),
        ))),
        Err(_) => Err(ProblemResponse(Problem::new(
            Code::RequestTimeout,
            format!("the body took longer than {:?}", limits.request_time),
        ))),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProblemResponse> {
    let parsed = serde_json::from_slice(body).map(|Object(parsed)| parsed);
    parsed.map_err(|error| {
        let detail = error.to_string();
        // The parser has no code for it, but serde's trait for errors fixes the text.
        let code = if detail.starts_with("unknown field") {
            Code::UnknownField
        } else {
            Code::Malformed
        };
        ProblemResponse(Problem::new(code, detail))
    })
}
